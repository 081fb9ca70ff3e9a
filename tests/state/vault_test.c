/* vault_test.c: the vault: what opens it, what does not, and what is left in its file. */
#include "base/base.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/secret.h"
#include "state/world.h"
#include "support/temp_folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define RIGHT "correct horse battery staple"
#define OTHER "a different passphrase"
#define FILE_MAX 65536

static const pd_vault_options cheap = {.memory_kib = 64, .passes = 1}; /* the cost is no part of what is tested */

static void init(world *w, const char *passphrase)
{
  if (pd_vault_init(w->home, pd_text(passphrase), &cheap, &w->err)) fail_msg("init: %s", w->err.message);
}

static pd_code unlock(world *w, const char *passphrase)
{
  return pd_vault_unlock(w->home, pd_text(passphrase), &w->err);
}

static pd_vault_state status(world *w)
{
  pd_vault_state state;
  if (pd_vault_status(w->home, &state, &w->err)) fail_msg("status: %s", w->err.message);
  return state;
}

static char *vault_path(world *w)
{
  return text_of("%s/vault.json", w->folder);
}

static void read_vault(world *w, pd_buf *out)
{
  char *path = vault_path(w);
  assert_int_equal(pd_file_read(path, FILE_MAX, out, &w->err), PD_OK);
  free(path);
}

static void write_vault(world *w, pd_bytes text)
{
  char *path = vault_path(w);
  assert_int_equal(pd_file_write(path, text, false, &w->err), PD_OK);
  free(path);
}

static void vault__is_locked_by_default(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  assert_false(status(&w).exists);
  init(&w, RIGHT);
  assert_true(status(&w).exists);
  assert_false(status(&w).is_unlocked);
  assert_int_equal(unlock(&w, RIGHT), PD_OK);
  assert_true(status(&w).is_unlocked);
  world_restart(&w);
  assert_false(status(&w).is_unlocked);
  world_close(&w);
}

static void vault__lock_locks(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  init(&w, RIGHT);
  assert_int_equal(unlock(&w, RIGHT), PD_OK);
  pd_vault_lock(w.home);
  assert_false(status(&w).is_unlocked);
  pd_vault_lock(w.home); /* twice is no error */
  world_close(&w);
}

static void vault__a_wrong_passphrase_is_told_from_a_damaged_file(void **state)
{
  (void)state;
  world w;
  pd_buf text = {0};
  world_open(&w, NULL);
  assert_int_equal(unlock(&w, RIGHT), PD_NOT_FOUND);
  init(&w, RIGHT);
  assert_int_equal(unlock(&w, OTHER), PD_DECRYPT);
  assert_non_null(strstr(w.err.message, "passphrase is wrong"));
  assert_int_equal(unlock(&w, RIGHT "x"), PD_DECRYPT);
  read_vault(&w, &text);
  text.data[text.size / 2] ^= 1;
  write_vault(&w, pd_buf_bytes(&text));
  assert_int_equal(unlock(&w, RIGHT), PD_CORRUPT);
  assert_non_null(strstr(w.err.message, "damaged"));
  assert_false(pd_vault_status(w.home, &(pd_vault_state){0}, &w.err) == PD_OK);
  pd_buf_done(&text);
  world_close(&w);
}

static void vault__every_flipped_byte_and_every_cut_of_the_file_is_noticed(void **state)
{
  (void)state;
  world w;
  pd_buf text = {0};
  world_open(&w, NULL);
  init(&w, RIGHT);
  read_vault(&w, &text);
  for (size_t i = 0; i < text.size; i++) {
    text.data[i] ^= 0x21;
    write_vault(&w, pd_buf_bytes(&text));
    text.data[i] ^= 0x21;
    if (unlock(&w, RIGHT) != PD_CORRUPT) fail_msg("byte %zu: %s", i, w.err.message);
  }
  for (size_t size = 0; size < text.size; size++) {
    write_vault(&w, (pd_bytes){text.data, size});
    if (unlock(&w, RIGHT) != PD_CORRUPT) fail_msg("cut at %zu: %s", size, w.err.message);
  }
  write_vault(&w, pd_buf_bytes(&text));
  assert_int_equal(unlock(&w, RIGHT), PD_OK);
  pd_buf_done(&text);
  world_close(&w);
}

static void vault__init_never_replaces_a_vault(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  init(&w, RIGHT);
  assert_int_equal(pd_vault_init(w.home, pd_text(OTHER), &cheap, &w.err), PD_EXISTS);
  assert_int_equal(unlock(&w, RIGHT), PD_OK);
  world_close(&w);
}

static void vault__bad_passphrases_and_costs_are_refused(void **state)
{
  (void)state;
  static const pd_vault_options bad[] = {
    {.memory_kib = 1}, {.memory_kib = 2000000}, {.passes = 65}, {.lanes = 17}, {.memory_kib = 64, .lanes = 9}};
  char long_text[PD_PASSPHRASE_SIZE_MAX + 2];
  world w;
  world_open(&w, NULL);
  memset(long_text, 'a', sizeof long_text);
  assert_int_equal(pd_vault_init(w.home, pd_text(""), &cheap, &w.err), PD_INVALID);
  assert_int_equal(pd_vault_init(w.home, pd_text("short"), &cheap, &w.err), PD_INVALID);
  assert_int_equal(pd_vault_init(w.home, (pd_bytes){long_text, PD_PASSPHRASE_SIZE_MAX + 1}, &cheap, &w.err), PD_INVALID);
  for (size_t i = 0; i < COUNT_OF(bad); i++) assert_int_equal(pd_vault_init(w.home, pd_text(RIGHT), &bad[i], &w.err), PD_INVALID);
  assert_false(status(&w).exists);
  assert_int_equal(pd_vault_init(w.home, (pd_bytes){long_text, PD_PASSPHRASE_SIZE_MAX}, &cheap, &w.err), PD_OK);
  assert_int_equal(unlock(&w, ""), PD_INVALID);
  world_close(&w);
}

static void vault__locks_itself_when_idle(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  init(&w, RIGHT);
  assert_int_equal(unlock(&w, RIGHT), PD_OK);
  int64_t idle_ms = status(&w).locks_at_ms - w.now_ms;
  assert_true(idle_ms > 0);
  w.now_ms += idle_ms - 1;
  assert_true(status(&w).is_unlocked); /* looking is no use */
  w.now_ms += 1;
  assert_false(status(&w).is_unlocked);
  world_close(&w);
}

static void vault__rotate_changes_the_passphrase(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  init(&w, RIGHT);
  pd_vault_rotation rotation = {.new_passphrase = pd_text(OTHER)};
  assert_int_equal(pd_vault_rotate(w.home, pd_text("not the one"), &rotation, &w.err), PD_DECRYPT);
  assert_int_equal(unlock(&w, RIGHT), PD_OK);
  assert_int_equal(pd_vault_rotate(w.home, pd_text(RIGHT), &rotation, &w.err), PD_OK);
  assert_true(status(&w).is_unlocked);
  assert_int_equal(unlock(&w, RIGHT), PD_DECRYPT);
  assert_int_equal(unlock(&w, OTHER), PD_OK);
  assert_int_equal(status(&w).key_count, 2); /* with a key of its own */
  assert_int_equal(status(&w).memory_kib, 64);
  rotation = (pd_vault_rotation){.new_passphrase = pd_text(RIGHT), .keeps_key = true};
  assert_int_equal(pd_vault_rotate(w.home, pd_text(OTHER), &rotation, &w.err), PD_OK);
  assert_int_equal(status(&w).key_count, 2);
  world_close(&w);
}

static void vault__rotate_can_add_a_key_until_there_are_too_many(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  init(&w, RIGHT);
  pd_vault_rotation rotation = {0};
  assert_int_equal(pd_vault_rotate(w.home, pd_text(RIGHT), &rotation, &w.err), PD_INVALID);
  rotation.makes_new_key = true;
  for (uint32_t i = 2; i <= PD_VAULT_KEYS_MAX; i++) {
    assert_int_equal(pd_vault_rotate(w.home, pd_text(RIGHT), &rotation, &w.err), PD_OK);
    assert_int_equal(status(&w).key_count, i);
  }
  assert_int_equal(pd_vault_rotate(w.home, pd_text(RIGHT), &rotation, &w.err), PD_LIMIT);
  assert_int_equal(unlock(&w, RIGHT), PD_OK);
  world_close(&w);
}

static void vault__the_file_is_private_and_holds_no_passphrase(void **state)
{
  (void)state;
  world w;
  pd_buf text = {0};
  struct stat is;
  world_open(&w, NULL);
  init(&w, RIGHT);
  char *path = vault_path(&w);
  assert_int_equal(stat(path, &is), 0);
  assert_int_equal(is.st_mode & 0777, 0600);
  read_vault(&w, &text);
  assert_null(memmem(text.data, text.size, RIGHT, strlen(RIGHT)));
  free(path);
  pd_buf_done(&text);
  world_close(&w);
}

static void vault__a_home_without_a_folder_has_none(void **state)
{
  (void)state;
  pd_home *home = NULL;
  pd_error err;
  pd_vault_state now;
  assert_int_equal(pd_home_open("memory:", NULL, &home, &err), PD_OK);
  assert_int_equal(pd_vault_init(home, pd_text(RIGHT), &cheap, &err), PD_UNSUPPORTED);
  assert_int_equal(pd_vault_status(home, &now, &err), PD_OK);
  assert_false(now.exists);
  assert_int_equal(pd_home_close(home, &err), PD_OK);
}

/* In a process of its own: what it gives up cannot be had again. */
__attribute__((unused)) static void vault__no_key_is_kept_in_memory_that_cannot_be_locked(void **state)
{
  (void)state;
  pid_t child = fork();
  if (child == 0) {
    struct rlimit none = {0, 0};
    pd_secret secret = {0};
    if (setrlimit(RLIMIT_MEMLOCK, &none) != 0 || (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0)) _exit(2);
    _exit(pd_secret_new(&secret, 32, NULL) == PD_STORAGE && !secret.data ? 0 : 1);
  }
  int how;
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

static void vault_status__tells_the_state_and_nothing_else(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  world_ok(&w, "vault.status", "{}");
  assert_string_equal((const char *)w.out.data, "{\"exists\":false,\"unlocked\":false,\"locks_at\":null,\"keys\":0}");
  init(&w, RIGHT);
  assert_int_equal(unlock(&w, RIGHT), PD_OK);
  world_ok(&w, "vault.status", "{}");
  assert_string_equal(world_out(&w, "exists"), "true");
  assert_string_equal(world_out(&w, "unlocked"), "true");
  assert_string_equal(world_out(&w, "locks_at"), "\"2026-11-15T10:15:00.000Z\"");
  assert_string_equal(world_out(&w, "keys"), "1");
  world_close(&w);
}

static void vault_status__err_IoError__a_damaged_file_is_an_error(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  write_vault(&w, pd_text("{}"));
  world_fails(&w, "vault.status", "{}", "IoError", "check_disk");
  world_close(&w);
}

/* Somebody is writing to the store of agent `vault`, and holds its lock meanwhile. */
static void vault__does_not_share_a_lock_with_an_agent_of_that_name(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  char *path = text_of("%s/vault.lock", w.folder);
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
  init(&w, RIGHT);
  pd_vault_rotation rotation = {.makes_new_key = true};
  alarm(60); /* it would wait for ever */
  assert_int_equal(pd_vault_rotate(w.home, pd_text(RIGHT), &rotation, &w.err), PD_OK);
  alarm(0);
  close(fd);
  free(path);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(vault__is_locked_by_default),
    cmocka_unit_test(vault__does_not_share_a_lock_with_an_agent_of_that_name),
    cmocka_unit_test(vault__lock_locks),
    cmocka_unit_test(vault__a_wrong_passphrase_is_told_from_a_damaged_file),
    cmocka_unit_test(vault__every_flipped_byte_and_every_cut_of_the_file_is_noticed),
    cmocka_unit_test(vault__init_never_replaces_a_vault),
    cmocka_unit_test(vault__bad_passphrases_and_costs_are_refused),
    cmocka_unit_test(vault__locks_itself_when_idle),
    cmocka_unit_test(vault__rotate_changes_the_passphrase),
    cmocka_unit_test(vault__rotate_can_add_a_key_until_there_are_too_many),
    cmocka_unit_test(vault__the_file_is_private_and_holds_no_passphrase),
    cmocka_unit_test(vault__a_home_without_a_folder_has_none),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they make mlock do nothing */
    cmocka_unit_test(vault__no_key_is_kept_in_memory_that_cannot_be_locked),
#endif
    cmocka_unit_test(vault_status__tells_the_state_and_nothing_else),
    cmocka_unit_test(vault_status__err_IoError__a_damaged_file_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
