/*
 * crypto_test.c: libcrypto without memory when it is first used: each of its allocations fails in turn, alone and with all after it, in a
 * process of its own. Whatever fails, fails as an error; OpenSSL 3.0 crashes if it is not made ready first (base/crypto.h).
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/crypto.h"
#include "state/cipher.h"
#include "support/temp_folder.h"

#include <openssl/crypto.h>
#include <perdure/proof.h>
#include <perdure/state.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define EACH_MAX 160 /* the context is made within the first 50; */
#define STRIDE 61    /* later ones (configuration, algorithms) are tried now and then, */
#define LAST 3000    /* up to here */

enum { SUCCEEDED = 0, FAILED = 1, UNREACHED = 2, NOT_SET = 3 };

static long fail_at, calls;
static bool is_lasting;

static bool is_to_fail(void)
{
  calls++;
  return calls == fail_at || (is_lasting && calls > fail_at);
}

static void *give(size_t size, const char *file, int line)
{
  (void)file, (void)line;
  return is_to_fail() ? NULL : malloc(size);
}

static void *change(void *old, size_t size, const char *file, int line)
{
  (void)file, (void)line;
  return is_to_fail() ? NULL : realloc(old, size);
}

static void take(void *old, const char *file, int line)
{
  (void)file, (void)line;
  free(old);
}

/* ---- first uses ---- */

static char *folder;

static pd_code use_hkdf(pd_error *err)
{
  uint8_t key[PD_KEY_BYTES] = {1}, out[PD_KEY_BYTES];
  return pd_hkdf(key, (pd_bytes){0}, "test", out, err);
}

static pd_code use_gcm(pd_error *err)
{
  uint8_t key[PD_KEY_BYTES] = {1}, nonce[PD_NONCE_BYTES] = {0}, out[4], tag[PD_TAG_BYTES];
  pd_gcm gcm = {0};
  pd_code code = pd_gcm_new(&gcm, key, err);
  if (!code) code = pd_gcm_seal(&gcm, nonce, (pd_bytes){0}, pd_text("text"), out, tag, err);
  pd_gcm_done(&gcm);
  return code;
}

static pd_code use_public_key(pd_error *err)
{
  pd_public_key key = {{9}};
  pd_buf out = {0};
  pd_code code = pd_public_key_pem(&key, &out, err);
  pd_buf_done(&out);
  return code;
}

static pd_code use_sign_key(pd_error *err)
{
  char *uri = text_of("sqlite:%s", folder), *path = text_of("%s/perdure.key", folder);
  pd_sign_key *key = NULL;
  unlink(path);
  pd_code code = pd_sign_key_make(uri, err);
  if (!code) code = pd_sign_key_open(uri, &key, err);
  pd_sign_key_free(key);
  free(uri);
  free(path);
  return code;
}

static pd_code use_home(pd_error *err)
{
  pd_home *home = NULL;
  TRY(pd_home_open("memory:", NULL, &home, err));
  return pd_home_close(home, err);
}

/* ---- failing ---- */

/* The answer of a process whose first use of libcrypto is this. */
static int try(pd_code (*use)(pd_error *err), long at, bool lasts)
{
  pid_t pid = fork();
  if (pid == 0) {
    pd_error err = {0};
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
    for (size_t i = 0; i < COUNT_OF(deadly); i++) signal(deadly[i], SIG_DFL); /* not to cmocka, which would go on with the tests */
    alarm(60);
    if (!CRYPTO_set_mem_functions(give, change, take)) _exit(NOT_SET);
    fail_at = at;
    is_lasting = lasts;
    pd_code code = use(&err);
    _exit(calls < at ? UNREACHED : code ? FAILED : SUCCEEDED);
  }
  int status;
  assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
  if (WIFSIGNALED(status)) fail_msg("allocation %ld%s: signal %d", at, lasts ? " and all after it" : "", WTERMSIG(status));
  return WEXITSTATUS(status);
}

static void fails_properly(pd_code (*use)(pd_error *err))
{
  for (int lasts = 0; lasts < 2; lasts++) {
    unsigned failed = 0;
    for (long at = 1; at < LAST; at += at < EACH_MAX ? 1 : STRIDE) {
      int answer = try(use, at, lasts);
      assert_int_not_equal(answer, NOT_SET);
      failed += answer == FAILED;
      if (answer == UNREACHED) break;
    }
    assert_true(failed >= 40); /* the context alone needs so many */
  }
}

static void crypto__a_key_is_derived_or_an_error_says_why_not(void **state)
{
  (void)state;
  fails_properly(use_hkdf);
}

static void crypto__a_text_is_sealed_or_an_error_says_why_not(void **state)
{
  (void)state;
  fails_properly(use_gcm);
}

static void crypto__a_public_key_is_written_or_an_error_says_why_not(void **state)
{
  (void)state;
  fails_properly(use_public_key);
}

static void crypto__a_signing_key_is_made_or_an_error_says_why_not(void **state)
{
  (void)state;
  fails_properly(use_sign_key);
}

/* Here first, so that no request meets it. */
static void crypto__a_home_is_not_opened_without_libcrypto(void **state)
{
  (void)state;
  fails_properly(use_home);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(crypto__a_key_is_derived_or_an_error_says_why_not),
    cmocka_unit_test(crypto__a_text_is_sealed_or_an_error_says_why_not),
    cmocka_unit_test(crypto__a_public_key_is_written_or_an_error_says_why_not),
    cmocka_unit_test(crypto__a_signing_key_is_made_or_an_error_says_why_not),
    cmocka_unit_test(crypto__a_home_is_not_opened_without_libcrypto),
  };
  folder = temp_folder_new();
  int result = cmocka_run_group_tests_name("crypto", tests, NULL, NULL);
  temp_folder_free(folder);
  return result;
}
