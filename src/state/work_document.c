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

static const char *const status_names[] = {"pending", "investigating", "completed", "failed", "cancelled", NULL};

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

/* A document as it lies there; times may have another program's form. */
typedef struct document {
  pd_work_item item;
  pd_json title, input, progress, result, error, reason, created, updated, claimed, lease, finished;
} document;

#define ITEM(name, kind_, member)                                                                                                          \
  {                                                                                                                                        \
    name, kind_, PD_BIND_AT(document, item.member)                                                                                         \
  }
#define ITEM_OR_NONE(name, kind_, member)                                                                                                  \
  {                                                                                                                                        \
    name, kind_, PD_BIND_AT(document, item.member), .is_optional = true                                                                    \
  }
#define ANY(name, member)                                                                                                                  \
  {                                                                                                                                        \
    name, PD_BIND_JSON, PD_BIND_AT(document, member), .is_optional = true                                                                  \
  }

static const pd_bind members[] = {
  ITEM("id", PD_BIND_TEXT, id),
  {"status", PD_BIND_NAME, PD_BIND_AT(document, item.status), .names = status_names},
  ITEM_OR_NONE("token", PD_BIND_TEXT, token),
  ITEM_OR_NONE("owner", PD_BIND_TEXT, owner),
  ITEM_OR_NONE("attempts", PD_BIND_NUMBER, attempts),
  ITEM_OR_NONE("attempts_max", PD_BIND_NUMBER, attempts_max),
  ANY("title", title),
  ANY("input", input),
  ANY("progress", progress),
  ANY("result", result),
  ANY("error", error),
  ANY("reason", reason),
  ANY("created_at", created),
  ANY("updated_at", updated),
  ANY("claimed_at", claimed),
  ANY("lease_until", lease),
  ANY("finished_at", finished),
};

static pd_work_item item_of(const document *d)
{
  pd_work_item item = d->item;
  item.title = d->title.raw;
  item.input = d->input.raw;
  item.progress = d->progress.raw;
  item.result = d->result.raw;
  item.error = d->error.raw;
  item.reason = d->reason.raw;
  item.created_ms = pd_json_time(d->created);
  item.updated_ms = pd_json_time(d->updated);
  item.claimed_ms = pd_json_time(d->claimed);
  item.lease_until_ms = pd_json_time(d->lease);
  item.finished_ms = pd_json_time(d->finished);
  return item;
}

pd_code pd_work_parse(pd_bytes json, pd_work_item *out, pd_error *err)
{
  document d = {0};
  pd_error why = {0};
  pd_code code = pd_bind_parse(json, members, COUNT_OF(members), PD_BIND_LOOSE, &d, &why);
  if (!code && !pd_work_id_check(pd_text(d.item.id))) code = pd_error_set(&why, PD_INVALID, "its id is not one of work items");
  if (code) return pd_error_set(err, PD_CORRUPT, "this is not a work item: %.300s", why.message);
  *out = item_of(&d);
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
  /* as it is: another program may have its own form of times */
  bool is_new = object.kind == PD_JSON_NONE;
  pd_bytes created = is_new ? moment(item->created_ms, t.times[0]) : pd_json_member(object, "created_at").raw;
  pd_json_change changes[] = {
    {"id", pd_text(id)},
    {"status", pd_text(t.status)},
    {"title", item->title},
    {"input", item->input},
    {"owner", pd_buf_bytes(&t.owner)},
    {"token", pd_buf_bytes(&t.token)},
    {"attempts", number(item->attempts, t.attempts)},
    {"attempts_max", number(item->attempts_max, t.attempts_max)},
    {"progress", item->progress},
    {"result", item->result},
    {"error", item->error},
    {"reason", item->reason},
    {"created_at", created},
    {"updated_at", moment(item->updated_ms, t.times[1])},
    {"claimed_at", moment(item->claimed_ms, t.times[2])},
    {"lease_until", moment(item->lease_until_ms, t.times[3])},
    {"finished_at", moment(item->finished_ms, t.times[4])},
  };
  return pd_json_change_members(object, changes, COUNT_OF(changes), out, err);
}
