/*
 * races_test.c: calls that are done again because others were faster. A rival, another handle on the same store, commits before each
 * append of the caller, so often that any limit on attempts would be reached; then it stops, and the call has to succeed. Decision 065.
 */
#include "state/world.h"

#include "base/base.h"
#include "base/buf.h"
#include "support/gate_backend.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define LOSSES 10050   /* the limits were 100, 10,000 and 100,000 */
#define LOSSES_FEW 150 /* where the limit was 100, or 10,000 attempts take too long; and under a sanitizer */
#define URI "memory:races"
#define T "{\"thread_id\":\"t\""

/* Commits to `store` before each append there. */
typedef struct rival {
  const char *name;
  pd_store *store;
  void (*act)(struct rival *r);
  bool (*is_due)(struct rival *r); /* NULL: always */
  bool was_kept;
  atomic_uint left, acted; /* others append to their own stores meanwhile */
} rival;

typedef struct race {
  world w;
  rival r;
} race;

static unsigned losses(unsigned count)
{
  return getenv("PERDURE_SANITIZER") && count == LOSSES ? LOSSES_FEW : count;
}

static void come_first(void *ctx, const char *store)
{
  rival *r = ctx;
  if (strcmp(store, r->name) != 0 || !r->left) return;
  if (r->is_due && !r->is_due(r)) return;
  r->left--;
  r->acted++;
  r->act(r);
}

static int set_up(void **state)
{
  race *x = calloc(1, sizeof *x);
  assert_non_null(x);
  gate_backend_install();
  world_open_at(&x->w, "gate:" URI, NULL);
  *state = x;
  return 0;
}

static int tear_down(void **state)
{
  race *x = *state;
  gate_before_append(NULL, NULL);
  pd_store_close(x->r.store, NULL);
  world_close(&x->w);
  free(x);
  return 0;
}

/* From now on the rival loses no race for `count` times. */
static void begin_race(race *x, const char *store, void (*act)(rival *r), unsigned count)
{
  pd_error err = {0};
  x->r = (rival){.name = store, .act = act, .left = losses(count)};
  if (pd_store_open(URI, store, NULL, &x->r.store, &err)) fail_msg("%s", err.message);
  gate_before_append(come_first, &x->r);
}

/* The call lost every race, and went on. */
static void check_lost(race *x, unsigned count)
{
  gate_before_append(NULL, NULL);
  assert_int_equal(x->r.acted, losses(count));
}

/* ---- what rivals do ---- */

static void put_key(rival *r)
{
  char text[16];
  snprintf(text, sizeof text, "%u", r->left);
  assert_int_equal(pd_put(r->store, pd_text("rival"), pd_text(text), NULL, NULL, NULL), PD_OK);
}

/* Once after a restore has made the ref that keeps what is there, so before it moves main. */
static bool is_kept(rival *r)
{
  pd_ref ref;
  bool was_kept = r->was_kept;
  r->was_kept = pd_ref_get(r->store, "before-restore/snap-20261115T100000Z", &ref, NULL) == PD_OK;
  return r->was_kept && !was_kept;
}

static void append_to_thread(rival *r)
{
  pd_thread *thread = NULL;
  pd_changeset set = {
    .run_id = "other", .reason = PD_REASON_USER_MESSAGE, .patches = pd_text("[{\"op\":\"increment\",\"path\":\"/n\",\"by\":1}]")};
  pd_error err = {0};
  if (pd_thread_open(r->store, "t", &thread, &err) || pd_thread_append(thread, &set, PD_ANY_VERSION, NULL, &err))
    fail_msg("%s", err.message);
  pd_thread_close(thread);
}

/* Put each key below `prefix` again as it is: its version is another then. */
static void touch(rival *r, const char *prefix)
{
  CLEANUP(pd_buf_done) pd_buf key = {0};
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_scan scan = {.prefix = pd_text(prefix)};
  pd_iter *iter = NULL;
  pd_entry entry;
  pd_bytes is;
  assert_int_equal(pd_iter_open(r->store, "main", &scan, &iter, NULL), PD_OK);
  bool is_there = pd_iter_next(iter, &entry, &is, NULL) == PD_OK;
  if (is_there) assert_int_equal(pd_buf_append(&key, entry.key.data, entry.key.size, NULL), PD_OK);
  if (is_there) assert_int_equal(pd_buf_append(&value, is.data, is.size, NULL), PD_OK);
  pd_iter_close(iter);
  if (is_there) assert_int_equal(pd_put(r->store, pd_buf_bytes(&key), pd_buf_bytes(&value), NULL, NULL, NULL), PD_OK);
}

static void touch_approvals(rival *r)
{
  touch(r, "approvals:pending");
}

static void touch_manifest(rival *r)
{
  touch(r, "manifest/");
}

/* ---- history ---- */

static void set_keys(world *w)
{
  for (int i = 0; i < 4; i++) world_okf(w, "state.persistent.set", "{\"key\":\"k\",\"value\":%d}", i);
  world_ok(w, "history.fork", "{\"name\":\"f\"}");
  world_ok(w, "history.undo", "{}"); /* that a line was left is written once */
}

static void races__of_an_undo_are_not_counted(void **state)
{
  race *x = *state;
  set_keys(&x->w);
  begin_race(x, "main", put_key, LOSSES);
  world_ok(&x->w, "history.undo", "{}");
  check_lost(x, LOSSES);
}

static void races__of_a_reset_are_not_counted(void **state)
{
  race *x = *state;
  set_keys(&x->w);
  x->w.is_operator = true;
  begin_race(x, "main", put_key, LOSSES_FEW);
  world_ok(&x->w, "history.reset", "{\"to\":\"fork/f\"}");
  check_lost(x, LOSSES_FEW);
  x->w.is_operator = false;
  world_ok(&x->w, "state.persistent.get", "{\"key\":\"k\"}");
  world_want(&x->w, "value", "3");
}

static void races__of_a_rollback_are_not_counted(void **state)
{
  race *x = *state;
  set_keys(&x->w);
  begin_race(x, "main", put_key, LOSSES_FEW);
  world_ok(&x->w, "history.rollback", "{\"to\":\"fork/f\"}");
  check_lost(x, LOSSES_FEW);
}

static void races__of_a_merge_are_not_counted(void **state)
{
  race *x = *state;
  set_keys(&x->w);
  world_ok(&x->w, "history.commit", "{\"ref\":\"fork/f\",\"changes\":[{\"key\":\"only-there\",\"value\":1}]}");
  begin_race(x, "main", put_key, LOSSES_FEW);
  world_ok(&x->w, "history.merge", "{\"from\":\"fork/f\"}");
  check_lost(x, LOSSES_FEW);
}

/* ---- threads and runs ---- */

static void races__of_a_checkpoint_are_not_counted(void **state)
{
  race *x = *state;
  world_ok(&x->w, "threads.create", T ",\"state\":{\"n\":0}}");
  world_ok(&x->w, "runs.begin", T ",\"run_id\":\"r\"}");
  begin_race(x, "main", append_to_thread, LOSSES_FEW);
  world_ok(&x->w, "runs.checkpoint", T ",\"run_id\":\"r\",\"reason\":\"ToolResultsCommitted\",\"messages\":[{\"id\":\"m\"}]}");
  check_lost(x, LOSSES_FEW);
}

static void races__of_beginning_a_run_are_not_counted(void **state)
{
  race *x = *state;
  world_ok(&x->w, "threads.create", T ",\"state\":{\"n\":0}}");
  begin_race(x, "main", append_to_thread, LOSSES_FEW);
  world_ok(&x->w, "runs.begin", T ",\"run_id\":\"r\"}");
  check_lost(x, LOSSES_FEW);
}

static void races__of_rewinding_and_deleting_a_thread_are_not_counted(void **state)
{
  race *x = *state;
  world_ok(&x->w, "threads.create", T ",\"state\":{\"n\":0}}");
  world_ok(&x->w, "threads.append", T ",\"run_id\":\"a\",\"reason\":\"UserMessage\"}");
  begin_race(x, "main", append_to_thread, LOSSES_FEW);
  world_ok(&x->w, "threads.rewind", T ",\"version\":0}");
  check_lost(x, LOSSES_FEW);
  pd_store_close(x->r.store, NULL);
  begin_race(x, "main", append_to_thread, LOSSES_FEW);
  world_ok(&x->w, "threads.delete", T "}");
  check_lost(x, LOSSES_FEW);
}

/* ---- the home's own lists ---- */

static void races__for_the_list_of_approvals_are_not_counted(void **state)
{
  race *x = *state;
  world *w = &x->w;
  char *path = text_of("%s/policy.toml", w->folder);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs("[[rule]]\ncapability = \"queue.send\"\npermission = \"approval\"\n", f);
  assert_int_equal(fclose(f), 0);
  free(path);
  assert_int_equal(pd_home_reload(w->home, &w->err), PD_OK);
  world_fails(w, "queue.send", "{\"to\":\"b\",\"body\":1}", "ApprovalRequired", NULL);
  char *id = world_text(w, "error.details.approval_id");
  begin_race(x, "system", touch_approvals, LOSSES_FEW);
  world_fails(w, "queue.send", "{\"to\":\"b\",\"body\":2}", "ApprovalRequired", NULL);
  check_lost(x, LOSSES_FEW);
  pd_store_close(x->r.store, NULL);
  w->is_operator = true;
  begin_race(x, "system", touch_approvals, LOSSES_FEW);
  world_okf(w, "approvals.approve", "{\"approval_id\":\"%s\"}", id);
  check_lost(x, LOSSES_FEW);
  free(id);
}

static void races__for_a_watched_folder_are_not_counted(void **state)
{
  race *x = *state;
  char *folder = temp_folder_new(), *path = text_of("%s/a.txt", folder);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  assert_int_equal(fclose(f), 0);
  world_okf(&x->w, "folders.watch", "{\"path\":\"%s\"}", folder);
  assert_non_null(f = fopen(path, "w"));
  fputs("longer", f);
  assert_int_equal(fclose(f), 0);
  begin_race(x, "system", touch_manifest, LOSSES_FEW);
  world_ok(&x->w, "state.briefing.generate", "{}");
  check_lost(x, LOSSES_FEW);
  free(path);
  temp_folder_free(folder);
}

static void races__of_restoring_a_snapshot_are_not_counted(void **state)
{
  race *x = *state;
  set_keys(&x->w);
  x->w.is_operator = true;
  world_ok(&x->w, "state.snapshot.create", "{}");
  x->w.is_operator = false;
  world_ok(&x->w, "state.persistent.set", "{\"key\":\"k\",\"value\":77}");
  x->w.is_operator = true;
  begin_race(x, "main", put_key, LOSSES_FEW);
  x->r.is_due = is_kept;
  world_ok(&x->w, "state.snapshot.restore", "{\"snapshot_id\":\"snap-20261115T100000Z\"}");
  check_lost(x, LOSSES_FEW);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(races__of_an_undo_are_not_counted, set_up, tear_down),
    cmocka_unit_test_setup_teardown(races__of_a_reset_are_not_counted, set_up, tear_down),
    cmocka_unit_test_setup_teardown(races__of_a_rollback_are_not_counted, set_up, tear_down),
    cmocka_unit_test_setup_teardown(races__of_a_merge_are_not_counted, set_up, tear_down),
    cmocka_unit_test_setup_teardown(races__of_a_checkpoint_are_not_counted, set_up, tear_down),
    cmocka_unit_test_setup_teardown(races__of_beginning_a_run_are_not_counted, set_up, tear_down),
    cmocka_unit_test_setup_teardown(races__of_rewinding_and_deleting_a_thread_are_not_counted, set_up, tear_down),
    cmocka_unit_test_setup_teardown(races__for_the_list_of_approvals_are_not_counted, set_up, tear_down),
    cmocka_unit_test_setup_teardown(races__for_a_watched_folder_are_not_counted, set_up, tear_down),
    cmocka_unit_test_setup_teardown(races__of_restoring_a_snapshot_are_not_counted, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
