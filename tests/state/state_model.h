/*
 * state_model.h: what session, persistent and shared state should answer, by the simplest means: arrays that are searched from the
 * beginning, totals that are added up anew for every question. Answers are JSON text; only their canonical form counts.
 */
#ifndef TESTS_STATE_STATE_MODEL_H
#define TESTS_STATE_STATE_MODEL_H

#include <perdure/perdure.h>

#define MODEL_AGENTS 5
#define MODEL_KEYS 12
#define MODEL_VALUE_SIZE 64
#define MODEL_VERSIONS 4096 /* of one key between two deletions */

typedef struct model_value {
  char text[MODEL_VALUE_SIZE]; /* JSON; "" for none */
  int64_t time_ms;
  int owner;
} model_value;

typedef struct model_key {
  model_value *versions; /* all since it was created */
  size_t count;          /* 0: not there */
  size_t base;           /* the version before the first: no number is given twice */
} model_key;

typedef struct model_tier {
  model_key keys[MODEL_KEYS];
  size_t floor; /* the highest version of a key that was deleted */
} model_tier;

/* The version of a key; 0: it is not there. */
size_t model_version(const model_key *key);

typedef struct model {
  model_tier session[MODEL_AGENTS], persistent[MODEL_AGENTS], shared;
  size_t session_quota, persistent_quota, shared_quota, window; /* window 0: all versions */
  int64_t now_ms;
} model;

/* The k-th key in byte order: "a.0"… for even, "b.0"… for odd places, so that prefixes choose some. Static storage. */
const char *model_key_name(int key);
const char *model_agent_name(int agent);

void model_done(model *m);
void model_tier_clear(model_tier *tier);
size_t model_bytes(const model_tier *tier, bool with_keys);

/* Each writes the answer, or the name of the error, to `out`, and returns true if it is an answer. `prefix` may be "". */
bool model_set(model *m, model_tier *tier, int agent, int key, const char *value, int64_t expect, pd_buf *out);
bool model_get(model *m, const model_tier *tier, int key, int64_t version, pd_buf *out);
bool model_delete(model *m, model_tier *tier, int key, pd_buf *out);
bool model_list(model *m, const model_tier *tier, const char *prefix, bool has_values, pd_buf *out);
bool model_history(model *m, const model_tier *tier, int key, uint64_t limit, pd_buf *out);
bool model_clear(model *m, model_tier *tier, pd_buf *out);

#endif
