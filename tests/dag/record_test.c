/* record_test.c: src/dag/record.c, commit.c, catalog.c: round trips, golden bytes, damage. */
#include "base/buf.h"
#include "base/sha256.h"
#include "dag/catalog.h"
#include "dag/node.h"
#include "dag/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static pd_rec_change sample_changes[3];

static void make_sample(pd_rec *rec, pd_buf *out)
{
  pd_id prev = {{7}};
  sample_changes[0] = (pd_rec_change){.key = pd_text("a"), .version = 3, .prev_seq = 4, .size = 5, .value = pd_text("hello")};
  sample_changes[1] = (pd_rec_change){.key = pd_text("b"), .version = 9, .prev_seq = 9, .is_delete = true};
  sample_changes[2] = (pd_rec_change){.key = pd_text("c"), .version = 1, .size = 70000, .is_in_bag = true, .value_id = {{1, 2, 3}}};
  sample_changes[0].value_id = pd_value_id(pd_text("hello"));
  *rec = (pd_rec){.seq = 10,
                  .kind = PD_RECORD_COMMIT,
                  .time_ms = 1700000000000,
                  .keyframe_seq = 2,
                  .ref = pd_text("main"),
                  .ref_prev_seq = 9,
                  .author = pd_text("ann"),
                  .run = pd_text("r1"),
                  .reason = pd_text("why"),
                  .parent_seqs = {9},
                  .parent_count = 1,
                  .change_count = 3};
  assert_int_equal(pd_rec_encode(rec, sample_changes, out, NULL), PD_OK);
  rec->tree = pd_value_id(pd_text("tree"));
  rec->commit = pd_commit_id(&rec->tree, &prev, 1);
  assert_int_equal(pd_rec_reserve(out, NULL), PD_OK);
  pd_rec_seal(rec, sample_changes, &prev, out, 0);
}

/* A commit that came without its parents, with a key whose older versions did not come. */
static void make_graft(pd_rec *rec, size_t parent_count, pd_buf *out)
{
  static pd_rec_change change;
  pd_id prev = {{7}};
  change = (pd_rec_change){.key = pd_text("k"), .version = 5, .is_carried = true, .created_ms = 1600000000000, .value = pd_text("v")};
  change.size = 1;
  change.value_id = pd_value_id(pd_text("v"));
  *rec = (pd_rec){.seq = 10,
                  .kind = PD_RECORD_COMMIT,
                  .ref = pd_text("@import"),
                  .is_imported = true,
                  .is_grafted = true,
                  .base_seq = 8,
                  .parent_count = parent_count,
                  .parent_ids = {{{1}}, {{2}}},
                  .change_count = 1};
  assert_int_equal(pd_rec_encode(rec, &change, out, NULL), PD_OK);
  rec->tree = pd_value_id(pd_text("tree"));
  rec->commit = pd_commit_id(&rec->tree, rec->parent_ids, parent_count);
  assert_int_equal(pd_rec_reserve(out, NULL), PD_OK);
  pd_rec_seal(rec, &change, &prev, out, 0);
}

static void record__a_graft_names_its_parents_by_id(void **state)
{
  (void)state;
  for (size_t parents = 0; parents < 3; parents++) {
    pd_rec in, out;
    pd_rec_change ch;
    pd_id prev = {{7}};
    pd_buf buf = {0};
    make_graft(&in, parents, &buf);
    assert_int_equal(pd_rec_decode(10, pd_buf_bytes(&buf), &out, NULL), PD_OK);
    assert_true(out.is_grafted && out.parent_count == parents && pd_rec_base(&out) == 8);
    assert_true(out.parent_seqs[0] == PD_SEQ_GONE); /* nobody walks on to what is not there */
    assert_memory_equal(out.parent_ids, in.parent_ids, (parents ? parents : 1) * sizeof(pd_id));
    assert_int_equal(pd_rec_is_part(&out), parents == 0);
    assert_true(pd_id_equal(pd_rec_maker(&out), parents ? &in.commit : &in.parent_ids[0]));
    pd_cursor c = pd_rec_changes(&out);
    pd_rec_next(&out, &c, &ch);
    assert_true(ch.is_carried && ch.version == 5 && !ch.prev_seq && ch.created_ms == 1600000000000);
    pd_id audit = pd_rec_audit(&out, &prev);
    assert_true(pd_id_equal(&audit, &in.audit));
    buf.data[1] ^= 1u; /* a fork cannot be grafted; and no change of a byte passes the checksum */
    assert_int_equal(pd_rec_decode(10, pd_buf_bytes(&buf), &out, NULL), PD_CORRUPT);
    pd_buf_done(&buf);
  }
}

static void record__comes_back_as_it_was(void **state)
{
  (void)state;
  pd_rec in, out;
  pd_buf buf = {0};
  make_sample(&in, &buf);
  assert_int_equal(pd_rec_decode(10, pd_buf_bytes(&buf), &out, NULL), PD_OK);
  assert_int_equal(out.kind, PD_RECORD_COMMIT);
  assert_int_equal(out.keyframe_seq, 2);
  assert_int_equal(out.parent_seqs[0], 9);
  assert_true(pd_bytes_equal(out.reason, pd_text("why")));
  assert_true(pd_id_equal(&out.commit, &in.commit) && pd_id_equal(&out.tree, &in.tree) && pd_id_equal(&out.audit, &in.audit));
  pd_cursor c = pd_rec_changes(&out);
  for (size_t i = 0; i < 3; i++) {
    pd_rec_change ch;
    pd_rec_next(&out, &c, &ch);
    assert_true(pd_bytes_equal(ch.key, sample_changes[i].key));
    assert_int_equal(ch.version, sample_changes[i].version);
    assert_int_equal(ch.prev_seq, sample_changes[i].prev_seq);
    assert_int_equal(ch.is_delete, sample_changes[i].is_delete);
    pd_id id = pd_rec_value_id(&ch);
    assert_true(pd_id_equal(&id, &sample_changes[i].value_id));
    if (i == 0) assert_memory_equal(buf.data + ch.pos, "hello", 5);
    if (i == 0) assert_int_equal(ch.pos, sample_changes[0].pos);
  }
  pd_buf_done(&buf);
}

static void record__audit_is_the_same_whether_a_value_is_inline_or_in_the_bag(void **state)
{
  (void)state;
  pd_rec in, out;
  pd_buf buf = {0}, moved = {0};
  pd_id prev = {{7}};
  make_sample(&in, &buf);
  assert_int_equal(pd_rec_decode(10, pd_buf_bytes(&buf), &out, NULL), PD_OK);
  pd_id audit = pd_rec_audit(&out, &prev);
  assert_true(pd_id_equal(&audit, &in.audit));
  sample_changes[0].is_in_bag = true;
  pd_rec again = in;
  assert_int_equal(pd_rec_encode(&again, sample_changes, &moved, NULL), PD_OK);
  assert_int_equal(pd_rec_reserve(&moved, NULL), PD_OK);
  pd_rec_seal(&again, sample_changes, &prev, &moved, 0);
  assert_true(pd_id_equal(&again.audit, &in.audit));
  pd_id other = {{8}};
  audit = pd_rec_audit(&out, &other);
  assert_false(pd_id_equal(&audit, &in.audit));
  pd_buf_done(&buf);
  pd_buf_done(&moved);
}

static void record__every_flipped_bit_and_every_cut_is_found(void **state)
{
  (void)state;
  pd_rec in, out;
  pd_buf buf = {0};
  make_sample(&in, &buf);
  for (size_t cut = 0; cut < buf.size; cut++) {
    pd_bytes part = {buf.data, cut};
    assert_int_equal(pd_rec_decode(10, part, &out, NULL), PD_CORRUPT);
  }
  for (size_t bit = 0; bit < buf.size * 8; bit++) {
    buf.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    assert_int_equal(pd_rec_decode(10, pd_buf_bytes(&buf), &out, NULL), PD_CORRUPT);
    buf.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  assert_int_equal(pd_rec_decode(10, pd_buf_bytes(&buf), &out, NULL), PD_OK);
  assert_int_equal(pd_rec_decode(3, pd_buf_bytes(&buf), &out, NULL), PD_CORRUPT); /* points before the beginning */
  pd_buf_done(&buf);
}

static void record__golden_bytes_hold(void **state)
{
  (void)state;
  pd_rec in;
  pd_buf buf = {0};
  char hex[PD_ID_HEX_SIZE];
  make_sample(&in, &buf);
  pd_id sum = pd_sha256(pd_buf_bytes(&buf));
  assert_string_equal(pd_id_hex(&sum, hex), "d5d178be9a3290bee280a73db7dd9f744f5471ab4786eee4152db32023de9221");
  pd_id root = pd_commit_root_id();
  assert_string_equal(pd_id_hex(&root, hex), "ead1cd2a6ccf6a7886944daed80f0cf81a0136c8da165dd34da5ee1697c3169f");
  pd_buf_done(&buf);
}

typedef struct chooser {
  size_t erase, drop; /* indexes plus 1 */
  size_t seen;
} chooser;

static pd_redaction choose(void *ctx, const pd_rec *rec, const pd_rec_change *change)
{
  chooser *c = ctx;
  (void)rec, (void)change;
  c->seen++;
  return c->seen == c->erase ? PD_REDACT_ERASE : c->seen == c->drop ? PD_REDACT_DROP : PD_REDACT_KEEP;
}

/* A commit of three keys: inline, deleted, inline. */
static void make_three(pd_rec *rec, pd_rec_change changes[3], const pd_id *prev, pd_buf *out)
{
  pd_bytes one = pd_text("the first value"), three = pd_text("the third, which stays where it was");
  changes[0] = (pd_rec_change){.key = pd_text("a"), .version = 1, .size = (uint32_t)one.size, .value = one, .value_id = pd_sha256(one)};
  changes[1] = (pd_rec_change){.key = pd_text("b"), .is_delete = true, .version = 4, .prev_seq = 2};
  changes[2] = (pd_rec_change){
    .key = pd_text("c"), .version = 2, .prev_seq = 3, .size = (uint32_t)three.size, .value = three, .value_id = pd_sha256(three)};
  *rec = (pd_rec){.seq = 9,
                  .kind = PD_RECORD_COMMIT,
                  .time_ms = 5,
                  .ref = pd_text("main"),
                  .is_imported = true,
                  .made_ms = 3,
                  .origin = pd_text("elsewhere"),
                  .parent_count = 2,
                  .parent_seqs = {8, 4},
                  .change_count = 3};
  assert_int_equal(pd_rec_encode(rec, changes, out, NULL), PD_OK);
  assert_int_equal(pd_rec_reserve(out, NULL), PD_OK);
  pd_rec_seal(rec, changes, prev, out, 0);
}

static void redaction__keeps_audit_and_positions_of_what_is_left(void **state)
{
  (void)state;
  pd_buf whole = {0}, cut = {0};
  pd_rec made, old, got;
  pd_rec_change in[3], ch;
  pd_id prev = {{7}};
  bool is_changed;
  pd_bytes value;
  make_three(&made, in, &prev, &whole);
  assert_int_equal(pd_rec_decode(9, pd_buf_bytes(&whole), &old, NULL), PD_OK);
  assert_int_equal(pd_rec_made_ms(&old), 3);
  chooser erase = {.erase = 1};
  assert_int_equal(pd_rec_redact(&old, choose, &erase, false, &cut, &is_changed, NULL), PD_OK);
  assert_true(is_changed);
  assert_int_equal(pd_rec_decode(9, pd_buf_bytes(&cut), &got, NULL), PD_OK);
  assert_null(memmem(cut.data, cut.size, "the first", 9));
  pd_id audit = pd_rec_audit(&got, &prev);
  assert_true(pd_id_equal(&audit, &old.audit)); /* nothing was dropped: it can be computed */
  pd_cursor c = pd_rec_changes(&got);
  pd_rec_next(&got, &c, &ch);
  assert_true(ch.is_erased && pd_id_equal(&ch.value_id, &in[0].value_id) && ch.pos == in[0].pos);
  assert_int_equal(pd_rec_value_at(9, pd_buf_bytes(&cut), in[0].pos, in[0].size, &value, NULL), PD_ERASED);
  assert_int_equal(pd_rec_value_at(9, pd_buf_bytes(&cut), in[2].pos, in[2].size, &value, NULL), PD_OK);
  assert_true(pd_bytes_equal(value, in[2].value));
  assert_int_equal(pd_rec_value_at(9, pd_buf_bytes(&cut), in[2].pos + 1, in[2].size, &value, NULL), PD_CORRUPT);

  chooser drop = {.drop = 1}; /* of the redacted one: twice is fine */
  pd_buf again = {0};
  assert_int_equal(pd_rec_redact(&got, choose, &drop, false, &again, &is_changed, NULL), PD_OK);
  assert_int_equal(pd_rec_decode(9, pd_buf_bytes(&again), &got, NULL), PD_OK);
  assert_true(got.has_dropped && got.change_count == 2 && pd_id_equal(&got.audit, &old.audit));
  assert_int_equal(pd_rec_value_at(9, pd_buf_bytes(&again), in[2].pos, in[2].size, &value, NULL), PD_OK);
  chooser none = {0};
  pd_buf same = {0};
  assert_int_equal(pd_rec_redact(&old, choose, &none, false, &same, &is_changed, NULL), PD_OK);
  assert_false(is_changed);
  assert_int_equal(same.size, whole.size);
  pd_buf_done(&whole), pd_buf_done(&cut), pd_buf_done(&again), pd_buf_done(&same);
}

static void catalog__comes_back_as_it_was_and_refuses_damage(void **state)
{
  (void)state;
  pd_catalog_ref refs[2] = {{.name = "main", .commit = {.seq = 4}, .last_seq = 6, .redo_seq = 5, .updated_ms = 77},
                            {.name = "old", .is_deleted = true, .last_seq = 3}};
  pd_catalog_frame frames[2] = {{.seq = 3, .covers = 2}, {.seq = 9, .covers = 7}};
  pd_catalog in = {.covers = 12, .time_ms = 99, .current = "main", .refs = refs, .ref_count = 2, .frames = frames, .frame_count = 2}, out;
  pd_buf buf = {0};
  assert_int_equal(pd_catalog_encode(&in, &buf, NULL), PD_OK);
  assert_int_equal(pd_catalog_decode(pd_buf_bytes(&buf), &out, NULL), PD_OK);
  assert_int_equal(out.covers, 12);
  assert_string_equal(out.refs[0].name, "main");
  assert_int_equal(out.refs[0].redo_seq, 5);
  assert_true(out.refs[1].is_deleted);
  assert_int_equal(out.frames[1].seq, 9);
  pd_catalog_done(&out);
  for (size_t cut = 0; cut < buf.size; cut++) {
    pd_bytes part = {buf.data, cut};
    assert_int_equal(pd_catalog_decode(part, &out, NULL), PD_CORRUPT);
    pd_catalog_done(&out);
  }
  pd_buf_done(&buf);
}

static void run__finds_commits_by_prefix(void **state)
{
  (void)state;
  pd_run_entry entries[100];
  for (size_t i = 0; i < 100; i++) entries[i] = (pd_run_entry){(uint32_t)((i * 7919) % 101 * 1000), 5000 + i};
  pd_buf buf = {0};
  assert_int_equal(pd_run_encode(entries, 100, 4999, &buf, NULL), PD_OK);
  pd_bytes run = pd_buf_bytes(&buf);
  assert_int_equal(pd_run_check(run, NULL), PD_OK);
  assert_int_equal(pd_run_count(run), 100);
  for (size_t i = 0; i < 100; i++) {
    uint32_t prefix = (uint32_t)((i * 7919) % 101 * 1000);
    pd_run_entry e = pd_run_at(run, pd_run_find(run, prefix));
    assert_int_equal(e.prefix, prefix);
    assert_int_equal(e.seq, 5000 + i);
  }
  assert_int_equal(pd_run_find(run, UINT32_MAX), 100);
  run.size--;
  assert_int_equal(pd_run_check(run, NULL), PD_CORRUPT);
  pd_buf_done(&buf);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(record__comes_back_as_it_was),
    cmocka_unit_test(record__a_graft_names_its_parents_by_id),
    cmocka_unit_test(record__audit_is_the_same_whether_a_value_is_inline_or_in_the_bag),
    cmocka_unit_test(record__every_flipped_bit_and_every_cut_is_found),
    cmocka_unit_test(record__golden_bytes_hold),
    cmocka_unit_test(redaction__keeps_audit_and_positions_of_what_is_left),
    cmocka_unit_test(catalog__comes_back_as_it_was_and_refuses_damage),
    cmocka_unit_test(run__finds_commits_by_prefix),
  };
  return cmocka_run_group_tests_name("dag/record", tests, NULL, NULL);
}
