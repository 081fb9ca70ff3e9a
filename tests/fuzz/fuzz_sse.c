/*
 * fuzz_sse.c: coming back to a watch: Last-Event-ID, from, prefix and ref, a line each, on a small store whose events are known.
 * A place is refused, or what comes from there is what the model says: each event that is wanted once, in order. And whoever comes back
 * with the id of any of them gets the rest.
 */
#include "base/base.h"
#include "base/buf.h"
#include "fuzz/fuzz.h"
#include "wire/sse.h"

#include <string.h>

#define EVENTS_MAX 64
#define INPUT_MAX 2048

typedef struct event {
  pd_watch_cursor at, next; /* its own place, and the one after it, which is its id */
  pd_watch_kind kind;
  char ref[16], key[16];
} event;

typedef struct events {
  event list[EVENTS_MAX];
  size_t count;
} events;

static pd_store *store;
static events all; /* the model */

static void must(pd_code code)
{
  FUZZ_REQUIRE(code == PD_OK);
}

static bool is_after(const pd_watch_cursor *a, const pd_watch_cursor *b)
{
  return a->seq != b->seq ? a->seq > b->seq : a->index > b->index;
}

/* The text of an event says its id, and that is where it ends. */
static void check_text(const pd_watch_event *e)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char id[PD_WATCH_CURSOR_SIZE];
  pd_watch_cursor back = {0};
  must(pd_sse_event(&text, e, NULL));
  must(pd_buf_byte(&text, 0, NULL));
  const char *line = (const char *)text.data;
  size_t size = strcspn(line, "\n");
  FUZZ_REQUIRE(strncmp(line, "id: ", 4) == 0 && size - 4 < sizeof id);
  memcpy(id, line + 4, size - 4);
  id[size - 4] = 0;
  must(pd_sse_from(id, NULL, &back, NULL));
  FUZZ_REQUIRE(back.seq == e->next.seq && back.index == e->next.index);
  const char *end = strstr(line, "\n\n");
  FUZZ_REQUIRE(end && !end[2]); /* one event, and nothing that could be read as two */
}

/* Everything from `options` on. False: the place is refused. */
static bool read_all(const pd_watch_options *options, events *out)
{
  pd_watch *watch = NULL;
  pd_watch_event e;
  out->count = 0;
  if (pd_watch_open(store, options, &watch, NULL)) return false;
  pd_code code;
  while ((code = pd_watch_next(watch, 0, &e, NULL)) == PD_OK) {
    FUZZ_REQUIRE(out->count < EVENTS_MAX);
    event *made = &out->list[out->count++];
    *made = (event){.at = {e.seq, 0}, .next = e.next, .kind = e.kind};
    if (out->count > 1 && made[-1].at.seq == e.seq) made->at.index = made[-1].at.index + 1; /* true where nothing was left out */
    snprintf(made->ref, sizeof made->ref, "%s", e.ref);
    snprintf(made->key, sizeof made->key, "%.*s", (int)e.key.size, (const char *)e.key.data);
    check_text(&e);
  }
  FUZZ_REQUIRE(code == PD_NOT_FOUND);
  pd_watch_cursor end = pd_watch_where(watch);
  FUZZ_REQUIRE(!out->count || !is_after(&out->list[out->count - 1].next, &end));
  pd_watch_close(watch);
  return true;
}

static void put(const char *key, const char *value)
{
  must(pd_put(store, pd_text(key), pd_text(value), NULL, NULL, NULL));
}

/* Puts, deletes, several changes in one commit, other refs. */
static void set_up(void)
{
  pd_edit *edit = NULL;
  must(pd_store_open("memory:", "main", NULL, &store, NULL));
  put("a1", "1");
  put("b", "2");
  must(pd_edit_begin(store, NULL, &edit, NULL));
  must(pd_edit_put(edit, pd_text("a1"), pd_text("3"), PD_ANY_VERSION, NULL));
  must(pd_edit_put(edit, pd_text("a2"), pd_text("4"), PD_ANY_VERSION, NULL));
  must(pd_edit_put(edit, pd_text("c\nd: e"), pd_text("5"), PD_ANY_VERSION, NULL));
  must(pd_edit_commit(edit, NULL, NULL));
  must(pd_delete(store, pd_text("b"), PD_ANY_VERSION, NULL, NULL, NULL));
  must(pd_fork(store, "side", NULL, NULL, NULL, NULL));
  put("a3", "6");
  must(pd_ref_delete(store, "side", NULL, NULL));
  put("b", "7");
  pd_watch_options options = {.from = {.seq = 1}};
  FUZZ_REQUIRE(read_all(&options, &all) && all.count >= 10);
}

/* ---- the model ---- */

static bool is_wanted(const event *e, const pd_watch_options *o)
{
  if (is_after(&o->from, &e->at)) return false;
  if (o->ref && *o->ref && strcmp(o->ref, e->ref) != 0) return false;
  bool is_change = e->kind == PD_WATCH_PUT || e->kind == PD_WATCH_DELETE;
  return !is_change || (strlen(e->key) >= o->prefix.size && memcmp(e->key, o->prefix.data, o->prefix.size) == 0);
}

static void want(const pd_watch_options *o, const events *got)
{
  size_t at = 0;
  for (size_t i = 0; i < all.count; i++) {
    const event *e = &all.list[i];
    if (!is_wanted(e, o)) continue;
    FUZZ_REQUIRE(at < got->count);
    FUZZ_REQUIRE(got->list[at].next.seq == e->next.seq && got->list[at].next.index == e->next.index && got->list[at].kind == e->kind);
    FUZZ_REQUIRE(strcmp(got->list[at].key, e->key) == 0 && strcmp(got->list[at].ref, e->ref) == 0);
    at++;
  }
  FUZZ_REQUIRE(at == got->count);
}

/* ---- an input ---- */

static char *line_of(char **at)
{
  char *begin = *at;
  size_t size = strcspn(begin, "\n");
  *at = begin + size + (begin[size] != 0);
  begin[size] = 0;
  return begin;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static char text[INPUT_MAX + 1];
  events got;
  if (!store) set_up();
  if (size > INPUT_MAX) return 0;
  memcpy(text, data, size);
  text[size] = 0;
  char *at = text, *last = line_of(&at), *from = line_of(&at), *prefix = line_of(&at), *ref = line_of(&at);
  pd_watch_options options = {.prefix = pd_text(prefix), .ref = *ref ? ref : NULL};
  if (pd_sse_from(last, from, &options.from, NULL)) return 0;
  bool is_now = !options.from.seq;
  if (!read_all(&options, &got)) return 0;
  if (is_now) {
    FUZZ_REQUIRE(!got.count);
    return 0;
  }
  want(&options, &got);
  for (size_t i = 0; i < got.count; i++) { /* come back at each place */
    events rest;
    char id[PD_WATCH_CURSOR_SIZE];
    pd_watch_options again = options;
    must(pd_sse_from(pd_watch_cursor_text(&got.list[i].next, id), from, &again.from, NULL));
    FUZZ_REQUIRE(read_all(&again, &rest) && rest.count == got.count - i - 1);
    want(&again, &rest);
  }
  return 0;
}
