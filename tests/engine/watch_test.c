/* watch_test.c: src/engine/watch.c: every event once, in order, over restarts and processes; asleep when nothing happens. */
#include "base/buf.h"
#include "engine/store.h"
#include "support/temp_folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static pd_store *open_uri(const char *uri, const pd_options *options)
{
  pd_store *s = NULL;
  pd_error err = {0};
  if (pd_store_open(uri, "main", options, &s, &err)) fail_msg("open: %s", err.message);
  return s;
}

static pd_watch *watch_from(pd_store *s, pd_watch_cursor from, const char *prefix, const char *ref)
{
  pd_watch *w = NULL;
  pd_error err = {0};
  pd_watch_options options = {.from = from, .prefix = pd_text(prefix), .ref = ref};
  if (pd_watch_open(s, &options, &w, &err)) fail_msg("watch: %s", err.message);
  return w;
}

static void put(pd_store *s, const char *key, const char *value)
{
  pd_error err = {0};
  if (pd_put(s, pd_text(key), pd_text(value), NULL, NULL, &err)) fail_msg("put: %s", err.message);
}

/* "put main plan 1" and the like. */
static char *line_of(const pd_watch_event *e, char out[200])
{
  if (e->kind == PD_WATCH_GAP)
    snprintf(out, 200, "gap %llu-%llu", (unsigned long long)e->seq, (unsigned long long)e->last_seq);
  else if (e->kind == PD_WATCH_MOVE)
    snprintf(out, 200, "move %s %s", e->ref, pd_record_kind_name(e->record_kind));
  else
    snprintf(out, 200, "%s %s %.*s %llu", pd_watch_kind_name(e->kind), e->ref, (int)e->key.size, (const char *)e->key.data,
             (unsigned long long)e->version);
  return out;
}

static void expect_event(pd_watch *w, const char *line, pd_watch_event *out)
{
  pd_watch_event e;
  pd_error err = {0};
  char text[200];
  pd_code code = pd_watch_next(w, 20000, &e, &err);
  if (code) fail_msg("no '%s': %s %s", line, pd_code_name(code), err.message);
  assert_string_equal(line_of(&e, text), line);
  if (out) *out = e;
}

static void expect_nothing(pd_watch *w)
{
  pd_watch_event e = {.seq = 99};
  pd_error err = {.code = PD_OK};
  assert_int_equal(pd_watch_next(w, 0, &e, &err), PD_NOT_FOUND);
  assert_int_equal(e.seq, 99);
  assert_int_equal(err.code, PD_OK);
}

static const pd_watch_cursor now, beginning = {1, 0};

/* ---- what is told ------------------------------------------------------------------------------------------------- */

static void watch__an_event_says_who_what_when_and_why(void **state)
{
  (void)state;
  pd_store *s = open_uri("memory:", NULL);
  pd_watch *w = watch_from(s, now, "", NULL);
  pd_watch_event e;
  pd_ack ack, gone;
  pd_id id = pd_value_id(pd_text("{\"step\":1}")), none = {{0}};
  const pd_note note = {.author = "alice", .run = "run-7", .reason = "because"};
  assert_int_equal(pd_put(s, pd_text("plan"), pd_text("{\"step\":1}"), &note, &ack, NULL), PD_OK);
  assert_int_equal(pd_delete(s, pd_text("plan"), PD_ANY_VERSION, NULL, &gone, NULL), PD_OK);
  expect_event(w, "put main plan 1", &e);
  assert_int_equal(e.seq, ack.seq);
  assert_int_equal(e.last_seq, ack.seq);
  assert_true(pd_id_equal(&e.commit.id, &ack.commit) && pd_id_equal(&e.commit.tree, &ack.tree) && e.commit.seq == ack.seq);
  assert_true(pd_id_equal(&e.value_id, &id) && e.size == 10 && !e.is_erased);
  assert_string_equal(e.author, "alice");
  assert_string_equal(e.run, "run-7");
  assert_string_equal(e.reason, "because");
  assert_true(e.time_ms > 1600000000000);
  assert_int_equal(e.record_kind, PD_RECORD_COMMIT);
  expect_event(w, "delete main plan 1", &e);
  assert_true(e.seq == gone.seq && pd_id_equal(&e.value_id, &none));
  assert_string_equal(e.author, "main");
  assert_string_equal(e.reason, "");
  expect_nothing(w);
  pd_watch_close(w);
  pd_watch_close(NULL);
  pd_store_close(s, NULL);
}

static void put_batch(pd_store *s, const char *keys)
{
  pd_edit *edit = NULL;
  assert_int_equal(pd_edit_begin(s, NULL, &edit, NULL), PD_OK);
  for (const char *k = keys; *k; k++) assert_int_equal(pd_edit_put(edit, (pd_bytes){k, 1}, pd_text("v"), PD_ANY_VERSION, NULL), PD_OK);
  assert_int_equal(pd_edit_commit(edit, NULL, NULL), PD_OK);
}

static void watch__only_the_prefix_and_the_ref_asked_for(void **state)
{
  (void)state;
  pd_store *s = open_uri("memory:", NULL);
  pd_watch *all = watch_from(s, now, "", NULL), *plans = watch_from(s, now, "plan/", NULL), *side = watch_from(s, now, "", "side");
  put(s, "plan/a", "1");
  put(s, "plan", "1");
  assert_int_equal(pd_fork(s, "side", NULL, NULL, NULL, NULL), PD_OK);
  const pd_note on_side = {.ref = "side"};
  assert_int_equal(pd_put(s, pd_text("plan/b"), pd_text("2"), &on_side, NULL, NULL), PD_OK);
  assert_int_equal(pd_meta_put(s, "tag", "plan/x", pd_text("hidden"), PD_ANY_VERSION, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_store_keyframe(s, NULL), PD_OK);
  put(s, "plan/c", "3");
  static const char *const lines[] = {"put main plan/a 1", "put main plan 1", "move side fork", "put side plan/b 2", "put main plan/c 3"};
  for (size_t i = 0; i < 5; i++) expect_event(all, lines[i], NULL);
  for (size_t i = 0; i < 5; i++)
    if (i != 1) expect_event(plans, lines[i], NULL);
  for (size_t i = 2; i < 4; i++) expect_event(side, lines[i], NULL);
  expect_nothing(all), expect_nothing(plans), expect_nothing(side);
  pd_watch_close(all), pd_watch_close(plans), pd_watch_close(side);
  pd_store_close(s, NULL);
}

static void watch__moves_say_from_where_to_where(void **state)
{
  (void)state;
  pd_store *s = open_uri("memory:", NULL);
  pd_watch_event e;
  pd_ack first, second;
  pd_id none = {{0}};
  assert_int_equal(pd_put(s, pd_text("k"), pd_text("1"), NULL, &first, NULL), PD_OK);
  assert_int_equal(pd_put(s, pd_text("k"), pd_text("2"), NULL, &second, NULL), PD_OK);
  pd_watch *w = watch_from(s, now, "z", NULL); /* moves are told whatever the prefix */
  assert_int_equal(pd_undo(s, 1, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_redo(s, 1, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_fork(s, "b", "root", NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_switch(s, "b", NULL, NULL), PD_OK);
  assert_int_equal(pd_reset(s, "b", "main", NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_switch(s, "main", NULL, NULL), PD_OK);
  assert_int_equal(pd_ref_delete(s, "b", NULL, NULL), PD_OK);
  expect_event(w, "move main undo", &e);
  assert_true(pd_id_equal(&e.before, &second.commit) && pd_id_equal(&e.commit.id, &first.commit));
  expect_event(w, "move main redo", &e);
  assert_true(pd_id_equal(&e.before, &first.commit) && pd_id_equal(&e.commit.id, &second.commit));
  expect_event(w, "move b fork", &e);
  assert_true(pd_id_equal(&e.before, &none) && !pd_id_equal(&e.commit.id, &none));
  pd_id root = e.commit.id;
  expect_event(w, "move b switch", &e);
  assert_true(pd_id_equal(&e.before, &root) && pd_id_equal(&e.commit.id, &root));
  expect_event(w, "move b reset", &e);
  assert_true(pd_id_equal(&e.before, &root) && pd_id_equal(&e.commit.id, &second.commit)); /* past the switch */
  expect_event(w, "move main switch", &e);
  assert_true(pd_id_equal(&e.before, &second.commit) && pd_id_equal(&e.commit.id, &second.commit));
  expect_event(w, "move b delete", &e);
  assert_true(pd_id_equal(&e.before, &second.commit) && pd_id_equal(&e.commit.id, &none));
  expect_nothing(w);
  pd_watch_close(w);
  pd_store_close(s, NULL);
}

/* ---- cursors ------------------------------------------------------------------------------------------------------ */

/* A store with single puts, batches, moves, hidden records and keyframes. */
static void fill(pd_store *s)
{
  for (int i = 0; i < 10; i++) {
    char key[16];
    snprintf(key, sizeof key, "p/%d", i % 4);
    put(s, key, "x");
    put_batch(s, "abcdefg");
    if (i == 3) assert_int_equal(pd_undo(s, 2, NULL, NULL, NULL), PD_OK);
    if (i == 5) assert_int_equal(pd_store_keyframe(s, NULL), PD_OK);
    if (i == 6) assert_int_equal(pd_meta_put(s, "tag", "t", pd_text("v"), PD_ANY_VERSION, NULL, NULL, NULL), PD_OK);
    if (i == 7) assert_int_equal(pd_fork(s, "side", NULL, NULL, NULL, NULL), PD_OK);
  }
}

#define STORY_MAX 200

typedef struct story {
  char lines[STORY_MAX][200];
  pd_watch_cursor nexts[STORY_MAX];
  size_t count;
} story;

static void read_story(pd_watch *w, story *out)
{
  pd_watch_event e;
  for (out->count = 0; pd_watch_next(w, 0, &e, NULL) == PD_OK; out->count++) {
    assert_true(out->count < STORY_MAX);
    line_of(&e, out->lines[out->count]);
    out->nexts[out->count] = e.next;
  }
}

static void expect_resumes_everywhere(pd_store *s, const char *prefix)
{
  static story whole, rest;
  pd_watch *w = watch_from(s, beginning, prefix, NULL);
  read_story(w, &whole);
  pd_watch_cursor where = pd_watch_where(w);
  assert_true(where.seq == s->log_seq + 1 && !where.index);
  pd_watch_close(w);
  for (size_t i = 0; i < whole.count; i++) {
    char text[PD_WATCH_CURSOR_SIZE];
    pd_watch_cursor again;
    assert_true(pd_watch_cursor_parse(pd_watch_cursor_text(&whole.nexts[i], text), &again));
    w = watch_from(s, again, prefix, NULL);
    read_story(w, &rest);
    pd_watch_close(w);
    assert_int_equal(rest.count, whole.count - i - 1);
    for (size_t k = 0; k < rest.count; k++) assert_string_equal(rest.lines[k], whole.lines[i + 1 + k]);
  }
}

static void watch__after_each_event_another_watch_can_go_on(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  pd_store *s = open_uri(uri, NULL);
  fill(s);
  static story whole;
  pd_watch *w = watch_from(s, beginning, "", NULL);
  read_story(w, &whole);
  pd_watch_close(w);
  assert_int_equal(whole.count, 10 * 8 + 3); /* main was made, an undo, a fork; neither the tag nor the keyframe */
  expect_resumes_everywhere(s, "");
  pd_store_close(s, NULL);
  s = open_uri(uri, NULL); /* as after a restart */
  expect_resumes_everywhere(s, "c");
  expect_resumes_everywhere(s, "p/");
  pd_store_close(s, NULL);
  temp_folder_free(folder);
  free(uri);
}

static void watch__a_cursor_past_the_end_is_refused(void **state)
{
  (void)state;
  pd_store *s = open_uri("memory:", NULL);
  pd_error err = {0};
  put(s, "k", "1");
  uint64_t tail = s->log_seq;
  const pd_watch_cursor bad[] = {{tail + 2, 0}, {tail + 1, 1}, {UINT64_MAX, UINT64_MAX}};
  for (size_t i = 0; i < 3; i++) {
    pd_watch *w = NULL;
    pd_watch_options options = {.from = bad[i]};
    assert_int_equal(pd_watch_open(s, &options, &w, &err), PD_INVALID);
    assert_non_null(strstr(err.message, "ends at record"));
    assert_null(w);
  }
  pd_watch *w = watch_from(s, (pd_watch_cursor){tail + 1, 0}, "", NULL);
  put(s, "k", "2");
  expect_event(w, "put main k 2", NULL);
  pd_watch_close(w);
  w = watch_from(s, (pd_watch_cursor){tail, 1000}, "", NULL); /* past the changes of a record: the next one */
  expect_event(w, "put main k 2", NULL);
  pd_watch_close(w);
  pd_store_close(s, NULL);
}

static void watch__bad_options_are_named(void **state)
{
  (void)state;
  pd_store *s = open_uri("memory:", NULL);
  static char longer[PD_KEY_SIZE_MAX + 2];
  pd_watch *w = NULL;
  pd_error err = {0};
  memset(longer, 'x', PD_KEY_SIZE_MAX + 1);
  pd_watch_options bad = {.prefix = pd_text(longer)};
  assert_int_equal(pd_watch_open(s, &bad, &w, &err), PD_LIMIT);
  bad = (pd_watch_options){.ref = PD_META_REF};
  assert_int_equal(pd_watch_open(s, &bad, &w, &err), PD_INVALID);
  bad.ref = "no ref at all";
  assert_int_equal(pd_watch_open(s, &bad, &w, &err), PD_INVALID);
  assert_null(w);
  pd_store_close(s, NULL);
}

static void watch__a_cursor_is_read_as_it_is_written_and_no_other_way(void **state)
{
  (void)state;
  static const char *const bad[] = {"",
                                    ".",
                                    "1.",
                                    ".1",
                                    "1.0",
                                    "01",
                                    "1.01",
                                    "-1",
                                    "+1",
                                    " 1",
                                    "1 ",
                                    "1.2.3",
                                    "1,2",
                                    "x",
                                    "1x",
                                    "1.x",
                                    "0.1",
                                    "1e3",
                                    "00",
                                    "18446744073709551616",
                                    "1.-2",
                                    "1..2",
                                    "1.18446744073709551616",
                                    "99999999999999999999999999",
                                    "#1"};
  static const char *const good[] = {"0", "1", "17", "17.3", "18446744073709551615", "18446744073709551615.18446744073709551615"};
  pd_watch_cursor cursor = {5, 5};
  char text[PD_WATCH_CURSOR_SIZE];
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    if (pd_watch_cursor_parse(bad[i], &cursor)) fail_msg("'%s' was accepted", bad[i]);
    assert_true(cursor.seq == 5 && cursor.index == 5);
  }
  assert_false(pd_watch_cursor_parse(NULL, &cursor));
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    if (!pd_watch_cursor_parse(good[i], &cursor)) fail_msg("'%s' was refused", good[i]);
    assert_string_equal(pd_watch_cursor_text(&cursor, text), good[i]);
  }
}

/* ---- gaps --------------------------------------------------------------------------------------------------------- */

static void retire(pd_store *s, uint64_t from, uint64_t to)
{
  for (uint64_t seq = from; seq <= to; seq++) assert_int_equal(s->ops->log_redact(s->backend, seq, &(pd_bytes){0}, 1, NULL), PD_OK);
}

static void watch__retired_records_are_a_gap(void **state)
{
  (void)state;
  pd_store *s = open_uri("memory:", NULL);
  pd_watch_event e;
  for (int i = 0; i < 8; i++) put(s, "k", i % 2 ? "x" : "y");
  uint64_t first = s->log_seq - 7;
  retire(s, first + 1, first + 3);
  retire(s, first + 5, first + 5);
  pd_watch *w = watch_from(s, (pd_watch_cursor){first, 0}, "", NULL);
  char line[64];
  expect_event(w, "put main k 1", NULL);
  snprintf(line, sizeof line, "gap %llu-%llu", (unsigned long long)first + 1, (unsigned long long)first + 3);
  expect_event(w, line, &e);
  assert_true(e.next.seq == first + 4 && !e.next.index);
  expect_event(w, "put main k 5", NULL);
  snprintf(line, sizeof line, "gap %llu-%llu", (unsigned long long)first + 5, (unsigned long long)first + 5);
  expect_event(w, line, NULL);
  expect_event(w, "put main k 7", NULL);
  expect_event(w, "put main k 8", NULL);
  expect_nothing(w);
  pd_watch_close(w);
  w = watch_from(s, (pd_watch_cursor){first + 2, 1}, "", NULL); /* from the middle of one that is gone now */
  snprintf(line, sizeof line, "gap %llu-%llu", (unsigned long long)first + 2, (unsigned long long)first + 3);
  expect_event(w, line, NULL);
  pd_watch_close(w);
  pd_store_close(s, NULL);
}

static pd_redaction drop_or_erase(void *ctx, const pd_rec *rec, const pd_rec_change *change)
{
  (void)rec;
  char key = *(const char *)change->key.data;
  return strchr(ctx, key) ? PD_REDACT_DROP : key == 'e' ? PD_REDACT_ERASE : PD_REDACT_KEEP;
}

/* Redact the last record as retention and erasure do. */
static void redact_last(pd_store *s, const char *dropped)
{
  pd_taken taken = {0};
  pd_rec rec;
  pd_buf out = {0};
  bool is_changed = false;
  assert_int_equal(pd_take_records(s, s->log_seq, s->log_seq, &taken, NULL), PD_OK);
  assert_int_equal(pd_rec_decode(s->log_seq, pd_taken_at(&taken, 0), &rec, NULL), PD_OK);
  assert_int_equal(pd_rec_redact(&rec, drop_or_erase, (void *)dropped, true, &out, &is_changed, NULL), PD_OK);
  assert_true(is_changed);
  pd_bytes record = pd_buf_bytes(&out);
  assert_int_equal(s->ops->log_redact(s->backend, s->log_seq, &record, 1, NULL), PD_OK);
  pd_buf_done(&out);
  pd_taken_done(&taken);
}

static void watch__a_record_that_lost_changes_tells_what_is_left_and_a_gap(void **state)
{
  (void)state;
  pd_store *s = open_uri("memory:", NULL);
  pd_watch_event e;
  char gap[64];
  put_batch(s, "abcdef");
  redact_last(s, "bf");
  uint64_t seq = s->log_seq;
  snprintf(gap, sizeof gap, "gap %llu-%llu", (unsigned long long)seq, (unsigned long long)seq);
  put(s, "z", "1");
  pd_watch *w = watch_from(s, (pd_watch_cursor){seq, 0}, "", NULL);
  expect_event(w, "put main a 1", NULL);
  expect_event(w, "put main c 1", NULL);
  expect_event(w, "put main d 1", NULL);
  expect_event(w, "put main e 1", &e);
  pd_id id = pd_value_id(pd_text("v"));
  assert_true(e.is_erased && pd_id_equal(&e.value_id, &id)); /* the id is known, the bytes are not */
  expect_event(w, gap, NULL);
  expect_event(w, "put main z 1", NULL);
  pd_watch_close(w);
  w = watch_from(s, (pd_watch_cursor){seq, 3}, "", NULL); /* three were told before: which three, nobody can say now */
  expect_event(w, gap, NULL);
  expect_event(w, "put main z 1", NULL);
  pd_watch_close(w);
  pd_store_close(s, NULL);
}

static void watch__a_record_that_lost_values_only_goes_on_where_it_was(void **state)
{
  (void)state;
  pd_store *s = open_uri("memory:", NULL);
  put_batch(s, "abef");
  pd_watch *w = watch_from(s, (pd_watch_cursor){s->log_seq, 0}, "", NULL);
  expect_event(w, "put main a 1", NULL);
  pd_watch_cursor where = pd_watch_where(w);
  pd_watch_close(w);
  redact_last(s, "");
  w = watch_from(s, where, "", NULL);
  expect_event(w, "put main b 1", NULL);
  expect_event(w, "put main e 1", NULL);
  expect_event(w, "put main f 1", NULL);
  expect_nothing(w);
  pd_watch_close(w);
  pd_store_close(s, NULL);
}

/* ---- waiting ------------------------------------------------------------------------------------------------------ */

static void watch__a_buffered_store_tells_only_what_is_in_the_log(void **state)
{
  (void)state;
  pd_options options = {.flush_ms = 3600000};
  pd_store *s = open_uri("memory:", &options);
  pd_watch *w = watch_from(s, now, "", NULL);
  put(s, "k", "1");
  expect_nothing(w);
  assert_int_equal(pd_store_flush(s, NULL), PD_OK);
  expect_event(w, "put main k 1", NULL);
  pd_watch_close(w);
  pd_store_close(s, NULL);
}

typedef struct listener {
  pd_store *s;
  pthread_t thread;
  unsigned turns; /* events to wait for */
  pd_code code;
  bool is_stale; /* an event was told before its value could be read */
} listener;

static void *listen_on(void *arg)
{
  listener *l = arg;
  pd_watch *w = NULL;
  pd_buf value = {0};
  l->code = pd_watch_open(l->s, NULL, &w, NULL);
  __atomic_add_fetch((unsigned *)l->s->now_ctx, 1, __ATOMIC_RELEASE);
  for (unsigned i = 0; i < l->turns && l->code == PD_OK; i++) {
    pd_watch_event e;
    l->code = pd_watch_next(w, 60000, &e, NULL);
    pd_entry entry;
    if (l->code == PD_OK && pd_get(l->s, NULL, e.key, &value, &entry, NULL) != PD_OK) l->is_stale = true;
    if (l->code == PD_OK && entry.version < e.version) l->is_stale = true;
  }
  pd_buf_done(&value);
  pd_watch_close(w);
  return NULL;
}

static int64_t system_now(void *ctx)
{
  struct timespec t;
  (void)ctx;
  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t cpu_us(void)
{
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec + u.ru_stime.tv_usec;
}

#define CPU_US_MAX 20000 /* a hundredth of 2 seconds */

static void idle_and_wake(const char *uri, unsigned count, unsigned turns)
{
  unsigned ready = 0;
  pd_options options = {.now_ms = system_now, .now_ctx = &ready};
  pd_store *s = open_uri(uri, &options);
  listener *listeners = calloc(count, sizeof *listeners);
  for (unsigned i = 0; i < count; i++) {
    listeners[i] = (listener){.s = s, .turns = turns};
    assert_int_equal(pthread_create(&listeners[i].thread, NULL, listen_on, &listeners[i]), 0);
  }
  while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) < count) usleep(1000);
  int64_t used = CPU_US_MAX;
  for (int i = 0; i < 8 && used >= CPU_US_MAX; i++) { /* they are about to sleep: on a busy machine it may take them some time */
    int64_t before = cpu_us();
    usleep(2000000); /* nothing happens: that is what is measured */
    used = cpu_us() - before;
  }
  if (used >= CPU_US_MAX) fail_msg("%u idle watchers used %lld us of 2 s", count, (long long)used);
  for (unsigned i = 0; i < turns; i++) put(s, "k", "v");
  for (unsigned i = 0; i < count; i++) {
    pthread_join(listeners[i].thread, NULL);
    assert_int_equal(listeners[i].code, PD_OK);
    assert_false(listeners[i].is_stale);
  }
  free(listeners);
  pd_store_close(s, NULL);
}

static void watch__a_hundred_idle_watchers_use_less_than_a_hundredth_of_a_processor(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  idle_and_wake(uri, 100, 3);
  idle_and_wake("memory:", 100, 3);
  temp_folder_free(folder);
  free(uri);
}

static void watch__who_hears_of_a_change_can_read_it(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  idle_and_wake(uri, 8, 60);
  temp_folder_free(folder);
  free(uri);
}

static void nothing_happens(int signal_number)
{
  (void)signal_number;
}

static void watch__a_signal_ends_the_wait(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  pd_store *s = open_uri(uri, NULL);
  pd_watch *w = watch_from(s, now, "", NULL);
  pd_watch_event e;
  const struct sigaction action = {.sa_handler = nothing_happens};
  sigaction(SIGALRM, &action, NULL);
  struct itimerval each_second = {.it_value.tv_sec = 1, .it_interval.tv_sec = 1}; /* the first may come before the wait has begun */
  setitimer(ITIMER_REAL, &each_second, NULL);
  time_t start = time(NULL);
  assert_int_equal(pd_watch_next(w, 50000, &e, NULL), PD_NOT_FOUND);
  assert_true(time(NULL) - start < 30);
  setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
  pd_watch_close(w);
  pd_store_close(s, NULL);
  temp_folder_free(folder);
  free(uri);
}

/* ---- processes and restarts --------------------------------------------------------------------------------------- */

#define NOTE_COUNT 150

typedef struct told {
  pd_watch_cursor next;
  uint64_t seq;
  char key[16];
} told;

/* Follows the store and tells each event through the pipe, until it is killed. */
static int follow_and_tell(const char *uri, pd_watch_cursor from, int fd)
{
  pd_store *s = NULL;
  pd_watch *w = NULL;
  pd_watch_options options = {.from = from, .prefix = pd_text("n")};
  if (pd_store_open(uri, "main", NULL, &s, NULL) || pd_watch_open(s, &options, &w, NULL)) return 1;
  for (;;) {
    pd_watch_event e;
    pd_code code = pd_watch_next(w, PD_WATCH_FOREVER, &e, NULL);
    if (code == PD_NOT_FOUND) continue;
    if (code != PD_OK) return 2;
    if (e.kind == PD_WATCH_MOVE) continue; /* main was made */
    told t = {.next = e.next, .seq = e.seq};
    memcpy(t.key, e.key.data, e.key.size);
    if (write(fd, &t, sizeof t) != (ssize_t)sizeof t) return 3;
  }
}

static int write_notes(const char *uri)
{
  pd_store *s = NULL;
  if (pd_store_open(uri, "main", NULL, &s, NULL)) return 1;
  for (int i = 0; i < NOTE_COUNT;) {
    pd_edit *edit = NULL;
    if (pd_edit_begin(s, NULL, &edit, NULL)) return 2;
    for (int k = 0; k < 1 + i % 3 && i < NOTE_COUNT; k++, i++) { /* one to three a commit, and one of no interest */
      char key[16];
      snprintf(key, sizeof key, "n%03d", i);
      if (pd_edit_put(edit, pd_text(key), pd_text("v"), PD_ANY_VERSION, NULL)) return 3;
    }
    if (pd_edit_put(edit, pd_text("other"), pd_text("v"), PD_ANY_VERSION, NULL) || pd_edit_commit(edit, NULL, NULL)) return 4;
  }
  return pd_store_close(s, NULL) ? 5 : 0;
}

/* Read what one follower tells, at most `most` events, then kill it. What is left in the pipe was told, too. */
static void hear_one(const char *uri, pd_watch_cursor *from, int *next, int most)
{
  int ends[2], heard = 0;
  told t;
  assert_int_equal(pipe(ends), 0);
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) _exit(follow_and_tell(uri, *from, ends[1]));
  close(ends[1]);
  while (read(ends[0], &t, sizeof t) == (ssize_t)sizeof t) {
    char key[16];
    snprintf(key, sizeof key, "n%03d", (*next)++);
    assert_string_equal(t.key, key);
    *from = t.next;
    if (++heard == most || *next == NOTE_COUNT) kill(pid, SIGKILL);
  }
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void watch__none_is_lost_or_doubled_over_kills_and_processes(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  pd_store_close(open_uri(uri, NULL), NULL);
  fflush(NULL);
  pid_t writer = fork();
  if (writer == 0) _exit(write_notes(uri));
  pd_watch_cursor from = beginning;
  int next = 0, status = 1;
  for (int round = 1; next < NOTE_COUNT; round++) hear_one(uri, &from, &next, round * 3 % 23 + 1);
  waitpid(writer, &status, 0);
  assert_int_equal(status, 0);
  temp_folder_free(folder);
  free(uri);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(watch__an_event_says_who_what_when_and_why),
    cmocka_unit_test(watch__only_the_prefix_and_the_ref_asked_for),
    cmocka_unit_test(watch__moves_say_from_where_to_where),
    cmocka_unit_test(watch__after_each_event_another_watch_can_go_on),
    cmocka_unit_test(watch__a_cursor_past_the_end_is_refused),
    cmocka_unit_test(watch__bad_options_are_named),
    cmocka_unit_test(watch__a_cursor_is_read_as_it_is_written_and_no_other_way),
    cmocka_unit_test(watch__retired_records_are_a_gap),
    cmocka_unit_test(watch__a_record_that_lost_changes_tells_what_is_left_and_a_gap),
    cmocka_unit_test(watch__a_record_that_lost_values_only_goes_on_where_it_was),
    cmocka_unit_test(watch__a_buffered_store_tells_only_what_is_in_the_log),
    cmocka_unit_test(watch__a_hundred_idle_watchers_use_less_than_a_hundredth_of_a_processor),
    cmocka_unit_test(watch__who_hears_of_a_change_can_read_it),
    cmocka_unit_test(watch__a_signal_ends_the_wait),
    cmocka_unit_test(watch__none_is_lost_or_doubled_over_kills_and_processes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
