/* history.c: see history.h: whose history, which point, who may see it. The capabilities are in history_*.c. */
#include "state/history.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/foresee.h"
#include "state/policy.h"
#include "state/quota.h"
#include "state/restore.h"
#include "state/threads.h"

#include <stdio.h>
#include <stdlib.h>

#define AT_SIZE_MAX 400 /* of an input `at`; the files of the capabilities say less */

/* ---- whose ---- */

static bool is_of_shared(const pd_frame *frame)
{
  for (size_t i = 0; i < frame->capability->field_count; i++)
    if (strcmp(frame->capability->fields[i].name, "store") == 0) return pd_json_is(frame->input->fields[i], PD_STORE_SHARED);
  return false;
}

static pd_code check_agent(const pd_frame *frame, pd_error *err)
{
  if (*frame->agent) return PD_OK;
  return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: whose history? Name an agent, or say \"store\":\"shared\"",
                        frame->capability->name);
}

pd_code pd_history_open(pd_frame *frame, pd_store **out, pd_error *err)
{
  bool is_shared = is_of_shared(frame);
  pd_error why;
  if (!is_shared) TRY(check_agent(frame, err));
  if (!is_shared) return pd_frame_own_or_none(frame, out, err);
  pd_code code = pd_home_store(frame->home, PD_STORE_SHARED, false, out, &why);
  if (code == PD_NOT_FOUND) {
    *out = NULL;
    return PD_OK;
  }
  if (code) *err = why;
  return code;
}

pd_code pd_history_own(pd_frame *frame, pd_store **out, pd_error *err)
{
  TRY(check_agent(frame, err));
  pd_store *store;
  pd_code code = pd_frame_own(frame, false, &store, err); /* who never wrote has nothing to go back to */
  if (code == PD_NOT_FOUND) return pd_history_none(frame, err);
  TRY(code);
  return pd_frame_own(frame, true, out, err);
}

pd_code pd_history_none(pd_frame *frame, pd_error *err)
{
  bool is_shared = is_of_shared(frame);
  return pd_error_named(err, PD_NOT_FOUND, "NotFound", "%s%s%s has no history yet: nothing was written",
                        is_shared ? "the shared state" : "agent '", is_shared ? "" : frame->agent, is_shared ? "" : "'");
}

pd_code pd_history_no_key(pd_frame *frame, const char *at, pd_error *err)
{
  pd_bytes key = pd_in_text(frame, "key");
  return pd_error_named(err, PD_NOT_FOUND, "KeyNotFound", "key '%.*s' is not there at %.12s",
                        (int)(key.size < PD_HISTORY_SHOWN_MAX ? key.size : PD_HISTORY_SHOWN_MAX), (const char *)key.data, at);
}

/* ---- which point ---- */

bool pd_history_hides(const char *ref)
{
  static const char *const names[] = {"threads", "agent-snapshot", "agent-epoch", "state", "audit", PD_QUEUE_REF};
  static const char *const folders[] = {"thread/", "thread-draft/", "mailbox/", PD_RESTORE_AS "/", "@"};
  if (strncmp(ref, PD_RESTORE_BEFORE "/", sizeof PD_RESTORE_BEFORE) == 0) { /* before-restore/ID is what main was; …/ID/REF what REF was */
    const char *former = strchr(ref + sizeof PD_RESTORE_BEFORE, '/');
    return former && pd_history_hides(former + 1);
  }
  for (size_t i = 0; i < COUNT_OF(names); i++)
    if (strcmp(ref, names[i]) == 0) return true;
  for (size_t i = 0; i < COUNT_OF(folders); i++)
    if (strncmp(ref, folders[i], strlen(folders[i])) == 0) return true;
  return false;
}

static pd_code no_point(const char *at, pd_error *err)
{
  return pd_error_named(err, PD_NOT_FOUND, "NotFound", "there is no ref, tag or commit '%.200s' in this history", at);
}

static bool take_hidden(void *ctx, const pd_record *record)
{
  *(bool *)ctx = record->kind == PD_RECORD_COMMIT && pd_history_hides(record->ref);
  return false;
}

/* By what a commit was made; what retention left of it as a point alone has no record any more, and then nobody knows. */
static pd_code check_maker(pd_store *store, const pd_point_in *point, const char *at, pd_error *err)
{
  bool is_hidden = false;
  pd_error why;
  pd_code code = pd_show(store, point->at, take_hidden, &is_hidden, &why);
  if (code == PD_RETIRED) return PD_OK;
  if (code) *err = why;
  return is_hidden ? no_point(at, err) : code;
}

pd_code pd_history_point_at(pd_store *store, const char *at, pd_point_in *out, pd_error *err)
{
  char full[AT_SIZE_MAX + sizeof PD_STATE_REF], name[AT_SIZE_MAX + 1];
  snprintf(full, sizeof full, "%s%.*s", *at == '@' || *at == '~' ? PD_STATE_REF : "", AT_SIZE_MAX, at);
  snprintf(name, sizeof name, "%.*s", (int)strcspn(full, "~@"), full);
  if (pd_history_hides(name)) return no_point(at, err);
  TRY(pd_resolve(store, full, &out->commit, err));
  pd_id_hex(&out->commit.id, out->at);
  return check_maker(store, out, at, err);
}

pd_code pd_history_resolve(pd_store *store, const char *at, pd_commit *out, pd_error *err)
{
  pd_point_in point;
  TRY(pd_history_point_at(store, at, &point, err));
  *out = point.commit;
  return PD_OK;
}

pd_code pd_history_point(pd_frame *frame, pd_store *store, const char *field, const char *otherwise, pd_point_in *out, pd_error *err)
{
  char at[AT_SIZE_MAX + 1];
  if (!otherwise) otherwise = PD_STATE_REF;
  bool is_given = pd_in_string(frame, field, at, sizeof at) && *at;
  TRY(pd_history_point_at(store, is_given ? at : otherwise, out, err));
  if (is_given) pd_fact_text(frame, field, out->at);
  return PD_OK;
}

/* ---- who may see it ---- */

/* The token was asked about this very call; what is asked here is whether policy would tell it by `like`. */
static pd_code ask_policy(pd_frame *frame, const char *like, const pd_bytes *subject, pd_error *err)
{
  pd_ctx who = *frame->ctx;
  pd_error why;
  who.token = NULL;
  pd_code code = pd_authorise_read(&who, like, NULL, subject ? *subject : (pd_bytes){0}, NULL, &why);
  return code ? pd_error_named(err, code, "PermissionDenied", "%s: %s", frame->capability->name, why.message) : PD_OK;
}

pd_code pd_history_may_read(pd_frame *frame, const pd_bytes *subject, pd_error *err)
{
  static const char *const own[] = {"state.persistent.get", "state.persistent.list", "state.persistent.history"};
  static const char *const shared[] = {"state.shared.get", "state.shared.list"};
  bool is_shared = is_of_shared(frame);
  const char *const *likes = is_shared ? shared : own;
  size_t count = is_shared ? COUNT_OF(shared) : COUNT_OF(own);
  for (size_t i = 0; i < count; i++) TRY(ask_policy(frame, likes[i], subject, err));
  return PD_OK;
}

pd_code pd_history_may_read_key(pd_frame *frame, pd_error *err)
{
  pd_bytes key = pd_in_text(frame, "key");
  return pd_history_may_read(frame, key.size ? &key : NULL, err);
}

pd_code pd_history_may_read_prefix(pd_frame *frame, pd_error *err)
{
  pd_bytes prefix = pd_in_text(frame, "prefix");
  return pd_history_may_read(frame, prefix.size ? &prefix : NULL, err);
}

/* ---- answers ---- */

pd_code pd_history_put_value(pd_frame *frame, pd_view *view, pd_bytes key, const char *name, const char *erased_name, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_error why;
  pd_code code = pd_view_get(view, key, &value, NULL, &why);
  if (code == PD_ERASED) {
    pd_json_put_bool(&frame->out, erased_name, true);
    return frame->out.code;
  }
  if (code) *err = why;
  TRY(code);
  pd_json_key(&frame->out, name);
  pd_out_stored(&frame->out, pd_buf_bytes(&value));
  return frame->out.code;
}

void pd_out_next(pd_frame *frame, const char *name, pd_bytes next)
{
  pd_json_put_or_null(&frame->out, name, next);
}

bool pd_change_fits(const pd_change_filter *filter, pd_bytes key)
{
  if (filter->key.size && !pd_bytes_equal(key, filter->key)) return false;
  if (filter->after.size && pd_bytes_compare(key, filter->after) <= 0) return false;
  return pd_bytes_starts(key, filter->prefix);
}

/* ---- what a visitor saw ---- */

void pd_rows_done(pd_rows *rows)
{
  pd_buf_done(&rows->keys);
  free(rows->items);
}

pd_row *pd_rows_add(pd_rows *rows, pd_bytes key)
{
  if (!rows->code) rows->code = pd_array_grow(&rows->items, rows->count, &rows->capacity, sizeof *rows->items, "an answer", NULL);
  if (!rows->code) rows->code = pd_buf_append(&rows->keys, key.data, key.size, NULL);
  if (rows->code) return NULL;
  pd_row *row = &rows->items[rows->count++];
  *row = (pd_row){.from = rows->keys.size - key.size, .size = key.size};
  return row;
}

bool pd_rows_differ(pd_rows *rows, const pd_difference *difference)
{
  pd_row *row = pd_rows_add(rows, difference->key);
  if (!row) return false;
  row->has_before = difference->before != NULL;
  row->has_after = difference->after != NULL;
  if (row->has_before) row->before = *difference->before;
  if (row->has_after) row->after = *difference->after;
  return true;
}

pd_bytes pd_row_key(const pd_rows *rows, const pd_row *row)
{
  return (pd_bytes){rows->keys.data + row->from, row->size};
}
