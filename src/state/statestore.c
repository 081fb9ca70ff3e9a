/* statestore.c: the public functions of <perdure/statestore.h>: opening and closing, reading and changing the map. */
#include "state/statestore.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

/* ---- values ---- */

pd_code pd_statestore_normal(pd_bytes value, pd_buf *scratch, pd_bytes *out, pd_error *err)
{
  pd_json json;
  pd_json_facts facts;
  if (value.size > PD_STATESTORE_VALUE_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "a value of %zu bytes is over the limit of %zu", value.size, PD_STATESTORE_VALUE_SIZE_MAX);
  TRY(pd_json_parse_facts(value, &json, &facts, err));
  if (facts.depth > PD_STATESTORE_VALUE_DEPTH_MAX) /* in a file it lies three levels deeper, and has to be read back from there */
    return pd_error_set(err, PD_LIMIT, "a value of a StateStore may nest at most %d levels deep", PD_STATESTORE_VALUE_DEPTH_MAX);
  *out = json.raw;
  if (!facts.has_space || json.kind < PD_JSON_ARRAY) return PD_OK;
  pd_buf_clear(scratch);
  pd_json_writer w = {.out = scratch, .err = err};
  pd_json_value(&w, json);
  if (w.code) return w.code;
  *out = pd_buf_bytes(scratch);
  return PD_OK;
}

/* ---- opening ---- */

static pd_code load_entry(void *ctx, pd_bytes key, pd_bytes value, pd_error *err)
{
  pd_statestore *s = ctx;
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_bytes normal;
  TRY(pd_statestore_normal(value, &scratch, &normal, err));
  TRY(pd_statemap_reserve(&s->map, 1, err));
  pd_statecell *cell = pd_statecell_new(key, normal);
  if (!cell) return pd_error_memory(err, "a StateStore's value");
  pd_statemap_place(&s->map, cell, pd_statemap_tag(&s->map, key))->is_stored = true;
  return PD_OK;
}

static int64_t system_uptime_ms(void *ctx)
{
  (void)ctx;
  struct timespec t;
  clock_gettime(CLOCK_BOOTTIME, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void read_boot_id(char out[64])
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (pd_file_read("/proc/sys/kernel/random/boot_id", 1024, &text, NULL) || !text.size || text.size > 63) return; /* then clocks count */
  memcpy(out, text.data, text.size);
  out[text.size] = '\0';
  out[strcspn(out, "\r\n\"\\")] = '\0';
}

static pd_code init(pd_statestore *s, const pd_statestore_options *o, pd_error *err)
{
  pthread_condattr_t attr;
  pthread_mutex_init(&s->lock, NULL);
  pthread_mutex_init(&s->own_lock, NULL);
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&s->wake, &attr);
  pthread_cond_init(&s->done, NULL);
  pthread_condattr_destroy(&attr);
  s->flush_ms = o->flush_interval_ms;
  s->warner = (pd_shelf_warner){o->warn, o->warn_ctx};
  s->now_ms = o->now_ms ? o->now_ms : pd_clock_now_ms;
  s->uptime_ms = o->uptime_ms ? o->uptime_ms : system_uptime_ms;
  s->clock_ctx = o->clock_ctx;
  if (o->boot_id)
    snprintf(s->boot_id, sizeof s->boot_id, "%s", o->boot_id);
  else
    read_boot_id(s->boot_id);
  if (getrandom(&s->map.seed, sizeof s->map.seed, 0) != (ssize_t)sizeof s->map.seed)
    return pd_error_set(err, PD_STORAGE, "there are no random bytes");
  s->gone.seed = s->map.seed; /* so that a key has one tag in both */
  return PD_OK;
}

static pd_code open_shelf(pd_statestore *s, const pd_statestore_options *o, pd_error *err)
{
  switch (s->stats.type) {
  case PD_STATESTORE_FILE: TRY(pd_shelf_file_open(o->path, o->refuses_damage, s->warner, &s->shelf, err)); break;
  case PD_STATESTORE_DATABASE:
    if (!o->database) return pd_error_set(err, PD_NOT_FOUND, "no SQLite database is configured");
    TRY(pd_shelf_database_open(o->database, o->table_name, s->warner, &s->shelf, err));
    break;
  case PD_STATESTORE_PERDURE:
    TRY(
      pd_shelf_perdure_open(o->uri ? o->uri : "sqlite:./.perdure", o->agent ? o->agent : "main", o->table_name, s->warner, &s->shelf, err));
    break;
  default: return PD_OK;
  }
  s->is_whole = s->shelf->ops->is_whole;
  return s->shelf->ops->load(s->shelf, load_entry, s, err);
}

static void drop_shelf(pd_statestore *s)
{
  if (s->shelf) s->shelf->ops->close(s->shelf);
  s->shelf = NULL;
}

static pd_code open_store(pd_statestore *s, const pd_statestore_options *o, pd_error *err)
{
  pd_error why;
  TRY(init(s, o, err));
  s->stats.type = o->enabled ? o->type : PD_STATESTORE_MEMORY;
  pd_code code = open_shelf(s, o, &why);
  if (code && s->stats.type == PD_STATESTORE_DATABASE && code != PD_NO_MEMORY) {
    drop_shelf(s);
    pd_statemap_done(&s->map); /* a part of a damaged table is no state */
    s->stats.type = PD_STATESTORE_MEMORY;
    s->stats.is_fallback = true;
    pd_shelf_warn(&s->warner, code, "the state is kept in memory only, and is lost when the process ends: %s", why.message);
    return PD_OK;
  }
  if (code) {
    if (err) *err = why;
    return code;
  }
  if (!s->shelf) return PD_OK;
  if (pthread_create(&s->thread, NULL, pd_statestore_run, s)) return pd_error_set(err, PD_STORAGE, "no thread for a StateStore's flushes");
  s->has_thread = true;
  return PD_OK;
}

pd_code pd_statestore_open(const pd_statestore_options *options, pd_statestore **out, pd_error *err)
{
  pd_statestore_options o = options ? *options : pd_statestore_defaults();
  if (!o.path) o.path = pd_statestore_defaults().path;
  if (!o.table_name) o.table_name = pd_statestore_defaults().table_name;
  TRY(pd_statestore_check(&o, err));
  pd_statestore *s = calloc(1, sizeof *s);
  if (!s) return pd_error_memory(err, "a StateStore");
  pd_code code = open_store(s, &o, err);
  if (code)
    pd_statestore_free(s);
  else
    *out = s;
  return code;
}

/* ---- closing ---- */

pd_code pd_statestore_is_closed(pd_error *err)
{
  return pd_error_named(err, PD_INVALID, "StateStoreClosed", "the StateStore is closed");
}

/* The lock is held; it is given up while the thread ends. */
static void stop(pd_statestore *s)
{
  s->is_stopping = true;
  pthread_cond_broadcast(&s->wake);
  pthread_cond_broadcast(&s->done);
  pthread_mutex_unlock(&s->lock);
  if (s->has_thread) pthread_join(s->thread, NULL);
  pthread_mutex_lock(&s->lock);
  s->has_thread = false;
  while (s->is_flushing || s->reading_count) pthread_cond_wait(&s->done, &s->lock);
  drop_shelf(s);
}

pd_code pd_statestore_close(pd_statestore *s, pd_error *err)
{
  pd_code code = PD_OK;
  if (!s) return PD_OK;
  pthread_mutex_lock(&s->lock);
  while (s->is_closing) pthread_cond_wait(&s->done, &s->lock);
  if (!s->is_closed) {
    s->is_closing = true;
    while (!code && s->flushed < s->changes) code = pd_statestore_flush_to(s, s->changes, err);
    if (!code) {
      s->is_closed = true; /* from here on nothing changes any more, so nothing is left behind */
      stop(s);
    }
    s->is_closing = false;
    pthread_cond_broadcast(&s->done);
  }
  pthread_mutex_unlock(&s->lock);
  return code;
}

void pd_statestore_free(pd_statestore *s)
{
  if (!s) return;
  if (pd_statestore_close(s, NULL)) {
    pthread_mutex_lock(&s->lock);
    s->is_closed = true;
    stop(s);
    pthread_mutex_unlock(&s->lock);
  }
  pd_statemap_done(&s->map);
  pd_statemap_done(&s->gone);
  pthread_cond_destroy(&s->wake);
  pthread_cond_destroy(&s->done);
  pthread_mutex_destroy(&s->lock);
  pthread_mutex_destroy(&s->own_lock);
  free(s);
}

/* ---- reading ---- */

static pd_code no_key(pd_bytes key, pd_error *err)
{
  if (!err) return PD_NOT_FOUND;
  return pd_error_set(err, PD_NOT_FOUND, "there is no key '%.*s'", (int)(key.size < 200 ? key.size : 200),
                      key.data ? (const char *)key.data : "");
}

pd_code pd_statestore_get(pd_statestore *s, pd_bytes key, pd_buf *out, pd_error *err)
{
  uint32_t tag = pd_statemap_tag(&s->map, key);
  pthread_mutex_lock(&s->lock);
  const pd_statemap_node *node = s->is_closed ? NULL : pd_statemap_find(&s->map, key, tag);
  pd_code code = PD_NOT_FOUND;
  if (node) {
    pd_bytes value = pd_statecell_value(node->cell);
    size_t old_size = out->size;
    out->size = 0;
    code = pd_buf_append(out, value.data, value.size, err);
    if (code) out->size = old_size;
  }
  bool is_closed = s->is_closed;
  pthread_mutex_unlock(&s->lock);
  if (node || code != PD_NOT_FOUND) return code;
  return is_closed ? pd_statestore_is_closed(err) : no_key(key, err);
}

bool pd_statestore_has(pd_statestore *s, pd_bytes key)
{
  uint32_t tag = pd_statemap_tag(&s->map, key);
  pthread_mutex_lock(&s->lock);
  bool has = !s->is_closed && pd_statemap_find(&s->map, key, tag);
  pthread_mutex_unlock(&s->lock);
  return has;
}

/* The cells whose keys begin with `prefix`, each held once more; freed by the caller. The lock is held. */
static pd_code hold_cells(pd_statestore *s, pd_bytes prefix, pd_statecell ***out, size_t *out_count, pd_error *err)
{
  if (s->is_closed) return pd_statestore_is_closed(err);
  pd_statecell **cells = malloc((s->map.count + 1) * sizeof *cells);
  if (!cells) return pd_error_memory(err, "a list of keys");
  size_t count = 0;
  for (size_t i = 0; i < s->map.used; i++) {
    pd_statecell *cell = s->map.nodes[i].cell;
    if (!cell || !pd_bytes_starts(pd_statecell_key(cell), prefix)) continue;
    cell->refs++;
    cells[count++] = cell;
  }
  *out = cells;
  *out_count = count;
  return PD_OK;
}

pd_code pd_statestore_list(pd_statestore *s, pd_bytes prefix, pd_statestore_visit visit, void *ctx, pd_error *err)
{
  pd_statecell **cells = NULL;
  size_t count = 0;
  pthread_mutex_lock(&s->lock);
  pd_code code = hold_cells(s, prefix, &cells, &count, err);
  pthread_mutex_unlock(&s->lock);
  for (size_t i = 0; i < count; i++)
    if (!visit(ctx, pd_statecell_key(cells[i]), pd_statecell_value(cells[i]))) break;
  pthread_mutex_lock(&s->lock);
  for (size_t i = 0; i < count; i++) pd_statecell_drop(cells[i]);
  pthread_mutex_unlock(&s->lock);
  free(cells);
  return code;
}

pd_code pd_statestore_get_at(pd_statestore *s, const char *at, pd_bytes key, pd_buf *out, pd_error *err)
{
  pthread_mutex_lock(&s->lock);
  pd_code code = s->is_closed ? pd_statestore_is_closed(err)
                 : !s->shelf || !s->shelf->ops->get_at
                   ? pd_error_set(err, PD_UNSUPPORTED, "a StateStore of type %s keeps no past", pd_statestore_type_name(s->stats.type))
                   : PD_OK;
  if (!code) {
    s->reading_count++; /* a close waits for it */
    pthread_mutex_unlock(&s->lock);
    code = s->shelf->ops->get_at(s->shelf, at, key, out, err);
    pthread_mutex_lock(&s->lock);
    s->reading_count--;
    pthread_cond_broadcast(&s->done);
  }
  pthread_mutex_unlock(&s->lock);
  return code;
}

void pd_statestore_stats_get(pd_statestore *s, pd_statestore_stats *out)
{
  pthread_mutex_lock(&s->lock);
  *out = s->stats;
  out->is_closed = s->is_closed;
  out->keys = s->map.count;
  out->bytes = s->map.bytes;
  out->pending = s->stats.type == PD_STATESTORE_MEMORY ? 0 : s->changes - s->flushed;
  pthread_mutex_unlock(&s->lock);
}
