/* state_model.c: see state_model.h. */
#include "state/state_model.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

const char *model_key_name(int key)
{
  static const char *const names[MODEL_KEYS] = {"a",   "a.1", "a.2", "a.3", "a.33",     "b.",
                                                "b.1", "b.2", "c/d", "z",   "\xc3\xa4", "\xe2\x82\xac uro"};
  return names[key];
}

const char *model_agent_name(int agent)
{
  static const char *const names[MODEL_AGENTS] = {"main", "ada", "bob", "Bob", "b.o-b_2"};
  return names[agent];
}

static bool is_session(const model *m, const model_tier *tier)
{
  return tier >= m->session && tier < m->session + MODEL_AGENTS;
}

static bool is_shared(const model *m, const model_tier *tier)
{
  return tier == &m->shared;
}

void model_tier_clear(model_tier *tier)
{
  for (int i = 0; i < MODEL_KEYS; i++) {
    free(tier->keys[i].versions);
    tier->keys[i] = (model_key){0};
  }
}

void model_done(model *m)
{
  for (int i = 0; i < MODEL_AGENTS; i++) {
    model_tier_clear(&m->session[i]);
    model_tier_clear(&m->persistent[i]);
  }
  model_tier_clear(&m->shared);
}

static const model_value *last_of(const model_key *key)
{
  static const model_value none;
  return key->count ? &key->versions[key->count - 1] : &none;
}

size_t model_bytes(const model_tier *tier, bool with_keys)
{
  size_t bytes = 0;
  for (int i = 0; i < MODEL_KEYS; i++)
    if (tier->keys[i].count) bytes += strlen(last_of(&tier->keys[i])->text) + (with_keys ? strlen(model_key_name(i)) : 0);
  return bytes;
}

static bool say(pd_buf *out, bool is_answer, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool say(pd_buf *out, bool is_answer, const char *fmt, ...)
{
  char *text = NULL;
  va_list args;
  va_start(args, fmt);
  assert_true(vasprintf(&text, fmt, args) >= 0);
  va_end(args);
  assert_int_equal(pd_buf_append(out, text, strlen(text), NULL), PD_OK);
  free(text);
  return is_answer;
}

static const char *time_or_null(int64_t time_ms, char *out)
{
  char text[PD_TIME_TEXT_SIZE];
  if (time_ms)
    sprintf(out, "\"%s\"", pd_time_text(time_ms, text));
  else
    strcpy(out, "null");
  return out;
}

/* ---- writing ---- */

static bool fits(const model *m, const model_tier *tier, int key, const char *value)
{
  bool with_keys = is_session(m, tier);
  size_t limit = with_keys ? m->session_quota : is_shared(m, tier) ? m->shared_quota : m->persistent_quota;
  size_t before = strlen(last_of(&tier->keys[key])->text), after = strlen(value);
  size_t total = model_bytes(tier, with_keys) - before + after;
  if (with_keys && !tier->keys[key].count) total += strlen(model_key_name(key));
  return total <= limit || (!with_keys && after <= before);
}

size_t model_version(const model_key *key)
{
  return key->count ? key->base + key->count : 0;
}

static void push(model *m, const model_tier *tier, model_key *key, int agent, const char *value)
{
  if (!key->count) key->base = tier->floor;
  if (!key->versions) key->versions = calloc(MODEL_VERSIONS, sizeof *key->versions);
  assert_non_null(key->versions);
  assert_true(key->count < MODEL_VERSIONS);
  model_value *v = &key->versions[key->count++];
  snprintf(v->text, sizeof v->text, "%s", value);
  v->time_ms = m->now_ms;
  v->owner = agent;
}

bool model_set(model *m, model_tier *tier, int agent, int key, const char *value, int64_t expect, pd_buf *out)
{
  model_key *k = &tier->keys[key];
  if (is_shared(m, tier) && expect != (int64_t)model_version(k)) return say(out, false, "VersionConflict");
  if (!fits(m, tier, key, value)) return say(out, false, "QuotaExceeded");
  if (is_session(m, tier)) {
    const char *before = k->count ? last_of(k)->text : "null";
    say(out, true, "{\"previous_value\":%s,\"overwritten\":%s}", before, k->count ? "true" : "false");
    k->count = 0; /* it keeps one */
    push(m, tier, k, agent, value);
    return true;
  }
  size_t before = model_version(k);
  push(m, tier, k, agent, value);
  if (is_shared(m, tier)) return say(out, true, "{\"version\":%zu}", model_version(k));
  return say(out, true, "{\"version\":%zu,\"previous_version\":%zu}", model_version(k), before);
}

bool model_delete(model *m, model_tier *tier, int key, pd_buf *out)
{
  model_key *k = &tier->keys[key];
  const char *is_there = k->count ? "true" : "false";
  if (is_session(m, tier))
    say(out, true, "{\"previous_value\":%s,\"deleted\":%s}", k->count ? last_of(k)->text : "null", is_there);
  else
    say(out, true, "{\"deleted\":%s}", is_there);
  if (!is_session(m, tier) && model_version(k) > tier->floor) tier->floor = model_version(k);
  k->count = 0;
  return true;
}

bool model_clear(model *m, model_tier *tier, pd_buf *out)
{
  (void)m;
  int count = 0;
  for (int i = 0; i < MODEL_KEYS; i++) {
    count += tier->keys[i].count > 0;
    tier->keys[i].count = 0;
  }
  return say(out, true, "{\"removed_count\":%d}", count);
}

/* ---- reading ---- */

static size_t oldest_of(const model *m, const model_key *k)
{
  return !m->window || k->count <= m->window ? 1 : k->count - m->window + 1;
}

bool model_get(model *m, const model_tier *tier, int key, int64_t version, pd_buf *out)
{
  const model_key *k = &tier->keys[key];
  char created[64], updated[64];
  size_t number = version ? (size_t)version - k->base : k->count; /* counted from its first; wraps if it is before that */
  if (version && (!k->count || number > k->count || number < oldest_of(m, k))) return say(out, false, "KeyNotFound");
  if (is_session(m, tier))
    return say(out, true, "{\"value\":%s,\"found\":%s}", k->count ? last_of(k)->text : "null", k->count ? "true" : "false");
  static const model_value none = {.text = "null"};
  const model_value *v = number ? &k->versions[number - 1] : &none;
  say(out, true, "{\"value\":%s,\"version\":%zu,\"found\":%s,\"updated_at\":%s,", v->text, number ? k->base + number : 0,
      number ? "true" : "false", time_or_null(v->time_ms, updated));
  if (!is_shared(m, tier)) return say(out, true, "\"created_at\":%s}", time_or_null(number ? k->versions[0].time_ms : 0, created));
  if (!number) return say(out, true, "\"owner_agent\":null}");
  return say(out, true, "\"owner_agent\":\"%s\"}", model_agent_name(v->owner));
}

static void list_one(const model *m, const model_tier *tier, int key, bool has_values, pd_buf *out)
{
  const model_key *k = &tier->keys[key];
  const model_value *v = last_of(k);
  char created[64], updated[64];
  if (is_session(m, tier)) {
    say(out, true, "\"%s\"", model_key_name(key));
    return;
  }
  say(out, true, "{\"key\":\"%s\",\"version\":%zu,\"updated_at\":%s,", model_key_name(key), model_version(k),
      time_or_null(v->time_ms, updated));
  if (has_values)
    say(out, true, "\"value\":%s,\"created_at\":%s}", v->text, time_or_null(k->versions[0].time_ms, created));
  else if (is_shared(m, tier))
    say(out, true, "\"size_bytes\":%zu,\"owner_agent\":\"%s\"}", strlen(v->text), model_agent_name(v->owner));
  else
    say(out, true, "\"size_bytes\":%zu}", strlen(v->text));
}

bool model_list(model *m, const model_tier *tier, const char *prefix, bool has_values, pd_buf *out)
{
  size_t count = 0, bytes = 0;
  say(out, true, "{\"%s\":[", is_session(m, tier) ? "keys" : "entries");
  for (int i = 0; i < MODEL_KEYS; i++) {
    if (!tier->keys[i].count || strncmp(model_key_name(i), prefix, strlen(prefix)) != 0) continue;
    if (count++) say(out, true, ",");
    list_one(m, tier, i, has_values, out);
    bytes += strlen(last_of(&tier->keys[i])->text);
  }
  if (is_session(m, tier) || has_values) return say(out, true, "],\"count\":%zu}", count);
  return say(out, true, "],\"count\":%zu,\"total_size_bytes\":%zu}", count, bytes);
}

bool model_history(model *m, const model_tier *tier, int key, uint64_t limit, pd_buf *out)
{
  const model_key *k = &tier->keys[key];
  char created[64], updated[64];
  size_t count = 0;
  if (!k->count) return say(out, false, "KeyNotFound");
  say(out, true, "{\"versions\":[");
  for (size_t n = k->count; n >= oldest_of(m, k) && !(limit && count == limit); n--, count++)
    say(out, true, "%s{\"value\":%s,\"version\":%zu,\"created_at\":%s,\"updated_at\":%s}", count ? "," : "", k->versions[n - 1].text,
        k->base + n, time_or_null(k->versions[0].time_ms, created), time_or_null(k->versions[n - 1].time_ms, updated));
  return say(out, true, "],\"count\":%zu}", count);
}
