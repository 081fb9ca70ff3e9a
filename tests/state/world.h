/* world.h: a fresh home in a folder of its own, with a clock that the test moves, and calls that are easy to write. */
#ifndef TESTS_STATE_WORLD_H
#define TESTS_STATE_WORLD_H

#include <perdure/perdure.h>

typedef struct world {
  char *folder, *uri;
  pd_home *home;
  _Atomic int64_t now_ms;           /* the home's clock; begins at 2026-11-15T10:00:00Z */
  const char *agent;                /* who calls; "main" */
  char session[PD_SESSION_ID_SIZE]; /* of that agent; "": none */
  bool is_operator;
  pd_buf out; /* of the last call, with a NUL behind it */
  pd_error err;
  char member[65536];
} world;

/* `config` is the text of perdure.toml; NULL: none. Aborts the test on a failure. */
void world_open(world *w, const char *config);
/* The same with its stores at another URI, such as `gate:memory:NAME`. The folder is for files beside them. */
void world_open_at(world *w, const char *uri, const char *config);
/* A home that is in this folder already, which is removed in the end; the clock begins at `now_ms`. */
void world_open_folder(world *w, const char *folder, int64_t now_ms);
void world_close(world *w);
/* For every store of the home; until the next call of this thread. */
const pd_grant *world_grant(pd_home *home);
/* pd_home_borrow with it. */
PD_MUST_USE pd_code world_borrow(pd_home *home, const char *name, bool create, pd_store **out, pd_error *err);
/* For cmocka: each test gets a world without a configuration as its state. */
int world_set_up(void **state);
int world_tear_down(void **state);
/* Close the home and open it again: what a restart leaves. */
void world_restart(world *w);
/* Begin a session for w->agent, and use it from now on. */
void world_begin_session(world *w);
/* Call as w->agent. `input` is JSON text. */
pd_code world_call(world *w, const char *capability, const char *input);
/* …which must succeed. */
void world_ok(world *w, const char *capability, const char *input);
/* …which must fail with this name and carry this action among its recoveries (NULL: any). */
void world_fails(world *w, const char *capability, const char *input, const char *name, const char *action);
/* A member of the last answer as JSON text ("" if absent); path with dots: "error.code", "entries.0.key". Valid until the next call. */
const char *world_out(world *w, const char *path);
/* That member must be there and be this. */
void world_want(world *w, const char *path, const char *json);
/* That member, which must be a text, without its quotes; freed by the caller. */
char *world_text(world *w, const char *path);
/* printf, then world_call; or world_ok. */
pd_code world_callf(world *w, const char *capability, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void world_okf(world *w, const char *capability, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
