/*
 * subagents.c: fork five sub-agents from one state, let them work, merge them all back.
 * Build: cc subagents.c $(pkg-config --cflags --libs perdure) -o subagents
 *
 * Each agent works on a ref of its own: a fork costs one record. The rules say how what they did becomes one: spending adds up, the list of
 * open questions is a set, findings are appended, the plan is merged field by field. What no rule settles comes back as data.
 */
#include <perdure/perdure.h>
#include <stdio.h>
#include <stdlib.h>

#define AGENT_COUNT 5

static pd_error err;

static void must(pd_code code, const char *what)
{
  if (code == PD_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, pd_code_name(err.code), err.message);
  exit(4);
}

static void put(pd_store *s, const char *ref, const char *key, const char *value)
{
  pd_note note = {.ref = ref};
  must(pd_put(s, pd_text(key), pd_text(value), &note, NULL, &err), key);
}

static void show(pd_store *s, const char *key)
{
  pd_buf value = {0};
  must(pd_get(s, "main", pd_text(key), &value, NULL, &err), key);
  printf("%-9s %.*s\n", key, (int)value.size, (const char *)value.data);
  pd_buf_done(&value);
}

/* The state that all of them start from, and how to bring them together again. */
static void prepare(pd_store *s)
{
  must(pd_setting_set(s, "merge.rule.spent", pd_text("counter"), NULL, &err), "rule");
  must(pd_setting_set(s, "merge.rule.questions", pd_text("set"), NULL, &err), "rule");
  must(pd_setting_set(s, "merge.rule.findings", pd_text("append"), NULL, &err), "rule");
  must(pd_setting_set(s, "merge.rule.plan", pd_text("json"), NULL, &err), "rule");
  put(s, NULL, "spent", "100");
  put(s, NULL, "questions", "[\"q1\",\"q2\",\"q3\",\"q4\",\"q5\"]");
  put(s, NULL, "findings", "[]");
  put(s, NULL, "plan", "{\"goal\":\"report\",\"steps\":{}}");
  put(s, NULL, "title", "Draft");
}

/* What one sub-agent does; in real life, a process of its own with the same store open. */
static void work(pd_store *s, int agent, const char *ref)
{
  char text[128], open[128] = "[";
  put(s, ref, "spent", "107"); /* all five read 100 and spent 7: the very same change, five times */
  for (int q = 1; q <= AGENT_COUNT; q++)
    if (q != agent) snprintf(text, sizeof text, "%.100s%s\"q%d\"", open, open[1] ? "," : "", q), strcpy(open, text);
  snprintf(text, sizeof text, "%.120s]", open);
  put(s, ref, "questions", text); /* its own question is answered */
  snprintf(text, sizeof text, "[\"agent %d: answered q%d\"]", agent, agent);
  put(s, ref, "findings", text);
  snprintf(text, sizeof text, "{\"goal\":\"report\",\"steps\":{\"q%d\":\"done\"}}", agent);
  put(s, ref, "plan", text);
  if (agent <= 2) put(s, ref, "title", agent == 1 ? "The Report" : "Final Report");
}

/* Two agents chose a title: a conflict. Somebody who can judge decides, here: the longer one. */
static void settle(pd_store *s, const char *ref, const pd_merge_result *conflicts)
{
  const pd_conflict *c = &conflicts->conflicts[0];
  printf("conflict  %.*s: '%.*s' or '%.*s'\n", (int)c->key.size, (const char *)c->key.data, (int)c->ours.size, (const char *)c->ours.data,
         (int)c->theirs.size, (const char *)c->theirs.data);
  pd_resolution resolution = {.key = c->key, .take = c->ours.size > c->theirs.size ? PD_TAKE_OURS : PD_TAKE_THEIRS};
  pd_merge_options options = {.resolutions = &resolution, .resolution_count = 1};
  must(pd_merge(s, ref, &options, NULL, NULL, &err), "merge with a resolution");
}

int main(int argc, char **argv)
{
  pd_store *s = NULL;
  char refs[AGENT_COUNT][16];
  must(pd_store_open(argc > 1 ? argv[1] : "sqlite:./.perdure", "main", NULL, &s, &err), "open");
  prepare(s);
  for (int i = 0; i < AGENT_COUNT; i++) {
    snprintf(refs[i], sizeof refs[i], "agent-%d", i + 1);
    must(pd_fork(s, refs[i], "main", NULL, NULL, &err), "fork");
  }
  for (int i = 0; i < AGENT_COUNT; i++) work(s, i + 1, refs[i]);
  for (int i = 0; i < AGENT_COUNT; i++) {
    pd_merge_result result;
    pd_code code = pd_merge(s, refs[i], NULL, NULL, &result, &err);
    if (code == PD_CONFLICT && result.conflict_count)
      settle(s, refs[i], &result);
    else
      must(code, "merge");
    pd_merge_result_done(&result);
  }
  show(s, "spent");
  show(s, "questions");
  show(s, "findings");
  show(s, "plan");
  show(s, "title");
  must(pd_store_close(s, &err), "close");
  return 0;
}
