/* run_world.h: a thread, a run, and the events that it told, for one test. A call that fails ends the test. */
#ifndef THREAD_RUN_WORLD_H
#define THREAD_RUN_WORLD_H

#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"

#include <perdure/perdure.h>
#include <perdure/run.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

typedef struct run_world {
  pd_store *store;
  pd_thread *t;
  pd_scopes *scopes;
  pd_run_context *run;
  pd_error err;
  pd_buf text;
  int64_t now;
  char events[4000];
} run_world;

static run_world w;

#define OK(call)                                                                                                                           \
  do {                                                                                                                                     \
    w.err = (pd_error){0};                                                                                                                 \
    if (call) fail_msg("%s: %s: %s", #call, pd_error_name(&w.err), w.err.message);                                                         \
  } while (0)
#define FAILS(call, expected_code, expected_name)                                                                                          \
  do {                                                                                                                                     \
    w.err = (pd_error){0};                                                                                                                 \
    assert_int_equal(call, expected_code);                                                                                                 \
    assert_true(w.err.message[0]);                                                                                                         \
    if (strcmp(pd_error_name(&w.err), expected_name) != 0)                                                                                 \
      fail_msg("%s, not %s: %s", pd_error_name(&w.err), expected_name, w.err.message);                                                     \
  } while (0)

static inline int64_t world_now(void *ctx)
{
  (void)ctx;
  return w.now++;
}

/* "started@1 checkpoint:UserMessage@2 state_error:ToolResultsCommitted:StorageError@2 …" */
static inline void world_event(void *ctx, const pd_run_event *e)
{
  (void)ctx;
  size_t at = strlen(w.events);
  const char *name = pd_run_event_name(e->kind), *more = "";
  if (e->kind == PD_RUN_EVENT_CHECKPOINT || e->error) more = pd_reason_name(e->reason);
  if (e->kind == PD_RUN_EVENT_FINISHED) more = pd_done_reason_name(e->done_reason);
  if (e->kind == PD_RUN_EVENT_STATUS) more = pd_run_phase_name(e->status);
  if (e->kind == PD_RUN_EVENT_TOOL_CALL) more = pd_tool_status_name(e->call_status);
  snprintf(w.events + at, sizeof w.events - at, "%s%s%s%s%s@%llu", at ? " " : "", name, *more ? ":" : "", more,
           e->error ? pd_error_name(e->error) : "", (unsigned long long)e->version);
}

static inline pd_run_options world_options(const char *run_id)
{
  return (pd_run_options){.run_id = run_id, .scopes = w.scopes, .on_event = world_event, .now_ms = world_now};
}

static inline void world_open_at(const char *uri)
{
  w = (run_world){.now = 1000000};
  OK(pd_store_open(uri, "main", NULL, &w.store, &w.err));
  OK(pd_thread_create(w.store, &(pd_thread_options){.id = "t", .time_ms = 1000}, &w.t, &w.err));
}

static inline int world_open(void **state)
{
  (void)state;
  world_open_at("memory:");
  return 0;
}

static inline int world_close(void **state)
{
  (void)state;
  pd_run_close(w.run);
  pd_scopes_free(w.scopes);
  pd_thread_close(w.t);
  pd_buf_done(&w.text);
  return pd_store_close(w.store, NULL) ? -1 : 0;
}

/* Begin a run with these inbound messages (NULL: none); the one before is closed. */
static inline void world_begin(const char *run_id, const char *messages)
{
  pd_run_options options = world_options(run_id);
  if (messages) options.messages = pd_text(messages);
  pd_run_close(w.run);
  w.run = NULL;
  OK(pd_run_begin(w.t, &options, &w.run, &w.err));
}

static inline pd_code world_attach(const char *run_id)
{
  pd_run_options options = world_options(run_id);
  pd_run_close(w.run);
  w.run = NULL;
  w.err = (pd_error){0};
  return pd_run_attach(w.t, &options, &w.run, &w.err);
}

static inline void world_message(const char *id)
{
  char text[200];
  snprintf(text, sizeof text, "{\"id\":\"%s\",\"role\":\"assistant\"}", id);
  OK(pd_run_message(w.run, pd_text(text), &w.err));
}

static inline void world_set(const char *pointer, const char *value)
{
  char text[400];
  snprintf(text, sizeof text, "[{\"op\":\"set\",\"path\":\"%s\",\"value\":%s}]", pointer, value);
  OK(pd_run_patch(w.run, pd_text(text), &w.err));
}

static inline pd_run_ack world_checkpoint(pd_reason reason)
{
  pd_run_ack ack = {0};
  OK(pd_run_checkpoint(w.run, reason, &ack, &w.err));
  return ack;
}

static inline pd_run_ack world_finish(pd_done_reason reason)
{
  pd_run_ack ack = {0};
  OK(pd_run_finish(w.run, reason, &ack, &w.err));
  return ack;
}

static inline void world_call(const char *id)
{
  OK(pd_tool_call_begin(w.run, &(pd_tool_call){.id = id, .name = "search", .arguments = pd_text("{\"q\":1}")}, &w.err));
}

static inline void world_end(const char *id, pd_tool_status status)
{
  OK(pd_tool_call_end(w.run, id, &(pd_tool_result){.status = status}, &w.err));
}

/* The text of an answer, or "-" if there is nothing. Borrowed until the next such call. */
static inline const char *world_answer(pd_code code)
{
  if (code == PD_NOT_FOUND) return "-";
  if (code || pd_buf_byte(&w.text, 0, &w.err)) fail_msg("%s", w.err.message);
  return (const char *)w.text.data;
}

/* Committed, at the newest version. */
static inline const char *world_stored(const char *path)
{
  return world_answer(pd_thread_state(w.t, PD_VERSION_HEAD, path, &w.text, &w.err));
}

static inline const char *world_stored_at(uint64_t version, const char *path)
{
  return world_answer(pd_thread_state(w.t, version, path, &w.text, &w.err));
}

/* As the run sees it. */
static inline const char *world_seen(const char *path)
{
  return world_answer(pd_run_state(w.run, path, &w.text, &w.err));
}

static inline bool world_note_reason(void *ctx, const pd_thread_delta *delta)
{
  char *out = ctx;
  size_t at = strlen(out);
  if (delta->version) snprintf(out + at, 1000 - at, "%s%s", at ? " " : "", delta->reason);
  return true;
}

/* The reasons of all change sets, oldest first. */
static inline const char *world_reasons(void)
{
  static char out[1000];
  *out = 0;
  OK(pd_thread_deltas(w.t, 0, 0, world_note_reason, out, &w.err));
  return out;
}

static inline bool world_keep_delta(void *ctx, const pd_thread_delta *delta)
{
  pd_buf *out = ctx;
  pd_buf_clear(out);
  assert_int_equal(pd_buf_append(out, delta->json.data, delta->json.size, NULL), PD_OK);
  return true;
}

/* The change set of a version, as JSON. */
static inline const char *world_delta(uint64_t version)
{
  OK(pd_thread_delta_get(w.t, version, world_keep_delta, &w.text, &w.err));
  return world_answer(PD_OK);
}

static inline uint64_t world_version(void)
{
  pd_thread_info info;
  OK(pd_thread_info_get(w.t, &info, &w.err));
  return info.version;
}

static inline const char *world_active(void)
{
  static char out[PD_THREAD_ID_SIZE_MAX + 1];
  pd_thread_info info;
  OK(pd_thread_info_get(w.t, &info, &w.err));
  snprintf(out, sizeof out, "%s", info.active_run);
  return out;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, world_open, world_close)

#endif
