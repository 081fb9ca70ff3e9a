/* run_delta.c: what a run was told since its last checkpoint. Invariants U1 and U2 are in run_context.h. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_merge.h"
#include "thread/changeset.h"
#include "thread/run_context.h"

#include <stdlib.h>

/* ---- items ---- */

void pd_run_items_done(pd_run_items *items)
{
  pd_buf_done(&items->text);
  items->count = 0;
}

pd_code pd_run_items_add(pd_run_items *items, pd_bytes json, pd_error *err)
{
  TRY(pd_buf_reserve(&items->text, json.size + 1, err));
  if (items->count) TRY(pd_buf_byte(&items->text, ',', err));
  TRY(pd_buf_append(&items->text, json.data, json.size, err));
  items->count++;
  return PD_OK;
}

pd_code pd_run_items_write(const pd_run_items *items, pd_buf *out, pd_error *err)
{
  TRY(pd_buf_byte(out, '[', err));
  TRY(pd_buf_append(out, items->text.data, items->text.size, err));
  return pd_buf_byte(out, ']', err);
}

void pd_run_items_cut(pd_run_items *items, size_t size, size_t count)
{
  items->text.size = size;
  items->count = count;
}

pd_code pd_run_items_add_list(pd_run_items *items, pd_bytes list, size_t count, pd_error *err)
{
  if (!count) return PD_OK;
  TRY(pd_run_items_add(items, (pd_bytes){(const char *)list.data + 1, list.size - 2}, err));
  items->count += count - 1;
  return PD_OK;
}

pd_code pd_run_check_room(const pd_run_context *run, size_t bytes, size_t patches, pd_error *err)
{
  size_t size = run->messages.text.size + run->patches.text.size + run->actions.text.size;
  if (bytes > PD_RUN_DELTA_SIZE_MAX || size + bytes > PD_RUN_DELTA_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT,
                        "the delta of run '%s' has %zu bytes, and with %zu more it is over the limit of %zu: checkpoint first", run->id,
                        size, bytes, (size_t)PD_RUN_DELTA_SIZE_MAX);
  if (run->patches.count + patches > PD_RUN_PATCHES_MAX)
    return pd_error_set(err, PD_LIMIT,
                        "the delta of run '%s' has %zu patches, and with %zu more it is over the limit of %d: checkpoint first", run->id,
                        run->patches.count, patches, PD_RUN_PATCHES_MAX);
  return PD_OK;
}

void pd_run_clear_delta(pd_run_context *run)
{
  pd_run_items_cut(&run->messages, 0, 0);
  pd_run_items_cut(&run->patches, 0, 0);
  pd_run_items_cut(&run->actions, 0, 0);
  run->brought_count = 0;
  if (run->doc) pd_doc_keep(run->doc);
}

/* ---- what callers tell ---- */

pd_code pd_run_patch(pd_run_context *run, pd_bytes patches, pd_error *err)
{
  TRY(pd_run_check_open(run, err));
  TRY(pd_run_check_room(run, patches.size, 0, err)); /* before any work on what is too large */
  return pd_run_add_patches(run, patches, PD_PATCH_OF_RUN, NULL, err);
}

/* One JSON object into a list, without its white space. */
static pd_code add_object(pd_run_context *run, pd_run_items *items, const char *what, pd_bytes text, bool has_id, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf line = {0}, id = {0};
  pd_error why = {0};
  pd_json json;
  TRY(pd_run_check_room(run, text.size, 0, err));
  pd_code code = pd_json_parse(text, &json, &why);
  if (!code) code = pd_json_unique(json, &why);
  if (code) return pd_error_named(err, code, code == PD_INVALID ? "InvalidChangeSet" : NULL, "%s: %.300s", what, why.message);
  if (json.kind != PD_JSON_OBJECT)
    return pd_error_named(err, PD_INVALID, "InvalidChangeSet", "%s is no object but %s", what, pd_json_kind_name(json.kind));
  if (has_id) TRY(pd_message_id(json, &id, err));
  pd_json_writer w = {.out = &line, .err = err};
  pd_json_value(&w, json);
  TRY(w.code);
  return pd_run_items_add(items, pd_buf_bytes(&line), err);
}

pd_code pd_run_message(pd_run_context *run, pd_bytes message, pd_error *err)
{
  TRY(pd_run_check_open(run, err));
  return add_object(run, &run->messages, "a message", message, true, err);
}

pd_code pd_run_action(pd_run_context *run, pd_bytes action, pd_error *err)
{
  TRY(pd_run_check_open(run, err));
  return add_object(run, &run->actions, "a state action", action, false, err);
}

/* ---- taking it, giving it back ---- */

static void put_items(pd_json_writer *w, const char *key, const pd_run_items *items)
{
  pd_json_key(w, key);
  pd_json_open(w, '[');
  if (items->count) pd_json_raw(w, pd_buf_bytes(&items->text));
  pd_json_close(w, ']');
}

/* Whether the delta was committed cannot be found out now: so it is to be found out when it is given back. */
static void put_unsettled(pd_json_writer *w, const pd_run_context *run)
{
  pd_json_key(w, "unsettled");
  pd_json_open(w, '{');
  pd_json_put_text(w, "reason", pd_reason_name(run->unsettled_reason));
  pd_json_put_number(w, "version", run->unsettled_version);
  pd_json_close(w, '}');
}

pd_code pd_run_take_delta(pd_run_context *run, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {.size_max = out->size_max};
  pd_json_writer w = {.out = &text, .err = err};
  bool is_unknown = run->is_unsettled && pd_run_settle_commit(run, NULL);
  bool was_final = run->unsettled_reason == PD_REASON_RUN_FINISHED;
  if (is_unknown && was_final) pd_run_take_back_final(run); /* a run's last words are nobody else's */
  pd_json_open(&w, '{');
  put_items(&w, "messages", &run->messages);
  put_items(&w, "patches", &run->patches);
  put_items(&w, "state_actions", &run->actions);
  if (is_unknown && !was_final && pd_run_has_delta(run)) put_unsettled(&w, run);
  pd_json_close(&w, '}');
  TRY(w.code);
  pd_run_clear_delta(run);
  pd_run_drop_doc(run);
  pd_buf_done(out);
  *out = text;
  text = (pd_buf){0};
  return PD_OK;
}

/* The items of one member of a delta. */
static pd_code read_items(pd_json list, const char *name, pd_run_items *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf line = {0};
  pd_json_walk items = pd_json_walk_begin(list);
  pd_json item;
  if (list.kind != PD_JSON_NONE && list.kind != PD_JSON_ARRAY)
    return pd_error_named(err, PD_INVALID, "InvalidChangeSet", "'%s' of a delta is no array but %s", name, pd_json_kind_name(list.kind));
  while (pd_json_walk_next(&items, NULL, &item)) {
    if (item.kind != PD_JSON_OBJECT)
      return pd_error_named(err, PD_INVALID, "InvalidChangeSet", "'%s' of a delta holds what is no object", name);
    pd_buf_clear(&line);
    TRY(pd_json_canonical(item, &line, err));
    TRY(pd_run_items_add(out, pd_buf_bytes(&line), err));
  }
  return PD_OK;
}

typedef struct three {
  pd_run_items messages, patches, actions;
  pd_reason unsettled_reason; /* none: it was not committed */
  uint64_t unsettled_version;
} three;

static void three_done(three *t)
{
  pd_run_items_done(&t->messages);
  pd_run_items_done(&t->patches);
  pd_run_items_done(&t->actions);
}

static pd_code check_message_ids(pd_json messages, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf id = {0};
  pd_json_walk items = pd_json_walk_begin(messages);
  pd_json item;
  while (pd_json_walk_next(&items, NULL, &item)) {
    pd_buf_clear(&id);
    TRY(pd_message_id(item, &id, err));
  }
  return PD_OK;
}

static pd_code read_unsettled(pd_json value, three *out, pd_error *err)
{
  if (value.kind == PD_JSON_NONE) return PD_OK;
  pd_json reason = pd_json_member(value, "reason");
  for (int i = 1; i < PD_REASON_COUNT; i++)
    if (pd_json_is(reason, pd_reason_name((pd_reason)i))) out->unsettled_reason = (pd_reason)i;
  if (out->unsettled_reason && pd_json_u64(pd_json_member(value, "version"), &out->unsettled_version)) return PD_OK;
  return pd_error_named(err, PD_INVALID, "InvalidChangeSet", "'unsettled' of a delta names no reason and no version");
}

static pd_code read_delta(pd_bytes delta, three *out, pd_error *err)
{
  pd_json json;
  pd_json_field f[] = {{"messages", {{0}, 0}}, {"patches", {{0}, 0}}, {"state_actions", {{0}, 0}}, {"unsettled", {{0}, 0}}};
  if (delta.size > PD_CHANGESET_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "a delta of %zu bytes: the limit is %zu", delta.size, PD_CHANGESET_SIZE_MAX);
  TRY(pd_json_parse(delta, &json, err));
  TRY(pd_json_unique(json, err));
  TRY(pd_json_fields(json, f, COUNT_OF(f), err));
  TRY(read_items(f[0].value, f[0].name, &out->messages, err));
  TRY(read_items(f[1].value, f[1].name, &out->patches, err));
  TRY(read_items(f[2].value, f[2].name, &out->actions, err));
  TRY(read_unsettled(f[3].value, out, err));
  return check_message_ids(f[0].value, err);
}

static pd_code append_items(pd_run_items *first, const pd_run_items *then, pd_error *err)
{
  if (!then->count) return PD_OK;
  TRY(pd_run_items_add(first, pd_buf_bytes(&then->text), err));
  first->count += then->count - 1;
  return PD_OK;
}

static void swap_items(pd_run_items *a, pd_run_items *b)
{
  pd_run_items kept = *a;
  *a = *b;
  *b = kept;
}

static void swap_delta(pd_run_context *run, three *t)
{
  swap_items(&run->messages, &t->messages);
  swap_items(&run->patches, &t->patches);
  swap_items(&run->actions, &t->actions);
  pd_run_drop_doc(run);
}

/* A delta of which it is not known whether it was committed: it is, or it is to be committed now. */
static pd_code put_unknown(pd_run_context *run, three *t, pd_error *err)
{
  if (pd_run_has_delta(run))
    return pd_error_named(err, PD_CONFLICT, "DeltaPending",
                          "run '%s' has a delta: checkpoint before one is given back that may be committed", run->id);
  swap_delta(run, t);
  run->is_unsettled = true;
  run->unsettled_reason = t->unsettled_reason;
  run->unsettled_version = t->unsettled_version;
  pd_code code = pd_run_settle_commit(run, err);
  if (code) swap_delta(run, t);
  return code;
}

static pd_code put_front(pd_run_context *run, three *t, pd_error *err)
{
  TRY(append_items(&t->messages, &run->messages, err));
  TRY(append_items(&t->patches, &run->patches, err));
  TRY(append_items(&t->actions, &run->actions, err));
  size_t before = t->patches.count - run->patches.count;
  swap_delta(run, t);
  pd_code code = pd_run_need_doc(run, err); /* U1 */
  if (code) swap_delta(run, t);
  for (size_t i = 0; !code && i < run->brought_count; i++) run->brought[i].first += before;
  return code;
}

pd_code pd_run_put_delta(pd_run_context *run, pd_bytes delta, pd_error *err)
{
  CLEANUP(three_done) three t = {0};
  if (run->status == PD_PHASE_DONE) return pd_run_check_open(run, err);
  TRY(read_delta(delta, &t, err));
  TRY(pd_run_check_room(run, t.messages.text.size + t.patches.text.size + t.actions.text.size, t.patches.count, err));
  if (run->is_unsettled) TRY(pd_run_settle_commit(run, err));
  return t.unsettled_reason ? put_unknown(run, &t, err) : put_front(run, &t, err);
}
