/*
 * random_test.c: 2,000 random threads. Each is compared with a model (a doc with the same patches, applied by one thread alone), its past
 * with what was there then, its keys with those of a thread that was made with the same state at once, and its replay with itself.
 */
#include "base/doc.h"
#include "thread/patch.h"
#include "thread/random_change.h"
#include "thread/thread_world.h"

#define THREADS 2000
#define STEPS_MAX 14

typedef struct trial {
  thread_world w;
  random_source r;
  char id[32];
  uint64_t forks, taken, refused;
  pd_buf past[STEPS_MAX + 2]; /* the model's state by version */
  uint64_t version;
} trial;

static void free_doc(pd_doc **doc)
{
  pd_doc_free(*doc);
}

/* The model: the state after patches, or false if they do not fit it. */
static bool model_apply(const pd_buf *before, const pd_buf *snapshot, const pd_buf *patches, pd_buf *out)
{
  CLEANUP(free_doc) pd_doc *doc = NULL;
  pd_patches *list = NULL;
  pd_json json;
  assert_int_equal(pd_json_parse(pd_buf_bytes(snapshot->size ? snapshot : before), &json, NULL), PD_OK);
  assert_int_equal(pd_doc_new(json, 0, &doc, NULL), PD_OK);
  assert_int_equal(pd_json_parse(pd_buf_bytes(patches), &json, NULL), PD_OK);
  pd_code code = pd_patches_parse(json, &list, NULL);
  if (!code) code = pd_patches_apply(list, doc, NULL, NULL);
  pd_patches_free(list);
  pd_buf_clear(out);
  return !code && pd_doc_write(doc, out, NULL) == PD_OK;
}

static void assert_state(trial *t, pd_thread *thread, uint64_t version, const pd_buf *expected)
{
  world_state_of(&t->w, thread, version, NULL);
  if (!pd_bytes_equal(pd_buf_bytes(&t->w.text), pd_buf_bytes(expected)))
    fail_msg("version %d is %.*s, not %.*s", (int)version, (int)t->w.text.size, (const char *)t->w.text.data, (int)expected->size,
             (const char *)expected->data);
}

static void step(trial *t)
{
  CLEANUP(pd_buf_done) pd_buf patches = {0}, snapshot = {0}, messages = {0};
  static const pd_reason reasons[] = {PD_REASON_USER_MESSAGE, PD_REASON_TOOL_RESULTS_COMMITTED, PD_REASON_RUN_FINISHED};
  random_patches(&t->r, &patches);
  if (random_below(&t->r, 8) == 0) {
    random_add(&snapshot, "{\"map\":");
    random_value(&t->r, 4, &snapshot);
    random_add(&snapshot, "}");
  }
  world_need(&t->w, pd_buf_printf(&messages, &t->w.err, "[{\"id\":\"m%d\",\"x\":1},{\"id\":\"m%d\"}]", (int)random_below(&t->r, 20),
                                  (int)random_below(&t->r, 20)));
  pd_changeset set = {.run_id = random_below(&t->r, 2) ? "r1" : "r2",
                      .reason = reasons[random_below(&t->r, 3)],
                      .messages = random_below(&t->r, 3) ? pd_buf_bytes(&messages) : (pd_bytes){NULL, 0},
                      .patches = pd_buf_bytes(&patches),
                      .snapshot = pd_buf_bytes(&snapshot),
                      .run_meta = random_below(&t->r, 4) ? (pd_bytes){NULL, 0} : pd_text("{\"x\":1}"),
                      .active_run = random_below(&t->r, 4) ? NULL : "",
                      .time_ms = (int64_t)(3000 + t->version)};
  bool fits = model_apply(&t->past[t->version], &snapshot, &patches, &t->past[t->version + 1]);
  pd_code code = pd_thread_append(t->w.t, &set, t->version, NULL, &t->w.err);
  if (fits != !code) fail_msg("the model says %d, the thread %d: %s: %s", fits, code, t->w.err.message, (const char *)patches.data);
  t->version += fits;
  t->taken += fits;
  t->refused += !fits;
}

static void fork_here(trial *t)
{
  pd_thread *f = NULL;
  uint64_t version = random_below(&t->r, t->version + 1);
  snprintf(t->id, sizeof t->id, "f%llu", (unsigned long long)++t->forks);
  world_need(&t->w, pd_thread_fork(t->w.t, version, &(pd_thread_options){.id = t->id, .time_ms = 9}, &f, &t->w.err));
  pd_thread_close(t->w.t);
  t->w.t = f;
  t->version = version;
}

static void rewind_here(trial *t)
{
  uint64_t version = random_below(&t->r, t->version + 1);
  world_need(&t->w, pd_thread_rewind(t->w.t, version, t->version, NULL, NULL, &t->w.err));
  t->version = version;
}

static void assert_same_leaves(trial *t, const char *a, const char *b)
{
  pd_iter *one = NULL, *two = NULL;
  pd_entry x, y;
  pd_bytes vx, vy;
  pd_scan scan = {.prefix = pd_text("state/")};
  world_need(&t->w, pd_iter_open(t->w.store, a, &scan, &one, &t->w.err));
  world_need(&t->w, pd_iter_open(t->w.store, b, &scan, &two, &t->w.err));
  for (;;) {
    pd_code more = pd_iter_next(one, &x, &vx, NULL);
    assert_int_equal(more, pd_iter_next(two, &y, &vy, NULL));
    if (more) break;
    assert_true(pd_bytes_equal(x.key, y.key) && pd_bytes_equal(vx, vy));
  }
  pd_iter_close(one);
  pd_iter_close(two);
}

/* The keys depend on the state alone, not on how it came about. */
static void compare_with_new(trial *t)
{
  char ref[64], again[48], again_ref[64];
  snprintf(ref, sizeof ref, "thread/%s", pd_thread_id(t->w.t));
  snprintf(again, sizeof again, "%s.again", pd_thread_id(t->w.t));
  snprintf(again_ref, sizeof again_ref, "thread/%s", again);
  pd_thread_options o = {.id = again, .state = pd_buf_bytes(&t->past[t->version])};
  world_need(&t->w, pd_thread_create(t->w.store, &o, NULL, &t->w.err));
  assert_same_leaves(t, ref, again_ref);
  world_need(&t->w, pd_thread_delete(t->w.store, again, 0, NULL, &t->w.err));
}

static void check(trial *t)
{
  pd_thread *fresh = NULL;
  pd_thread_replay_report report;
  pd_thread_info info;
  world_need(&t->w, pd_thread_info_get(t->w.t, &info, &t->w.err));
  assert_int_equal(info.version, t->version);
  world_need(&t->w, pd_thread_replay(t->w.t, NULL, NULL, &report, &t->w.err));
  assert_true(report.is_same && pd_id_equal(&report.commit, &info.commit));
  assert_state(t, t->w.t, PD_VERSION_HEAD, &t->past[t->version]);
  world_need(&t->w, pd_thread_open(t->w.store, pd_thread_id(t->w.t), &fresh, &t->w.err));
  for (uint64_t v = 0; v <= t->version; v++) assert_state(t, fresh, v, &t->past[v]);
  pd_thread_close(fresh);
  compare_with_new(t);
}

static void one_thread(trial *t, int number)
{
  pd_thread_close(t->w.t);
  snprintf(t->id, sizeof t->id, "t%d", number);
  world_need(&t->w, pd_thread_create(t->w.store, &(pd_thread_options){.id = t->id, .time_ms = 1000}, &t->w.t, &t->w.err));
  t->version = 0;
  uint64_t steps = random_below(&t->r, STEPS_MAX);
  for (uint64_t i = 0; i < steps; i++) {
    step(t);
    if (random_below(&t->r, 12) == 0) fork_here(t);
    if (random_below(&t->r, 12) == 0) rewind_here(t);
  }
  check(t);
}

/* seed 003: 48 */
static void random__2000_threads_are_what_the_model_says_and_replay_to_the_same_ids(void **state)
{
  trial t = {.r = random_from(20261116)};
  (void)state;
  world_open(&t.w);
  random_add(&t.past[0], "{}");
  for (int i = 0; i < THREADS; i++) one_thread(&t, i);
  printf("# %llu change sets taken, %llu refused, %llu forks\n", (unsigned long long)t.taken, (unsigned long long)t.refused,
         (unsigned long long)t.forks);
  assert_true(t.taken > THREADS && t.refused > THREADS / 4 && t.forks > THREADS / 4);
  for (size_t i = 0; i < COUNT_OF(t.past); i++) pd_buf_done(&t.past[i]);
  world_close(&t.w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(random__2000_threads_are_what_the_model_says_and_replay_to_the_same_ids),
  };
  return cmocka_run_group_tests_name("random threads", tests, NULL, NULL);
}
