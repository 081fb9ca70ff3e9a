/* backup_progress_test.c: long calls tell how far they are, and stop when their caller has enough: nothing is changed then. */
#include "base/base.h"
#include "engine/gc.h"
#include "state/backup_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

typedef struct told {
  uint64_t done, total;
  unsigned count, enough; /* stop at the enough-th word; 0: never */
} told;

static bool hear(void *ctx, uint64_t done, uint64_t total)
{
  told *t = ctx;
  assert_true(done <= total);
  if (t->count) assert_true(done >= t->done);
  t->done = done;
  t->total = total;
  t->count++;
  return t->count != t->enough;
}

static pd_code call(world *w, const char *capability, const char *id, told *t)
{
  char input[128];
  pd_ctx ctx = {.home = w->home, .agent = "main", .is_operator = true, .progress = hear, .progress_ctx = t};
  snprintf(input, sizeof input, id ? "{\"backup_id\":\"%s\"}" : "{}", id);
  return pd_call(&ctx, capability, pd_text(input), &w->out, &w->err);
}

static void backup__create_verify_and_restore_tell_how_far_they_are(void **state)
{
  (void)state;
  world w;
  static const char *const capabilities[] = {"state.backup.verify", "state.backup.restore"};
  told t = {0};
  open_with_state(&w);
  assert_int_equal(call(&w, "state.backup.create", NULL, &t), PD_OK);
  assert_true(t.count >= 2);
  assert_int_equal(t.done, t.total);
  assert_int_equal(t.total, 3); /* stores: main, helper, shared */
  char *id = out_text_of(&w, "backup_id");
  for (size_t i = 0; i < COUNT_OF(capabilities); i++) {
    t = (told){0};
    assert_int_equal(call(&w, capabilities[i], id, &t), PD_OK);
    assert_true(t.count >= 2);
    assert_int_equal(t.done, t.total);
  }
  free(id);
  world_close(&w);
}

/* ---- gc in the middle ---- */

typedef struct gc_between {
  world *w;
  unsigned refused;
} gc_between;

/* Everybody writes on, and a gc of another handle comes that would keep the last commit alone. */
static bool write_and_collect(void *ctx, uint64_t done, uint64_t total)
{
  static const char *const stores[] = {"main", "helper", "shared"};
  gc_between *g = ctx;
  if (done >= total) return true;
  change_all(g->w);
  for (size_t i = 0; i < COUNT_OF(stores); i++) {
    pd_store *s = NULL;
    pd_error err;
    assert_int_equal(pd_store_open(g->w->uri, stores[i], NULL, &s, NULL), PD_OK);
    pd_code code = pd_gc_quietly(s, &(pd_gc_policy){.keep_last = 1}, NULL, &err);
    if (code && code != PD_CONFLICT) fail_msg("gc: %s", err.message);
    g->refused += code == PD_CONFLICT;
    assert_int_equal(pd_store_close(s, NULL), PD_OK);
  }
  return true;
}

static void backup__beside_gc_is_of_its_instant_and_can_be_restored(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  gc_between g = {.w = &w};
  pd_ctx ctx = {.home = w.home, .agent = "main", .is_operator = true, .progress = write_and_collect, .progress_ctx = &g};
  if (pd_call(&ctx, "state.backup.create", pd_text("{}"), &w.out, &w.err)) fail_msg("backup: %s", w.err.message);
  char *id = out_text_of(&w, "backup_id");
  assert_int_equal(g.refused, 3 + 2 + 1); /* of each store until it was written */
  assert_changed(&w);
  restore_ok(&w, id);
  assert_old(&w);
  free(id);
  world_close(&w);
}

static void backup__error_Cancelled__leaves_everything_as_it_was(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}");
  change_all(&w);
  unsigned before = count(&w);
  for (unsigned enough = 1; enough <= 3; enough++) {
    told t = {.enough = enough};
    assert_int_equal(call(&w, "state.backup.create", NULL, &t), PD_INVALID);
    assert_string_equal(pd_error_name(&w.err), "Cancelled");
    assert_int_equal(count(&w), before);
  }
  for (unsigned enough = 1; enough <= 2; enough++) {
    told t = {.enough = enough};
    assert_int_equal(call(&w, "state.backup.restore", id, &t), PD_INVALID);
    assert_string_equal(pd_error_name(&w.err), "Cancelled");
    assert_changed(&w);
  }
  free(id);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(backup__create_verify_and_restore_tell_how_far_they_are),
    cmocka_unit_test(backup__beside_gc_is_of_its_instant_and_can_be_restored),
    cmocka_unit_test(backup__error_Cancelled__leaves_everything_as_it_was),
  };
  return cmocka_run_group_tests_name("backup_progress", tests, NULL, NULL);
}
