/* scenario.c: see scenario.h. */
#include "crash/scenario.h"

#include "base/base.h"
#include "base/buf.h"
#include "crash/crash.h"

#include <stdio.h>

#define LARGE_SIZE 50000

static uint8_t large[LARGE_SIZE];

/* Remember which step it was that failed, and leave. */
#define STEP(s, call)                                                                                                                      \
  do {                                                                                                                                     \
    (s)->step = #call;                                                                                                                     \
    TRY(call);                                                                                                                             \
  } while (0)

/* The step before is on stable storage. */
static pd_code settle(scenario *s, pd_store *store, const pd_ack *ack)
{
  if (ack->durability == PD_BUFFERED) STEP(s, pd_store_flush(store, &s->err));
  return PD_OK;
}

static bool count_record(void *ctx, const pd_record *record)
{
  (void)record;
  ++*(size_t *)ctx;
  return true;
}

static bool count_difference(void *ctx, const pd_difference *difference)
{
  (void)difference;
  ++*(size_t *)ctx;
  return true;
}

static bool count_version(void *ctx, const pd_version_info *version)
{
  (void)version;
  ++*(size_t *)ctx;
  return true;
}

static pd_code put_some(scenario *s, pd_store *store)
{
  pd_ack ack;
  for (size_t i = 0; i < LARGE_SIZE; i++) large[i] = (uint8_t)(i * 7);
  STEP(s, pd_put(store, pd_text("plan"), pd_text("{\"step\":1}"), NULL, &ack, &s->err));
  TRY(settle(s, store, &ack));
  s->has_plan = true;
  s->plan = ack.commit;
  STEP(s, pd_put_if(store, pd_text("plan"), pd_text("{\"step\":2}"), ack.version, NULL, &ack, &s->err));
  TRY(settle(s, store, &ack));
  s->has_plan_again = true;
  STEP(s, pd_put(store, pd_text("large"), (pd_bytes){large, LARGE_SIZE}, NULL, &ack, &s->err));
  TRY(settle(s, store, &ack));
  s->has_large = true;
  s->large = ack.commit;
  return PD_OK;
}

static pd_code stage_batch(scenario *s, pd_edit *edit)
{
  for (int i = 0; i < SCENARIO_BATCH; i++) {
    char key[32], value[32];
    snprintf(key, sizeof key, "batch/%02d", i);
    snprintf(value, sizeof value, "value %d", i);
    STEP(s, pd_edit_put(edit, pd_text(key), pd_text(value), 0, &s->err));
  }
  STEP(s, pd_edit_delete(edit, pd_text("nobody"), PD_ANY_VERSION, &s->err));
  return PD_OK;
}

static pd_code commit_batch(scenario *s, pd_store *store)
{
  pd_edit *edit = NULL;
  pd_ack ack;
  pd_note note = {.author = "somebody", .run = "run 1", .reason = "a batch"};
  STEP(s, pd_edit_begin(store, &note, &edit, &s->err));
  pd_code code = stage_batch(s, edit);
  if (code == PD_OK) {
    s->step = "pd_edit_commit";
    code = pd_edit_commit(edit, &ack, &s->err);
  }
  if (code != PD_OK) {
    pd_edit_abort(edit);
    return code;
  }
  TRY(settle(s, store, &ack));
  s->has_batch = true;
  s->batch = ack.commit;
  return PD_OK;
}

static pd_code move_refs(scenario *s, pd_store *store)
{
  pd_ack ack;
  pd_note on_fork = {.ref = "try"};
  STEP(s, pd_fork(store, "try", "main~1", NULL, &ack, &s->err));
  TRY(settle(s, store, &ack));
  s->has_fork = true;
  s->fork = ack.commit;
  STEP(s, pd_put(store, pd_text("tried"), pd_text("yes"), &on_fork, &ack, &s->err));
  STEP(s, pd_reset(store, "try", "main", NULL, &ack, &s->err));
  TRY(settle(s, store, &ack));
  s->has_reset_fork = true;
  STEP(s, pd_delete(store, pd_text("large"), PD_ANY_VERSION, NULL, &ack, &s->err));
  TRY(settle(s, store, &ack));
  s->has_delete = true;
  STEP(s, pd_undo(store, 1, NULL, &ack, &s->err));
  TRY(settle(s, store, &ack));
  s->has_undo = true;
  return PD_OK;
}

static pd_code list_all(scenario *s, pd_store *store, const char *at)
{
  pd_iter *iter = NULL;
  pd_entry entry;
  pd_bytes value;
  STEP(s, pd_iter_open(store, at, NULL, &iter, &s->err));
  pd_code code;
  while ((code = pd_iter_next(iter, &entry, &value, &s->err)) == PD_OK) continue;
  pd_iter_close(iter);
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static pd_code read_some(scenario *s, pd_store *store)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  size_t count = 0;
  bool has;
  pd_stats stats;
  STEP(s, pd_get(store, NULL, pd_text("large"), &value, NULL, &s->err));
  STEP(s, pd_get(store, "main~2", pd_text("plan"), &value, NULL, &s->err));
  STEP(s, pd_get_version(store, NULL, pd_text("plan"), 1, &value, NULL, &s->err));
  STEP(s, pd_has(store, "try", pd_text("nobody"), &has, &s->err));
  STEP(s, list_all(s, store, NULL));
  STEP(s, list_all(s, store, "main~1"));
  STEP(s, pd_diff(store, "root", "main", count_difference, &count, &s->err));
  STEP(s, pd_log(store, &(pd_log_query){.whole_store = true}, count_record, &count, &s->err));
  STEP(s, pd_log(store, &(pd_log_query){.key = pd_text("plan")}, count_record, &count, &s->err));
  STEP(s, pd_history(store, NULL, pd_text("plan"), 0, count_version, &count, &s->err));
  STEP(s, pd_store_stats(store, &stats, &s->err));
  return PD_OK;
}

static pd_code live(scenario *s, pd_store *store)
{
  TRY(put_some(s, store));
  TRY(commit_batch(s, store));
  STEP(s, pd_store_keyframe(store, &s->err));
  TRY(move_refs(s, store));
  TRY(read_some(s, store));
  STEP(s, pd_verify(store, NULL, NULL, &s->err));
  return PD_OK;
}

/* Twice open: the second time what is there has to be read. */
static pd_code reopen(scenario *s, const char *uri, const pd_options *options)
{
  pd_store *store = NULL;
  STEP(s, pd_store_open(uri, "main", options, &store, &s->err));
  pd_code code = read_some(s, store);
  pd_code close_code = pd_store_close(store, code ? NULL : &s->err);
  return code ? code : close_code;
}

void scenario_run(scenario *out, const char *uri, uint32_t flush_ms)
{
  *out = (scenario){0};
  pd_options options = {.flush_ms = flush_ms};
  pd_store *store = NULL;
  out->step = "pd_store_open";
  out->code = pd_store_open(uri, "main", &options, &store, &out->err);
  if (out->code != PD_OK) return;
  out->code = live(out, store);
  if (out->code == PD_OK) out->step = "pd_store_close";
  pd_code code = pd_store_close(store, out->code ? NULL : &out->err);
  if (out->code == PD_OK) out->code = code;
  if (out->code == PD_OK) out->code = reopen(out, uri, &options);
}

/* ---- afterwards ---- */

static bool expect_value(pd_store *store, const char *at, const char *key, pd_bytes expected)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_error err = {0};
  pd_code code = pd_get(store, at, pd_text(key), &value, NULL, &err);
  if (code == PD_OK && pd_bytes_equal(pd_buf_bytes(&value), expected)) return true;
  printf("# acknowledged '%s' at %s is lost: %s\n", key, at ? at : "head", code ? err.message : "another value");
  return false;
}

static bool expect_at(pd_store *store, const pd_id *commit, const char *key, pd_bytes expected)
{
  char at[PD_ID_HEX_SIZE];
  return expect_value(store, pd_id_hex(commit, at), key, expected);
}

static bool check_batch(const scenario *done, pd_store *store)
{
  bool is_right = true;
  for (int i = 0; i < SCENARIO_BATCH; i++) {
    char key[32], value[32];
    snprintf(key, sizeof key, "batch/%02d", i);
    snprintf(value, sizeof value, "value %d", i);
    is_right &= expect_at(store, &done->batch, key, pd_text(value)) && expect_value(store, NULL, key, pd_text(value));
  }
  return is_right;
}

static bool check_store(const scenario *done, pd_store *store)
{
  bool is_right = true;
  pd_error err = {0};
  pd_ref ref;
  if (done->has_plan) is_right &= expect_at(store, &done->plan, "plan", pd_text("{\"step\":1}"));
  if (done->has_plan_again) is_right &= expect_value(store, NULL, "plan", pd_text("{\"step\":2}"));
  if (done->has_large) is_right &= expect_at(store, &done->large, "large", (pd_bytes){large, LARGE_SIZE});
  if (done->has_batch) is_right &= check_batch(done, store);
  if (done->has_undo) is_right &= expect_value(store, NULL, "large", (pd_bytes){large, LARGE_SIZE});
  if (done->has_fork && pd_ref_get(store, "try", &ref, &err) != PD_OK) {
    printf("# acknowledged fork is lost: %s\n", err.message);
    is_right = false;
  }
  if (done->has_reset_fork) is_right &= expect_value(store, "try", "batch/00", pd_text("value 0"));
  if (crash_verify(store, &err) != PD_OK) {
    printf("# verify: %s\n", err.message);
    is_right = false;
  }
  return is_right;
}

bool scenario_check(const scenario *done, const char *uri)
{
  pd_store *store = NULL;
  pd_error err = {0};
  if (pd_store_open(uri, "main", NULL, &store, &err) != PD_OK) {
    printf("# does not open: %s\n", err.message);
    return false;
  }
  bool is_right = check_store(done, store);
  pd_ack ack;
  if (pd_put(store, pd_text("after"), pd_text("life"), NULL, &ack, &err) != PD_OK) {
    printf("# does not take a write: %s\n", err.message);
    is_right = false;
  }
  if (pd_store_close(store, &err) != PD_OK) {
    printf("# does not close: %s\n", err.message);
    is_right = false;
  }
  return is_right;
}
