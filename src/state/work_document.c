/* work_document.c: one item as a JSON object: reading it, and writing it without losing what others put there. */
#include "state/work.h"

#include "base/base.h"
#include "base/bind.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "state/moment.h"

#include <stdio.h>

static const char *const status_names[] = {"pending", "investigating", "completed", "failed", "cancelled"};

const char *pd_work_status_name(pd_work_status status)
{
  return status < PD_WORK_STATUS_COUNT ? status_names[status] : "unknown";
}

bool pd_work_status_parse(pd_json value, pd_work_status *out)
{
  for (unsigned i = 0; i < PD_WORK_STATUS_COUNT; i++) {
    if (!pd_json_is(value, status_names[i])) continue;
    *out = (pd_work_status)i;
    return true;
  }
  return false;
}

bool pd_work_is_over(pd_work_status status)
{
  return status >= PD_WORK_COMPLETED;
}

bool pd_work_id_check(pd_bytes id)
{
  const uint8_t *at = id.data;
  if (!id.size || id.size > PD_WORK_ID_SIZE_MAX || pd_bytes_equal(id, pd_text("index"))) return false; /* run:index is no item */
  for (size_t i = 0; i < id.size; i++) {
    bool is_letter = (at[i] | 0x20) >= 'a' && (at[i] | 0x20) <= 'z';
    if (!is_letter && !(at[i] >= '0' && at[i] <= '9') && at[i] != '.' && at[i] != '_' && at[i] != '-') return false;
  }
  return true;
}

pd_code pd_work_uuid(char out[37], pd_error *err)
{
  char hex[33];
  TRY(pd_random_hex(hex, sizeof hex, err));
  hex[12] = '4';
  hex[16] = "89ab"[hex[16] & 3];
  snprintf(out, 37, "%.8s-%.4s-%.4s-%.4s-%s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
  return PD_OK;
}

/* ---- reading ---- */

enum {
  ID,
  STATUS,
  TITLE,
  INPUT,
  OWNER,
  TOKEN,
  ATTEMPTS,
  ATTEMPTS_MAX,
  PROGRESS,
  RESULT,
  ERROR,
  REASON,
  CREATED,
  UPDATED,
  CLAIMED,
  LEASE,
  FINISHED,
  MEMBER_COUNT
};

static const char *const member_names[MEMBER_COUNT] = {
  [ID] = "id",
  [STATUS] = "status",
  [TITLE] = "title",
  [INPUT] = "input",
  [OWNER] = "owner",
  [TOKEN] = "token",
  [ATTEMPTS] = "attempts",
  [ATTEMPTS_MAX] = "attempts_max",
  [PROGRESS] = "progress",
  [RESULT] = "result",
  [ERROR] = "error",
  [REASON] = "reason",
  [CREATED] = "created_at",
  [UPDATED] = "updated_at",
  [CLAIMED] = "claimed_at",
  [LEASE] = "lease_until",
  [FINISHED] = "finished_at",
};

/* One walk over the document, whatever its size; of a member that is there twice the first one counts. */
static void find_members(pd_json object, pd_json out[MEMBER_COUNT])
{
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(object);
  for (int i = 0; i < MEMBER_COUNT; i++) out[i] = (pd_json){.kind = PD_JSON_NONE};
  while (pd_json_walk_next(&walk, &key, &value))
    for (int i = 0; i < MEMBER_COUNT; i++)
      if (out[i].kind == PD_JSON_NONE && pd_json_is(key, member_names[i])) out[i] = value;
}

/* A string of at most `size` - 1 bytes, or nothing. */
static bool take_text(pd_json value, char *out, size_t size)
{
  return value.kind == PD_JSON_NONE || value.kind == PD_JSON_NULL || pd_json_copy_text(value, out, size);
}

static bool take_count(pd_json value, uint64_t *out)
{
  *out = 0;
  return value.kind == PD_JSON_NONE || value.kind == PD_JSON_NULL || pd_json_u64(value, out);
}

pd_code pd_work_parse(pd_bytes json, pd_work_item *out, pd_error *err)
{
  pd_json object, m[MEMBER_COUNT];
  pd_work_item item = {.status = PD_WORK_PENDING};
  if (pd_json_parse(json, &object, NULL) || object.kind != PD_JSON_OBJECT)
    return pd_error_set(err, PD_CORRUPT, "this is no work item: a work item is a JSON object");
  find_members(object, m);
  if (!take_text(m[ID], item.id, sizeof item.id) || !pd_work_id_check(pd_text(item.id)))
    return pd_error_set(err, PD_CORRUPT, "this is no work item: it has no id");
  if (!pd_work_status_parse(m[STATUS], &item.status))
    return pd_error_set(err, PD_CORRUPT, "work item '%s' has no status that work items have", item.id);
  if (!take_text(m[TOKEN], item.token, sizeof item.token) || !take_text(m[OWNER], item.owner, sizeof item.owner) ||
      !take_count(m[ATTEMPTS], &item.attempts) || !take_count(m[ATTEMPTS_MAX], &item.attempts_max))
    return pd_error_set(err, PD_CORRUPT, "work item '%s': token, owner or attempts are not what work items have", item.id);
  item.title = m[TITLE].raw;
  item.input = m[INPUT].raw;
  item.progress = m[PROGRESS].raw;
  item.result = m[RESULT].raw;
  item.error = m[ERROR].raw;
  item.reason = m[REASON].raw;
  item.created_ms = pd_json_time(m[CREATED]);
  item.updated_ms = pd_json_time(m[UPDATED]);
  item.claimed_ms = pd_json_time(m[CLAIMED]);
  item.lease_until_ms = pd_json_time(m[LEASE]);
  item.finished_ms = pd_json_time(m[FINISHED]);
  *out = item;
  return PD_OK;
}

/* ---- writing ---- */

typedef struct texts {
  char status[24], attempts[24], attempts_max[24];
  char times[5][PD_TIME_TEXT_SIZE + 2];
  pd_buf owner, token;
} texts;

static void texts_done(texts *t)
{
  pd_buf_done(&t->owner);
  pd_buf_done(&t->token);
}

static pd_bytes number(uint64_t n, char out[24])
{
  snprintf(out, 24, "%llu", (unsigned long long)n);
  return pd_text(n ? out : "");
}

static pd_bytes moment(int64_t ms, char out[PD_TIME_TEXT_SIZE + 2])
{
  char text[PD_TIME_TEXT_SIZE];
  if (ms <= 0) return pd_text("");
  snprintf(out, PD_TIME_TEXT_SIZE + 2, "\"%s\"", pd_time_text(ms, text));
  return pd_text(out);
}

static pd_code quote(const char *text, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  if (*text) pd_json_text(&w, pd_text(text));
  return w.code;
}

pd_code pd_work_write(pd_bytes json, const pd_work_item *item, pd_buf *out, pd_error *err)
{
  CLEANUP(texts_done) texts t = {0};
  char id[PD_WORK_ID_SIZE_MAX + 3];
  pd_json object = {.kind = PD_JSON_NONE};
  if (json.size) TRY(pd_json_parse(json, &object, err));
  TRY(quote(item->owner, &t.owner, err));
  TRY(quote(item->token, &t.token, err));
  snprintf(id, sizeof id, "\"%s\"", item->id);
  snprintf(t.status, sizeof t.status, "\"%s\"", pd_work_status_name(item->status));
  pd_json_change changes[MEMBER_COUNT] = {
    [ID] = {"id", pd_text(id)},
    [STATUS] = {"status", pd_text(t.status)},
    [TITLE] = {"title", item->title},
    [INPUT] = {"input", item->input},
    [OWNER] = {"owner", pd_buf_bytes(&t.owner)},
    [TOKEN] = {"token", pd_buf_bytes(&t.token)},
    [ATTEMPTS] = {"attempts", number(item->attempts, t.attempts)},
    [ATTEMPTS_MAX] = {"attempts_max", number(item->attempts_max, t.attempts_max)},
    [PROGRESS] = {"progress", item->progress},
    [RESULT] = {"result", item->result},
    [ERROR] = {"error", item->error},
    [REASON] = {"reason", item->reason},
    [CREATED] = {"created_at", moment(item->created_ms, t.times[0])},
    [UPDATED] = {"updated_at", moment(item->updated_ms, t.times[1])},
    [CLAIMED] = {"claimed_at", moment(item->claimed_ms, t.times[2])},
    [LEASE] = {"lease_until", moment(item->lease_until_ms, t.times[3])},
    [FINISHED] = {"finished_at", moment(item->finished_ms, t.times[4])},
  };
  if (object.kind != PD_JSON_NONE) /* as it is: another program may have its own form of times */
    changes[CREATED] = (pd_json_change){"created_at", pd_json_member(object, "created_at").raw};
  return pd_json_change_members(object, changes, MEMBER_COUNT, out, err);
}
