/* thread_world.h: a store and a thread for one test, and short words for what tests do with them. A call that fails ends the test. */
#ifndef THREAD_WORLD_H
#define THREAD_WORLD_H

#include "base/base.h"
#include "base/buf.h"

#include <perdure/perdure.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

typedef struct thread_world {
  pd_store *store;
  pd_thread *t;
  pd_error err;
  pd_buf text; /* the last answer, with a NUL */
} thread_world;

static inline void world_need(thread_world *w, pd_code code)
{
  if (code) fail_msg("%s: %s", pd_error_name(&w->err), w->err.message);
}

static inline void world_open_at(thread_world *w, const char *uri)
{
  *w = (thread_world){0};
  world_need(w, pd_store_open(uri, "main", NULL, &w->store, &w->err));
}

/* A private store in memory and a thread "t" of version 0. */
static inline void world_open(thread_world *w)
{
  world_open_at(w, "memory:");
  world_need(w, pd_thread_create(w->store, &(pd_thread_options){.id = "t", .owner = "ada", .time_ms = 1000}, &w->t, &w->err));
}

static inline void world_close(thread_world *w)
{
  pd_thread_close(w->t);
  pd_buf_done(&w->text);
  assert_int_equal(pd_store_close(w->store, NULL), PD_OK);
}

static inline pd_changeset world_set(const char *messages, const char *patches)
{
  return (pd_changeset){.run_id = "r1",
                        .reason = PD_REASON_USER_MESSAGE,
                        .messages = messages ? pd_text(messages) : (pd_bytes){NULL, 0},
                        .patches = patches ? pd_text(patches) : (pd_bytes){NULL, 0},
                        .time_ms = 2000};
}

/* Append to any version; returns the new one. */
static inline uint64_t world_append_to(thread_world *w, pd_thread *t, const char *messages, const char *patches)
{
  pd_changeset set = world_set(messages, patches);
  pd_thread_ack ack;
  world_need(w, pd_thread_append(t, &set, PD_ANY_VERSION, &ack, &w->err));
  return ack.version;
}

static inline uint64_t world_append(thread_world *w, const char *messages, const char *patches)
{
  return world_append_to(w, w->t, messages, patches);
}

static inline const char *world_text(thread_world *w)
{
  world_need(w, pd_buf_byte(&w->text, 0, &w->err));
  w->text.size--;
  return (const char *)w->text.data;
}

/* The state, or what is at `path` in it, borrowed until the next such call. */
static inline const char *world_state_of(thread_world *w, pd_thread *t, uint64_t version, const char *path)
{
  world_need(w, pd_thread_state(t, version, path, &w->text, &w->err));
  return world_text(w);
}

static inline const char *world_state(thread_world *w)
{
  return world_state_of(w, w->t, PD_VERSION_HEAD, NULL);
}

static inline bool world_add_message(void *ctx, const pd_thread_message *message)
{
  thread_world *w = ctx;
  world_need(w, pd_buf_printf(&w->text, &w->err, "%llu:%s ", (unsigned long long)message->place, message->id));
  return true;
}

/* "1:m1 2:m2 ": places and ids */
static inline const char *world_messages(thread_world *w, pd_thread *t, pd_message_query query, uint64_t *out_next)
{
  pd_buf_clear(&w->text);
  world_need(w, pd_thread_messages(t, &query, world_add_message, w, out_next, &w->err));
  return world_text(w);
}

/* The call failed with this code and name. */
#define assert_refused(w, call, code_, name_)                                                                                              \
  do {                                                                                                                                     \
    (w)->err = (pd_error){0};                                                                                                              \
    pd_code refused_ = (call);                                                                                                             \
    if (refused_ != (code_) || strcmp(pd_error_name(&(w)->err), (name_)) != 0)                                                             \
      fail_msg("line %d: expected %s, got %d %s: %s", __LINE__, (name_), (int)refused_, pd_error_name(&(w)->err), (w)->err.message);       \
  } while (0)

#endif
