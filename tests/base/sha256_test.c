/* sha256_test.c: the vectors of FIPS 180-4 and NIST's examples, and that pieces hash as their whole. */
#include "base/sha256.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void assert_hash(pd_bytes data, const char *expected)
{
  pd_id id = pd_sha256(data);
  char hex[PD_ID_HEX_SIZE];
  for (int i = 0; i < PD_ID_SIZE; i++) sprintf(hex + 2 * i, "%02x", id.bytes[i]);
  assert_string_equal(hex, expected);
}

static void sha256__known_vectors_hold(void **state)
{
  (void)state;
  assert_hash((pd_bytes){NULL, 0}, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  assert_hash(pd_text("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  assert_hash(pd_text("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  assert_hash(pd_text("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
              "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
}

static void sha256__a_million_letters_hash_as_nist_says(void **state)
{
  (void)state;
  char *letters = malloc(1000000);
  memset(letters, 'a', 1000000);
  assert_hash((pd_bytes){letters, 1000000}, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  free(letters);
}

static void sha256__pieces_hash_as_their_whole(void **state)
{
  (void)state;
  uint8_t data[300];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 31);
  pd_id whole = pd_sha256((pd_bytes){data, sizeof data});
  for (size_t cut = 0; cut <= sizeof data; cut++) {
    pd_bytes parts[] = {{data, cut}, {NULL, 0}, {data + cut, sizeof data - cut}};
    pd_id id = pd_sha256_parts(parts, COUNT_OF(parts));
    assert_memory_equal(id.bytes, whole.bytes, PD_ID_SIZE);
  }
}

static void sha256__a_flipped_bit_changes_the_hash(void **state)
{
  (void)state;
  uint8_t data[64] = {0};
  pd_id before = pd_sha256((pd_bytes){data, sizeof data});
  for (size_t bit = 0; bit < 8 * sizeof data; bit++) {
    data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    pd_id after = pd_sha256((pd_bytes){data, sizeof data});
    assert_memory_not_equal(after.bytes, before.bytes, PD_ID_SIZE);
    data[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
}

/* RFC 4231, cases 1 and 2. */
static void hmac_sha256__known_vectors_hold(void **state)
{
  (void)state;
  uint8_t key[20];
  char hex[PD_ID_HEX_SIZE];
  memset(key, 0x0b, sizeof key);
  pd_id mac = pd_hmac_sha256((pd_bytes){key, sizeof key}, pd_text("Hi There"));
  assert_string_equal(pd_id_hex(&mac, hex), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  mac = pd_hmac_sha256(pd_text("Jefe"), pd_text("what do ya want for nothing?"));
  assert_string_equal(pd_id_hex(&mac, hex), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(sha256__known_vectors_hold),         cmocka_unit_test(sha256__a_million_letters_hash_as_nist_says),
    cmocka_unit_test(sha256__pieces_hash_as_their_whole), cmocka_unit_test(sha256__a_flipped_bit_changes_the_hash),
    cmocka_unit_test(hmac_sha256__known_vectors_hold),
  };
  return cmocka_run_group_tests_name("sha256", tests, NULL, NULL);
}
