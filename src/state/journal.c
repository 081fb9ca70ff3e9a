/* journal.c: see journal.h. */
#include "state/journal.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

#define TIME_DIGITS 14
#define NUMBER_DIGITS 5
#define STAMP_SIZE (TIME_DIGITS + 1 + NUMBER_DIGITS)

static void swap_bytes(char *text, char from, char to)
{
  for (; *text; text++)
    if (*text == from) *text = to;
}

/* ---- adding ---- */

/* What an owner has: how many, the bytes of their values, and the number that a note of this moment gets. */
typedef struct shelf {
  uint64_t count, bytes;
  unsigned number;
} shelf;

static pd_code look(pd_edit *edit, const char *prefix, const char *stamp, shelf *out, pd_error *err)
{
  pd_iter *iter = NULL;
  pd_scan scan = {.prefix = pd_text(prefix), .keys_only = true};
  TRY(pd_edit_iter(edit, &scan, &iter, err));
  pd_entry entry;
  pd_code code;
  size_t size = strlen(prefix);
  *out = (shelf){.number = 1};
  while ((code = pd_iter_next(iter, &entry, NULL, err)) == PD_OK) {
    const char *key = entry.key.data;
    out->count++;
    out->bytes += entry.size;
    if (entry.key.size == size + STAMP_SIZE && memcmp(key + size, stamp, TIME_DIGITS) == 0)
      out->number = (unsigned)strtoul(key + size + TIME_DIGITS + 1, NULL, 10) + 1;
  }
  pd_iter_close(iter);
  return code == PD_NOT_FOUND ? PD_OK : code;
}

/* Remove the oldest until at most `count` are left, and at most `bytes`. Keys are gathered first: an edit ends its iterators. */
static pd_code drop_oldest(pd_edit *edit, const char *prefix, shelf is, uint64_t count, uint64_t bytes, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf keys = {0};
  pd_iter *iter = NULL;
  pd_scan scan = {.prefix = pd_text(prefix), .keys_only = true};
  size_t size = strlen(prefix) + STAMP_SIZE;
  if (is.count <= count && is.bytes <= bytes) return PD_OK;
  TRY(pd_edit_iter(edit, &scan, &iter, err));
  pd_code code = PD_OK;
  while ((is.count > count || is.bytes > bytes) && code == PD_OK) {
    pd_entry entry;
    code = pd_iter_next(iter, &entry, NULL, err);
    if (code) break;
    is.count--;
    is.bytes -= entry.size;
    if (entry.key.size == size) code = pd_buf_append(&keys, entry.key.data, size, err);
  }
  pd_iter_close(iter);
  if (code == PD_NOT_FOUND) code = PD_OK;
  for (size_t at = 0; at < keys.size && code == PD_OK; at += size)
    code = pd_edit_delete(edit, (pd_bytes){keys.data + at, size}, PD_ANY_VERSION, err);
  return code;
}

typedef struct addition {
  char prefix[PD_JOURNAL_ID_SIZE / 2 + PD_NAME_SIZE_MAX];
  int64_t now_ms;
  uint64_t keep, bytes_max;
  pd_bytes value;
  char key[PD_JOURNAL_ID_SIZE]; /* out */
} addition;

static pd_code stage(void *ctx, pd_edit *edit, pd_error *err)
{
  addition *a = ctx;
  char stamp[40];
  shelf is;
  snprintf(stamp, sizeof stamp, "%0*lld", TIME_DIGITS, (long long)(a->now_ms > 0 ? a->now_ms : 0));
  TRY(look(edit, a->prefix, stamp, &is, err));
  if (is.number > 99999) return pd_error_set(err, PD_LIMIT, "more than 99999 notes under %s in one millisecond", a->prefix);
  TRY(drop_oldest(edit, a->prefix, is, a->keep - 1, a->bytes_max > a->value.size ? a->bytes_max - a->value.size : 0, err));
  int size = snprintf(a->key, PD_JOURNAL_ID_SIZE, "%s%s-%0*u", a->prefix, stamp, NUMBER_DIGITS, is.number);
  if (size < 0 || size >= PD_JOURNAL_ID_SIZE) return pd_error_set(err, PD_LIMIT, "the prefix %s is too long", a->prefix);
  return pd_edit_put(edit, pd_text(a->key), a->value, 0, err);
}

pd_code pd_journal_add(pd_frame *frame, const char *noun, uint64_t keep, uint64_t bytes_max, pd_bytes value,
                       char out_id[PD_JOURNAL_ID_SIZE], pd_error *err)
{
  pd_store *store;
  pd_note note = pd_frame_last_note(frame);
  addition a = {.now_ms = frame->now_ms, .keep = keep, .bytes_max = bytes_max, .value = value};
  pd_ack ack;
  note.ref = "main";
  snprintf(a.prefix, sizeof a.prefix, "%s/%s/", noun, *frame->agent ? frame->agent : PD_JOURNAL_ALL);
  TRY(pd_home_store(frame->home, PD_STORE_SYSTEM, true, &store, err));
  TRY(pd_update(store, &note, stage, &a, &ack, err));
  pd_frame_commit(frame, &ack);
  memcpy(out_id, a.key, sizeof a.key);
  swap_bytes(out_id, '/', ':');
  return PD_OK;
}

bool pd_journal_key(const char *noun, pd_bytes id, char out_key[PD_JOURNAL_ID_SIZE])
{
  size_t size = strlen(noun);
  if (id.size < size + STAMP_SIZE + 3 || id.size >= PD_JOURNAL_ID_SIZE || memchr(id.data, '/', id.size)) return false;
  memcpy(out_key, id.data, id.size);
  out_key[id.size] = 0;
  swap_bytes(out_key, ':', '/');
  return memcmp(out_key, noun, size) == 0 && out_key[size] == '/';
}

const char *const *pd_journal_owners(const pd_frame *frame, const char *room[3])
{
  if (frame->ctx->is_operator) return NULL;
  room[0] = frame->agent;
  room[1] = PD_JOURNAL_ALL;
  room[2] = NULL;
  return room;
}

/* ---- reading ---- */

void pd_journal_done(pd_journal_list *list)
{
  for (size_t i = 0; i < list->count; i++) free(list->items[i].text);
  free(list->items);
  *list = (pd_journal_list){0};
}

static int newest_first(const void *a, const void *b)
{
  const pd_journal_item *x = a, *y = b;
  if (x->time_ms != y->time_ms) return x->time_ms < y->time_ms ? 1 : -1;
  return strcmp(y->id, x->id);
}

static void cut(pd_journal_list *list, size_t limit)
{
  if (list->count > 1) qsort(list->items, list->count, sizeof list->items[0], newest_first);
  while (list->count > limit) free(list->items[--list->count].text);
}

/* The parts of NOUN/OWNER/STAMP; false for a key that is none. */
static bool take_key(pd_bytes key, size_t noun_size, pd_journal_item *out)
{
  const char *at = (const char *)key.data + noun_size + 1;
  size_t left = key.size - noun_size - 1;
  const char *slash = memchr(at, '/', left);
  if (!slash || (size_t)(slash - at) >= sizeof out->owner || left - (size_t)(slash - at) - 1 != STAMP_SIZE) return false;
  if (key.size >= sizeof out->id) return false;
  snprintf(out->owner, sizeof out->owner, "%.*s", (int)(slash - at), at);
  snprintf(out->id, sizeof out->id, "%.*s", (int)key.size, (const char *)key.data);
  swap_bytes(out->id, '/', ':');
  out->time_ms = strtoll(slash + 1, NULL, 10);
  return true;
}

static pd_code take(const pd_journal_query *q, const pd_entry *entry, pd_bytes value, pd_journal_list *out, pd_error *err)
{
  pd_journal_item item = {0};
  pd_json json;
  if (!take_key(entry->key, strlen(q->noun), &item) || item.time_ms <= q->since_ms) return PD_OK;
  if (pd_json_parse(value, &json, NULL) || json.kind != PD_JSON_OBJECT || (q->fits && !q->fits(q->ctx, json))) return PD_OK;
  out->total++;
  if (!q->limit) return PD_OK;
  if (out->count >= 2 * q->limit) cut(out, q->limit); /* now and then, so that memory stays in proportion to the limit */
  TRY(pd_array_grow(&out->items, out->count, &out->capacity, sizeof out->items[0], "notes", err));
  item.text = malloc(json.raw.size + 1);
  if (!item.text) return pd_error_memory(err, "notes");
  memcpy(item.text, json.raw.data, json.raw.size);
  item.size = json.raw.size;
  out->items[out->count++] = item;
  return PD_OK;
}

static pd_code scan_prefix(pd_store *store, const pd_journal_query *q, const char *prefix, const char *from, pd_journal_list *out,
                           pd_error *err)
{
  pd_iter *iter = NULL;
  pd_scan scan = {.prefix = pd_text(prefix), .from = pd_text(from)};
  TRY(pd_iter_open(store, "main", &scan, &iter, err));
  pd_entry entry;
  pd_bytes value;
  pd_code code;
  while ((code = pd_iter_next(iter, &entry, &value, err)) == PD_OK)
    if ((code = take(q, &entry, value, out, err))) break;
  pd_iter_close(iter);
  return code == PD_NOT_FOUND ? PD_OK : code;
}

pd_code pd_journal_read(pd_home *home, const pd_journal_query *q, pd_journal_list *out, pd_error *err)
{
  pd_store *store;
  char prefix[PD_JOURNAL_ID_SIZE], from[PD_JOURNAL_ID_SIZE * 2];
  *out = (pd_journal_list){0};
  TRY(pd_home_store(home, PD_STORE_SYSTEM, true, &store, err));
  if (!q->owners) {
    snprintf(prefix, sizeof prefix, "%s/", q->noun);
    TRY(scan_prefix(store, q, prefix, "", out, err));
  }
  for (const char *const *owner = q->owners; owner && *owner; owner++) {
    snprintf(prefix, sizeof prefix, "%s/%s/", q->noun, *owner);
    snprintf(from, sizeof from, "%s%0*lld", prefix, TIME_DIGITS, (long long)(q->since_ms > 0 ? q->since_ms : 0));
    TRY(scan_prefix(store, q, prefix, from, out, err));
  }
  cut(out, q->limit);
  return PD_OK;
}
