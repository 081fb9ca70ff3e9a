/* merge.c: `merge`, `cherry-pick` and `revert`: three ways to bring changes into a ref, with conflicts as data. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"
#include "resolutions.h"

#include <inttypes.h>
#include <stdio.h>

#define VALUE_SHOWN_MAX 160

/* ---- for people ---- */

static void print_side(out_stream *o, const char *side, bool has, pd_bytes value)
{
  out_printf(o, "    %-7s ", side);
  if (has) {
    cli_value_short(o, value, VALUE_SHOWN_MAX);
  } else {
    out_set(o, OUT_DIM);
    out_text(o, "(absent)");
    out_set(o, OUT_PLAIN);
  }
  out_text(o, "\n");
}

static void print_conflict(out_stream *o, const pd_conflict *c)
{
  out_set(o, OUT_BAD);
  out_text(o, "! ");
  out_safe(o, c->key);
  out_set(o, OUT_PLAIN);
  if (c->path.size) {
    out_text(o, " at ");
    out_safe(o, c->path);
  }
  out_printf(o, ": %s\n", c->why);
  print_side(o, "base", c->has_base, c->base);
  print_side(o, "ours", c->has_ours, c->ours);
  print_side(o, "theirs", c->has_theirs, c->theirs);
  out_drain(o);
}

static void print_conflicts(cli_session *cli, const pd_merge_result *r)
{
  for (size_t i = 0; i < r->conflict_count; i++) print_conflict(&cli->out, &r->conflicts[i]);
  out_flush(&cli->out);
  cli_say(cli, "%" PRIu64 " conflict%s, nothing was changed. Settle each with --resolve KEY=VALUE (or @ours, @theirs, @base, @delete),",
          r->conflict_total, r->conflict_total == 1 ? "" : "s");
  cli_say(cli, "with --resolutions FILE, or all with --policy.");
}

static void print_change(out_stream *o, const pd_merge_change *c)
{
  out_set(o, c->is_delete ? OUT_BAD : c->is_new ? OUT_GOOD : OUT_CHANGED);
  out_text(o, c->is_delete ? "- " : c->is_new ? "+ " : "~ ");
  out_safe(o, c->key);
  out_set(o, OUT_DIM);
  if (!c->is_delete) out_printf(o, "  %" PRIu64 " bytes", c->size);
  if (c->is_resolved)
    out_text(o, "  resolved");
  else if (c->is_both)
    out_printf(o, "  merged by %s", pd_merge_rule_name(c->rule));
  out_set(o, OUT_PLAIN);
  out_text(o, "\n");
  out_drain(o);
}

static void print_result(cli_session *cli, const char *what, const char *ref, const pd_merge_result *r, bool is_dry_run)
{
  char hex[PD_ID_HEX_SIZE];
  if (is_dry_run) {
    for (size_t i = 0; i < r->change_count; i++) print_change(&cli->out, &r->changes[i]);
    out_flush(&cli->out);
    cli_say(cli, "%s: would be %s, %zu key%s of '%s' would change", what, pd_merge_outcome_name(r->outcome), r->change_count,
            r->change_count == 1 ? "" : "s", ref);
    return;
  }
  if (r->outcome == PD_MERGE_UP_TO_DATE)
    cli_say(cli, "%s: '%s' has all of it already", what, ref);
  else if (r->outcome == PD_MERGE_FAST_FORWARD)
    cli_say(cli, "%s: '%s' had nothing of its own and was moved forward", what, ref);
  else
    cli_say(cli, "%s: %zu key%s of '%s' changed", what, r->change_count, r->change_count == 1 ? "" : "s", ref);
  out_printf(&cli->out, "%s\n", pd_id_hex(r->ack.seq ? &r->ack.commit : &r->ours.id, hex));
}

/* ---- for programs ---- */

static void side_json(pd_json_writer *w, const char *side, bool has, pd_bytes value)
{
  pd_json_key(w, side);
  if (!has) {
    pd_json_null(w);
    return;
  }
  pd_json_open(w, '{');
  cli_value_json(w, value);
  pd_json_close(w, '}');
}

static void conflict_json(pd_json_writer *w, const pd_conflict *c)
{
  pd_json_open(w, '{');
  pd_json_put_bytes(w, "key", c->key);
  pd_json_put_bytes(w, "path", c->path);
  pd_json_put_text(w, "rule", pd_merge_rule_name(c->rule));
  pd_json_put_text(w, "why", c->why);
  side_json(w, "base", c->has_base, c->base);
  side_json(w, "ours", c->has_ours, c->ours);
  side_json(w, "theirs", c->has_theirs, c->theirs);
  pd_json_close(w, '}');
}

static void change_json(pd_json_writer *w, const pd_merge_change *c)
{
  pd_json_open(w, '{');
  pd_json_put_bytes(w, "key", c->key);
  pd_json_put_text(w, "change", c->is_delete ? "deleted" : c->is_new ? "added" : "changed");
  if (!c->is_delete) pd_json_put_number(w, "size", c->size);
  if (c->is_both) pd_json_put_text(w, "merged_by", c->is_resolved ? "resolution" : pd_merge_rule_name(c->rule));
  pd_json_close(w, '}');
}

static pd_code print_json(cli_session *cli, const char *ref, const pd_merge_result *r, bool is_dry_run, pd_error *err)
{
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "outcome", pd_merge_outcome_name(r->outcome));
  pd_json_put_text(&w, "ref", ref);
  pd_json_put_bool(&w, "dry_run", is_dry_run);
  pd_json_put_id(&w, "base", &r->base.id);
  pd_json_put_number(&w, "base_count", r->base_count);
  pd_json_put_id(&w, "ours", &r->ours.id);
  pd_json_put_id(&w, "theirs", &r->theirs.id);
  if (r->ack.seq) cli_ack_json(&w, &r->ack);
  pd_json_key(&w, "changes");
  pd_json_open(&w, '[');
  for (size_t i = 0; i < r->change_count; i++) change_json(&w, &r->changes[i]);
  pd_json_close(&w, ']');
  pd_json_put_number(&w, "conflict_total", r->conflict_total);
  pd_json_key(&w, "conflicts");
  pd_json_open(&w, '[');
  for (size_t i = 0; i < r->conflict_count; i++) conflict_json(&w, &r->conflicts[i]);
  pd_json_close(&w, ']');
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

/* ---- all three ---- */

static pd_code read_options(const args_parsed *args, pd_merge_options *out, pd_error *err)
{
  uint64_t parent = 0;
  if (args_get(args, "policy")) TRY(pd_merge_rule_parse(args_get(args, "policy"), &out->policy, err));
  TRY(args_number(args, "parent", 1, &parent, err));
  if (parent > UINT32_MAX) return pd_error_set(err, PD_INVALID, "--parent: there is no parent %" PRIu64, parent);
  out->parent_number = (uint32_t)parent;
  out->ignores_rules = args_get(args, "no-rules");
  out->allows_unrelated = args_get(args, "allow-unrelated");
  out->no_fast_forward = args_get(args, "no-ff");
  out->is_dry_run = args_get(args, "dry-run");
  return PD_OK;
}

static void hint_at_cure(cli_session *cli, pd_code code, const pd_error *err)
{
  if (code == PD_INVALID && err && strstr(err->message, "unrelated histories"))
    snprintf(cli->hint, sizeof cli->hint, "to merge them all the same: --allow-unrelated");
}

static pd_code run_any(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(resolutions_done) resolutions_list resolutions = {0};
  CLEANUP(engine_merged_done) engine_merged merged = {0};
  const pd_merge_result *r = &merged.result;
  pd_merge_options options = {0};
  pd_note note = cli_note(args);
  TRY(read_options(args, &options, err));
  TRY(resolutions_read(args, &resolutions, err));
  options.resolutions = resolutions.items;
  options.resolution_count = resolutions.count;
  TRY(engine_open(cli, options.is_dry_run ? CLI_READ : CLI_LEAVE, err));
  pd_code code = engine_merge(cli, args->spec->name, args->words[0], &options, &note, &merged, err);
  const char *ref = note.ref ? note.ref : engine_ref(cli);
  hint_at_cure(cli, code, err);
  bool has_conflicts = code == PD_CONFLICT && r->conflict_total;
  if (code && !has_conflicts) return code;
  if (has_conflicts) cli->exit_code = CLI_EXIT_CONFLICT;
  if (cli->is_json) return print_json(cli, ref, r, options.is_dry_run, err);
  cli->out.wants_pager = cli->has_pager && options.is_dry_run;
  if (has_conflicts)
    print_conflicts(cli, r);
  else
    print_result(cli, args->spec->name, ref, r, options.is_dry_run);
  return PD_OK;
}

#define SHARED_OPTIONS                                                                                                                     \
  {"policy", 0, "RULE", "for keys that both sides changed: fail (default), ours, theirs, json, …"},                                        \
    {"no-rules", 0, NULL, "the policy for all keys: ignore the store's rules by prefix"},                                                  \
    {"resolve", 0, "KEY=VALUE", "settle a conflict; VALUE as of put, or @ours, @theirs, @base, @delete; repeatable"},                      \
    {"resolutions", 0, "FILE", "settle conflicts by a JSON file: [{\"key\":…,\"value\":…}, {\"key\":…,\"take\":\"ours\"}]"},               \
  {                                                                                                                                        \
    "dry-run", 'n', NULL, "say what would change, and change nothing"                                                                      \
  }

static const args_option merge_options[] = {SHARED_OPTIONS,
                                            {"no-ff", 0, NULL, "make a commit, also where moving the ref would do"},
                                            {"allow-unrelated", 0, NULL, "also if the histories have no commit in common"},
                                            CLI_NOTE_OPTIONS,
                                            {0}};
static const args_option one_options[] = {
  SHARED_OPTIONS, {"parent", 'm', "N", "of a merge commit: against which of its parents (default 1)"}, CLI_NOTE_OPTIONS, {0}};

const cli_command cmd_merge = {
  .spec = {"merge", merge_options, 1, 1, false},
  .group = "branches",
  .summary = "Merge another ref or commit into the ref",
  .usage = "X",
  .about = "Brings what X changed since the common ancestor into the ref, as a commit with two parents. Keys that\n"
           "both sides changed are merged by the store's rule for their prefix (perdure settings merge.rule.PREFIX\n"
           "RULE), else by --policy. RULE: fail, ours, theirs, json (objects field by field), counter (deltas add\n"
           "up), set (arrays: union with removals), max, min, append. What is left is a conflict: it is printed with\n"
           "base, ours and theirs, the exit code is 3, and nothing is changed until every conflict is settled.",
  .example = "$ perdure merge agent-1\n$ perdure merge agent-1 --policy json --dry-run\n"
             "$ perdure merge agent-1 --resolve plan=@theirs --resolve 'note=both were right'",
  .run = run_any,
};

const cli_command cmd_cherry_pick = {
  .spec = {"cherry-pick", one_options, 1, 1, false},
  .group = "branches",
  .summary = "Do again on the ref what one commit did",
  .usage = "X",
  .about = "Applies the change of one commit (against its first parent) to the ref, as a three-way merge. Conflicts\n"
           "are told and settled as by `merge`.",
  .example = "$ perdure cherry-pick experiment~2\n$ perdure cherry-pick 3f2a9c --ref main --policy json",
  .run = run_any,
};

const cli_command cmd_revert = {
  .spec = {"revert", one_options, 1, 1, false},
  .group = "branches",
  .summary = "Take back one commit, and keep what came after it",
  .usage = "X",
  .about = "Makes a commit that undoes what X did and nothing else. (`undo` goes back to before X instead.)\n"
           "Conflicts are told and settled as by `merge`.",
  .example = "$ perdure revert main~3 --reason 'the tool was lying'\n$ perdure revert 3f2a9c --dry-run",
  .run = run_any,
};
