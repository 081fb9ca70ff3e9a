/* engine_merge.c: merges: see engine.h. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>

void engine_merged_done(engine_merged *m)
{
  if (m->answer.body.data) m->result = (pd_merge_result){0}; /* its lists are ours */
  pd_merge_result_done(&m->result);
  engine_answer_done(&m->answer);
  free(m->changes);
  free(m->conflicts);
}

/* ---- the input ---- */

static void put_resolutions(engine_answer *a, const pd_merge_options *options)
{
  static const char *const takes[] = {
    [PD_TAKE_VALUE] = "value", [PD_TAKE_DELETE] = "delete", [PD_TAKE_BASE] = "base", [PD_TAKE_OURS] = "ours", [PD_TAKE_THEIRS] = "theirs"};
  pd_json_key(&a->w, "resolutions");
  pd_json_open(&a->w, '[');
  for (size_t i = 0; i < options->resolution_count; i++) {
    const pd_resolution *r = &options->resolutions[i];
    pd_json_open(&a->w, '{');
    pd_json_put_bytes(&a->w, "key", r->key);
    if (r->path.size) pd_json_put_bytes(&a->w, "path", r->path);
    pd_json_put_text(&a->w, "take", takes[r->take]);
    if (r->take == PD_TAKE_VALUE) engine_put_base64(a, "base64", r->value);
    pd_json_close(&a->w, '}');
  }
  pd_json_close(&a->w, ']');
}

static void put_options(engine_answer *a, const pd_merge_options *options)
{
  pd_json_put_text(&a->w, "policy", pd_merge_rule_name(options->policy));
  if (options->ignores_rules) pd_json_put_bool(&a->w, "no_rules", true);
  if (options->allows_unrelated) pd_json_put_bool(&a->w, "allow_unrelated", true);
  if (options->no_fast_forward) pd_json_put_bool(&a->w, "fast_forward", false);
  if (options->is_dry_run) pd_json_put_bool(&a->w, "dry_run", true);
  if (options->parent_number) pd_json_put_number(&a->w, "parent", options->parent_number);
  if (options->resolution_count) put_resolutions(a, options);
}

/* ---- the answer ---- */

static size_t count_items(pd_json list)
{
  pd_json item;
  size_t count = 0;
  for (pd_json_walk walk = pd_json_walk_begin(list); pd_json_walk_next(&walk, NULL, &item);) count++;
  return count;
}

static pd_merge_rule rule_of(engine_answer *a, pd_json item)
{
  pd_merge_rule rule = PD_MERGE_FAIL;
  return pd_merge_rule_parse(engine_text(a, item, "rule"), &rule, NULL) ? PD_MERGE_FAIL : rule;
}

static pd_code take_changes(engine_merged *m, pd_json list, pd_error *err)
{
  pd_json item;
  size_t count = count_items(list);
  m->changes = calloc(count + 1, sizeof *m->changes);
  if (!m->changes) return pd_error_memory(err, "the changes");
  m->result.changes = m->changes;
  for (pd_json_walk walk = pd_json_walk_begin(list); pd_json_walk_next(&walk, NULL, &item);)
    m->changes[m->result.change_count++] = (pd_merge_change){
      .key = engine_bytes(&m->answer, item, "key"),
      .is_delete = engine_flag(item, "is_delete"),
      .is_new = engine_flag(item, "is_new"),
      .is_both = engine_flag(item, "is_both"),
      .is_resolved = engine_flag(item, "is_resolved"),
      .rule = rule_of(&m->answer, item),
      .size = engine_number(item, "size"),
    };
  return PD_OK;
}

static bool has(pd_json object, const char *name)
{
  return pd_json_member(object, name).kind != PD_JSON_NONE;
}

static pd_code take_conflicts(engine_merged *m, pd_json list, pd_error *err)
{
  engine_answer *a = &m->answer;
  pd_json item;
  size_t count = count_items(list);
  m->conflicts = calloc(count + 1, sizeof *m->conflicts);
  if (!m->conflicts) return pd_error_memory(err, "the conflicts");
  m->result.conflicts = m->conflicts;
  for (pd_json_walk walk = pd_json_walk_begin(list); pd_json_walk_next(&walk, NULL, &item);)
    m->conflicts[m->result.conflict_count++] = (pd_conflict){
      .key = engine_bytes(a, item, "key"),
      .path = engine_bytes(a, item, "path"),
      .rule = rule_of(a, item),
      .why = engine_text(a, item, "why"),
      .has_base = has(item, "base"),
      .has_ours = has(item, "ours"),
      .has_theirs = has(item, "theirs"),
      .base = engine_base64(a, item, "base"),
      .ours = engine_base64(a, item, "ours"),
      .theirs = engine_base64(a, item, "theirs"),
    };
  return PD_OK;
}

static pd_merge_outcome outcome_of(pd_json answer)
{
  pd_json name = pd_json_member(answer, "outcome");
  for (int i = PD_MERGE_UP_TO_DATE; i <= PD_MERGE_CONFLICTS; i++)
    if (pd_json_is(name, pd_merge_outcome_name((pd_merge_outcome)i))) return (pd_merge_outcome)i;
  return PD_MERGE_CONFLICTS;
}

static pd_code take_result(cli_session *cli, engine_merged *m, pd_error *err)
{
  engine_answer *a = &m->answer;
  pd_merge_result *r = &m->result;
  *r = (pd_merge_result){
    .outcome = outcome_of(a->json),
    .base = engine_commit(pd_json_member(a->json, "base")),
    .base_count = engine_number(a->json, "base_count"),
    .ours = engine_commit(pd_json_member(a->json, "ours")),
    .theirs = engine_commit(pd_json_member(a->json, "theirs")),
    .conflict_total = engine_number(a->json, "conflict_total"),
  };
  if (has(a->json, "commit")) engine_take_ack(a, &r->ack);
  snprintf(cli->far_ref, sizeof cli->far_ref, "%s", engine_text(a, a->json, "ref"));
  TRY(take_changes(m, pd_json_member(a->json, "changes"), err));
  TRY(take_conflicts(m, pd_json_member(a->json, "conflicts"), err));
  return r->conflict_total ? pd_error_set(err, PD_CONFLICT, "there are conflicts") : PD_OK; /* as pd_merge; for nobody's eyes */
}

static pd_code merge_here(cli_session *cli, const char *how, const char *at, const pd_merge_options *options, const pd_note *note,
                          pd_merge_result *out, pd_error *err)
{
  if (strcmp(how, "merge") == 0) return pd_merge(cli->store, at, options, note, out, err);
  if (strcmp(how, "revert") == 0) return pd_revert(cli->store, at, options, note, out, err);
  return pd_cherry_pick(cli->store, at, options, note, out, err);
}

pd_code engine_merge(cli_session *cli, const char *how, const char *at, const pd_merge_options *options, const pd_note *note,
                     engine_merged *out, pd_error *err)
{
  if (!cli->is_remote) return merge_here(cli, how, at, options, note, &out->result, err);
  engine_begin(cli, &out->answer, err);
  pd_json_put_text(&out->answer.w, "how", how);
  pd_json_put_text(&out->answer.w, "from", at);
  put_options(&out->answer, options);
  engine_put_note(&out->answer, note);
  TRY(engine_ask(cli, &out->answer, "store.merge", err));
  return take_result(cli, out, err);
}
