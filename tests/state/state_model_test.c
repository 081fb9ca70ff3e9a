/*
 * state_model_test.c: 50,000 random calls by five agents, each answer compared with that of a naive model (state_model.h): quotas,
 * versions, retention, history, totals, sessions that end, a home that is closed and opened again. Small quotas, so that they are hit.
 * PERDURE_SEED replays, PERDURE_OPS sets the number.
 */
#include "state/state_model.h"
#include "state/world.h"

#include "base/buf.h"
#include "base/json_merge.h"
#include "state/home.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define OPS 50000
#define RESTART_EVERY 2500

enum { SESSION, PERSISTENT, SHARED };

typedef struct play {
  world w;
  model m;
  unsigned seed;
  int step, agent;
  size_t restarts;
  char sessions[MODEL_AGENTS][PD_SESSION_ID_SIZE];
  pd_buf expected, canonical_a, canonical_b;
  size_t refused, conflicts, missing;
} play;

static unsigned pick(play *p, unsigned count)
{
  return (unsigned)rand_r(&p->seed) % count;
}

/* ---- the home ---- */

static void configure(play *p)
{
  pd_config *c = &p->w.home->config;
  c->session_quota_bytes = p->m.session_quota;
  c->persistent_quota_bytes = p->m.persistent_quota;
  c->shared_quota_bytes = p->m.shared_quota;
  c->persistent_versions = p->m.window;
  c->flush_ms = 50;
}

static void begin_sessions(play *p)
{
  for (int i = 0; i < MODEL_AGENTS; i++) {
    model_tier_clear(&p->m.session[i]);
    assert_int_equal(pd_session_begin(p->w.home, model_agent_name(i), p->sessions[i], &p->w.err), PD_OK);
  }
}

static void restart(play *p)
{
  /* What is configured shows, also for what was written before. The window only shrinks: what gc took does not come back. */
  p->restarts++;
  p->m.window = p->restarts < 5 ? 0 : p->restarts < 24 ? 24 - p->restarts : 1;
  world_restart(&p->w);
  configure(p);
  begin_sessions(p);
}

static void end_session(play *p)
{
  char *id = p->sessions[p->agent];
  assert_int_equal(pd_session_end(p->w.home, model_agent_name(p->agent), id, &p->w.err), PD_OK);
  strcpy(p->w.session, id);
  world_fails(&p->w, "state.session.list", "{}", "SessionNotFound", "reconnect");
  model_tier_clear(&p->m.session[p->agent]);
  assert_int_equal(pd_session_begin(p->w.home, model_agent_name(p->agent), id, &p->w.err), PD_OK);
}

/* ---- comparing ---- */

static void canonical(pd_bytes text, pd_buf *out)
{
  pd_json json;
  pd_buf_clear(out);
  if (pd_json_parse(text, &json, NULL)) fail_msg("no JSON: %.*s", (int)text.size, (const char *)text.data);
  assert_int_equal(pd_json_canonical(json, out, NULL), PD_OK);
}

static void compare(play *p, const char *capability, const char *input, pd_code code, bool is_answer)
{
  pd_bytes wanted = pd_buf_bytes(&p->expected);
  bool is_same = (code == PD_OK) == is_answer;
  if (is_same && !is_answer) {
    const char *name = pd_error_name(&p->w.err);
    is_same = strlen(name) == wanted.size && memcmp(name, wanted.data, wanted.size) == 0;
    p->refused += !strcmp(name, "QuotaExceeded");
    p->conflicts += !strcmp(name, "VersionConflict");
    p->missing += !strcmp(name, "KeyNotFound");
  } else if (is_same) {
    canonical(pd_buf_bytes(&p->w.out), &p->canonical_a);
    canonical(wanted, &p->canonical_b);
    is_same = pd_bytes_equal(pd_buf_bytes(&p->canonical_a), pd_buf_bytes(&p->canonical_b));
  }
  if (is_same) return;
  fail_msg("step %d, agent %s: %s %s\n  answered %.*s\n  and not  %.*s", p->step, p->w.agent, capability, input, (int)p->w.out.size,
           (const char *)p->w.out.data, (int)wanted.size, (const char *)wanted.data);
}

static void call(play *p, int tier, const char *verb, const char *input, bool is_answer)
{
  static const char *const names[] = {"session", "persistent", "shared"};
  char capability[64];
  snprintf(capability, sizeof capability, "state.%s.%s", names[tier], verb);
  compare(p, capability, input, world_call(&p->w, capability, input), is_answer);
}

/* ---- the calls ---- */

static void random_value(play *p, char *out)
{
  size_t size = pick(p, 8) ? pick(p, 12) : pick(p, MODEL_VALUE_SIZE - 8);
  switch (pick(p, 4)) {
  case 0: sprintf(out, "%u", pick(p, 1000000)); return;
  case 1: sprintf(out, "[%u,{\"x\":null}]", pick(p, 100)); return;
  default:
    out[0] = '"';
    for (size_t i = 0; i < size; i++) out[i + 1] = (char)('a' + pick(p, 26));
    strcpy(out + size + 1, "\"");
  }
}

static model_tier *tier_of(play *p, int tier)
{
  return tier == SHARED ? &p->m.shared : tier == SESSION ? &p->m.session[p->agent] : &p->m.persistent[p->agent];
}

static void play_set(play *p, int tier, int key)
{
  model_tier *t = tier_of(p, tier);
  char value[MODEL_VALUE_SIZE], input[256];
  random_value(p, value);
  int64_t expect = (int64_t)model_version(&t->keys[key]);
  if (!pick(p, 6)) expect = pick(p, 8);
  int size = snprintf(input, sizeof input, "{\"key\":\"%s\",\"value\": %s", model_key_name(key), value);
  if (tier == SHARED) size += snprintf(input + size, sizeof input - (size_t)size, ",\"expected_version\":%lld", (long long)expect);
  strcpy(input + size, "}");
  bool is_answer = model_set(&p->m, t, p->agent, key, value, expect, &p->expected);
  call(p, tier, "set", input, is_answer);
}

static void play_get(play *p, int tier, int key)
{
  char input[128];
  int64_t version = tier == PERSISTENT && pick(p, 2) ? 1 + pick(p, (unsigned)model_version(&tier_of(p, tier)->keys[key]) + 2) : 0;
  int size = snprintf(input, sizeof input, "{\"key\":\"%s\"", model_key_name(key));
  if (version) size += snprintf(input + size, sizeof input - (size_t)size, ",\"version\":%lld", (long long)version);
  strcpy(input + size, "}");
  call(p, tier, "get", input, model_get(&p->m, tier_of(p, tier), key, version, &p->expected));
}

static void play_delete(play *p, int tier, int key)
{
  char input[128];
  snprintf(input, sizeof input, "{\"key\":\"%s\"}", model_key_name(key));
  call(p, tier, "delete", input, model_delete(&p->m, tier_of(p, tier), key, &p->expected));
}

static void play_list(play *p, int tier, bool has_values)
{
  static const char *const prefixes[] = {"", "a", "a.", "a.3", "b.", "zz"};
  const char *prefix = prefixes[pick(p, sizeof prefixes / sizeof *prefixes)];
  char input[64] = "{}";
  if (*prefix || has_values || pick(p, 2)) snprintf(input, sizeof input, "{\"prefix\":\"%s\"}", prefix);
  call(p, tier, has_values ? "query" : "list", input, model_list(&p->m, tier_of(p, tier), prefix, has_values, &p->expected));
}

static void play_history(play *p, int key)
{
  char input[128];
  unsigned limit = pick(p, 2) ? 1 + pick(p, 12) : 0;
  int size = snprintf(input, sizeof input, "{\"key\":\"%s\"", model_key_name(key));
  if (limit) size += snprintf(input + size, sizeof input - (size_t)size, ",\"limit\":%u", limit);
  strcpy(input + size, "}");
  call(p, PERSISTENT, "history", input, model_history(&p->m, tier_of(p, PERSISTENT), key, limit, &p->expected));
}

static void play_one(play *p)
{
  static const int tiers[] = {SESSION, SESSION, SHARED, SHARED, SHARED, PERSISTENT, PERSISTENT, PERSISTENT, PERSISTENT, PERSISTENT};
  int key = (int)pick(p, MODEL_KEYS), tier = tiers[pick(p, 10)];
  unsigned what = pick(p, 100);
  pd_buf_clear(&p->expected);
  if (what < 50)
    play_set(p, tier, key);
  else if (what < 75)
    play_get(p, tier, key);
  else if (what < 80)
    play_delete(p, tier, key);
  else if (what < 87)
    play_list(p, tier, false);
  else if (what < 90 && tier == PERSISTENT)
    play_list(p, tier, true);
  else if (tier == PERSISTENT)
    play_history(p, key);
  else if (tier == SESSION && what < 92)
    call(p, SESSION, "clear", "{}", model_clear(&p->m, tier_of(p, SESSION), &p->expected));
  else if (tier == SESSION && what == 92)
    end_session(p);
}

static void play_all(play *p, int ops)
{
  for (p->step = 0; p->step < ops; p->step++) {
    if (p->step && p->step % RESTART_EVERY == 0) restart(p);
    p->agent = (int)pick(p, MODEL_AGENTS);
    p->w.agent = model_agent_name(p->agent);
    strcpy(p->w.session, p->sessions[p->agent]);
    p->w.now_ms += pick(p, 30);
    p->m.now_ms = p->w.now_ms;
    play_one(p);
  }
}

static void state__answers_as_the_model_does_over_50000_calls(void **state)
{
  (void)state;
  const char *seed = getenv("PERDURE_SEED"), *ops = getenv("PERDURE_OPS");
  play *p = calloc(1, sizeof *p);
  assert_non_null(p);
  p->seed = seed ? (unsigned)strtoul(seed, NULL, 10) : (unsigned)getpid();
  print_message("# PERDURE_SEED=%u\n", p->seed);
  p->m.session_quota = 150;
  p->m.persistent_quota = 130;
  p->m.shared_quota = 140;
  p->m.window = 0;
  world_open(&p->w, NULL);
  configure(p);
  begin_sessions(p);
  play_all(p, ops ? atoi(ops) : OPS);
  print_message("# %zu quotas, %zu conflicts, %zu missing\n", p->refused, p->conflicts, p->missing);
  if (!ops) assert_true(p->refused > 500 && p->conflicts > 200 && p->missing > 200);
  model_done(&p->m);
  world_close(&p->w);
  pd_buf_done(&p->expected);
  pd_buf_done(&p->canonical_a);
  pd_buf_done(&p->canonical_b);
  free(p);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(state__answers_as_the_model_does_over_50000_calls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
