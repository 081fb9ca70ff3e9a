/* pieces.c: see pieces.h. */
#include "storage/pieces.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdlib.h>

#define SHIFT_TRIES_MAX 64 /* entries that look like the first of the new list */

const char *pd_piece_prefix(pd_piece_kind kind)
{
  static const char *const prefixes[] = {"effect/", "event/", "history/", "reply/", "snapshot", "variable/", "window"};
  return prefixes[kind];
}

void pd_pieces_done(pd_pieces *pieces)
{
  pd_buf_done(&pieces->text);
  free(pieces->items);
  pieces->items = NULL;
  pieces->count = pieces->capacity = 0;
}

pd_bytes pd_pieces_value(const pd_pieces *pieces, size_t index)
{
  const pd_piece *piece = &pieces->items[index];
  return (pd_bytes){pieces->text.data + piece->value_at, piece->value_size};
}

static pd_bytes name_of(const pd_pieces *pieces, const pd_piece *piece)
{
  return (pd_bytes){pieces->text.data + piece->name_at, piece->name_size};
}

pd_bytes pd_pieces_key(const pd_pieces *pieces, size_t index, char out[PD_PIECE_KEY_MAX])
{
  const pd_piece *piece = &pieces->items[index];
  const char *prefix = pd_piece_prefix(piece->kind);
  size_t size = strlen(prefix);
  memcpy(out, prefix, size);
  if (piece->kind == PD_PIECE_VARIABLE) {
    memcpy(out + size, pieces->text.data + piece->name_at, piece->name_size);
    size += piece->name_size;
  } else if (pd_piece_is_list(piece->kind)) {
    uint64_t number = pieces->first[piece->kind] + (index - pieces->begin[piece->kind]);
    for (size_t i = PD_PIECE_DIGITS; i--; number /= 10) out[size + i] = (char)('0' + number % 10);
    size += PD_PIECE_DIGITS;
  }
  return (pd_bytes){out, size};
}

/* ---- taking apart -------------------------------------------------------------------------------------------------- */

/* Keep what was written to `text` from `at` on as the value of a new piece. */
static pd_code add_piece(pd_pieces *p, pd_piece piece, pd_error *err)
{
  TRY(pd_array_grow(&p->items, p->count, &p->capacity, sizeof *p->items, "the pieces of a snapshot", err));
  piece.value_size = p->text.size - piece.value_at;
  piece.id = pd_value_id((pd_bytes){p->text.data + piece.value_at, piece.value_size});
  if (!p->size[piece.kind]++) p->begin[piece.kind] = p->count;
  p->items[p->count++] = piece;
  return PD_OK;
}

static pd_code add_value(pd_pieces *p, pd_piece piece, pd_json value, pd_error *err)
{
  piece.value_at = p->text.size;
  pd_json_writer w = {.out = &p->text, .err = err};
  pd_json_value(&w, value);
  return w.code ? w.code : add_piece(p, piece, err);
}

static pd_code add_list(pd_pieces *p, pd_piece_kind kind, pd_json list, pd_error *err)
{
  pd_json value;
  pd_json_walk walk = pd_json_walk_begin(list);
  p->begin[kind] = p->count;
  while (pd_json_walk_next(&walk, NULL, &value)) TRY(add_value(p, (pd_piece){.kind = kind}, value, err));
  return PD_OK;
}

/* Decode a variable's name to the end of `text`; false, and nothing there, if it can be no key (P3). */
static bool take_name(pd_pieces *p, pd_json name)
{
  size_t at = p->text.size, prefix = strlen(pd_piece_prefix(PD_PIECE_VARIABLE));
  if (pd_json_decode(name, &p->text, NULL) != PD_OK) return false;
  pd_bytes text = {p->text.data + at, p->text.size - at};
  bool is_key = text.size + prefix <= PD_KEY_SIZE_MAX && (!text.size || !memchr(text.data, 0, text.size));
  if (!is_key) p->text.size = at;
  return is_key;
}

static int by_name(const void *a, const void *b, void *pieces)
{
  return pd_bytes_compare(name_of(pieces, a), name_of(pieces, b));
}

static pd_code add_variables(pd_pieces *p, pd_json variables, pd_error *err)
{
  pd_json name, value;
  pd_json_walk walk = pd_json_walk_begin(variables);
  p->begin[PD_PIECE_VARIABLE] = p->count;
  while (pd_json_walk_next(&walk, &name, &value)) {
    pd_piece piece = {.kind = PD_PIECE_VARIABLE, .name_at = p->text.size};
    if (!take_name(p, name)) continue;
    piece.name_size = p->text.size - piece.name_at;
    TRY(add_value(p, piece, value, err));
  }
  if (p->size[PD_PIECE_VARIABLE]) {
    qsort_r(p->items + p->begin[PD_PIECE_VARIABLE], p->size[PD_PIECE_VARIABLE], sizeof *p->items, by_name, p);
  }
  return PD_OK;
}

/* The variables that stay (P3). */
static void put_other_variables(pd_json_writer *w, pd_json variables)
{
  pd_json name, value;
  pd_json_walk walk = pd_json_walk_begin(variables);
  pd_pieces names = {0};
  pd_json_open(w, '{');
  while (pd_json_walk_next(&walk, &name, &value)) {
    names.text.size = 0;
    if (take_name(&names, name)) continue;
    pd_json_key_as(w, name);
    pd_json_value(w, value);
  }
  pd_json_close(w, '}');
  pd_pieces_done(&names);
}

static void put_empty(pd_json_writer *w)
{
  pd_json_open(w, '[');
  pd_json_close(w, ']');
}

static void put_memory(pd_json_writer *w, pd_json memory)
{
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(memory);
  pd_json_open(w, '{');
  while (pd_json_walk_next(&walk, &key, &value)) {
    pd_json_key_as(w, key);
    if (pd_json_is(key, "short_term_history"))
      put_empty(w);
    else if (pd_json_is(key, "working_variables"))
      put_other_variables(w, value);
    else
      pd_json_value(w, value);
  }
  pd_json_close(w, '}');
}

/* Which list of the member `perdure` this is, if it is one; PD_PIECE_KINDS: none. */
static pd_piece_kind ledger_kind(pd_json key)
{
  return pd_json_is(key, "effects") ? PD_PIECE_EFFECT : pd_json_is(key, "replies") ? PD_PIECE_REPLY : PD_PIECE_KINDS;
}

static void put_ledger(pd_json_writer *w, const pd_snapshot_parts *parts, pd_json ledger)
{
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(ledger);
  if (ledger.kind != PD_JSON_OBJECT) {
    pd_json_value(w, ledger);
    return;
  }
  pd_json_open(w, '{');
  while (pd_json_walk_next(&walk, &key, &value)) {
    pd_piece_kind kind = ledger_kind(key);
    bool is_taken = (kind == PD_PIECE_EFFECT && parts->effects.kind) || (kind == PD_PIECE_REPLY && parts->replies.kind);
    pd_json_key_as(w, key);
    if (is_taken)
      put_empty(w);
    else
      pd_json_value(w, value);
  }
  pd_json_close(w, '}');
}

static pd_code add_frame(pd_pieces *p, const pd_snapshot_parts *parts, pd_error *err)
{
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(parts->top);
  pd_piece piece = {.kind = PD_PIECE_SNAPSHOT, .value_at = p->text.size};
  pd_json_writer w = {.out = &p->text, .err = err};
  pd_json_open(&w, '{');
  while (pd_json_walk_next(&walk, &key, &value)) {
    pd_json_key_as(&w, key);
    if (pd_json_is(key, "memory"))
      put_memory(&w, value);
    else if (pd_json_is(key, "event_queue_backup"))
      put_empty(&w);
    else if (pd_json_is(key, "perdure"))
      put_ledger(&w, parts, value);
    else
      pd_json_value(&w, value);
  }
  pd_json_close(&w, '}');
  return w.code ? w.code : add_piece(p, piece, err);
}

static pd_code add_window(pd_pieces *p, pd_error *err)
{
  pd_piece piece = {.kind = PD_PIECE_WINDOW, .value_at = p->text.size};
  TRY(pd_buf_printf(&p->text, err, "{\"effects\":%zu,\"events\":%zu,\"history\":%zu,\"replies\":%zu,\"variables\":%zu}",
                    p->size[PD_PIECE_EFFECT], p->size[PD_PIECE_EVENT], p->size[PD_PIECE_HISTORY], p->size[PD_PIECE_REPLY],
                    p->size[PD_PIECE_VARIABLE]));
  return add_piece(p, piece, err);
}

pd_code pd_pieces_make(const pd_snapshot_parts *parts, pd_pieces *out, pd_error *err)
{
  TRY(add_list(out, PD_PIECE_EFFECT, parts->effects, err));
  TRY(add_list(out, PD_PIECE_EVENT, parts->events, err));
  TRY(add_list(out, PD_PIECE_HISTORY, parts->history, err));
  TRY(add_list(out, PD_PIECE_REPLY, parts->replies, err));
  TRY(add_frame(out, parts, err));
  TRY(add_variables(out, parts->variables, err));
  return add_window(out, err);
}

size_t pd_pieces_shift(const pd_id *old, size_t old_count, const pd_piece *now, size_t now_count)
{
  size_t best = 0, best_run = 0;
  for (size_t shift = 0, tries = 0; now_count && shift < old_count && tries < SHIFT_TRIES_MAX; shift++) {
    size_t run = 0;
    while (run < now_count && shift + run < old_count && pd_id_equal(&old[shift + run], &now[run].id)) run++;
    tries += run > 0;
    if (run > best_run) best = shift, best_run = run;
    if (shift + run == old_count) break; /* all that was kept is here */
  }
  return best;
}

/* ---- putting together ---------------------------------------------------------------------------------------------- */

typedef struct joiner {
  pd_json_writer w;
  pd_piece_next next;
  void *ctx;
  uint64_t due[PD_PIECE_KINDS];
  pd_error *err;
} joiner;

/* All pieces of a kind, as items or members. */
static pd_code join_kind(joiner *j, pd_piece_kind kind)
{
  pd_bytes name, value;
  pd_json parsed;
  uint64_t count = 0;
  pd_code code;
  for (; (code = j->next(j->ctx, kind, &name, &value, j->err)) == PD_OK; count++) {
    if (pd_json_parse(value, &parsed, NULL)) {
      return pd_error_set(j->err, PD_CORRUPT, "the piece '%s%.*s' is no JSON", pd_piece_prefix(kind),
                          (int)(name.size < 80 ? name.size : 80), (const char *)name.data);
    }
    if (kind == PD_PIECE_VARIABLE) {
      pd_json_text(&j->w, name);
      if (!j->w.code) j->w.code = pd_buf_byte(j->w.out, ':', j->err);
      j->w.needs_comma = false;
    }
    pd_json_value(&j->w, parsed);
    if (j->w.code) return j->w.code;
  }
  if (code != PD_NOT_FOUND) return code;
  if (count == j->due[kind]) return PD_OK;
  return pd_error_set(j->err, PD_CORRUPT, "there are %llu pieces '%s…' where %llu should be", (unsigned long long)count,
                      pd_piece_prefix(kind), (unsigned long long)j->due[kind]);
}

static pd_code join_list(joiner *j, pd_piece_kind kind)
{
  pd_json_open(&j->w, '[');
  TRY(join_kind(j, kind));
  pd_json_close(&j->w, ']');
  return j->w.code;
}

static pd_code join_variables(joiner *j, pd_json others)
{
  pd_json name, value;
  pd_json_walk walk = pd_json_walk_begin(others);
  pd_json_open(&j->w, '{');
  while (pd_json_walk_next(&walk, &name, &value)) {
    pd_json_key_as(&j->w, name);
    pd_json_value(&j->w, value);
  }
  TRY(join_kind(j, PD_PIECE_VARIABLE));
  pd_json_close(&j->w, '}');
  return j->w.code;
}

static pd_code join_memory(joiner *j, pd_json memory)
{
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(memory);
  pd_json_open(&j->w, '{');
  while (pd_json_walk_next(&walk, &key, &value)) {
    pd_json_key_as(&j->w, key);
    if (pd_json_is(key, "short_term_history"))
      TRY(join_list(j, PD_PIECE_HISTORY));
    else if (pd_json_is(key, "working_variables"))
      TRY(join_variables(j, value));
    else
      pd_json_value(&j->w, value);
  }
  pd_json_close(&j->w, '}');
  return j->w.code;
}

/* A list of the ledger that was not taken out is there as it was. */
static pd_code join_ledger(joiner *j, pd_json ledger)
{
  pd_json key, value, item;
  pd_json_walk walk = pd_json_walk_begin(ledger);
  if (ledger.kind != PD_JSON_OBJECT) {
    pd_json_value(&j->w, ledger);
    return j->w.code;
  }
  pd_json_open(&j->w, '{');
  while (pd_json_walk_next(&walk, &key, &value)) {
    pd_piece_kind kind = ledger_kind(key);
    pd_json_walk items = pd_json_walk_begin(value);
    pd_json_key_as(&j->w, key);
    if (kind != PD_PIECE_KINDS && value.kind == PD_JSON_ARRAY && !pd_json_walk_next(&items, NULL, &item))
      TRY(join_list(j, kind));
    else
      pd_json_value(&j->w, value);
  }
  pd_json_close(&j->w, '}');
  return j->w.code;
}

static pd_code read_window(joiner *j, pd_bytes window)
{
  static const char *const names[PD_PIECE_KINDS] = {
    [PD_PIECE_EFFECT] = "effects", [PD_PIECE_EVENT] = "events",       [PD_PIECE_HISTORY] = "history",
    [PD_PIECE_REPLY] = "replies",  [PD_PIECE_VARIABLE] = "variables",
  };
  pd_json top;
  bool is_sound = pd_json_parse(window, &top, NULL) == PD_OK;
  for (size_t kind = 0; is_sound && kind < PD_PIECE_KINDS; kind++)
    is_sound = !names[kind] || pd_json_u64(pd_json_member(top, names[kind]), &j->due[kind]);
  return is_sound ? PD_OK : pd_error_set(j->err, PD_CORRUPT, "the piece 'window' does not say how many pieces there are");
}

pd_code pd_pieces_join(pd_bytes snapshot, pd_bytes window, pd_piece_next next, void *ctx, pd_buf *out, pd_error *err)
{
  pd_json top, key, value;
  joiner j = {.w = {.out = out, .err = err}, .next = next, .ctx = ctx, .err = err};
  TRY(read_window(&j, window));
  if (pd_json_parse(snapshot, &top, NULL) || top.kind != PD_JSON_OBJECT) {
    return pd_error_set(err, PD_CORRUPT, "the piece 'snapshot' is no JSON object");
  }
  pd_json_walk walk = pd_json_walk_begin(top);
  pd_json_open(&j.w, '{');
  while (pd_json_walk_next(&walk, &key, &value)) {
    pd_json_key_as(&j.w, key);
    if (pd_json_is(key, "memory"))
      TRY(join_memory(&j, value));
    else if (pd_json_is(key, "event_queue_backup"))
      TRY(join_list(&j, PD_PIECE_EVENT));
    else if (pd_json_is(key, "perdure"))
      TRY(join_ledger(&j, value));
    else
      pd_json_value(&j.w, value);
  }
  pd_json_close(&j.w, '}');
  return j.w.code;
}
