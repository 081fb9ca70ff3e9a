/* bundle_world.h: stores with a random life, and how two of them are compared; for tests of bundles. Failures end the test. */
#ifndef PD_TESTS_ENGINE_BUNDLE_WORLD_H
#define PD_TESTS_ENGINE_BUNDLE_WORLD_H

#include "engine/store.h"

/* A private store in memory. */
pd_store *world_open(void);
void world_put(pd_store *s, const char *key, const char *value, const pd_note *note);
/* `steps` random operations: puts, deletes, batches, forks, merges, undos, large values, empty commits, tags. */
void world_live(pd_store *s, uint64_t seed, unsigned steps);
/* The same, but refs only move forward. */
void world_live_on(pd_store *s, uint64_t seed, unsigned steps);
/* Are the refs the same, with all keys, values, versions and times at each of their commits, and the same commits? */
void world_same(pd_store *a, pd_store *b);
/* The same but for the numbers of versions, which a store that has given some gives itself. */
void world_same_but_numbers(pd_store *a, pd_store *b);
/* Is every commit of `part` one of `whole`? */
void world_subset(pd_store *part, pd_store *whole);
/* Does it verify? */
void world_sound(pd_store *s);

/* A bundle in an unnamed file. */
int world_export(pd_store *s, const pd_export_options *options, pd_export_report *out);
void world_import(pd_store *s, int fd, const pd_import_options *options, pd_import_report *out);
/* A bundle as bytes. */
void world_bytes(pd_store *s, const pd_export_options *options, pd_buf *out);
int world_file(const uint8_t *bytes, size_t size);
int open_null(void);

#endif
