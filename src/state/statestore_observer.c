/*
 * statestore_observer.c: observer:lastRun, and observer:clock beside it: {"boot":ID,"runs":{OBSERVER:[LAST,UPTIME]}}.
 *
 * An entry of the clock counts only while the machine is up since `boot`, and only for the very LAST that observer:lastRun has: another
 * program that writes observer:lastRun alone is believed, not contradicted.
 */
#include "state/statestore.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"

#define LAST_RUN "observer:lastRun"
#define CLOCK "observer:clock"

/* The two values as they are; finish with book_done. */
typedef struct book {
  pd_buf last_text, clock_text;
  pd_json last;  /* an object, or PD_JSON_NONE */
  pd_json clock; /* one for this boot, or PD_JSON_NONE */
} book;

static void book_done(book *b)
{
  pd_buf_done(&b->last_text);
  pd_buf_done(&b->clock_text);
}

static pd_code read_object(pd_statestore *s, const char *key, pd_buf *text, pd_json *out, pd_error *err)
{
  *out = (pd_json){.kind = PD_JSON_NONE};
  pd_error why;
  pd_code code = pd_statestore_get(s, pd_text(key), text, &why);
  if (code == PD_NOT_FOUND) return PD_OK;
  if (code) {
    if (err) *err = why;
    return code;
  }
  TRY(pd_json_parse(pd_buf_bytes(text), out, err));
  if (out->kind == PD_JSON_OBJECT) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "the value of key '%s' is no object, but %s", key, pd_json_kind_name(out->kind));
}

static pd_code read_book(pd_statestore *s, book *b, pd_error *err)
{
  TRY(read_object(s, LAST_RUN, &b->last_text, &b->last, err));
  pd_code code = read_object(s, CLOCK, &b->clock_text, &b->clock, err);
  if (code && code != PD_CORRUPT) return code;
  bool is_ours = !code && *s->boot_id && pd_json_is(pd_json_member(b->clock, "boot"), s->boot_id);
  if (!is_ours) b->clock = (pd_json){.kind = PD_JSON_NONE}; /* of another start of the machine: it tells nothing */
  return PD_OK;
}

/* `object` (or none) with the member `name` as `value`. */
static pd_code write_member(pd_json object, const char *name, const char *value, pd_buf *out, pd_error *err)
{
  return pd_json_change_members(object, &(pd_json_change){name, pd_text(value)}, 1, out, err);
}

static pd_code write_clock(pd_statestore *s, const book *b, const char *name, int64_t last_ms, int64_t up_ms, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf pair = {0}, runs = {0};
  TRY(pd_buf_printf(&pair, err, "[%lld,%lld]", (long long)last_ms, (long long)up_ms));
  TRY(pd_buf_byte(&pair, 0, err));
  TRY(write_member(pd_json_member(b->clock, "runs"), name, (const char *)pair.data, &runs, err));
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "boot", s->boot_id);
  pd_json_key(&w, "runs");
  pd_json_raw(&w, pd_buf_bytes(&runs));
  pd_json_close(&w, '}');
  return w.code;
}

/* Note that the observer ran at `last_ms` by the clock, when the machine had been up for `up_ms`. Both keys change at once. */
static pd_code write_run(pd_statestore *s, const book *b, const char *name, int64_t last_ms, int64_t up_ms, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf number = {0}, last = {0}, clock = {0};
  TRY(pd_buf_printf(&number, err, "%lld", (long long)last_ms));
  TRY(pd_buf_byte(&number, 0, err));
  TRY(write_member(b->last, name, (const char *)number.data, &last, err));
  TRY(write_clock(s, b, name, last_ms, up_ms, &clock, err));
  pd_statestore_change changes[] = {{pd_text(LAST_RUN), pd_buf_bytes(&last)}, {pd_text(CLOCK), pd_buf_bytes(&clock)}};
  return pd_statestore_apply(s, changes, *s->boot_id ? 2 : 1, err);
}

/* How long the machine had been up at the run, if the clock's entry counts. */
static bool find_uptime(const book *b, const char *name, int64_t last_ms, int64_t *out_up_ms)
{
  pd_json first = {.kind = PD_JSON_NONE}, second = {.kind = PD_JSON_NONE};
  int64_t noted_ms;
  pd_json pair = pd_json_member(pd_json_member(b->clock, "runs"), name);
  pd_json_walk walk = pd_json_walk_begin(pair);
  if (pair.kind != PD_JSON_ARRAY || !pd_json_walk_next(&walk, NULL, &first) || !pd_json_walk_next(&walk, NULL, &second)) return false;
  return pd_json_i64(first, &noted_ms) && noted_ms == last_ms && pd_json_i64(second, out_up_ms);
}

/* How long ago the observer ran, and what there is to note for the next look. */
static pd_code measure(pd_statestore *s, const book *b, const char *name, int64_t last_ms, int64_t *out_ms, pd_error *err)
{
  int64_t up_ms, run_up_ms, now_ms = s->now_ms(s->clock_ctx);
  up_ms = s->uptime_ms(s->clock_ctx);
  if (find_uptime(b, name, last_ms, &run_up_ms) && run_up_ms <= up_ms) {
    *out_ms = up_ms - run_up_ms;
    return PD_OK;
  }
  bool is_future = last_ms > now_ms || now_ms - last_ms < 0;
  *out_ms = is_future ? 0 : now_ms - last_ms;
  if (is_future) return write_run(s, b, name, now_ms, up_ms, err);
  return *s->boot_id ? write_run(s, b, name, last_ms, up_ms - *out_ms, err) : PD_OK; /* from here on the clock may jump */
}

static pd_code look(pd_statestore *s, const char *name, uint64_t interval_ms, bool *out_is_due, uint64_t *out_wait_ms, pd_error *err)
{
  CLEANUP(book_done) book b = {.last_text = {0}};
  int64_t last_ms, since_ms = 0;
  TRY(read_book(s, &b, err));
  pd_json last = pd_json_member(b.last, name);
  if (last.kind != PD_JSON_NONE && (!pd_json_i64(last, &last_ms) || last_ms < 0))
    return pd_error_set(err, PD_CORRUPT, "the last run of observer '%.200s' in key '%s' is no time", name, LAST_RUN);
  if (last.kind != PD_JSON_NONE) TRY(measure(s, &b, name, last_ms, &since_ms, err));
  *out_is_due = last.kind == PD_JSON_NONE || (uint64_t)since_ms >= interval_ms;
  if (out_wait_ms) *out_wait_ms = *out_is_due ? 0 : interval_ms - (uint64_t)since_ms;
  return PD_OK;
}

pd_code pd_observer_is_due(pd_statestore *s, const char *observer, uint64_t interval_ms, bool *out_is_due, uint64_t *out_wait_ms,
                           pd_error *err)
{
  TRY(pd_key_check(pd_text(observer), err));
  pthread_mutex_lock(&s->own_lock);
  pd_code code = look(s, observer, interval_ms, out_is_due, out_wait_ms, err);
  pthread_mutex_unlock(&s->own_lock);
  return code;
}

static pd_code note_run(pd_statestore *s, const char *name, pd_error *err)
{
  CLEANUP(book_done) book b = {.last_text = {0}};
  TRY(read_book(s, &b, err));
  return write_run(s, &b, name, s->now_ms(s->clock_ctx), s->uptime_ms(s->clock_ctx), err);
}

pd_code pd_observer_mark_run(pd_statestore *s, const char *observer, pd_error *err)
{
  TRY(pd_key_check(pd_text(observer), err));
  pthread_mutex_lock(&s->own_lock);
  pd_code code = note_run(s, observer, err);
  pthread_mutex_unlock(&s->own_lock);
  return code;
}
