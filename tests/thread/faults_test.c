/*
 * faults_test.c: each call of the backend fails in turn, then each allocation (the linker sends those of our own code here, --wrap).
 * Whatever fails, fails as an error; nothing that was acknowledged is lost, nothing is half, and the same work can be done again.
 */
#include "support/fault_backend.h"
#include "support/temp_folder.h"
#include "thread/thread_world.h"

#include <stdatomic.h>

#define CALLS_MAX 100000
#define STRIDE 2 /* of allocations one in so many */

/* ---- allocations that fail ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);

static _Atomic uint64_t fail_at, calls; /* 0: none */

static bool is_to_fail(void)
{
  uint64_t at = atomic_load(&fail_at);
  return at && atomic_fetch_add(&calls, 1) + 1 == at;
}

void *__wrap_malloc(size_t size)
{
  return is_to_fail() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
  return is_to_fail() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
  return is_to_fail() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text)
{
  return is_to_fail() ? NULL : __real_strdup(text);
}

/* ---- the work ---- */

/* Each step may fail; what was acknowledged is counted. */
typedef struct work {
  pd_store *store;
  uint64_t version; /* of t, acknowledged */
  bool is_made, is_forked, is_rewound, is_imported;
  pd_buf file;
} work;

static pd_code write_out(void *ctx, const void *data, size_t size, pd_error *err)
{
  return pd_buf_append(ctx, data, size, err);
}

static pd_code read_in(void *ctx, uint64_t at, void *data, size_t size, pd_error *err)
{
  (void)err;
  memcpy(data, ((pd_buf *)ctx)->data + at, size);
  return PD_OK;
}

static pd_code append_next(work *w, pd_thread *t, pd_error *err)
{
  char messages[64], patches[300];
  unsigned v = (unsigned)pd_thread_version(t) + 1;
  snprintf(messages, sizeof messages, "[{\"id\":\"m%u\"}]", v);
  snprintf(patches, sizeof patches, "[{\"op\":\"set\",\"path\":[\"a\"],\"value\":%u},{\"op\":\"set\",\"path\":[\"b\",\"c\"],\"value\":%u}]",
           v, v);
  pd_changeset set = world_set(messages, patches);
  if (v == 3) set.snapshot = pd_text("{\"gone\":true,\"b\":{\"c\":0}}");
  pd_thread_ack ack;
  TRY(pd_thread_append(t, &set, v - 1, &ack, err));
  w->version = ack.version;
  return PD_OK;
}

static pd_code travel(work *w, pd_thread *t, pd_error *err)
{
  pd_sink sink = {.write = write_out, .ctx = &w->file};
  pd_source source = {.read = read_in, .ctx = &w->file};
  pd_buf_clear(&w->file);
  TRY(pd_thread_export(t, &sink, NULL, err));
  source.size = w->file.size;
  if (w->is_imported) return PD_OK;
  pd_code code = pd_thread_import(w->store, &source, &(pd_thread_import_options){.id = "i"}, NULL, err);
  w->is_imported = !code || code == PD_EXISTS; /* a failure after the last commit */
  return code == PD_EXISTS ? PD_OK : code;
}

static pd_code do_with(work *w, pd_thread *t, pd_error *err)
{
  while (pd_thread_version(t) < 4) TRY(append_next(w, t, err));
  if (!w->is_forked) {
    pd_code code = pd_thread_fork(t, 2, &(pd_thread_options){.id = "f"}, NULL, err);
    if (code && code != PD_EXISTS) return code;
    w->is_forked = true;
  }
  if (!w->is_rewound) {
    TRY(pd_thread_rewind(t, 3, PD_ANY_VERSION, NULL, NULL, err));
    w->is_rewound = true;
    w->version = 3;
  }
  TRY(pd_thread_replay(t, NULL, NULL, NULL, err));
  return travel(w, t, err);
}

static pd_code do_all(work *w, pd_error *err)
{
  pd_thread *t = NULL;
  if (!w->is_made) {
    pd_code code = pd_thread_create(w->store, &(pd_thread_options){.id = "t", .owner = "ada"}, NULL, err);
    if (code && code != PD_EXISTS) return code;
    w->is_made = true;
  }
  pd_code code = pd_thread_open(w->store, "t", &t, err);
  if (!code && w->is_rewound) code = travel(w, t, err);
  if (!code && !w->is_rewound) code = do_with(w, t, err);
  pd_thread_close(t);
  return code;
}

/* ---- what must hold, whatever failed ---- */

static void check_thread(thread_world *w, const char *id, uint64_t version)
{
  pd_thread *t = NULL;
  char expected[64];
  world_need(w, pd_thread_open(w->store, id, &t, &w->err));
  assert_int_equal(pd_thread_version(t), version);
  snprintf(expected, sizeof expected, "{\"a\":%d,\"b\":{\"c\":%d}%s}", (int)version, (int)version, version >= 3 ? ",\"gone\":true" : "");
  assert_string_equal(world_state_of(w, t, PD_VERSION_HEAD, NULL), expected);
  world_need(w, pd_thread_replay(t, NULL, NULL, NULL, &w->err));
  pd_thread_close(t);
}

static bool count_thread(void *ctx, const pd_thread_info *info, const char *cursor)
{
  (void)info;
  (void)cursor;
  ++*(int *)ctx;
  return true;
}

/* Without failures now: nothing acknowledged is missing, and the work comes to its end. */
static void finish(thread_world *w, work *k)
{
  pd_thread *t = NULL;
  int count = 0;
  if (k->is_made) {
    world_need(w, pd_thread_open(w->store, "t", &t, &w->err));
    if (pd_thread_version(t) == 3 && k->version == 4) k->is_rewound = true; /* done, and not told */
    assert_true(pd_thread_version(t) >= k->version || k->is_rewound);
    assert_true(pd_thread_version(t) <= 4);
    pd_thread_close(t);
  }
  k->store = w->store;
  world_need(w, do_all(k, &w->err));
  check_thread(w, "t", 3);
  check_thread(w, "f", 2);
  check_thread(w, "i", 3);
  world_need(w, pd_thread_list(w->store, NULL, count_thread, &count, &w->err));
  assert_int_equal(count, 3);
  pd_buf_done(&k->file);
}

static void faults__every_call_of_the_backend_may_fail(void **state)
{
  static const fault_how hows[] = {FAULT_BEFORE, FAULT_AFTER};
  uint64_t noticed = 0;
  (void)state;
  fault_backend_install();
  for (size_t h = 0; h < COUNT_OF(hows); h++) {
    bool has_fired = true;
    for (uint64_t n = 1; has_fired && n < CALLS_MAX; n++) {
      char *folder = temp_folder_new(), *uri = text_of("fault:sqlite:%s", folder);
      thread_world w;
      work k = {0};
      world_open_at(&w, uri);
      k.store = w.store;
      fault_backend_plan((fault_plan){.at = n, .how = hows[h]});
      noticed += do_all(&k, &w.err) != PD_OK;
      has_fired = fault_backend_has_fired();
      fault_backend_plan((fault_plan){0});
      finish(&w, &k);
      world_close(&w);
      free(uri);
      temp_folder_free(folder);
    }
  }
  printf("# %llu failures were noticed\n", (unsigned long long)noticed);
  assert_true(noticed > 20);
}

/* The handle remembers nothing of an append that failed. */
static void faults__a_failed_append_can_be_made_again_with_the_same_handle(void **state)
{
  char *folder = temp_folder_new(), *uri = text_of("fault:sqlite:%s", folder);
  thread_world w;
  work k = {0};
  (void)state;
  fault_backend_install();
  world_open_at(&w, uri);
  world_need(&w, pd_thread_create(w.store, &(pd_thread_options){.id = "t"}, &w.t, &w.err));
  world_need(&w, append_next(&k, w.t, &w.err));
  const char *const patches = "[{\"op\":\"increment\",\"path\":[\"a\"],\"by\":1},{\"op\":\"append\",\"path\":[\"l\"],\"value\":0}]";
  for (uint64_t version = 1; version < 4; version++) {
    pd_changeset set = world_set(NULL, patches);
    if (version == 2) set.snapshot = pd_text("{\"a\":10,\"l\":[]}");
    fault_backend_plan((fault_plan){.at = 1, .ops = FAULT_LOG_APPEND});
    assert_refused(&w, pd_thread_append(w.t, &set, version, NULL, &w.err), PD_STORAGE, "StorageError");
    fault_backend_plan((fault_plan){0});
    assert_int_equal(pd_thread_version(w.t), version);
    world_need(&w, pd_thread_append(w.t, &set, version, NULL, &w.err));
  }
  assert_string_equal(world_state(&w), "{\"a\":12,\"l\":[0,0]}");
  world_need(&w, pd_thread_replay(w.t, NULL, NULL, NULL, &w.err));
  world_close(&w);
  free(uri);
  temp_folder_free(folder);
}

static void faults__every_allocation_may_fail(void **state)
{
  uint64_t noticed = 0;
  bool has_fired = true;
  (void)state;
  for (uint64_t n = 1; has_fired && n < CALLS_MAX; n += STRIDE) {
    thread_world w;
    work k = {0};
    world_open_at(&w, "memory:");
    k.store = w.store;
    atomic_store(&calls, 0);
    atomic_store(&fail_at, n);
    pd_code code = do_all(&k, &w.err);
    has_fired = atomic_load(&calls) >= n;
    atomic_store(&fail_at, 0);
    noticed += code != PD_OK;
    if (code && code != PD_NO_MEMORY) fail_msg("allocation %d: %s: %s", (int)n, pd_error_name(&w.err), w.err.message);
    finish(&w, &k);
    world_close(&w);
  }
  printf("# %llu failures were noticed\n", (unsigned long long)noticed);
  assert_true(noticed > 50);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(faults__every_call_of_the_backend_may_fail),
    cmocka_unit_test(faults__a_failed_append_can_be_made_again_with_the_same_handle),
    cmocka_unit_test(faults__every_allocation_may_fail),
  };
  return cmocka_run_group_tests_name("threads over failing disks and memory", tests, NULL, NULL);
}
