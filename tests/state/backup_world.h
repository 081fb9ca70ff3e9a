/* backup_world.h: a home with two agents, shared state and an unlocked vault, and what is easily said about its backups. */
#ifndef TESTS_STATE_BACKUP_WORLD_H
#define TESTS_STATE_BACKUP_WORLD_H

#include "state/world.h"

#define RIGHT "correct horse battery staple"
#define OTHER "a different passphrase"

extern const pd_vault_options cheap; /* the cost is no part of what is tested */

/* By a handle of its own: `perdure put`. */
void put(world *w, const char *store, const char *key, pd_bytes value);
void put_text(world *w, const char *store, const char *key, const char *value);
/* The value as text, or "(none)". Valid until the next call. */
const char *get_at(world *w, const char *store, const char *at, const char *key);
const char *get(world *w, const char *store, const char *key);
void unlock(world *w, const char *passphrase);
/* The operator calls; the passphrase is RIGHT. */
void open_with_vault(world *w, const char *config);
/* And key `plan` is 1 in main, 2 in helper, 3 in shared. */
void open_with_state(world *w);
/* It is "changed" in all of them. */
void change_all(world *w);
void assert_old(world *w);
void assert_changed(world *w);
/* A text of the last answer without its quotes; freed by the caller. */
char *out_text_of(world *w, const char *path);
/* The id of a new backup; freed by the caller. */
char *create(world *w, const char *input);
char *file_of(world *w, const char *id);
void read_whole(const char *path, pd_buf *out);
void write_whole(const char *path, pd_bytes bytes);
pd_code restore(world *w, const char *id);
void restore_ok(world *w, const char *id);
unsigned count(world *w);
char *export_path(world *w, const char *id, const char *path);

#endif
