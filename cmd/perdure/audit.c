/* audit.c: `audit`: who called what, and whether anybody changed what the audit says. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "operator.h"

#include <inttypes.h>

#define PAGE_MAX 1000 /* of one call */

typedef struct audit_query {
  const char *capability, *agent, *since, *calls; /* NULL: not given; capability: the one that is called */
  uint64_t count, before;
} audit_query;

static pd_code query_json(const audit_query *q, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  if (q->agent) pd_json_put_text(&w, "agent", q->agent);
  if (q->calls) pd_json_put_text(&w, "capability", q->calls);
  if (q->since) pd_json_put_text(&w, "since", q->since);
  if (q->before) pd_json_put_number(&w, "before", q->before);
  pd_json_put_number(&w, "limit", q->count < PAGE_MAX ? q->count : PAGE_MAX);
  pd_json_close(&w, '}');
  return w.code;
}

static void print_line(out_stream *o, pd_json line)
{
  out_set(o, OUT_DIM);
  operator_column(o, line, "time", 24);
  out_set(o, OUT_PLAIN);
  if (pd_json_member(line, "operator").kind == PD_JSON_NONE)
    operator_column(o, line, "agent", 14);
  else
    out_printf(o, "%-14s ", "operator");
  out_set(o, OUT_NAME);
  operator_column(o, line, "capability", 24);
  out_set(o, pd_json_is(pd_json_member(line, "outcome"), "ok") ? OUT_GOOD : OUT_BAD);
  operator_column(o, line, "outcome", 16);
  out_set(o, OUT_PLAIN);
  operator_text(o, line, "subject");
  uint64_t count = 0;
  if (pd_json_u64(pd_json_member(line, "count"), &count)) out_printf(o, "  (%" PRIu64 " times)", count);
  if (pd_json_member(line, "approval_id").kind == PD_JSON_STRING) {
    out_text(o, "  ");
    operator_text(o, line, "approval_id");
  }
  out_text(o, "\n");
}

/* One page; *q moves on. */
static pd_code print_page(cli_session *cli, audit_query *q, pd_json_writer *w, bool *out_has_more, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_json answer, line;
  TRY(query_json(q, &input, err));
  TRY(operator_call(cli, q->capability, pd_buf_bytes(&input), &out, &answer, err));
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(answer, "lines"));
  while (pd_json_walk_next(&walk, NULL, &line)) {
    if (cli->is_json)
      pd_json_value(w, line);
    else
      print_line(&cli->out, line);
    q->count--;
    if (!pd_json_u64(pd_json_member(line, "seq"), &q->before)) return pd_error_set(err, PD_CORRUPT, "a line of the audit has no number");
  }
  *out_has_more = pd_json_true(pd_json_member(answer, "has_more"));
  uint64_t next = 0; /* a server that is older has none; a page may have no lines, and still not be the last */
  if (*out_has_more && pd_json_u64(pd_json_member(answer, "next_before"), &next)) q->before = next;
  return PD_OK;
}

static pd_code run_list(cli_session *cli, audit_query *q, pd_error *err)
{
  pd_json_writer w = cli_json(cli, err);
  bool has_more = true;
  cli->out.wants_pager = cli->has_pager;
  if (cli->is_json) {
    pd_json_open(&w, '{');
    pd_json_key(&w, "lines");
    pd_json_open(&w, '[');
  }
  while (has_more && q->count && !out_is_closed(&cli->out)) TRY(print_page(cli, q, &w, &has_more, err));
  if (!cli->is_json) return PD_OK;
  pd_json_close(&w, ']');
  pd_json_put_bool(&w, "has_more", has_more);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static void print_findings(out_stream *o, pd_json answer)
{
  pd_json item;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(answer, "findings"));
  while (pd_json_walk_next(&walk, NULL, &item)) {
    CLEANUP(pd_buf_done) pd_buf text = {0};
    out_set(o, OUT_BAD);
    out_text(o, "changed: ");
    out_set(o, OUT_PLAIN);
    if (pd_json_decode(item, &text, NULL) == PD_OK) out_safe(o, pd_buf_bytes(&text));
    out_text(o, "\n");
  }
}

static pd_code run_verify(cli_session *cli, const char *anchor, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_json answer;
  pd_json_writer w = {.out = &input, .err = err};
  pd_json_open(&w, '{');
  if (anchor) pd_json_put_text(&w, "anchor", anchor);
  pd_json_close(&w, '}');
  TRY(w.code);
  TRY(operator_call(cli, "audit.verify", pd_buf_bytes(&input), &out, &answer, err));
  bool is_valid = pd_json_true(pd_json_member(answer, "valid"));
  cli->exit_code = is_valid ? CLI_EXIT_OK : CLI_EXIT_STORAGE;
  if (cli->is_json) return operator_print(cli, &out);
  out_stream *o = &cli->out;
  static const char *const rows[] = {"lines", "batches", "first", "last", "removed", "anchor"};
  print_findings(o, answer);
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    out_printf(o, "%-10s ", rows[i]);
    operator_text(o, answer, rows[i]);
    out_text(o, "\n");
  }
  out_set(o, is_valid ? OUT_GOOD : OUT_BAD);
  out_text(o, is_valid ? "ok" : "the audit is not as it was written");
  out_set(o, OUT_PLAIN);
  out_text(o, "\n");
  return PD_OK;
}

static pd_code run_audit(cli_session *cli, const args_parsed *args, pd_error *err)
{
  bool is_verify = args_get(args, "verify") != NULL, is_feed = args_get(args, "feed") != NULL;
  audit_query q = {
    .capability = is_feed ? "operator.feed" : "audit.list",
    .agent = args_get_global(args, "agent"),
    .since = args_get(args, "since"),
    .calls = args_get(args, "capability"),
    .count = 50,
  };
  TRY(args_number(args, "limit", 1, &q.count, err));
  if (is_verify && (is_feed || q.since || q.calls)) return pd_error_set(err, PD_INVALID, "audit: --verify looks at everything");
  if (is_feed && (q.agent || q.calls)) return pd_error_set(err, PD_INVALID, "audit: --feed goes with --since and -n only");
  if (!is_verify && args_get(args, "anchor")) return pd_error_set(err, PD_INVALID, "audit: --anchor goes with --verify");
  return is_verify ? run_verify(cli, args_get(args, "anchor"), err) : run_list(cli, &q, err);
}

static const args_option audit_options[] = {
  {"since", 0, "TIME", "only calls at or after it: 2026-11-15, 2026-11-15T10:20:30Z"},
  {"capability", 'c', "NAME", "only calls of it; * and ? are wildcards: 'state.shared.*'"},
  {"limit", 'n', "N", "so many lines at most (default 50)"},
  {"feed", 0, NULL, "only what notifies the operator, needed approval, or was the operator's"},
  {"verify", 0, NULL, "recompute the chain; exits 4 if anything was changed"},
  {"anchor", 0, "LINE:CHAIN", "with --verify: what an earlier one printed must still hold"},
  {0},
};

const cli_command cmd_audit = {
  .spec = {"audit", audit_options, 0, 0, false},
  .group = "operator",
  .summary = "Show who called what, and check that nobody changed it",
  .usage = "",
  .about = "Prints the calls of all agents (or of --agent), newest first: time, agent, capability, outcome and the key\n"
           "or id that it was about. Values are never in the audit. With --verify recomputes the hash chain over all\n"
           "lines and prints its newest anchor: keep it elsewhere, and give it with --anchor the next time.",
  .example = "$ perdure audit --agent researcher --since 2026-11-15 -n 20\n$ perdure audit -c 'state.backup.*' --json\n"
             "$ perdure audit --feed\n$ perdure audit --verify",
  .run = run_audit,
};
