/* store_test.c: src/engine through perdure.h: what the model test does not reach: threads, durability modes, large values, time,
 * small caches, many keyframes, verification of a part. */
#include <perdure/backend.h>
#include <perdure/perdure.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];
static char uri[128];
static int64_t fake_ms;

static int64_t fake_now(void *ctx)
{
  (void)ctx;
  return fake_ms;
}

static int make_folder(void **state)
{
  (void)state;
  strcpy(folder, "/tmp/perdure-store-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(uri, sizeof uri, "sqlite:%s/home", folder);
  return 0;
}

static int remove_folder(void **state)
{
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

static pd_store *open_store(const pd_options *options)
{
  pd_store *s = NULL;
  pd_error err = {0};
  if (pd_store_open(uri, "main", options, &s, &err)) fail_msg("open: %s", err.message);
  return s;
}

static void put(pd_store *s, const char *key, const char *value)
{
  pd_error err = {0};
  if (pd_put(s, pd_text(key), pd_text(value), NULL, NULL, &err)) fail_msg("put %s: %s", key, err.message);
}

static void expect_at(pd_store *s, const char *at, const char *key, const char *value)
{
  pd_buf got = {0};
  pd_error err = {0};
  pd_code code = pd_get(s, at, pd_text(key), &got, NULL, &err);
  if (!value) {
    assert_int_equal(code, PD_NOT_FOUND);
  } else {
    if (code) fail_msg("get %s at %s: %s", key, at ? at : "head", err.message);
    assert_int_equal(got.size, strlen(value));
    assert_memory_equal(got.data, value, got.size);
  }
  pd_buf_done(&got);
}

static void expect_sound(pd_store *s)
{
  pd_error err = {0};
  if (pd_verify(s, NULL, NULL, &err)) fail_msg("verify: %s", err.message);
}

/* ---- threads ---- */

#define THREADS 16
#define PUTS 50

typedef struct writer {
  pd_store *s;
  int number;
} writer;

static void *write_many(void *ctx)
{
  writer *w = ctx;
  for (int i = 0; i < PUTS; i++) {
    char key[32];
    pd_ack ack;
    pd_buf value = {0};
    snprintf(key, sizeof key, "t%d/%d", w->number, i);
    if (pd_put(w->s, pd_text(key), pd_text(key), NULL, &ack, NULL) || ack.durability != PD_SYNCED) return "put";
    if (pd_get(w->s, NULL, pd_text(key), &value, NULL, NULL) || value.size != strlen(key)) return "get"; /* its own write, at once */
    pd_buf_done(&value);
    if (i % 10 == 0 && pd_fork(w->s, key, NULL, NULL, NULL, NULL)) return "fork";
  }
  return NULL;
}

static void threads__share_syncs_and_lose_nothing(void **state)
{
  (void)state;
  pd_store *s = open_store(NULL);
  pthread_t threads[THREADS];
  writer writers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    writers[i] = (writer){s, i};
    assert_int_equal(pthread_create(&threads[i], NULL, write_many, &writers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    if (failed) fail_msg("a thread failed to %s", (char *)failed);
  }
  pd_stats stats;
  assert_int_equal(pd_store_stats(s, &stats, NULL), PD_OK);
  assert_int_equal(stats.keys, THREADS * PUTS);
  assert_int_equal(stats.commits, THREADS * PUTS);
  assert_true(stats.syncs < stats.commits); /* some were grouped */
  expect_sound(s);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

static void *increment_many(void *ctx)
{
  pd_store *s = ctx;
  for (int done = 0; done < PUTS;) {
    pd_buf value = {0};
    pd_entry entry = {0};
    pd_code code = pd_get(s, NULL, pd_text("counter"), &value, &entry, NULL);
    long n = code ? 0 : strtol((char *)value.data, NULL, 10);
    char text[32];
    snprintf(text, sizeof text, "%ld ", n + 1); /* the space ends the number in the buffer */
    pd_buf_done(&value);
    code = pd_put_if(s, pd_text("counter"), pd_text(text), entry.version, NULL, NULL, NULL);
    if (code && code != PD_CONFLICT) return "put";
    done += !code;
  }
  return NULL;
}

static void threads__compare_and_swap_counts_every_increment(void **state)
{
  (void)state;
  pd_store *a = open_store(NULL), *b = open_store(NULL); /* two handles behave as two processes do */
  pthread_t threads[8];
  for (int i = 0; i < 8; i++) assert_int_equal(pthread_create(&threads[i], NULL, increment_many, i % 2 ? a : b), 0);
  for (int i = 0; i < 8; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    assert_null(failed);
  }
  expect_at(a, NULL, "counter", "400 ");
  expect_at(b, NULL, "counter", "400 ");
  assert_int_equal(pd_store_close(a, NULL), PD_OK);
  assert_int_equal(pd_store_close(b, NULL), PD_OK);
}

/* ---- durability ---- */

static void buffered__is_seen_at_once_and_by_others_after_a_flush(void **state)
{
  (void)state;
  pd_options lazy = {.flush_ms = 60000};
  pd_store *s = open_store(&lazy);
  pd_ack ack;
  assert_int_equal(pd_put(s, pd_text("a"), pd_text("1"), NULL, &ack, NULL), PD_OK);
  assert_int_equal(ack.durability, PD_BUFFERED);
  expect_at(s, NULL, "a", "1");
  pd_store *other = open_store(NULL);
  expect_at(other, NULL, "a", NULL);
  assert_int_equal(pd_store_flush(s, NULL), PD_OK);
  expect_at(other, NULL, "a", "1");
  assert_int_equal(pd_put(s, pd_text("b"), pd_text("2"), NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_store_close(s, NULL), PD_OK); /* flushes */
  expect_at(other, NULL, "b", "2");
  expect_sound(other);
  assert_int_equal(pd_store_close(other, NULL), PD_OK);
}

static void buffered__flushes_by_itself_in_time(void **state)
{
  (void)state;
  pd_options quick = {.flush_ms = 20};
  pd_store *s = open_store(&quick), *other = open_store(NULL);
  put(s, "a", "1");
  bool has = false;
  for (int i = 0; i < 6000 && !has; i++) { /* waits for the thing, bounded */
    assert_int_equal(pd_has(other, NULL, pd_text("a"), &has, NULL), PD_OK);
    if (!has) usleep(10000);
  }
  assert_true(has);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
  assert_int_equal(pd_store_close(other, NULL), PD_OK);
}

/* Once a row of several megabytes made the next read from the log begin anew for ever. */
static void buffered__large_batches_are_followed_by_others(void **state)
{
  (void)state;
  pd_options lazy = {.flush_ms = 60000};
  pd_store *s = open_store(&lazy), *other = open_store(NULL);
  char *value = malloc(12001);
  memset(value, 'v', 12000);
  value[12000] = 0;
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 500; i++) {
      char key[32];
      snprintf(key, sizeof key, "%d/%d", round, i);
      put(s, key, value);
    }
    assert_int_equal(pd_store_flush(s, NULL), PD_OK);
    expect_at(other, NULL, "0/17", value);
  }
  put(other, "mine", "1");
  expect_at(s, NULL, "mine", "1");
  free(value);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
  assert_int_equal(pd_store_close(other, NULL), PD_OK);
}

/* ---- values ---- */

static void values__of_every_size_come_back(void **state)
{
  (void)state;
  static const size_t sizes[] = {0, 1, 16383, 16384, 16385, 65536, 65537, 1000000, 5000000};
  pd_store *s = open_store(NULL);
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      char key[32];
      uint8_t *bytes = malloc(sizes[i] + 1);
      for (size_t k = 0; k < sizes[i]; k++) bytes[k] = (uint8_t)(k * 31 + i);
      snprintf(key, sizeof key, "v%zu", i);
      pd_bytes value = {bytes, sizes[i]};
      pd_buf got = {0};
      pd_entry entry;
      if (!round) assert_int_equal(pd_put(s, pd_text(key), value, NULL, NULL, NULL), PD_OK);
      assert_int_equal(pd_get(s, NULL, pd_text(key), &got, &entry, NULL), PD_OK);
      pd_id id = pd_value_id(value);
      assert_true(pd_id_equal(&id, &entry.value_id));
      assert_int_equal(got.size, sizes[i]);
      if (sizes[i]) assert_memory_equal(got.data, bytes, sizes[i]);
      pd_buf_done(&got);
      free(bytes);
    }
    assert_int_equal(pd_store_close(s, NULL), PD_OK);
    s = open_store(NULL); /* the second round reads from the disk */
  }
  expect_sound(s);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

static void values__over_the_limit_are_refused(void **state)
{
  (void)state;
  pd_options small = {.value_size_max = 10};
  pd_store *s = open_store(&small);
  pd_error err;
  assert_int_equal(pd_put(s, pd_text("k"), pd_text("01234567890"), NULL, NULL, &err), PD_LIMIT);
  assert_non_null(strstr(err.message, "'k'"));
  put(s, "k", "0123456789");
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
  pd_options wrong = {.value_size_max = (size_t)1 << 40};
  assert_int_equal(pd_store_open(uri, "main", &wrong, &s, &err), PD_INVALID);
}

/* ---- time ---- */

static void time__the_past_is_read_by_clock(void **state)
{
  (void)state;
  pd_options clock = {.now_ms = fake_now};
  fake_ms = 1000;
  pd_store *s = open_store(&clock);
  for (int i = 1; i <= 5; i++) {
    char value[8];
    fake_ms = 10000 * i;
    snprintf(value, sizeof value, "%d", i);
    put(s, "k", value);
  }
  fake_ms = 60000;
  assert_int_equal(pd_undo(s, 2, NULL, NULL, NULL), PD_OK);
  expect_at(s, "@10000", "k", "1");
  expect_at(s, "@29999", "k", "2");
  expect_at(s, "main@30000", "k", "3");
  expect_at(s, "@59999", "k", "5");
  expect_at(s, "@60000", "k", "3"); /* the ref was moved back then */
  expect_at(s, "@1970-01-01T00:00:20Z", "k", "2");
  expect_at(s, "@30000~2", "k", "1");
  pd_commit commit;
  assert_int_equal(pd_resolve(s, "@999", &commit, NULL), PD_NOT_FOUND);
  assert_int_equal(pd_resolve(s, "@yesterday", &commit, NULL), PD_INVALID);
  fake_ms = 5; /* a clock that jumps back does not take the log with it */
  put(s, "late", "1");
  expect_sound(s);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

#define HOUR_MS ((int64_t)3600 * 1000)
#define YEAR_MS (365 * 24 * HOUR_MS)
#define T0 ((int64_t)1800000000000)

static void expect_at_ms(pd_store *s, int64_t ms, const char *key, const char *value)
{
  char at[40];
  snprintf(at, sizeof at, "main@%lld", (long long)ms);
  expect_at(s, at, key, value);
}

static void check_after_jump(pd_store *s)
{
  expect_at_ms(s, T0 + HOUR_MS / 2, "k", "old");
  expect_at_ms(s, T0 + 3 * HOUR_MS, "k", "new");
  expect_at_ms(s, T0 + 5 * HOUR_MS, "k", "new2");
  expect_at_ms(s, T0 + 2 * YEAR_MS, "k", "new2");
  expect_at_ms(s, T0 + HOUR_MS, "jumped", NULL);
  expect_at_ms(s, T0 + 3 * HOUR_MS, "jumped", "1"); /* it was made before what is dated then */
  expect_sound(s);
}

static void time__a_clock_a_year_ahead_for_one_put_hides_nothing_that_comes_after(void **state)
{
  (void)state;
  pd_options clock = {.now_ms = fake_now};
  pd_store *s = NULL;
  fake_ms = T0;
  assert_int_equal(pd_store_open(uri, "ahead", &clock, &s, NULL), PD_OK);
  put(s, "k", "old");
  fake_ms = T0 + YEAR_MS;
  put(s, "jumped", "1");
  fake_ms = T0 + 2 * HOUR_MS;
  put(s, "k", "new");
  fake_ms = T0 + 4 * HOUR_MS;
  put(s, "k", "new2");
  check_after_jump(s);
  assert_int_equal(pd_store_keyframe(s, NULL), PD_OK);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
  assert_int_equal(pd_store_open(uri, "ahead", &clock, &s, NULL), PD_OK);
  check_after_jump(s);
  put(s, "more", "1");
  expect_at_ms(s, T0 + 4 * HOUR_MS, "more", "1");
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

/* Most of the log is dated wrongly, so a search that does not know where the times go back ends up there. */
static void time__where_a_clock_was_put_right_is_known_to_other_handles_and_after_a_keyframe(void **state)
{
  (void)state;
  pd_options clock = {.now_ms = fake_now};
  pd_store *s = NULL, *other = NULL;
  char value[8];
  fake_ms = T0;
  assert_int_equal(pd_store_open(uri, "ahead4", &clock, &s, NULL), PD_OK);
  put(s, "k", "old");
  assert_int_equal(pd_store_open(uri, "ahead4", &clock, &other, NULL), PD_OK);
  fake_ms = T0 + YEAR_MS;
  for (int i = 40; i > 0; i--) {
    snprintf(value, sizeof value, "%d", i);
    put(s, "jumped", value);
  }
  fake_ms = T0 + 2 * HOUR_MS;
  put(s, "k", "new");
  fake_ms = T0 + 4 * HOUR_MS;
  put(s, "k", "new2");
  check_after_jump(other);
  assert_int_equal(pd_store_close(other, NULL), PD_OK);
  assert_int_equal(pd_store_keyframe(s, NULL), PD_OK);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
  assert_int_equal(pd_store_open(uri, "ahead4", &clock, &s, NULL), PD_OK);
  check_after_jump(s);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

static void time__a_clock_that_is_put_right_after_a_keyframe_is_believed(void **state)
{
  (void)state;
  pd_options clock = {.now_ms = fake_now};
  pd_store *s = NULL;
  fake_ms = T0;
  assert_int_equal(pd_store_open(uri, "ahead2", &clock, &s, NULL), PD_OK);
  put(s, "k", "old");
  fake_ms = T0 + YEAR_MS;
  put(s, "jumped", "1");
  assert_int_equal(pd_store_keyframe(s, NULL), PD_OK);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
  fake_ms = T0 + 2 * HOUR_MS;
  assert_int_equal(pd_store_open(uri, "ahead2", &clock, &s, NULL), PD_OK);
  put(s, "k", "new");
  fake_ms = T0 + 4 * HOUR_MS;
  put(s, "k", "new2");
  check_after_jump(s);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

static void expect_updated_before_created(pd_store *s, const char *key)
{
  pd_entry entry;
  pd_error err = {0};
  if (pd_get(s, "main", pd_text(key), NULL, &entry, &err)) fail_msg("%s: %s", key, err.message);
  assert_true(entry.updated_ms < entry.created_ms);
}

/* Opened again, what the keyframe saved is read. */
static void check_saved(pd_store *s, const char *agent, const char *key, const char *value)
{
  pd_error err = {0};
  assert_int_equal(pd_store_keyframe(s, NULL), PD_OK);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
  assert_int_equal(pd_store_open(uri, agent, NULL, &s, NULL), PD_OK);
  expect_updated_before_created(s, key);
  expect_at(s, "main", key, value);
  expect_sound(s);
  if (pd_gc(s, NULL, NULL, &err)) fail_msg("gc: %s", err.message);
  expect_at(s, "main", key, value);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

static void time__a_key_that_was_made_while_the_clock_was_ahead_can_be_updated_and_read(void **state)
{
  (void)state;
  pd_options clock = {.now_ms = fake_now};
  pd_store *s = NULL;
  fake_ms = T0;
  assert_int_equal(pd_store_open(uri, "ahead3", &clock, &s, NULL), PD_OK);
  put(s, "k", "old");
  fake_ms = T0 + YEAR_MS;
  put(s, "jumped", "1");
  fake_ms = T0 + 2 * HOUR_MS;
  put(s, "jumped", "2");
  check_saved(s, "ahead3", "jumped", "2");
}

static void time__a_key_that_came_from_a_clock_ahead_of_this_one_can_be_updated_and_read(void **state)
{
  (void)state;
  pd_options clock = {.now_ms = fake_now};
  pd_store *there = NULL, *here = NULL;
  fake_ms = T0 + HOUR_MS;
  assert_int_equal(pd_store_open(uri, "clock-there", &clock, &there, NULL), PD_OK);
  put(there, "k", "1");
  fake_ms = T0;
  assert_int_equal(pd_store_open(uri, "clock-here", &clock, &here, NULL), PD_OK);
  assert_int_equal(pd_transfer(there, here, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_store_close(there, NULL), PD_OK);
  put(here, "k", "2");
  check_saved(here, "clock-here", "k", "2");
}

static void time__a_clock_that_is_behind_all_of_the_log_does_not_take_it_back(void **state)
{
  (void)state;
  pd_options clock = {.now_ms = fake_now};
  pd_store *s = NULL;
  fake_ms = T0;
  assert_int_equal(pd_store_open(uri, "behind", &clock, &s, NULL), PD_OK);
  put(s, "k", "1");
  fake_ms = T0 + 40 * HOUR_MS; /* nobody wrote for a while */
  put(s, "k", "2");
  fake_ms = 5;
  put(s, "k", "3");
  fake_ms = T0 + 41 * HOUR_MS;
  put(s, "k", "4");
  expect_at_ms(s, T0 + 39 * HOUR_MS, "k", "1");
  expect_at_ms(s, T0 + 40 * HOUR_MS, "k", "3");
  expect_at_ms(s, T0 + 41 * HOUR_MS, "k", "4");
  expect_sound(s);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

/* ---- caches and keyframes ---- */

#define MANY 20000

static void fill(pd_store *s, int from, int to, const char *mark)
{
  for (int i = from; i < to;) {
    pd_edit *edit;
    assert_int_equal(pd_edit_begin(s, NULL, &edit, NULL), PD_OK);
    for (int n = 0; n < 500 && i < to; n++, i++) {
      char key[32], value[160];
      snprintf(key, sizeof key, "key-%05d", i * 7919 % MANY);
      snprintf(value, sizeof value, "%s-%s-%0100d", key, mark, i);
      assert_int_equal(pd_edit_put(edit, pd_text(key), pd_text(value), PD_ANY_VERSION, NULL), PD_OK);
    }
    assert_int_equal(pd_edit_commit(edit, NULL, NULL), PD_OK);
  }
}

static void check_all(pd_store *s, const char *at, const char *mark)
{
  pd_iter *iter;
  pd_entry entry;
  pd_bytes value;
  size_t count = 0;
  assert_int_equal(pd_iter_open(s, at, NULL, &iter, NULL), PD_OK);
  while (pd_iter_next(iter, &entry, &value, NULL) == PD_OK) {
    assert_memory_equal(value.data, entry.key.data, entry.key.size);
    assert_memory_equal((const char *)value.data + entry.key.size + 1, mark, strlen(mark));
    count++;
  }
  pd_iter_close(iter);
  assert_int_equal(count, MANY);
}

static void cache__smaller_than_the_store_still_gives_every_value(void **state)
{
  (void)state;
  pd_options small = {.cache_size_max = 1 << 20};
  pd_store *s = open_store(&small);
  fill(s, 0, MANY, "first");
  assert_int_equal(pd_fork(s, "old", NULL, NULL, NULL, NULL), PD_OK);
  fill(s, 0, MANY, "second");
  check_all(s, NULL, "second");
  check_all(s, "old", "first");
  check_all(s, "main~40", "first");
  for (int i = 0; i < 2000; i++) {
    char key[32];
    pd_buf value = {0};
    snprintf(key, sizeof key, "key-%05d", i * 31 % MANY);
    assert_int_equal(pd_get(s, i % 2 ? "old" : NULL, pd_text(key), &value, NULL, NULL), PD_OK);
    assert_memory_equal(value.data + 10, i % 2 ? "first" : "secon", 5);
    pd_buf_done(&value);
  }
  pd_stats stats;
  assert_int_equal(pd_store_stats(s, &stats, NULL), PD_OK);
  assert_true(stats.keyframes > 0); /* unsaved nodes cannot leave the cache: they had to be saved */
  expect_sound(s);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
  s = open_store(&small);
  check_all(s, NULL, "second");
  check_all(s, "old", "first");
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

static void keyframes__old_commits_are_found_behind_many(void **state)
{
  (void)state;
  pd_store *s = open_store(NULL);
  pd_ack acks[120];
  for (int i = 0; i < 120; i++) {
    char key[8], value[8];
    snprintf(key, sizeof key, "k%d", i % 7);
    snprintf(value, sizeof value, "%d", i);
    assert_int_equal(pd_put(s, pd_text(key), pd_text(value), NULL, &acks[i], NULL), PD_OK);
    if (i % 10 == 9) assert_int_equal(pd_store_keyframe(s, NULL), PD_OK);
  }
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 120; i++) {
      char hex[PD_ID_HEX_SIZE], key[8], value[8];
      pd_id_hex(&acks[i].commit, hex);
      if (i % 2) hex[20] = 0; /* short ids find them as well */
      for (int k = 0; k < 7; k++) {
        int last = i - (i - k) % 7;
        snprintf(key, sizeof key, "k%d", k);
        snprintf(value, sizeof value, "%d", last);
        expect_at(s, hex, key, i >= k ? value : NULL);
      }
    }
    assert_int_equal(pd_store_close(s, NULL), PD_OK);
    s = open_store(NULL);
  }
  pd_verify_report whole, part;
  pd_verify_options since = {.since = "main~15"};
  assert_int_equal(pd_verify(s, NULL, &whole, NULL), PD_OK);
  assert_int_equal(whole.commits, 120);
  assert_int_equal(whole.keyframes, 12);
  assert_int_equal(pd_verify(s, &since, &part, NULL), PD_OK);
  assert_true(part.commits >= 15 && part.commits < 40);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

static void keyframes__forks_from_behind_them_can_be_written(void **state)
{
  (void)state;
  pd_store *s = open_store(NULL);
  for (int i = 0; i < 30; i++) {
    char value[8];
    snprintf(value, sizeof value, "%d", i);
    put(s, "k", value);
    if (i % 5 == 4) assert_int_equal(pd_store_keyframe(s, NULL), PD_OK);
  }
  pd_note on_fork = {.ref = "side"};
  assert_int_equal(pd_fork(s, "side", "main~17", NULL, NULL, NULL), PD_OK);
  expect_at(s, "side", "k", "12");
  assert_int_equal(pd_put(s, pd_text("own"), pd_text("x"), &on_fork, NULL, NULL), PD_OK);
  assert_int_equal(pd_store_keyframe(s, NULL), PD_OK);
  assert_int_equal(pd_put(s, pd_text("own"), pd_text("y"), &on_fork, NULL, NULL), PD_OK);
  expect_at(s, "side~1", "own", "x");
  expect_at(s, "side~2", "own", NULL);
  expect_at(s, "side~3", "k", "11");
  expect_at(s, "side", "k", "12");
  pd_verify_options since = {.since = "main~1"};
  assert_int_equal(pd_verify(s, &since, NULL, NULL), PD_OK); /* points behind its base: begins at the beginning */
  expect_sound(s);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

/* ---- heads ---- */

static void expect_head__guards_what_was_read(void **state)
{
  (void)state;
  pd_store *s = open_store(NULL);
  pd_ack ack;
  assert_int_equal(pd_put(s, pd_text("a"), pd_text("1"), NULL, &ack, NULL), PD_OK);
  pd_note note = {.expect_head = &ack.commit};
  pd_edit *edit;
  pd_error err;
  assert_int_equal(pd_edit_begin(s, &note, &edit, NULL), PD_OK);
  assert_int_equal(pd_edit_put(edit, pd_text("b"), pd_text("2"), PD_ANY_VERSION, NULL), PD_OK);
  put(s, "a", "changed");
  assert_int_equal(pd_edit_commit(edit, NULL, &err), PD_CONFLICT);
  assert_non_null(strstr(err.message, "'main'"));
  pd_edit_abort(edit);
  expect_at(s, NULL, "b", NULL);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

static bool refuse(void *ctx, uint64_t done, uint64_t total)
{
  (void)ctx, (void)done, (void)total;
  return false;
}

static void verify__gives_up_when_asked(void **state)
{
  (void)state;
  pd_options lazy = {.flush_ms = 60000};
  pd_store *s = open_store(&lazy);
  for (int i = 0; i < 1500; i++) put(s, "k", "v");
  pd_verify_options options = {.progress = refuse};
  assert_int_equal(pd_verify(s, &options, NULL, NULL), PD_INVALID);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

/* A log without records: of one who was killed while he made the store, or who fills it in another way. */
static void open__one_who_wants_the_store_to_exist_writes_nothing_into_an_empty_one(void **state)
{
  (void)state;
  const pd_backend_ops *ops = NULL;
  const char *rest = NULL;
  pd_backend *b = NULL;
  pd_store *s = NULL;
  uint64_t tail = 1;
  pd_options options = {.must_exist = true};
  assert_int_equal(pd_backend_find(uri, &ops, &rest, NULL), PD_OK);
  assert_int_equal(ops->open(rest, "main", PD_BACKEND_CREATE, &b, NULL), PD_OK);
  assert_int_equal(pd_store_open(uri, "main", &options, &s, NULL), PD_NOT_FOUND);
  assert_int_equal(ops->log_tail(b, &tail, NULL), PD_OK);
  assert_int_equal(tail, 0);
  ops->close(b);
  s = open_store(NULL);
  put(s, "a", "1");
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    CASE(open__one_who_wants_the_store_to_exist_writes_nothing_into_an_empty_one),
    CASE(threads__share_syncs_and_lose_nothing),
    CASE(threads__compare_and_swap_counts_every_increment),
    CASE(buffered__is_seen_at_once_and_by_others_after_a_flush),
    CASE(buffered__flushes_by_itself_in_time),
    CASE(buffered__large_batches_are_followed_by_others),
    CASE(values__of_every_size_come_back),
    CASE(values__over_the_limit_are_refused),
    CASE(time__the_past_is_read_by_clock),
    CASE(time__a_clock_a_year_ahead_for_one_put_hides_nothing_that_comes_after),
    CASE(time__where_a_clock_was_put_right_is_known_to_other_handles_and_after_a_keyframe),
    CASE(time__a_clock_that_is_put_right_after_a_keyframe_is_believed),
    CASE(time__a_key_that_was_made_while_the_clock_was_ahead_can_be_updated_and_read),
    CASE(time__a_key_that_came_from_a_clock_ahead_of_this_one_can_be_updated_and_read),
    CASE(time__a_clock_that_is_behind_all_of_the_log_does_not_take_it_back),
    CASE(cache__smaller_than_the_store_still_gives_every_value),
    CASE(keyframes__old_commits_are_found_behind_many),
    CASE(keyframes__forks_from_behind_them_can_be_written),
    CASE(expect_head__guards_what_was_read),
    CASE(verify__gives_up_when_asked),
  };
  return cmocka_run_group_tests_name("engine/store", tests, NULL, NULL);
}
