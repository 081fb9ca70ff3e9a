/*
 * queue_place.c: where an agent's queue is: on the ref PD_QUEUE_REF of the agent's store. Messages to an agent that has no store wait in
 * `system`, where older versions kept all queues, and are brought over when the store is there (Q3 and Q4 in queue.h).
 *
 * Bringing over takes three steps, and may stop after each commit: some messages at a time into the agent's store, with `brought/AGENT`
 * that says how far; then the rest, small keys; then they are removed from `system`, on condition that nobody changed the queue there
 * since it was read. The head stays there with "moved", so that an older version goes on with numbers that were never given.
 *
 * An agent's store may come from another home (restore, clone), and `brought/AGENT` with it; the numbers that it tells of are those of the
 * other home's `system`. So each `system` has an id, at SOURCE_KEY, and what was said of another one does not count.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/close.h"
#include "base/error.h"
#include "base/key.h"
#include "base/random.h"
#include "state/authorise.h"
#include "state/queue.h"

#include <stdio.h>
#include <stdlib.h>

#define BRING_COUNT 1000                        /* messages of one commit */
#define BRING_BYTES ((uint64_t)8 * 1024 * 1024) /* of them, and one more */
#define SOURCE_KEY "queue-source"
#define SOURCE_ID_SIZE 33 /* 32 digits and a NUL */

/* What an agent has in `system` as it was when `head` was read. */
typedef struct source {
  pd_home *home;
  const char *agent;
  pd_store *system;
  char id[SOURCE_ID_SIZE]; /* of this `system` */
  char at[PD_ID_HEX_SIZE]; /* the commit */
  uint64_t version, next;  /* of the head */
  bool is_moved;
} source;

/* ---- reading what is in `system` ---- */

static const pd_bind source_id[] = {{"source", PD_BIND_TEXT, PD_BIND_AT(source, id)}};

/* The id of this `system`; the first who asks makes it. */
static pd_code stage_id(void *ctx, pd_edit *edit, pd_error *err)
{
  source *s = ctx;
  char value[SOURCE_ID_SIZE + 16];
  pd_leased_tx tx = {.edit = edit};
  pd_code code = pd_leased_get(&tx, SOURCE_KEY, source_id, COUNT_OF(source_id), s, err);
  if (code != PD_NOT_FOUND) return code;
  TRY(pd_random_hex(s->id, sizeof s->id, err));
  snprintf(value, sizeof value, "{\"source\":\"%s\"}", s->id);
  return pd_edit_put(edit, pd_text(SOURCE_KEY), pd_text(value), 0, err);
}

static const pd_bind head[] = {
  {"next", PD_BIND_NUMBER, PD_BIND_AT(source, next)},
  {"moved", PD_BIND_BOOL, PD_BIND_AT(source, is_moved), .is_optional = true},
};

static pd_code read_head(source *s, const char *at, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char key[PD_QUEUE_KEY_SIZE];
  pd_entry entry;
  snprintf(key, sizeof key, "queue/%s", s->agent);
  TRY(pd_get(s->system, at, pd_text(key), &text, &entry, err));
  s->is_moved = false;
  s->version = entry.version;
  return pd_leased_parse(key, pd_buf_bytes(&text), head, COUNT_OF(head), s, err);
}

/* *out_is_any: there is a head that was not moved. */
static pd_code look(source *s, bool *out_is_any, pd_error *err)
{
  pd_commit commit;
  *out_is_any = false;
  pd_code code = pd_home_store(s->home, PD_STORE_SYSTEM, false, &s->system, err);
  if (!code) code = read_head(s, NULL, err);
  if (code || s->is_moved) return code == PD_NOT_FOUND ? PD_OK : code;
  pd_note note = {.author = "perdure", .reason = "queue.move"};
  TRY(pd_update(s->system, &note, stage_id, s, NULL, err));
  TRY(pd_resolve(s->system, "main", &commit, err));
  pd_id_hex(&commit.id, s->at);
  *out_is_any = true;
  return read_head(s, s->at, err);
}

typedef pd_code (*visit_fn)(void *ctx, const pd_entry *entry, pd_bytes value, pd_error *err);

/* Every key of the source that begins with `prefix`, from `from` on. PD_NOT_FOUND by `visit` ends it. */
static pd_code each(const source *s, const char *prefix, const char *from, visit_fn visit, void *ctx, pd_error *err)
{
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  pd_entry entry;
  pd_bytes value;
  pd_code code;
  TRY(pd_iter_open(s->system, s->at, &(pd_scan){.prefix = pd_text(prefix), .from = pd_text(from)}, &iter, err));
  while ((code = pd_iter_next(iter, &entry, &value, err)) == PD_OK)
    if ((code = visit(ctx, &entry, value, err))) break;
  return code == PD_NOT_FOUND ? PD_OK : code;
}

/* ---- messages ---- */

typedef struct bringing {
  const source *source;
  pd_queue_tx *tx;
  uint64_t count, bytes; /* of this commit */
  uint64_t until;        /* all messages of the source below it are brought */
  bool is_more;
} bringing;

/* A message keeps its number, unless the queue has given that already: then an older version sent it since the queue was moved. */
static pd_code bring_message(void *ctx, const pd_entry *entry, pd_bytes value, pd_error *err)
{
  bringing *b = ctx;
  pd_queue_tx *tx = b->tx;
  CLEANUP(pd_buf_done) pd_buf flight = {0};
  char key[PD_QUEUE_KEY_SIZE];
  uint64_t number = pd_key_number(entry->key);
  b->is_more = b->count >= BRING_COUNT || b->bytes >= BRING_BYTES;
  if (b->is_more) return PD_NOT_FOUND;
  uint64_t given = number < tx->next ? tx->next : number;
  TRY(pd_edit_put(tx->l.edit, pd_text(pd_queue_key("queue", tx->agent, given, key)), value, PD_ANY_VERSION, err));
  TRY(pd_queue_sender_brought(tx, b->source->system, b->source->at, value, err));
  pd_code code = pd_get(b->source->system, b->source->at, pd_text(pd_queue_key("flight", tx->agent, number, key)), &flight, NULL, err);
  if (code && code != PD_NOT_FOUND) return code;
  pd_queue_key("flight", tx->agent, given, key);
  if (!code) TRY(pd_edit_put(tx->l.edit, pd_text(key), pd_buf_bytes(&flight), PD_ANY_VERSION, err));
  tx->next = given + 1;
  tx->count++;
  tx->bytes += value.size;
  b->count++;
  b->bytes += value.size;
  b->until = number + 1;
  return PD_OK;
}

/* ---- the rest ---- */

static pd_code bring_key(void *ctx, const pd_entry *entry, pd_bytes value, pd_error *err)
{
  pd_queue_tx *tx = ((bringing *)ctx)->tx;
  CLEANUP(pd_buf_done) pd_buf own = {0};
  pd_code code = pd_edit_get(tx->l.edit, entry->key, &own, NULL, err);
  if (code != PD_NOT_FOUND) return code; /* it is here already, and newer */
  return pd_edit_put(tx->l.edit, entry->key, value, PD_ANY_VERSION, err);
}

static const char *const rest[] = {"once/%s/", "operation/%s/", "operation-at/%s/", "subscription/%s:", "sent/%s/", "from/%s/"};

static pd_code bring_rest(bringing *b, pd_error *err)
{
  for (size_t i = 0; i < COUNT_OF(rest); i++) {
    char prefix[PD_QUEUE_KEY_SIZE];
    snprintf(prefix, sizeof prefix, rest[i], b->tx->agent);
    TRY(each(b->source, prefix, "", bring_key, b, err));
  }
  if (b->until < b->source->next) b->until = b->source->next;
  if (b->tx->next < b->source->next) b->tx->next = b->source->next;
  return PD_OK;
}

/* How far it came. An older version did not say from which `system`. */
typedef struct brought {
  uint64_t until;
  char source[SOURCE_ID_SIZE];
} brought;

static const pd_bind brought_members[] = {
  {"until", PD_BIND_NUMBER, PD_BIND_AT(brought, until)},
  {"source", PD_BIND_TEXT, PD_BIND_AT(brought, source), .is_optional = true},
};

/* One commit of it. */
static pd_code stage_bring(void *ctx, pd_queue_tx *tx, pd_error *err)
{
  bringing *b = ctx;
  brought known = {0};
  char key[PD_QUEUE_KEY_SIZE], prefix[PD_QUEUE_KEY_SIZE], from[PD_QUEUE_KEY_SIZE];
  *b = (bringing){.source = b->source, .tx = tx};
  snprintf(key, sizeof key, "brought/%s", tx->agent);
  pd_code code = pd_leased_get(&tx->l, key, brought_members, COUNT_OF(brought_members), &known, err);
  if (code && code != PD_NOT_FOUND) return code;
  if (!*known.source || strcmp(known.source, b->source->id) == 0) b->until = known.until;
  snprintf(prefix, sizeof prefix, "queue/%s/", tx->agent);
  TRY(each(b->source, prefix, pd_queue_key("queue", tx->agent, b->until, from), bring_message, b, err));
  if (!b->is_more) TRY(bring_rest(b, err));
  known.until = b->until;
  snprintf(known.source, sizeof known.source, "%s", b->source->id);
  TRY(pd_leased_put(&tx->l, key, brought_members, COUNT_OF(brought_members), &known, err));
  return pd_queue_stage_head(tx, err);
}

/* ---- removing it from `system` ---- */

static pd_code remove_prefix(pd_edit *edit, const char *prefix, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf keys = {0}; /* an iterator ends with the next edit */
  pd_iter *iter;
  pd_entry entry;
  pd_code code;
  TRY(pd_edit_iter(edit, &(pd_scan){.prefix = pd_text(prefix), .keys_only = true}, &iter, err));
  while ((code = pd_iter_next(iter, &entry, NULL, err)) == PD_OK) {
    if ((code = pd_buf_append(&keys, entry.key.data, entry.key.size, err)) || (code = pd_buf_byte(&keys, 0, err))) break;
  }
  pd_iter_close(iter);
  if (code != PD_NOT_FOUND) return code;
  for (size_t at = 0; at < keys.size;) {
    pd_bytes key = pd_text((const char *)keys.data + at);
    TRY(pd_edit_delete(edit, key, PD_ANY_VERSION, err));
    at += key.size + 1;
  }
  return PD_OK;
}

static pd_code stage_removal(void *ctx, pd_edit *edit, pd_error *err)
{
  static const char *const messages[] = {"queue/%s/", "flight/%s/"};
  const source *s = ctx;
  char key[PD_QUEUE_KEY_SIZE], text[96];
  pd_entry entry;
  snprintf(key, sizeof key, "queue/%s", s->agent);
  TRY(pd_edit_get(edit, pd_text(key), NULL, &entry, err));
  if (entry.version != s->version) return PD_OK; /* somebody was there meanwhile: it is looked at again */
  for (size_t i = 0; i < COUNT_OF(messages) + COUNT_OF(rest); i++) {
    char prefix[PD_QUEUE_KEY_SIZE];
    snprintf(prefix, sizeof prefix, i < COUNT_OF(messages) ? messages[i] : rest[i - COUNT_OF(messages)], s->agent);
    TRY(remove_prefix(edit, prefix, err));
  }
  snprintf(text, sizeof text, "{\"next\":%llu,\"count\":0,\"bytes\":0,\"moved\":true}", (unsigned long long)s->next);
  return pd_edit_put(edit, pd_text(key), pd_text(text), s->version, err);
}

static pd_code bring(pd_queue_place *place, pd_home *home, const char *agent, pd_error *err)
{
  source s = {.home = home, .agent = agent};
  pd_note note = {.author = "perdure", .reason = "queue.move"};
  for (;;) {
    bool is_any;
    TRY(look(&s, &is_any, err));
    if (!is_any) return PD_OK;
    bringing b = {.source = &s};
    do TRY(pd_queue_update_at(place, home, agent, true, &note, stage_bring, &b, NULL, err));
    while (b.is_more);
    TRY(pd_store_flush(place->store, err)); /* a buffered store must not forget what the other one has removed */
    TRY(pd_update(s.system, &note, stage_removal, &s, NULL, err));
  }
}

/* ---- the place ---- */

void pd_queue_place_close(pd_queue_place *place)
{
  if (place->held) pd_home_let(place->home, place->held);
  *place = (pd_queue_place){0};
}

pd_code pd_queue_place_open(pd_home *home, const char *agent, bool create, pd_queue_place *out, pd_error *err)
{
  pd_queue_place place = {.home = home, .ref = PD_QUEUE_REF};
  pd_held *found = NULL;
  pd_grant grant;
  TRY(pd_authorise_work(home, "queue", &grant, err));
  pd_code code = create ? PD_OK : pd_home_hold(&grant, agent, false, &found, err);
  if (code == PD_NOT_FOUND) {
    place.ref = NULL;
    TRY(pd_home_store(home, PD_STORE_SYSTEM, true, &place.store, err));
    *out = place;
    return PD_OK;
  }
  TRY(code);
  code = pd_home_hold(&grant, agent, true, &place.held, err); /* it is there: this says that it will be written to */
  pd_home_let(home, found);
  TRY(code);
  place.store = place.held->store;
  code = bring(&place, home, agent, err);
  if (code)
    pd_queue_place_close(&place);
  else
    *out = place;
  return code;
}
