/* stream_world.h: what the tests of large values share: a folder, noise, streams over memory. PERDURE_SEED replays a run. */
#ifndef TESTS_ENGINE_STREAM_WORLD_H
#define TESTS_ENGINE_STREAM_WORLD_H

#include <perdure/perdure.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

extern char folder[64];
extern char uri[128];
extern uint64_t seed_base;

typedef struct feed {
  const uint8_t *data;
  size_t size, at;
  uint64_t random;                /* pieces of ragged sizes */
  size_t act_at;                  /* once past this… */
  void (*act)(struct feed *feed); /* …do this, once */
  pd_store *store;
  pd_code fail_code; /* set by `act`: give up with it */
  unsigned calls;
} feed;

typedef struct taken {
  uint8_t *data;
  size_t size, piece_max, stop_after;
} taken;

int make_folder(void **state);
int remove_folder(void **state);
uint64_t next_random(uint64_t *state);
void fill_noise(uint8_t *data, size_t size, uint64_t seed);
uint8_t *noise(size_t size, uint64_t seed);
pd_store *open_at(const char *where, const pd_options *options);
pd_store *open_store(void);
void put(pd_store *s, const char *key, const uint8_t *data, size_t size);
void expect_sound(pd_store *s);
pd_code feed_read(void *ctx, void *buffer, size_t size, size_t *out_size, pd_error *err);
pd_code put_feed(pd_store *s, const char *key, feed *f, uint64_t expect_version, pd_error *err);
void put_stream(pd_store *s, const char *key, const uint8_t *data, size_t size);
pd_code take_piece(void *ctx, pd_bytes piece, pd_error *err);
void expect_same(const uint8_t *got, size_t got_size, const uint8_t *data, size_t size);
void expect_bytes(pd_store *s, const char *at, const char *key, const uint8_t *data, size_t size);

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

#endif
