/* desk.h: a StateStore of any type in a folder of its own, its warnings kept, for the tests of state/statestore*.c. */
#ifndef STATE_DESK_H
#define STATE_DESK_H

#include "base/base.h"
#include "base/buf.h"
#include "base/file.h"
#include "support/temp_folder.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct desk {
  char *dir, *path, *database, *uri;
  pd_statestore_options options;
  pd_statestore *s;
  pd_error err;
  pd_buf value;
  pthread_mutex_t lock; /* around what the warnings write */
  int warning_count;
  pd_code warning_code;
  char warning[2048];
  int64_t now_ms, uptime_ms;
} desk;

static inline void desk_warn(void *ctx, pd_code code, const char *message)
{
  desk *d = ctx;
  pthread_mutex_lock(&d->lock);
  d->warning_count++;
  d->warning_code = code;
  snprintf(d->warning, sizeof d->warning, "%s", message);
  pthread_mutex_unlock(&d->lock);
}

static inline int64_t desk_now(void *ctx)
{
  return ((desk *)ctx)->now_ms;
}

static inline int64_t desk_uptime(void *ctx)
{
  return ((desk *)ctx)->uptime_ms;
}

/* The options only. A long interval: nothing is flushed unless a test says so. */
static inline void desk_init(desk *d, pd_statestore_type type)
{
  *d = (desk){.dir = temp_folder_new(), .now_ms = 1700000000000, .uptime_ms = 5000000};
  pthread_mutex_init(&d->lock, NULL);
  d->path = text_of("%s/data/agent-state.json", d->dir);
  d->database = text_of("%s/zup.db", d->dir);
  d->uri = text_of("sqlite:%s/home", d->dir);
  d->options = pd_statestore_defaults();
  d->options.enabled = true;
  d->options.type = type;
  d->options.path = d->path;
  d->options.database = d->database;
  d->options.uri = d->uri;
  d->options.flush_interval_ms = 3600000;
  d->options.warn = desk_warn;
  d->options.warn_ctx = d;
  d->options.now_ms = desk_now;
  d->options.uptime_ms = desk_uptime;
  d->options.clock_ctx = d;
  d->options.boot_id = "boot-1";
}

static inline void desk_start(desk *d)
{
  if (pd_statestore_open(&d->options, &d->s, &d->err)) fail_msg("%s", d->err.message);
}

static inline void desk_stop(desk *d)
{
  if (pd_statestore_close(d->s, &d->err)) fail_msg("%s", d->err.message);
  pd_statestore_free(d->s);
  d->s = NULL;
}

static inline void desk_restart(desk *d)
{
  desk_stop(d);
  desk_start(d);
}

static inline void desk_open(desk *d, pd_statestore_type type)
{
  desk_init(d, type);
  desk_start(d);
}

static inline void desk_done(desk *d)
{
  pd_statestore_free(d->s);
  pd_buf_done(&d->value);
  temp_folder_free(d->dir);
  free(d->path);
  free(d->database);
  free(d->uri);
  pthread_mutex_destroy(&d->lock);
}

static inline void desk_set(desk *d, const char *key, const char *value)
{
  if (pd_statestore_set(d->s, pd_text(key), pd_text(value), &d->err)) fail_msg("set %s: %s", key, d->err.message);
}

static inline void desk_delete(desk *d, const char *key)
{
  if (pd_statestore_delete(d->s, pd_text(key), NULL, &d->err)) fail_msg("delete %s: %s", key, d->err.message);
}

static inline void desk_flush(desk *d)
{
  if (pd_statestore_flush(d->s, &d->err)) fail_msg("flush: %s", d->err.message);
}

static inline void assert_text(pd_buf *got, const char *wanted)
{
  if (!pd_bytes_equal(pd_buf_bytes(got), pd_text(wanted))) fail_msg("'%.*s' instead of '%s'", (int)got->size, (char *)got->data, wanted);
}

/* NULL: it is not there. */
static inline void assert_value(desk *d, const char *key, const char *wanted)
{
  pd_code code = pd_statestore_get(d->s, pd_text(key), &d->value, &d->err);
  assert_int_equal(code, wanted ? PD_OK : PD_NOT_FOUND);
  assert_int_equal(pd_statestore_has(d->s, pd_text(key)), wanted != NULL);
  if (wanted) assert_text(&d->value, wanted);
}

static inline bool desk_add_key(void *ctx, pd_bytes key, pd_bytes value)
{
  pd_buf *list = ctx;
  (void)value;
  assert_int_equal(pd_buf_append(list, key.data, key.size, NULL), PD_OK);
  assert_int_equal(pd_buf_byte(list, ' ', NULL), PD_OK);
  return true;
}

/* The keys, each with a blank behind it. */
static inline void assert_keys(desk *d, const char *prefix, const char *wanted)
{
  pd_buf list = {0};
  assert_int_equal(pd_statestore_list(d->s, pd_text(prefix), desk_add_key, &list, &d->err), PD_OK);
  assert_text(&list, wanted);
  pd_buf_done(&list);
}

/* But for white space at its end: there a state file has its checksum. */
static inline void assert_file(const char *path, const char *wanted)
{
  pd_buf text = {0};
  pd_error err;
  if (pd_file_read(path, 1 << 20, &text, &err)) fail_msg("%s", err.message);
  while (text.size && strchr(" \t\n", text.data[text.size - 1])) text.size--;
  assert_text(&text, wanted);
  pd_buf_done(&text);
}

static inline void write_text(const char *path, const char *text)
{
  pd_error err;
  if (pd_file_write(path, pd_text(text), false, &err)) fail_msg("%s", err.message);
}

/* Wait, up to a minute, until `flushes` or `failures` has reached a number. */
static inline void wait_for(desk *d, uint64_t flushes, uint64_t failures)
{
  pd_statestore_stats stats;
  for (int i = 0; i < 12000; i++) {
    pd_statestore_stats_get(d->s, &stats);
    if (stats.flushes >= flushes && stats.failures >= failures) return;
    usleep(5000);
  }
  fail_msg("%d flushes and %d failures: not so many as expected", (int)stats.flushes, (int)stats.failures);
}

#endif
