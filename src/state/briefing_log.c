/* briefing_log.c: the sections of a briefing that come from the logs of stores: the shared state, and the agent's own. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/map64.h"
#include "base/sha256.h"
#include "state/briefing.h"
#include "state/moment.h"
#include "state/policy.h"

#include <stdio.h>
#include <stdlib.h>

#define RECORDS_MAX 100000
#define WRITERS_MAX 16

typedef struct writer {
  char name[PD_NAME_SIZE_MAX + 1];
} writer;

/* What a log tells since a time, newest first. */
typedef struct changes {
  int64_t since_ms;
  const char *without; /* changes by this one do not count; NULL: all do */
  const char *self;
  uint64_t records, writes, keys, moves, by_others;
  pd_home *home;
  const char *like; /* policy is asked what it says of this about each key */
  uint64_t closed;  /* changes that are not told */
  bool is_closed;   /* none is: the log is not even read */
  bool is_cut;
  pd_map64 seen; /* keys by fingerprint: the newest change of each is listed */
  writer writers[WRITERS_MAX];
  size_t writer_count;
  pd_json_writer items; /* an array is open */
  pd_buf text, named;
  size_t named_count;
  pd_error *err;
  pd_code code;
} changes;

static void changes_done(changes *c)
{
  pd_map64_done(&c->seen);
  pd_buf_done(&c->text);
  pd_buf_done(&c->named);
}

static void note_writer(changes *c, const char *name)
{
  for (size_t i = 0; i < c->writer_count; i++)
    if (strcmp(c->writers[i].name, name) == 0) return;
  if (c->writer_count < WRITERS_MAX) snprintf(c->writers[c->writer_count++].name, sizeof c->writers[0].name, "%.64s", name);
}

static void take_change(changes *c, const pd_record *record, const pd_change *change)
{
  pd_id id = pd_sha256(change->key);
  uint64_t print;
  bool is_new = false;
  uint32_t *slot;
  memcpy(&print, id.bytes, sizeof print);
  pd_verdict verdict;
  pd_policy_ask(c->home, pd_capability_get(c->like), pd_text(c->self), &change->key, &verdict); /* no look at the file: the log is locked */
  if (verdict.permission > PD_PERMIT_NOTIFY) {
    c->closed++;
    return;
  }
  note_writer(c, record->author);
  if (strcmp(record->author, c->self) != 0) c->by_others++;
  c->writes++;
  c->code = pd_map64_add(&c->seen, print ? print : 1, &slot, &is_new, c->err);
  if (c->code || !is_new) return;
  c->keys++;
  if (c->named_count < PD_BRIEF_NAMED_MAX) {
    c->code = pd_buf_printf(&c->named, c->err, "%s%.*s", c->named_count++ ? ", " : "", (int)(change->key.size < 60 ? change->key.size : 60),
                            (const char *)change->key.data);
  }
  if (c->keys > PD_BRIEF_LIST_MAX) return;
  pd_json_open(&c->items, '{');
  pd_json_put_bytes(&c->items, "key", change->key);
  pd_json_put_text(&c->items, "kind", change->is_delete ? "delete" : "set");
  pd_json_put_number(&c->items, "version", change->version);
  pd_json_put_text(&c->items, "writer", record->author);
  pd_json_put_time(&c->items, "timestamp", record->time_ms);
  pd_json_close(&c->items, '}');
}

static bool take_record(void *ctx, const pd_record *record)
{
  changes *c = ctx;
  if (record->time_ms <= c->since_ms) return false; /* records keep the time of the newest: those before are not later */
  if (++c->records > RECORDS_MAX) {
    c->is_cut = true;
    return false;
  }
  if (c->without && strcmp(record->author, c->without) == 0) return true;
  if (record->kind != PD_RECORD_COMMIT && record->kind != PD_RECORD_FORK) c->moves++;
  for (size_t i = 0; i < record->change_count && c->code == PD_OK; i++) take_change(c, record, &record->changes[i]);
  return c->code == PD_OK;
}

static pd_code read_log(pd_briefing *b, const char *name, changes *c, pd_error *err)
{
  pd_held *held = NULL;
  pd_log_query query = {.ref = "main"};
  c->since_ms = b->since_ms;
  c->self = b->agent;
  c->home = b->home;
  c->err = err;
  c->items = (pd_json_writer){.out = &c->text, .err = err};
  pd_json_open(&c->items, '[');
  pd_ctx who = {.home = b->home, .agent = b->agent};
  c->is_closed = !pd_authorise_any(&who, c->like, false);
  pd_code code = c->is_closed ? PD_NOT_FOUND : pd_home_hold(&b->frame->grant, name, false, &held, err);
  if (code == PD_OK) code = pd_log(held->store, &query, take_record, c, err);
  pd_home_let(b->home, held);
  if (code && code != PD_NOT_FOUND) return code;
  TRY(c->code);
  pd_json_close(&c->items, ']');
  return c->items.code;
}

static pd_code write_changes(const pd_briefing *b, const changes *c, pd_section *out, pd_error *err)
{
  for (int is_full = 0; is_full <= (b->is_detailed && c->keys); is_full++) {
    pd_json_writer w = {.out = is_full ? &out->full : &out->brief, .err = err};
    pd_json_open(&w, '{');
    pd_json_put_number(&w, "count", c->writes);
    pd_json_put_number(&w, "keys", c->keys);
    if (!c->without) pd_json_put_number(&w, "by_others", c->by_others);
    if (c->moves) pd_json_put_number(&w, "resets", c->moves);
    if (c->is_cut) pd_json_put_bool(&w, "is_cut", true);
    if (c->is_closed || c->closed) pd_json_put_text(&w, "left_out", c->is_closed ? "all, by policy" : "some, by policy");
    if (is_full) {
      pd_json_key(&w, "writers");
      pd_json_open(&w, '[');
      for (size_t i = 0; i < c->writer_count; i++) pd_json_text(&w, pd_text(c->writers[i].name));
      pd_json_close(&w, ']');
      pd_json_put_value(&w, "changes", (pd_json){pd_buf_bytes(&c->text), PD_JSON_ARRAY});
    }
    pd_json_close(&w, '}');
    TRY(w.code);
  }
  return PD_OK;
}

static pd_code add_names(const changes *c, pd_buf *out, pd_error *err)
{
  return pd_buf_printf(out, err, " (%.*s%s)", (int)c->named.size, (const char *)c->named.data, c->keys > c->named_count ? ", …" : "");
}

pd_code pd_brief_shared(pd_briefing *b, pd_section *out, pd_error *err)
{
  CLEANUP(changes_done) changes c = {.without = b->agent, .like = "state.shared.list"};
  TRY(read_log(b, PD_STORE_SHARED, &c, err));
  TRY(write_changes(b, &c, out, err));
  if (c.is_closed) return pd_buf_printf(&out->sentence, err, "Policy keeps the shared state from you");
  if (!c.keys) return c.moves ? pd_buf_printf(&out->sentence, err, "The shared state was set back") : PD_OK;
  for (size_t i = 0; i < c.writer_count && i < PD_BRIEF_NAMED_MAX; i++)
    TRY(pd_buf_printf(&out->sentence, err, "%s%s", i ? ", " : "", c.writers[i].name));
  TRY(pd_buf_printf(&out->sentence, err, "%s changed ", c.writer_count > PD_BRIEF_NAMED_MAX ? " and others" : ""));
  TRY(pd_brief_count(&out->sentence, c.keys, "shared key", "shared keys", err));
  return add_names(&c, &out->sentence, err);
}

pd_code pd_brief_own(pd_briefing *b, pd_section *out, pd_error *err)
{
  CLEANUP(changes_done) changes c = {.like = "state.persistent.list"};
  TRY(read_log(b, b->agent, &c, err));
  TRY(write_changes(b, &c, out, err));
  if (c.is_closed) return pd_buf_printf(&out->sentence, err, "Policy keeps your own state from you");
  if (!c.keys) return c.moves ? pd_buf_printf(&out->sentence, err, "Your own state was set back") : PD_OK;
  TRY(pd_brief_count(&out->sentence, c.keys, "key", "keys", err));
  TRY(pd_buf_printf(&out->sentence, err, " of your own state changed"));
  TRY(add_names(&c, &out->sentence, err));
  if (c.by_others) TRY(pd_buf_printf(&out->sentence, err, ", %llu times by others", (unsigned long long)c.by_others));
  return PD_OK;
}
