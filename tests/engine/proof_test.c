/* proof_test.c: src/engine/prove.c and sign.c over whole stores: large and old values, merges, equal commits, retired and forged things. */
#include "base/buf.h"
#include "engine/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64], uri[128];

static int make_folder(void **state)
{
  (void)state;
  strcpy(folder, "/tmp/perdure-proof-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(uri, sizeof uri, "sqlite:%s", folder);
  return 0;
}

static int remove_folder(void **state)
{
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

static pd_store *open_at(const char *where, const char *agent)
{
  pd_store *s = NULL;
  pd_error err = {0};
  if (pd_store_open(where, agent, NULL, &s, &err)) fail_msg("open: %s", err.message);
  return s;
}

static pd_id put(pd_store *s, const char *key, pd_bytes value, const char *ref)
{
  pd_error err = {0};
  pd_ack ack;
  pd_note note = {.ref = ref};
  if (pd_put(s, pd_text(key), value, &note, &ack, &err)) fail_msg("put %s: %s", key, err.message);
  return ack.commit;
}

/* Prove and check; what it shows must be what pd_get says. */
static void expect_proof(pd_store *s, const char *at, const char *key)
{
  pd_buf proof = {0}, value = {0};
  pd_proof p;
  pd_error err = {0};
  pd_commit commit;
  assert_int_equal(pd_resolve(s, at, &commit, NULL), PD_OK);
  pd_proof_expect expect = {.commit = &commit.id, .key = pd_text(key)};
  pd_code got = pd_get(s, at, pd_text(key), &value, NULL, NULL);
  for (int with_value = 0; with_value < 2; with_value++) {
    if (pd_prove(s, at, pd_text(key), with_value, &proof, &err)) fail_msg("prove %s at %s: %s", key, at ? at : "head", err.message);
    if (pd_check_proof(pd_buf_bytes(&proof), &expect, &p, &err)) fail_msg("check %s at %s: %s", key, at ? at : "head", err.message);
    assert_int_equal(p.kind, got == PD_NOT_FOUND ? PD_PROOF_ABSENT : with_value ? PD_PROOF_VALUE : PD_PROOF_VALUE_ID);
    if (got) continue;
    pd_id id = pd_value_id(pd_buf_bytes(&value));
    assert_true(pd_id_equal(&id, &p.value_id));
    if (with_value) assert_true(pd_bytes_equal(p.value, pd_buf_bytes(&value)));
  }
  pd_buf_done(&proof), pd_buf_done(&value);
}

static void prove__values_inline_in_the_bag_and_large_at_heads_and_in_the_past(void **state)
{
  (void)state;
  static char large[1 << 20];
  for (size_t i = 0; i < sizeof large; i++) large[i] = (char)(i * 2654435761u >> 13);
  pd_store *s = open_at(uri, "values");
  char key[32], at[32];
  put(s, "empty", pd_text(""), NULL);
  put(s, "small", pd_text("{\"step\":1}"), NULL);
  put(s, "bag", (pd_bytes){large, 40000}, NULL);
  put(s, "large", (pd_bytes){large, sizeof large}, NULL);
  for (int i = 0; i < 300; i++) {
    snprintf(key, sizeof key, "key/%03d", i);
    put(s, key, (pd_bytes){large + i, (size_t)i}, NULL);
    if (i == 150) assert_int_equal(pd_store_keyframe(s, NULL), PD_OK);
  }
  assert_int_equal(pd_delete(s, pd_text("small"), PD_ANY_VERSION, NULL, NULL, NULL), PD_OK);
  for (int round = 0; round < 2; round++) { /* the second time from what is on disk */
    static const char *const keys[] = {"empty", "small", "bag", "large", "key/000", "key/149", "key/151", "key/299", "!", "key/1500", "zz"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
      expect_proof(s, NULL, keys[i]);
      expect_proof(s, "root", keys[i]);
      for (int back = 1; back < 304; back += 61) {
        snprintf(at, sizeof at, "main~%d", back);
        expect_proof(s, at, keys[i]);
      }
    }
    pd_store_close(s, NULL);
    s = open_at(uri, "values");
  }
  pd_error err;
  pd_buf out = {0};
  assert_int_equal(pd_prove(s, "nowhere", pd_text("k"), true, &out, &err), PD_NOT_FOUND);
  assert_int_equal(pd_prove(s, NULL, pd_text(""), true, &out, &err), PD_INVALID);
  assert_int_equal(out.size, 0);
  pd_buf_done(&out);
  pd_store_close(s, NULL);
}

static void prove__buffered_commits_are_shown_too(void **state)
{
  (void)state;
  pd_store *s = NULL;
  pd_options options = {.flush_ms = 60000};
  assert_int_equal(pd_store_open(uri, "buffered", &options, &s, NULL), PD_OK);
  put(s, "k", pd_text("v"), NULL);
  expect_proof(s, NULL, "k");
  expect_proof(s, NULL, "absent");
  pd_store_close(s, NULL);
}

/* ---- descent ---- */

static void expect_descent(pd_store *s, const char *ancestor, const char *at, uint64_t distance)
{
  pd_buf proof = {0};
  pd_proof p;
  pd_error err = {0};
  pd_commit young, old;
  assert_int_equal(pd_resolve(s, at, &young, NULL), PD_OK);
  assert_int_equal(pd_resolve(s, ancestor, &old, NULL), PD_OK);
  pd_proof_expect expect = {.commit = &young.id, .ancestor = &old.id};
  if (pd_prove_descent(s, ancestor, at, &proof, &err)) fail_msg("%s from %s: %s", at, ancestor, err.message);
  assert_int_equal(pd_check_proof(pd_buf_bytes(&proof), &expect, &p, NULL), PD_OK);
  assert_int_equal(p.distance, distance);
  pd_buf_done(&proof);
}

static void merge_of(pd_store *s, const char *ref)
{
  pd_commit theirs;
  assert_int_equal(pd_resolve(s, ref, &theirs, NULL), PD_OK);
  pd_change_in change = {
    .key = pd_text("merged"), .value = pd_text("1"), .value_id = pd_value_id(pd_text("1")), .expect_version = PD_ANY_VERSION};
  pd_intent intent = {.kind = PD_RECORD_COMMIT, .changes = &change, .change_count = 1, .merged = &theirs, .merged_count = 1};
  assert_int_equal(pd_write(s, &intent, NULL, NULL), PD_OK);
}

static void descent__goes_the_shortest_way_over_merges(void **state)
{
  (void)state;
  pd_store *s = open_at("memory:", "main");
  char key[32];
  pd_error err;
  pd_buf out = {0};
  put(s, "base", pd_text("0"), NULL);
  assert_int_equal(pd_fork(s, "base", NULL, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_fork(s, "side", NULL, NULL, NULL, NULL), PD_OK);
  for (int i = 0; i < 50; i++) snprintf(key, sizeof key, "main/%d", i), put(s, key, pd_text("1"), NULL);
  for (int i = 0; i < 3; i++) snprintf(key, sizeof key, "side/%d", i), put(s, key, pd_text("2"), "side");
  assert_int_equal(pd_prove_descent(s, "side", "main", &out, &err), PD_NOT_FOUND);
  assert_non_null(strstr(err.message, "does not descend"));
  merge_of(s, "side");
  expect_descent(s, "base", "main", 4); /* merge, three on the side */
  expect_descent(s, "side", "main", 1);
  expect_descent(s, "main~1", "main", 1);
  expect_descent(s, "main~50", "main~1", 49);
  expect_descent(s, "main", "main", 0);
  expect_descent(s, "root", "main", 5);
  expect_descent(s, "root", "root", 0);
  assert_int_equal(pd_prove_descent(s, "main", "side", &out, &err), PD_NOT_FOUND);
  assert_int_equal(pd_prove_descent(s, "main~3", "side", &out, &err), PD_NOT_FOUND);
  expect_proof(s, NULL, "merged");
  expect_proof(s, NULL, "side/1");
  pd_buf_done(&out);
  pd_store_close(s, NULL);
}

/* The same change on two branches is the same commit, made by two records. */
static void descent__knows_a_commit_by_its_id_whichever_record_made_it(void **state)
{
  (void)state;
  pd_store *s = open_at("memory:", "main");
  char hex[PD_ID_HEX_SIZE];
  put(s, "base", pd_text("0"), NULL);
  assert_int_equal(pd_fork(s, "side", NULL, NULL, NULL, NULL), PD_OK);
  pd_id first = put(s, "same", pd_text("1"), NULL);
  put(s, "only", pd_text("main"), NULL);
  pd_id second = put(s, "same", pd_text("1"), "side");
  assert_true(pd_id_equal(&first, &second));
  pd_id_hex(&first, hex);
  expect_descent(s, hex, "main", 1);
  expect_descent(s, "side", "main", 1);
  expect_descent(s, hex, "side", 0);
  pd_store_close(s, NULL);
}

static void descent__of_a_long_line_is_linear_and_whole(void **state)
{
  (void)state;
  pd_store *s = open_at("memory:", "main");
  pd_buf proof = {0};
  char value[16];
  for (int i = 0; i < 3000; i++) snprintf(value, sizeof value, "%d", i), put(s, "k", pd_text(value), NULL);
  expect_descent(s, "root", "main", 3000);
  assert_int_equal(pd_prove_descent(s, "root", "main", &proof, NULL), PD_OK);
  assert_true(proof.size < 3001 * 66 + 64);
  pd_buf_done(&proof);
  pd_store_close(s, NULL);
}

/* ---- signed heads ---- */

static void sign__every_flipped_byte_of_a_signed_head_is_refused(void **state)
{
  (void)state;
  pd_store *s = open_at(uri, "signer");
  pd_sign_key *key = NULL;
  pd_buf head = {0}, bad = {0};
  pd_signed_head shown = {0}, untouched = {0};
  pd_error err;
  pd_id id = put(s, "k", pd_text("1"), NULL);
  assert_int_equal(pd_sign_key_open(uri, &key, &err), PD_NOT_FOUND);
  assert_int_equal(pd_sign_key_make(uri, &err), PD_OK);
  assert_int_equal(pd_sign_key_make(uri, &err), PD_EXISTS);
  assert_int_equal(pd_sign_key_open(uri, &key, &err), PD_OK);
  assert_int_equal(pd_sign_head(s, key, NULL, true, &head, &err), PD_OK);
  pd_public_key public_key = pd_sign_key_public(key);
  assert_int_equal(pd_check_signed_head(pd_buf_bytes(&head), &public_key, &shown, &err), PD_OK);
  assert_true(pd_id_equal(&shown.commit, &id));
  assert_string_equal(shown.agent, "signer");
  assert_string_equal(shown.ref, "main");
  assert_int_equal(pd_verify_head(s, &shown, &err), PD_OK);
  for (size_t at = 0; at < head.size; at++) {
    for (int bit = 0; bit < 8; bit++) {
      pd_buf_clear(&bad);
      assert_int_equal(pd_buf_append(&bad, head.data, head.size, NULL), PD_OK);
      bad.data[at] ^= (uint8_t)(1u << bit);
      if (pd_check_signed_head(pd_buf_bytes(&bad), NULL, &untouched, &err) == PD_OK) fail_msg("bit %d of byte %zu may be changed", bit, at);
    }
    if (at < head.size - 1) assert_int_not_equal(pd_check_signed_head((pd_bytes){head.data, at}, NULL, &untouched, &err), PD_OK);
  }
  assert_int_equal(untouched.seq, 0);
  public_key.bytes[0] ^= 1;
  assert_int_equal(pd_check_signed_head(pd_buf_bytes(&head), &public_key, &shown, &err), PD_CONFLICT);
  pd_sign_key_free(key);
  pd_buf_done(&head), pd_buf_done(&bad);
  pd_store_close(s, NULL);
}

static void count_finding(void *ctx, const char *what)
{
  assert_non_null(what);
  ++*(int *)ctx;
}

static void sign__heads_stay_true_while_refs_move_on_and_false_ones_are_found(void **state)
{
  (void)state;
  pd_store *s = open_at(uri, "mover");
  pd_sign_key *key = NULL;
  pd_buf head = {0};
  pd_signed_head shown, wrong;
  pd_heads_report report;
  pd_error err;
  int findings = 0;
  assert_int_equal(pd_sign_key_open(uri, &key, &err), PD_OK);
  pd_public_key public_key = pd_sign_key_public(key);
  assert_int_equal(pd_sign_head(s, key, NULL, true, &head, &err), PD_OK); /* of nothing at all */
  put(s, "k", pd_text("1"), NULL);
  assert_int_equal(pd_fork(s, "side", NULL, NULL, NULL, NULL), PD_OK);
  put(s, "k", pd_text("2"), "side");
  assert_int_equal(pd_sign_head(s, key, "side", true, &head, &err), PD_OK);
  assert_int_equal(pd_check_signed_head(pd_buf_bytes(&head), &public_key, &shown, &err), PD_OK);
  put(s, "k", pd_text("3"), "side");
  assert_int_equal(pd_undo(s, 1, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_switch(s, "side", NULL, NULL), PD_OK);
  assert_int_equal(pd_sign_head(s, key, "side~1", true, &head, &err), PD_OK);
  assert_int_equal(pd_switch(s, "main", NULL, NULL), PD_OK);
  assert_int_equal(pd_ref_delete(s, "side", NULL, NULL), PD_OK);
  assert_int_equal(pd_store_keyframe(s, NULL), PD_OK);
  assert_int_equal(pd_verify_heads(s, &public_key, count_finding, &findings, &report, &err), PD_OK);
  assert_int_equal(report.heads, 3);
  assert_int_equal(findings, 0);
  wrong = shown, wrong.seq++;
  assert_int_equal(pd_verify_head(s, &wrong, &err), PD_CORRUPT);
  wrong = shown, wrong.seq = 100000;
  assert_int_equal(pd_verify_head(s, &wrong, &err), PD_CORRUPT);
  wrong = shown, wrong.commit.bytes[3] ^= 1;
  assert_int_equal(pd_verify_head(s, &wrong, &err), PD_CORRUPT);
  wrong = shown, strcpy(wrong.ref, "main");
  assert_int_equal(pd_verify_head(s, &wrong, &err), PD_CORRUPT);
  wrong = shown, strcpy(wrong.ref, "never");
  assert_int_equal(pd_verify_head(s, &wrong, &err), PD_CORRUPT);
  wrong = shown, strcpy(wrong.agent, "other");
  assert_int_equal(pd_verify_head(s, &wrong, &err), PD_CONFLICT);
  assert_int_equal(pd_meta_put(s, "signed", "forged", pd_text("{}"), 0, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_verify_heads(s, &public_key, count_finding, &findings, &report, &err), PD_CORRUPT);
  assert_int_equal(report.findings, 1);
  assert_int_equal(findings, 1);
  pd_sign_key_free(key);
  pd_buf_done(&head);
  pd_store_close(s, NULL);
}

static void sign__homes_without_a_folder_and_bad_keys_are_told(void **state)
{
  (void)state;
  pd_sign_key *key = NULL;
  pd_public_key parsed;
  pd_error err;
  assert_int_equal(pd_sign_key_make("memory:", &err), PD_UNSUPPORTED);
  assert_int_equal(pd_sign_key_open("memory:x", &key, &err), PD_UNSUPPORTED);
  assert_int_equal(pd_sign_key_make("sqlite:/nonexistent/home", &err), PD_NOT_FOUND);
  assert_null(key);
  static const char *const bad[] = {
    "", "x", "AAAA", "-----BEGIN PUBLIC KEY-----\nxx\n-----END PUBLIC KEY-----\n", "-----", "Ef4f2XETCRYnDGoqqDIqvIMRVrXlDPYaibxtw1MQI2p="};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_int_equal(pd_public_key_parse(pd_text(bad[i]), &parsed, &err), PD_INVALID);
  pd_buf pem = {0};
  pd_public_key again;
  char text[PD_PUBLIC_KEY_TEXT_SIZE];
  assert_int_equal(pd_public_key_parse(pd_text(" Ef4f2XETCRYnDGoqqDIqvIMRVrXlDPYaibxtw1MQI2o=\n"), &parsed, &err), PD_OK);
  assert_int_equal(pd_public_key_pem(&parsed, &pem, &err), PD_OK);
  assert_int_equal(pd_public_key_parse(pd_buf_bytes(&pem), &again, &err), PD_OK);
  assert_memory_equal(parsed.bytes, again.bytes, sizeof again.bytes);
  assert_string_equal(pd_public_key_text(&again, text), "Ef4f2XETCRYnDGoqqDIqvIMRVrXlDPYaibxtw1MQI2o=");
  pd_buf_done(&pem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(prove__values_inline_in_the_bag_and_large_at_heads_and_in_the_past),
    cmocka_unit_test(prove__buffered_commits_are_shown_too),
    cmocka_unit_test(descent__goes_the_shortest_way_over_merges),
    cmocka_unit_test(descent__knows_a_commit_by_its_id_whichever_record_made_it),
    cmocka_unit_test(descent__of_a_long_line_is_linear_and_whole),
    cmocka_unit_test(sign__every_flipped_byte_of_a_signed_head_is_refused),
    cmocka_unit_test(sign__heads_stay_true_while_refs_move_on_and_false_ones_are_found),
    cmocka_unit_test(sign__homes_without_a_folder_and_bad_keys_are_told),
  };
  return cmocka_run_group_tests_name("engine/proof", tests, make_folder, remove_folder);
}
