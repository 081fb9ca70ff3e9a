/* stream_world.c: see stream_world.h. */
#include "engine/stream_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

char folder[64];
char uri[128];
uint64_t seed_base;

int make_folder(void **state)
{
  (void)state;
  const char *text = getenv("PERDURE_SEED");
  seed_base = text ? strtoull(text, NULL, 10) : 7;
  strcpy(folder, "/tmp/perdure-stream-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(uri, sizeof uri, "sqlite:%s/home", folder);
  return 0;
}

int remove_folder(void **state)
{
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

uint64_t next_random(uint64_t *state)
{
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

void fill_noise(uint8_t *data, size_t size, uint64_t seed)
{
  seed += seed_base * 1000;
  for (size_t i = 0; i < size; i++) data[i] = (uint8_t)(next_random(&seed) >> 56);
}

uint8_t *noise(size_t size, uint64_t seed)
{
  uint8_t *data = malloc(size + 1);
  assert_non_null(data);
  fill_noise(data, size, seed);
  return data;
}

pd_store *open_at(const char *where, const pd_options *options)
{
  pd_store *s = NULL;
  pd_error err = {0};
  if (pd_store_open(where, "main", options, &s, &err)) fail_msg("open: %s", err.message);
  return s;
}

pd_store *open_store(void)
{
  return open_at(uri, NULL);
}

void put(pd_store *s, const char *key, const uint8_t *data, size_t size)
{
  pd_error err = {0};
  if (pd_put(s, pd_text(key), (pd_bytes){data, size}, NULL, NULL, &err)) fail_msg("put %s: %s", key, err.message);
}

void expect_sound(pd_store *s)
{
  pd_error err = {0};
  if (pd_verify(s, NULL, NULL, &err)) fail_msg("verify: %s", err.message);
}

/* ---- streams over memory ---- */

pd_code feed_read(void *ctx, void *buffer, size_t size, size_t *out_size, pd_error *err)
{
  feed *f = ctx;
  f->calls++;
  if (f->act && f->at >= f->act_at) {
    f->act(f);
    f->act = NULL;
  }
  if (f->fail_code) {
    if (err) err->code = f->fail_code;
    return f->fail_code;
  }
  size_t n = 1 + next_random(&f->random) % 100000;
  if (n > size) n = size;
  if (n > f->size - f->at) n = f->size - f->at;
  memcpy(buffer, f->data + f->at, n);
  f->at += n;
  *out_size = n;
  return PD_OK;
}

pd_code put_feed(pd_store *s, const char *key, feed *f, uint64_t expect_version, pd_error *err)
{
  f->store = s;
  return pd_put_stream(s, pd_text(key), feed_read, f, expect_version, NULL, NULL, err);
}

void put_stream(pd_store *s, const char *key, const uint8_t *data, size_t size)
{
  feed f = {.data = data, .size = size};
  pd_error err = {0};
  if (put_feed(s, key, &f, PD_ANY_VERSION, &err)) fail_msg("put_stream %s: %s", key, err.message);
}

pd_code take_piece(void *ctx, pd_bytes piece, pd_error *err)
{
  taken *t = ctx;
  if (t->stop_after && t->size >= t->stop_after) {
    if (err) err->code = PD_INVALID;
    return PD_INVALID;
  }
  assert_true(piece.size > 0);
  t->data = realloc(t->data, t->size + piece.size);
  memcpy(t->data + t->size, piece.data, piece.size);
  t->size += piece.size;
  if (piece.size > t->piece_max) t->piece_max = piece.size;
  return PD_OK;
}

void expect_same(const uint8_t *got, size_t got_size, const uint8_t *data, size_t size)
{
  assert_int_equal(got_size, size);
  if (size) assert_int_equal(memcmp(got, data, size), 0);
}

/* By every way of reading a value at `at`. */
void expect_bytes(pd_store *s, const char *at, const char *key, const uint8_t *data, size_t size)
{
  pd_buf got = {0};
  pd_entry entry;
  pd_error err = {0};
  pd_id id = pd_value_id((pd_bytes){data, size});
  if (pd_get(s, at, pd_text(key), &got, &entry, &err)) fail_msg("get %s: %s", key, err.message);
  expect_same(got.data, got.size, data, size);
  assert_true(pd_id_equal(&entry.value_id, &id));
  assert_int_equal(entry.size, size);
  uint64_t version = entry.version;
  taken t = {0};
  if (pd_get_stream(s, at, pd_text(key), take_piece, &t, &entry, &err)) fail_msg("get_stream %s: %s", key, err.message);
  expect_same(t.data, t.size, data, size);
  assert_true(t.piece_max <= 64 * KIB && pd_id_equal(&entry.value_id, &id));
  if (pd_get_version(s, at, pd_text(key), version, &got, NULL, &err)) fail_msg("get_version %s: %s", key, err.message);
  expect_same(got.data, got.size, data, size);
  t.size = 0;
  if (pd_get_version_stream(s, at, pd_text(key), version, take_piece, &t, NULL, &err)) fail_msg("version_stream: %s", err.message);
  expect_same(t.data, t.size, data, size);
  pd_iter *iter;
  pd_bytes value;
  pd_scan scan = {.prefix = pd_text(key)};
  assert_int_equal(pd_iter_open(s, at, &scan, &iter, &err), PD_OK);
  assert_int_equal(pd_iter_next(iter, &entry, &value, &err), PD_OK);
  expect_same(value.data, value.size, data, size);
  pd_iter_close(iter);
  pd_buf_done(&got);
  free(t.data);
}
