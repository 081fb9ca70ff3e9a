/* store_merge.c: store.merge: merge, cherry-pick and revert on any ref of a store. Conflicts are an answer, not an error. */
#include "base/array.h"
#include "base/base.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/history.h"
#include "state/run.h"
#include "state/store_call.h"
#include "state/threads.h"

#include <stdlib.h>

typedef pd_code (*merge_call)(pd_store *store, const char *at, const pd_merge_options *options, const pd_note *note, pd_merge_result *out,
                              pd_error *err);

typedef struct store_merging {
  pd_frame *frame;
  pd_merge_options options;
  pd_resolution *resolutions;
  pd_buf *bytes; /* key, path and value of each: three a resolution */
  size_t count, capacity, bytes_capacity;
  pd_merge_result result;
} store_merging;

static void merging_done(store_merging *m)
{
  for (size_t i = 0; i < 3 * m->count; i++) pd_buf_done(&m->bytes[i]);
  free(m->bytes);
  free(m->resolutions);
  pd_merge_result_done(&m->result);
}

/* ---- resolutions ---- */

static pd_code bad_resolution(const store_merging *m, const char *what, pd_error *err)
{
  return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: field 'resolutions', item %zu: %s", m->frame->capability->name, m->count - 1,
                        what);
}

static pd_code grow(store_merging *m, pd_error *err)
{
  TRY(pd_array_grow(&m->resolutions, m->count, &m->capacity, sizeof *m->resolutions, "resolutions", err));
  for (size_t i = 0; i < 3; i++) {
    TRY(pd_array_grow(&m->bytes, 3 * m->count + i, &m->bytes_capacity, sizeof *m->bytes, "resolutions", err));
    m->bytes[3 * m->count + i] = (pd_buf){0};
  }
  m->resolutions[m->count++] = (pd_resolution){0};
  return PD_OK;
}

static pd_code take_resolution(store_merging *m, pd_json item, pd_error *err)
{
  static const char *const takes[] = {
    [PD_TAKE_VALUE] = "value", [PD_TAKE_DELETE] = "delete", [PD_TAKE_BASE] = "base", [PD_TAKE_OURS] = "ours", [PD_TAKE_THEIRS] = "theirs"};
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_field fields[] = {{"key", {{0}, 0}}, {"path", {{0}, 0}}, {"take", {{0}, 0}}, {"base64", {{0}, 0}}};
  pd_error why = {0};
  TRY(grow(m, err));
  pd_buf *bytes = &m->bytes[3 * (m->count - 1)];
  pd_resolution *made = &m->resolutions[m->count - 1];
  if (pd_json_fields(item, fields, COUNT_OF(fields), &why)) return bad_resolution(m, why.message, err);
  if (pd_json_decode(fields[0].value, &bytes[0], NULL)) return bad_resolution(m, "'key' must be a text", err);
  if (fields[1].value.kind != PD_JSON_NONE && pd_json_decode(fields[1].value, &bytes[1], NULL))
    return bad_resolution(m, "'path' must be a text", err);
  size_t take = 0;
  while (take < COUNT_OF(takes) && !pd_json_is(fields[2].value, takes[take])) take++;
  if (take == COUNT_OF(takes)) return bad_resolution(m, "'take' must be one of: value delete base ours theirs", err);
  made->take = (pd_take)take;
  if ((made->take == PD_TAKE_VALUE) != (fields[3].value.kind != PD_JSON_NONE))
    return bad_resolution(m, "'base64' goes with \"take\":\"value\"", err);
  if (made->take == PD_TAKE_VALUE &&
      (pd_json_decode(fields[3].value, &text, NULL) || pd_base64_decode(pd_buf_bytes(&text), &bytes[2], NULL)))
    return bad_resolution(m, "'base64' is not base64", err);
  return PD_OK;
}

static pd_code take_options(store_merging *m, pd_error *err)
{
  pd_frame *frame = m->frame;
  char policy[16] = "fail";
  pd_json item;
  (void)!pd_in_string(frame, "policy", policy, sizeof policy);
  TRY(pd_merge_rule_parse(policy, &m->options.policy, err));
  m->options.ignores_rules = pd_in_bool(frame, "no_rules", false);
  m->options.allows_unrelated = pd_in_bool(frame, "allow_unrelated", false);
  m->options.no_fast_forward = !pd_in_bool(frame, "fast_forward", true);
  m->options.is_dry_run = pd_in_bool(frame, "dry_run", false);
  m->options.parent_number = (uint32_t)pd_in_int(frame, "parent", 0);
  for (pd_json_walk walk = pd_json_walk_begin(pd_in(frame, "resolutions")); pd_json_walk_next(&walk, NULL, &item);)
    TRY(take_resolution(m, item, err));
  for (size_t i = 0; i < m->count; i++) { /* neither list moves any more */
    m->resolutions[i].key = pd_buf_bytes(&m->bytes[3 * i]);
    m->resolutions[i].path = pd_buf_bytes(&m->bytes[3 * i + 1]);
    m->resolutions[i].value = pd_buf_bytes(&m->bytes[3 * i + 2]);
  }
  m->options.resolutions = m->resolutions;
  m->options.resolution_count = m->count;
  return PD_OK;
}

/* ---- the answer ---- */

static void put_side(pd_frame *frame, const char *name, bool has, pd_bytes value)
{
  if (has) pd_out_base64(frame, name, value);
}

static void put_conflict(pd_frame *frame, const pd_conflict *c)
{
  pd_json_open(&frame->out, '{');
  pd_json_put_bytes(&frame->out, "key", c->key);
  pd_json_put_bytes(&frame->out, "path", c->path);
  pd_json_put_text(&frame->out, "rule", pd_merge_rule_name(c->rule));
  pd_json_put_text(&frame->out, "why", c->why);
  put_side(frame, "base", c->has_base, c->base);
  put_side(frame, "ours", c->has_ours, c->ours);
  put_side(frame, "theirs", c->has_theirs, c->theirs);
  pd_json_close(&frame->out, '}');
}

static void put_change(pd_frame *frame, const pd_merge_change *c)
{
  pd_json_open(&frame->out, '{');
  pd_json_put_bytes(&frame->out, "key", c->key);
  pd_json_put_bool(&frame->out, "is_delete", c->is_delete);
  pd_json_put_bool(&frame->out, "is_new", c->is_new);
  pd_json_put_bool(&frame->out, "is_both", c->is_both);
  pd_json_put_bool(&frame->out, "is_resolved", c->is_resolved);
  pd_json_put_text(&frame->out, "rule", pd_merge_rule_name(c->rule));
  pd_json_put_number(&frame->out, "size", c->size);
  pd_json_close(&frame->out, '}');
}

static pd_code put_result(pd_frame *frame, const char *ref, const pd_merge_result *r)
{
  pd_json_put_text(&frame->out, "outcome", pd_merge_outcome_name(r->outcome));
  if (r->ack.seq)
    pd_out_ack(frame, ref, &r->ack);
  else
    pd_json_put_text(&frame->out, "ref", ref);
  pd_out_point(frame, "base", &r->base);
  pd_json_put_number(&frame->out, "base_count", r->base_count);
  pd_out_point(frame, "ours", &r->ours);
  pd_out_point(frame, "theirs", &r->theirs);
  pd_json_key(&frame->out, "changes");
  pd_json_open(&frame->out, '[');
  for (size_t i = 0; i < r->change_count; i++) put_change(frame, &r->changes[i]);
  pd_json_close(&frame->out, ']');
  pd_json_put_number(&frame->out, "conflict_total", r->conflict_total);
  pd_json_key(&frame->out, "conflicts");
  pd_json_open(&frame->out, '[');
  for (size_t i = 0; i < r->conflict_count && !(i && pd_out_is_long(frame)); i++) put_conflict(frame, &r->conflicts[i]);
  pd_json_close(&frame->out, ']');
  return frame->out.code;
}

pd_code pd_cap_store_merge(pd_frame *frame, pd_error *err)
{
  CLEANUP(merging_done) store_merging m = {.frame = frame};
  merge_call call = pd_json_is(pd_in(frame, "how"), "revert")        ? pd_revert
                    : pd_json_is(pd_in(frame, "how"), "cherry-pick") ? pd_cherry_pick
                                                                     : pd_merge;
  char at[PD_STORE_AT_SIZE];
  pd_store_note n;
  pd_store *store;
  TRY(take_options(&m, err));
  TRY(pd_store_open_for(frame, PD_STORE_WRITE, &store, err));
  if (!m.options.is_dry_run) TRY(pd_history_leave(store, err));
  TRY(pd_store_take_note(frame, store, &n, err));
  TRY(pd_store_at(frame, store, "from", at, err));
  pd_code code = call(store, at, &m.options, &n.note, &m.result, err);
  if (code && !(code == PD_CONFLICT && m.result.conflict_total)) return code;
  return put_result(frame, n.ref, &m.result);
}
