/*
 * restore_kill_test.c: kill -9 at random moments of a restore: when the home is opened again, all stores are as before or all as after.
 * The seed of the moments is printed; PERDURE_SEED replays it. PERDURE_TORTURE=full: more of them.
 */
#include "base/base.h"
#include "base/clock.h"
#include "state/world.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define PASSPHRASE "correct horse battery staple"
#define KEYS 20
#define KILLS 30
#define KILLS_TORTURE 200

static const char *const stores[] = {"a", "b", "c", "d", "shared"};
static const pd_vault_options cheap = {.memory_kib = 64, .passes = 1};

static void put_all(world *w, const char *value)
{
  for (size_t i = 0; i < COUNT_OF(stores); i++) {
    pd_store *s = NULL;
    pd_edit *edit = NULL;
    assert_int_equal(pd_store_open(w->uri, stores[i], NULL, &s, &w->err), PD_OK);
    assert_int_equal(pd_edit_begin(s, &(pd_note){.ref = "main"}, &edit, &w->err), PD_OK);
    for (unsigned k = 0; k < KEYS; k++) {
      char key[16];
      snprintf(key, sizeof key, "key-%u", k);
      assert_int_equal(pd_edit_put(edit, pd_text(key), pd_text(value), PD_ANY_VERSION, &w->err), PD_OK);
    }
    assert_int_equal(pd_edit_commit(edit, NULL, &w->err), PD_OK);
    assert_int_equal(pd_store_close(s, &w->err), PD_OK);
  }
}

static char *create(world *w)
{
  world_ok(w, "state.backup.create", "{}");
  const char *quoted = world_out(w, "backup_id");
  return text_of("%.*s", (int)strlen(quoted) - 2, quoted + 1);
}

/* Every key of every store has the same value: that one. */
static char state_of(world *w)
{
  char found = 0;
  for (size_t i = 0; i < COUNT_OF(stores); i++) {
    pd_store *s = NULL;
    assert_int_equal(pd_store_open(w->uri, stores[i], NULL, &s, &w->err), PD_OK);
    for (unsigned k = 0; k < KEYS; k++) {
      char key[16];
      pd_buf value = {0};
      snprintf(key, sizeof key, "key-%u", k);
      if (pd_get(s, "main", pd_text(key), &value, NULL, &w->err)) fail_msg("%s/%s: %s", stores[i], key, w->err.message);
      if (!found) found = (char)value.data[0];
      if (value.size != 1 || (char)value.data[0] != found)
        fail_msg("mixed: %s/%s is %c where others are %c", stores[i], key, value.data[0], found);
      pd_buf_done(&value);
    }
    assert_int_equal(pd_store_close(s, &w->err), PD_OK);
  }
  return found;
}

/* In a child: open the home, restore, leave. */
static pid_t start_restore(const world *w, const char *id)
{
  pid_t child = fork();
  if (child) return child;
  pd_home *home = NULL;
  pd_error err;
  pd_buf out = {0};
  char *input = text_of("{\"backup_id\":\"%s\"}", id);
  if (pd_home_open(w->uri, NULL, &home, &err) || pd_vault_unlock(home, pd_text(PASSPHRASE), &err)) _exit(2);
  pd_ctx ctx = {.home = home, .agent = "a", .is_operator = true};
  _exit(pd_call(&ctx, "state.backup.restore", pd_text(input), &out, &err) ? 3 : 0);
}

static int64_t time_of_restore(const world *w, const char *id)
{
  int how;
  int64_t before = pd_clock_monotonic_ms();
  pid_t child = start_restore(w, id);
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
  return pd_clock_monotonic_ms() - before;
}

static void verify_all(world *w)
{
  for (size_t i = 0; i < COUNT_OF(stores); i++) {
    pd_store *s = NULL;
    assert_int_equal(pd_store_open(w->uri, stores[i], NULL, &s, &w->err), PD_OK);
    if (pd_verify(s, NULL, NULL, &w->err)) fail_msg("%s: %s", stores[i], w->err.message);
    assert_int_equal(pd_store_close(s, &w->err), PD_OK);
  }
}

static void restore__a_kill_at_any_moment_leaves_the_old_or_the_new_state(void **state)
{
  (void)state;
  const char *seed_text = getenv("PERDURE_SEED"), *torture = getenv("PERDURE_TORTURE");
  unsigned seed = seed_text ? (unsigned)strtoul(seed_text, NULL, 10) : (unsigned)time(NULL), seen[2] = {0, 0};
  unsigned kills = torture && strcmp(torture, "full") == 0 ? KILLS_TORTURE : KILLS;
  printf("# PERDURE_SEED=%u\n", seed);
  world w;
  world_open(&w, NULL);
  w.is_operator = true;
  assert_int_equal(pd_vault_init(w.home, pd_text(PASSPHRASE), &cheap, &w.err), PD_OK);
  assert_int_equal(pd_vault_unlock(w.home, pd_text(PASSPHRASE), &w.err), PD_OK);
  put_all(&w, "A");
  char *ids[2] = {create(&w), NULL};
  put_all(&w, "B");
  ids[1] = create(&w);
  int64_t whole_ms = time_of_restore(&w, ids[0]) + 2;
  for (unsigned i = 0; i < kills; i++) {
    char before = state_of(&w), goal = before == 'A' ? 'B' : 'A';
    pid_t child = start_restore(&w, ids[goal == 'B']);
    int64_t us = (int64_t)rand_r(&seed) % (whole_ms * 1000);
    struct timespec moment = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&moment, NULL);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    world_restart(&w); /* who opens the home completes what was decided */
    seen[state_of(&w) == goal]++;
  }
  printf("# %u restores ended in the old state, %u in the new one\n", seen[0], seen[1]);
  verify_all(&w);
  assert_int_equal(pd_vault_unlock(w.home, pd_text(PASSPHRASE), &w.err), PD_OK);
  assert_int_equal(world_callf(&w, "state.backup.restore", "{\"backup_id\":\"%s\"}", ids[0]), PD_OK);
  assert_int_equal(state_of(&w), 'A');
  free(ids[0]), free(ids[1]);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(restore__a_kill_at_any_moment_leaves_the_old_or_the_new_state),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
