/*
 * backup_big_test.c: a large backup is made, verified, exported, imported into another home and restored there in little memory.
 * 64 MiB of values here; PERDURE_TORTURE=full: 1 GiB.
 */
#include "base/base.h"
#include "state/world.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PASSPHRASE "correct horse battery staple"
#define VALUE_BYTES ((size_t)48 * 1024)
#define PEAK_KIB_MAX (64 * 1000) /* 64 MB */

static void require(bool is_right, const char *what, const pd_error *err)
{
  if (is_right) return;
  fprintf(stderr, "%s: %s\n", what, err ? err->message : "");
  _exit(1);
}

static void fill(uint8_t *bytes, uint64_t seed)
{
  uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
  for (size_t i = 0; i < VALUE_BYTES; i += 8) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    memcpy(bytes + i, &x, 8);
  }
}

/* Values that do not pack; buffered, as the disk is not what is tested. */
static void write_state(const char *uri, uint64_t total)
{
  static uint8_t value[VALUE_BYTES];
  pd_store *s = NULL;
  pd_error err;
  pd_options options = {.flush_ms = 1000};
  require(!pd_store_open(uri, "main", &options, &s, &err), "open", &err);
  for (uint64_t i = 0; i < total / VALUE_BYTES; i++) {
    char key[32];
    snprintf(key, sizeof key, "key-%llu", (unsigned long long)(i % 2000));
    fill(value, i);
    require(!pd_put(s, pd_text(key), (pd_bytes){value, sizeof value}, NULL, NULL, &err), "put", &err);
  }
  require(!pd_store_close(s, &err), "close", &err);
}

static pd_home *open_home(const char *uri, const char *passphrase)
{
  pd_home *home = NULL;
  pd_error err;
  require(!pd_home_open(uri, NULL, &home, &err), "open", &err);
  pd_vault_state is;
  require(!pd_vault_status(home, &is, &err), "status", &err);
  if (!is.exists) require(!pd_vault_init(home, pd_text(passphrase), NULL, &err), "init", &err); /* at its real cost */
  require(!pd_vault_unlock(home, pd_text(passphrase), &err), "unlock", &err);
  return home;
}

static void call(pd_home *home, const char *capability, const char *input)
{
  pd_error err;
  pd_buf out = {0};
  pd_ctx ctx = {.home = home, .agent = "main", .is_operator = true};
  require(!pd_call(&ctx, capability, pd_text(input), &out, &err), capability, &err);
  pd_buf_done(&out);
}

static void close_home(pd_home *home)
{
  pd_error err;
  require(!pd_home_close(home, &err), "close", &err);
}

/* The id is known: the clock stands still. */
#define ID "bkp-20261115T100000Z"

static int64_t still(void *ctx)
{
  (void)ctx;
  return 1794736800000;
}

static void back_up(const char *from, const char *to, const char *away)
{
  (void)to;
  pd_home *home = NULL;
  pd_error err;
  pd_home_options options = {.now_ms = still};
  close_home(open_home(from, PASSPHRASE));
  require(!pd_home_open(from, &options, &home, &err), "open", &err);
  require(!pd_vault_unlock(home, pd_text(PASSPHRASE), &err), "unlock", &err);
  call(home, "state.backup.create", "{}");
  call(home, "state.backup.verify", "{\"backup_id\":\"" ID "\"}");
  char *input = text_of("{\"backup_id\":\"" ID "\",\"path\":\"%s\"}", away);
  call(home, "state.backup.export", input);
  free(input);
  close_home(home);
}

static void bring_back(const char *from, const char *to, const char *away)
{
  (void)from;
  pd_error err;
  char *path = text_of("%s/" ID ".pdb", away), *input = text_of("{\"path\":\"%s\"}", path);
  pd_home *home = open_home(to, "another passphrase");
  require(!pd_vault_learn(home, path, pd_text(PASSPHRASE), &err), "learn", &err);
  call(home, "state.backup.import", input);
  call(home, "state.backup.restore", "{\"backup_id\":\"" ID "\"}");
  close_home(home);
  free(path), free(input);
}

static void in_a_child(void (*work)(const char *, const char *, const char *), const char *from, const char *to, const char *away,
                       const char *what)
{
  struct rusage use;
  int how;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    work(from, to, away);
    _exit(0);
  }
  assert_int_equal(wait4(child, &how, 0, &use), child);
  assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
  printf("# %s: peak memory %ld KiB\n", what, use.ru_maxrss);
  if (!getenv("PERDURE_SANITIZER") && use.ru_maxrss > PEAK_KIB_MAX) fail_msg("%s took %ld KiB at its peak", what, use.ru_maxrss);
}

static void compare(const char *from, const char *to)
{
  pd_store *a = NULL, *b = NULL;
  pd_commit x, y;
  pd_error err;
  assert_int_equal(pd_store_open(from, "main", NULL, &a, &err), PD_OK);
  assert_int_equal(pd_store_open(to, "main", NULL, &b, &err), PD_OK);
  assert_int_equal(pd_resolve(a, "main", &x, &err), PD_OK);
  assert_int_equal(pd_resolve(b, "main", &y, &err), PD_OK);
  assert_true(pd_id_equal(&x.id, &y.id));
  if (pd_verify(b, NULL, NULL, &err)) fail_msg("%s", err.message);
  assert_int_equal(pd_store_close(a, NULL), PD_OK);
  assert_int_equal(pd_store_close(b, NULL), PD_OK);
}

static uint64_t total_bytes;

static void write_first(const char *from, const char *to, const char *away)
{
  (void)to;
  (void)away;
  write_state(from, total_bytes);
}

static void backup__a_large_one_travels_to_another_home_in_little_memory(void **state)
{
  (void)state;
  const char *torture = getenv("PERDURE_TORTURE");
  total_bytes = torture && strcmp(torture, "full") == 0 ? (uint64_t)1 << 30 : (uint64_t)64 << 20;
  char *a = temp_folder_new(), *b = temp_folder_new(), *away = temp_folder_new();
  char *from = text_of("sqlite:%s", a), *to = text_of("sqlite:%s", b);
  int how;
  pid_t child = fork(); /* a process of its own: its cache is no part of what is measured */
  if (child == 0) {
    write_first(from, to, away);
    _exit(0);
  }
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
  in_a_child(back_up, from, to, away, "create, verify, export");
  in_a_child(bring_back, from, to, away, "import, restore");
  compare(from, to);
  free(from), free(to);
  temp_folder_free(a);
  temp_folder_free(b);
  temp_folder_free(away);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(backup__a_large_one_travels_to_another_home_in_little_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
