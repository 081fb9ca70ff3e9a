/* backup_damage_test.c: no damage gets through; and old backups after the vault has changed. */
#include "base/base.h"
#include "base/buf.h"
#include "base/file.h"
#include "state/backup.h"
#include "state/backup_world.h"
#include "support/temp_folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define CHUNK_SPAN (PD_BACKUP_CHUNK_BYTES + PD_BACKUP_CHUNK_EXTRA)

/* ---- damage ---- */

/* Nothing of this file may be taken: verify and restore refuse it, and nothing is changed. */
static void refuse(world *w, const char *path, const char *id, pd_bytes bytes, const char *what, size_t at)
{
  write_whole(path, bytes);
  pd_code verified = world_callf(w, "state.backup.verify", "{\"backup_id\":\"%s\"}", id);
  if (verified != PD_DECRYPT) fail_msg("%s at %zu: verify says %s", what, at, verified ? w->err.message : "valid");
}

static void refuse_restore(world *w, const char *path, const char *id, pd_bytes bytes, const char *what)
{
  write_whole(path, bytes);
  if (restore(w, id) != PD_DECRYPT) fail_msg("%s: restore says %s", what, w->err.message);
  assert_changed(w);
}

static void backup__every_flipped_byte_is_refused(void **state)
{
  (void)state;
  world w;
  pd_buf bytes = {0};
  open_with_state(&w);
  char *id = create(&w, "{}"), *path = file_of(&w, id);
  change_all(&w);
  read_whole(path, &bytes);
  for (size_t i = 0; i < bytes.size; i++) {
    bytes.data[i] ^= 0x40;
    refuse(&w, path, id, pd_buf_bytes(&bytes), "flip", i);
    if (i % 97 == 0) refuse_restore(&w, path, id, pd_buf_bytes(&bytes), "flip");
    bytes.data[i] ^= 0x40;
  }
  write_whole(path, pd_buf_bytes(&bytes));
  restore_ok(&w, id);
  assert_old(&w);
  pd_buf_done(&bytes);
  free(id), free(path);
  world_close(&w);
}

static void backup__every_cut_is_refused(void **state)
{
  (void)state;
  world w;
  pd_buf bytes = {0};
  open_with_state(&w);
  char *id = create(&w, "{}"), *path = file_of(&w, id);
  change_all(&w);
  read_whole(path, &bytes);
  for (size_t size = 0; size < bytes.size; size++) {
    refuse(&w, path, id, (pd_bytes){bytes.data, size}, "cut", size);
    if (size % 97 == 0) refuse_restore(&w, path, id, (pd_bytes){bytes.data, size}, "cut");
  }
  assert_int_equal(pd_buf_append(&bytes, "x", 1, NULL), PD_OK);
  refuse(&w, path, id, pd_buf_bytes(&bytes), "one byte more", bytes.size);
  pd_buf_done(&bytes);
  free(id), free(path);
  world_close(&w);
}

/* Bytes that do not pack: so that the backup has several chunks. */
static void put_noise(world *w, const char *store, size_t size)
{
  uint8_t *noise = malloc(size);
  assert_non_null(noise);
  uint64_t x = 88172645463325252u;
  for (size_t i = 0; i < size; i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    noise[i] = (uint8_t)x;
  }
  put(w, store, "noise", (pd_bytes){noise, size});
  free(noise);
}

static void swap_spans(uint8_t *a, uint8_t *b, size_t size)
{
  for (size_t i = 0; i < size; i++) {
    uint8_t kept = a[i];
    a[i] = b[i];
    b[i] = kept;
  }
}

static void backup__swapped_doubled_and_dropped_chunks_are_refused(void **state)
{
  (void)state;
  world w;
  pd_buf bytes = {0}, other = {0};
  open_with_state(&w);
  put_noise(&w, "main", 5 * PD_BACKUP_CHUNK_BYTES);
  char *id = create(&w, "{}"), *path = file_of(&w, id);
  char *id2 = create(&w, "{}"), *path2 = file_of(&w, id2);
  change_all(&w);
  read_whole(path, &bytes);
  read_whole(path2, &other);
  uint8_t *first = bytes.data + PD_BACKUP_HEAD_BYTES, *whole = malloc(bytes.size + CHUNK_SPAN);
  assert_non_null(whole);
  assert_true(bytes.size > PD_BACKUP_HEAD_BYTES + 4 * CHUNK_SPAN);
  swap_spans(first, first + CHUNK_SPAN, CHUNK_SPAN);
  refuse_restore(&w, path, id, pd_buf_bytes(&bytes), "swapped chunks");
  swap_spans(first, first + CHUNK_SPAN, CHUNK_SPAN);
  size_t head = PD_BACKUP_HEAD_BYTES + CHUNK_SPAN; /* header and first chunk */
  memcpy(whole, bytes.data, head);
  memcpy(whole + head, first, bytes.size - PD_BACKUP_HEAD_BYTES);
  refuse_restore(&w, path, id, (pd_bytes){whole, bytes.size + CHUNK_SPAN}, "a doubled chunk");
  memcpy(whole + PD_BACKUP_HEAD_BYTES, first + CHUNK_SPAN, bytes.size - head);
  refuse_restore(&w, path, id, (pd_bytes){whole, bytes.size - CHUNK_SPAN}, "a dropped chunk");
  refuse_restore(&w, path, id, (pd_bytes){bytes.data, head + CHUNK_SPAN}, "the last chunks dropped");
  memcpy(whole, bytes.data, bytes.size);
  memcpy(whole + PD_BACKUP_HEAD_BYTES, other.data + PD_BACKUP_HEAD_BYTES, CHUNK_SPAN);
  refuse_restore(&w, path, id, (pd_bytes){whole, bytes.size}, "a chunk of another backup");
  memcpy(whole, other.data, PD_BACKUP_HEAD_BYTES);
  memcpy(whole + PD_BACKUP_HEAD_BYTES, first, bytes.size - PD_BACKUP_HEAD_BYTES);
  refuse_restore(&w, path2, id2, (pd_bytes){whole, bytes.size}, "the header of another backup");
  write_whole(path, pd_buf_bytes(&bytes));
  restore_ok(&w, id);
  assert_old(&w);
  free(whole);
  pd_buf_done(&bytes);
  pd_buf_done(&other);
  free(id), free(path), free(id2), free(path2);
  world_close(&w);
}

/* ---- rotation ---- */

static void backup__old_backups_stay_readable_after_a_rotation(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}");
  pd_vault_rotation rotation = {.new_passphrase = pd_text(OTHER), .makes_new_key = true};
  assert_int_equal(pd_vault_rotate(w.home, pd_text(RIGHT), &rotation, &w.err), PD_OK);
  change_all(&w);
  char *newer = create(&w, "{}");
  world_restart(&w);
  unlock(&w, OTHER);
  restore_ok(&w, id);
  assert_old(&w);
  restore_ok(&w, newer);
  assert_changed(&w);
  free(id), free(newer);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(backup__every_flipped_byte_is_refused),
    cmocka_unit_test(backup__every_cut_is_refused),
    cmocka_unit_test(backup__swapped_doubled_and_dropped_chunks_are_refused),
    cmocka_unit_test(backup__old_backups_stay_readable_after_a_rotation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
