/*
 * model_world.h: one round of the model test: the real store by two handles, the model, and what both are driven with: keys, values,
 * points in history, a clock and a stream of random numbers that a seed replays.
 */
#ifndef PD_TESTS_ENGINE_MODEL_WORLD_H
#define PD_TESTS_ENGINE_MODEL_WORLD_H

#include "engine/model.h"

#define WORLD_HANDLES 2

typedef struct world {
  model model;
  const char *uri;
  uint32_t flush_ms;
  bool can_close_all; /* the store outlives its last handle */
  pd_store *handles[WORLD_HANDLES];
  int current; /* the handle of the operation under way */
  uint64_t seed, random;
  uint64_t op; /* number of the operation under way */
  const char *doing;
  pd_bytes *keys; /* rising byte order */
  size_t key_count;
  uint32_t value_count; /* values handed out so far */
  pd_buf expected;      /* scratch: the bytes of a value */
  uint64_t conflicts, misses, hits, commits;
} world;

void world_open(world *w, const char *uri, uint32_t flush_ms, size_t key_count, uint64_t seed);
void world_close(world *w);
/* Open handle `index` anew. */
void world_handle_open(world *w, int index);

/* The store and the model disagree: say where and how to replay it, and fail the test. */
void world_disagree(world *w, const char *fmt, ...) PD_PRINTF(2, 3) __attribute__((noreturn));
/* `code` must be `expected`. */
void world_expect(world *w, pd_code code, pd_code expected, const pd_error *err);
#define world_require(w, claim)                                                                                                            \
  do {                                                                                                                                     \
    if (!(claim)) world_disagree((w), "not so: %s (%s:%d)", #claim, __FILE__, __LINE__);                                                   \
  } while (0)

uint64_t world_random(world *w, uint64_t below);
bool world_chance(world *w, unsigned percent);
int64_t world_now_ms(void);
void world_tick(void);

/* The handle to use now. Buffered commits of one handle are flushed before the other is used. */
pd_store *world_handle(world *w);

const char *world_ref_name(int ref);
/* The bytes that value number `value` stands for; borrowed until the next call. */
pd_bytes world_value(world *w, uint32_t value);
/* A number for a value to put: mostly new, sometimes one that was there before. */
uint32_t world_value_pick(world *w);
/* A key: some are asked for much more often than others. */
size_t world_key_pick(world *w);
int world_ref_pick(world *w); /* may not exist */

/* A point in history as text, and what the model says of it: a commit, or how resolving it fails. */
typedef struct world_point {
  char text[256];
  const char *at; /* `text`, or NULL for the head of the handle's ref */
  uint32_t commit;
  pd_code code;
} world_point;
void world_point_pick(world *w, world_point *out);

/* Does an entry, or its value, agree with the model? */
void world_check_entry(world *w, const pd_entry *entry, size_t key, const model_entry *expected);
void world_check_value(world *w, pd_bytes value, const model_entry *expected);

#endif
