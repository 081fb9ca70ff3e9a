/*
 * model_test.c BACKEND: the store against a naive model (model.h), driven with the same random operations; every answer must agree.
 *
 * PERDURE_SEED replays a run (it is printed at its start), PERDURE_OPS sets its length. Rounds of a run differ in the number of keys,
 * so that some see the same key again and again and some see deep trees.
 */
#include "engine/model_ops.h"

#include "base/base.h"
#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include <cmocka.h>

#define OPS_DEFAULT 100000
#define OPS_UNDER_SANITIZER 12000
#define FILL_KEYS_MIN 100 /* with fewer keys, a store fills by itself */
#define SYNCED_SHARE 10   /* one operation in so many runs on a store that syncs each commit */

static char scratch[] = "/tmp/perdure-model-XXXXXX";

typedef struct round_shape {
  size_t key_count;
  uint64_t op_count;
} round_shape;

static const round_shape shapes[] = {{5, 4000}, {40, 10000}, {300, 5000}, {1500, 2000}, {40, 10000}, {12, 6000}};

/* ---- care for the store, between other operations ---- */

static void op_reopen(world *w)
{
  pd_error err = {0};
  bool is_all = w->can_close_all && world_chance(w, 50);
  int only = (int)world_random(w, WORLD_HANDLES);
  for (int i = 0; i < WORLD_HANDLES; i++) {
    if (!is_all && i != only) continue;
    pd_store *store = w->handles[i];
    w->handles[i] = NULL;
    world_expect(w, pd_store_close(store, &err), PD_OK, &err);
  }
  for (int i = 0; i < WORLD_HANDLES; i++)
    if (!w->handles[i]) world_handle_open(w, i);
}

static void op_keyframe(world *w)
{
  pd_error err = {0};
  world_expect(w, pd_store_keyframe(world_handle(w), &err), PD_OK, &err);
}

static void op_flush(world *w)
{
  pd_error err = {0};
  world_expect(w, pd_store_flush(world_handle(w), &err), PD_OK, &err);
}

static void report_finding(void *ctx, const char *what)
{
  (void)ctx;
  print_error("finding: %s\n", what);
}

static void op_verify(world *w)
{
  pd_error err = {0};
  pd_verify_report report = {0};
  pd_verify_options options = {.finding = report_finding};
  world_expect(w, pd_verify(world_handle(w), &options, &report, &err), PD_OK, &err);
  world_require(w, report.findings == 0);
  world_require(w, report.records >= w->model.record_count);
}

static const world_op ops[] = {
  {"put", 240, op_put},
  {"delete", 60, op_delete},
  {"edit", 90, op_edit},
  {"get", 190, op_get},
  {"has", 40, op_has},
  {"list", 60, op_list},
  {"resolve", 70, op_resolve},
  {"refs", 10, op_refs},
  {"fork", 20, op_fork},
  {"reset", 15, op_reset},
  {"ref delete", 8, op_ref_delete},
  {"undo", 40, op_undo},
  {"redo", 40, op_redo},
  {"history", 30, op_history},
  {"version", 30, op_version},
  {"log", 25, op_log},
  {"diff", 40, op_diff},
  {"bad write", 5, op_bad_write},
  {"bad read", 5, op_bad_read},
  {"reopen", 2, op_reopen},
  {"keyframe", 3, op_keyframe},
  {"flush", 5, op_flush},
};

static void run_op(world *w)
{
  unsigned sum = 0;
  for (size_t i = 0; i < COUNT_OF(ops); i++) sum += ops[i].weight;
  unsigned pick = (unsigned)world_random(w, sum);
  size_t i = 0;
  while (pick >= ops[i].weight) pick -= ops[i++].weight;
  world_tick();
  w->op++;
  w->doing = ops[i].name;
  ops[i].run(w);
}

static void check_everything(world *w)
{
  w->doing = "check of everything";
  op_verify(w);
  pd_store *store = world_handle(w);
  check_whole_log(w, store);
  size_t step = w->model.commit_count / 200 + 1;
  for (size_t commit = world_random(w, step); commit < w->model.commit_count; commit += step)
    check_whole_commit(w, store, (uint32_t)commit);
}

static void run_round(const char *uri, uint32_t flush_ms, const round_shape *shape, uint64_t seed, uint64_t round)
{
  world w;
  world_open(&w, uri, flush_ms, shape->key_count, seed);
  w.random = seed * 1000003 + round;
  if (shape->key_count >= FILL_KEYS_MIN) fill_store(&w);
  while (w.op < shape->op_count) run_op(&w);
  check_everything(&w);
  op_reopen(&w);
  check_everything(&w);
  print_message("# %s round %llu: %zu keys, %llu operations, %llu commits, %llu conflicts, %llu hits, %llu misses\n", uri,
                (unsigned long long)round, w.key_count, (unsigned long long)w.op, (unsigned long long)w.commits,
                (unsigned long long)w.conflicts, (unsigned long long)w.hits, (unsigned long long)w.misses);
  world_require(&w, w.commits > w.op / 20 && w.hits > w.op / 40 && w.conflicts + w.misses); /* else it tests nothing */
  world_close(&w);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
  const char *text = getenv(name);
  return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static uint64_t run_seed(void)
{
  static uint64_t seed;
  if (!seed) {
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = 1;
    seed = number_of("PERDURE_SEED", seed % 1000000000 + 1);
    print_message("# PERDURE_SEED=%llu\n", (unsigned long long)seed);
  }
  return seed;
}

static void run_rounds(const char *scheme, uint32_t flush_ms, uint64_t op_count)
{
  for (uint64_t round = 0; op_count; round++) {
    round_shape shape = shapes[round % COUNT_OF(shapes)];
    if (shape.op_count > op_count) shape.op_count = op_count;
    char uri[128];
    snprintf(uri, sizeof uri, "%s%s-%u-%llu", scheme, strcmp(scheme, "memory:") == 0 ? "model" : "/model", flush_ms,
             (unsigned long long)round);
    run_round(uri, flush_ms, &shape, run_seed(), round);
    op_count -= shape.op_count;
  }
}

static uint64_t op_total(void)
{
  return number_of("PERDURE_OPS", getenv("PERDURE_SANITIZER") ? OPS_UNDER_SANITIZER : OPS_DEFAULT);
}

static void memory__agrees_with_the_model(void **state)
{
  (void)state;
  run_rounds("memory:", 0, op_total());
}

static void sqlite_uri(char out[64])
{
  snprintf(out, 64, "sqlite:%s", scratch);
}

static void sqlite__buffered_agrees_with_the_model(void **state)
{
  (void)state;
  char uri[64];
  sqlite_uri(uri);
  run_rounds(uri, 20, op_total() - op_total() / SYNCED_SHARE);
}

static void sqlite__synced_agrees_with_the_model(void **state)
{
  (void)state;
  char uri[64];
  sqlite_uri(uri);
  run_rounds(uri, 0, op_total() / SYNCED_SHARE);
}

/* ---- what the random rounds stay away from, because the ids cannot tell it apart (model_has_twin) ---- */

static void put_text(pd_store *store, const char *key, const char *value, uint64_t version, pd_ack *ack)
{
  pd_error err = {0};
  if (pd_put(store, pd_text(key), pd_text(value), NULL, ack, &err) != PD_OK) fail_msg("%s", err.message);
  assert_int_equal(ack->version, version);
}

static void assert_version(pd_store *store, const char *key, const char *value, uint64_t version)
{
  CLEANUP(pd_buf_done) pd_buf got = {0};
  pd_entry entry;
  pd_error err = {0};
  if (pd_get(store, NULL, pd_text(key), &got, &entry, &err) != PD_OK) fail_msg("%s", err.message);
  assert_true(pd_bytes_equal(pd_buf_bytes(&got), pd_text(value)));
  assert_int_equal(entry.version, version);
}

static void twin__a_retried_write_has_the_same_commit_id(void **state)
{
  (void)state;
  pd_store *store = NULL;
  pd_ack base, first, again, undone;
  assert_int_equal(pd_store_open("memory:", "twin", NULL, &store, NULL), PD_OK);
  put_text(store, "a", "1", 1, &base);
  put_text(store, "a", "2", 2, &first);
  assert_int_equal(pd_undo(store, 1, NULL, &undone, NULL), PD_OK);
  assert_true(pd_id_equal(&undone.commit, &base.commit));
  put_text(store, "a", "2", 3, &again);
  assert_true(pd_id_equal(&again.commit, &first.commit));
  assert_true(pd_id_equal(&again.tree, &first.tree));
  assert_true(again.seq > first.seq);
  assert_version(store, "a", "2", 3);
  assert_int_equal(pd_verify(store, NULL, NULL, NULL), PD_OK);
  pd_store_close(store, NULL);
}

static void twin__the_head_has_the_versions_of_its_last_writes(void **state)
{
  (void)state;
  pd_store *store = NULL;
  pd_ack ack, by_a, by_b, undone;
  assert_int_equal(pd_store_open("memory:", "twin", NULL, &store, NULL), PD_OK);
  put_text(store, "a", "1", 1, &ack);
  put_text(store, "b", "2", 1, &ack);
  put_text(store, "a", "1", 2, &by_a);
  assert_int_equal(pd_undo(store, 1, NULL, &undone, NULL), PD_OK);
  put_text(store, "b", "2", 3, &by_b);
  assert_true(pd_id_equal(&by_a.commit, &by_b.commit)); /* same parent, same map */
  assert_version(store, "a", "1", 1);
  assert_version(store, "b", "2", 3);
  put_text(store, "b", "3", 4, &ack);
  assert_int_equal(pd_verify(store, NULL, NULL, NULL), PD_OK);
  pd_store_close(store, NULL);
}

static int make_scratch(void **state)
{
  (void)state;
  return mkdtemp(scratch) ? 0 : -1;
}

static int remove_scratch(void **state)
{
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", scratch);
  return system(command) ? -1 : 0;
}

int main(int argc, char **argv)
{
  const struct CMUnitTest memory_tests[] = {
    cmocka_unit_test(memory__agrees_with_the_model),
    cmocka_unit_test(twin__a_retried_write_has_the_same_commit_id),
    cmocka_unit_test(twin__the_head_has_the_versions_of_its_last_writes),
  };
  const struct CMUnitTest sqlite_tests[] = {
    cmocka_unit_test(sqlite__synced_agrees_with_the_model),
    cmocka_unit_test(sqlite__buffered_agrees_with_the_model),
  };
  if (argc == 2 && strcmp(argv[1], "memory") == 0) return cmocka_run_group_tests_name("model memory", memory_tests, NULL, NULL);
  if (argc == 2 && strcmp(argv[1], "sqlite") == 0)
    return cmocka_run_group_tests_name("model sqlite", sqlite_tests, make_scratch, remove_scratch);
  fprintf(stderr, "usage: %s memory|sqlite\n", argv[0]);
  return 2;
}
