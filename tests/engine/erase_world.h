/* erase_world.h: two stores with a clock in hand: `here` erases, and imports what `there` still has. */
#ifndef ERASE_WORLD_H
#define ERASE_WORLD_H

#include <perdure/perdure.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECRET "the-launch-code-is-hunter2"
#define OTHER "an-older-launch-code-swordfish"

typedef struct world {
  char *folder, *uri, *far, *far_uri;
  pd_store *here, *there;
  int64_t now_ms;
  int bundle;
  pd_error err;
} world;

int world_set_up(void **state);
int world_tear_down(void **state);
pd_store *world_open(world *w, const char *uri);
/* A second passes before each of these. */
void world_put(world *w, pd_store *store, const char *key, const char *value);
void world_erase(world *w, const char *key, bool is_lazy);
/* The history of the other store comes here as far/main. */
void world_import(world *w);
/* That of a bundle. */
void world_import_file(world *w, pd_store *to, int fd);
/* Everything of a store as a file. */
int world_export_all(world *w, pd_store *store, const char *name);
/* A few puts, and only the last commit is kept. */
void world_gc(world *w);
pd_code world_read_at(world *w, const char *at, const char *key);
/* In none of the files of `here`. */
void world_want_nowhere(world *w, const char *text);
/* Of the ledger here, as doctor counts them. */
size_t world_entries(world *w);

#define TEST_IN_WORLD(f) cmocka_unit_test_setup_teardown(f, world_set_up, world_tear_down)

#endif
