/* bundle_item.c: the header of a bundle, and its items: commits with their changes, and what a store knows besides. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/bundle.h"

#include <stdlib.h>

#define TIME_MAX ((uint64_t)INT64_MAX / 2)
#define VERSION_MAX ((uint64_t)1 << 62)

/* ---- the header ---- */

void pd_bundle_head_done(pd_bundle_head *head)
{
  free(head->refs);
  free(head->bases);
}

pd_code pd_bundle_head_encode(const pd_bundle_head *head, pd_buf *out, pd_error *err)
{
  TRY(pd_add_sized(out, pd_text(head->store), err));
  TRY(pd_add_sized(out, pd_text(head->current), err));
  TRY(pd_add_varint(out, (uint64_t)head->made_ms, err));
  TRY(pd_add_varint(out, head->tail, err));
  TRY(pd_add_id(out, &head->audit, err));
  TRY(pd_add_varint(out, head->commit_count, err));
  TRY(pd_add_varint(out, head->meta_count, err));
  TRY(pd_add_varint(out, head->ref_count, err));
  for (size_t i = 0; i < head->ref_count; i++) {
    TRY(pd_add_sized(out, pd_text(head->refs[i].name), err));
    TRY(pd_add_id(out, &head->refs[i].commit, err));
    TRY(pd_add_varint(out, head->refs[i].place, err));
  }
  TRY(pd_add_varint(out, head->base_count, err));
  for (size_t i = 0; i < head->base_count; i++) TRY(pd_add_id(out, &head->bases[i], err));
  return PD_OK;
}

/* A text without NUL. */
static void take_name(pd_cursor *c, size_t size_max, char *out)
{
  pd_bytes text = pd_take_sized(c, size_max);
  if (c->failed || (text.size && memchr(text.data, 0, text.size))) {
    c->failed = true;
    return;
  }
  if (text.size) memcpy(out, text.data, text.size);
  out[text.size] = 0;
}

static pd_code take_refs(pd_cursor *c, pd_bundle_head *out, pd_error *err)
{
  uint64_t count = pd_take_varint(c);
  if (c->failed || count > PD_BUNDLE_REF_MAX || count > pd_cursor_left(c) / PD_ID_SIZE) return PD_CORRUPT;
  out->refs = calloc(count + 1, sizeof *out->refs);
  if (!out->refs) return pd_error_memory(err, "a bundle");
  for (size_t i = 0; i < count; i++) {
    pd_bundle_ref *ref = &out->refs[out->ref_count++];
    take_name(c, PD_REF_SIZE_MAX, ref->name);
    ref->commit = pd_take_id(c);
    ref->place = pd_take_varint(c);
    if (c->failed || pd_ref_check(ref->name, NULL)) return PD_CORRUPT;
    if (i && strcmp(out->refs[i - 1].name, ref->name) >= 0) return PD_CORRUPT; /* sorted, each once */
  }
  return PD_OK;
}

static pd_code take_bases(pd_cursor *c, pd_bundle_head *out, pd_error *err)
{
  uint64_t count = pd_take_varint(c);
  if (c->failed || count > PD_BUNDLE_BASE_MAX || count > pd_cursor_left(c) / PD_ID_SIZE) return PD_CORRUPT;
  out->bases = calloc(count + 1, sizeof *out->bases);
  if (!out->bases) return pd_error_memory(err, "a bundle");
  for (size_t i = 0; i < count; i++) out->bases[out->base_count++] = pd_take_id(c);
  return PD_OK;
}

static pd_code take_head(pd_cursor *c, pd_bundle_head *out, pd_error *err)
{
  take_name(c, PD_NAME_SIZE_MAX, out->store);
  take_name(c, PD_REF_SIZE_MAX, out->current);
  uint64_t made = pd_take_varint(c);
  if (made > TIME_MAX) c->failed = true;
  out->made_ms = (int64_t)made;
  out->tail = pd_take_varint(c);
  out->audit = pd_take_id(c);
  out->commit_count = pd_take_varint(c);
  out->meta_count = pd_take_varint(c);
  if (c->failed || pd_agent_check(out->store, NULL) || out->meta_count > PD_BUNDLE_META_MAX) return PD_CORRUPT;
  TRY(take_refs(c, out, err));
  TRY(take_bases(c, out, err));
  return pd_cursor_ok(c) ? PD_OK : PD_CORRUPT;
}

pd_code pd_bundle_head_decode(pd_bytes bytes, pd_bundle_head *out, pd_error *err)
{
  pd_cursor c = pd_cursor_of(bytes);
  pd_code code = take_head(&c, out, err);
  return code == PD_CORRUPT ? pd_error_set(err, PD_CORRUPT, "the bundle's header is malformed") : code;
}

/* ---- the reader ---- */

void pd_bundle_commit_done(pd_bundle_commit *commit)
{
  pd_buf_done(&commit->texts);
  pd_buf_done(&commit->bytes);
  free(commit->changes);
}

pd_code pd_bundle_reader_open(pd_bundle_reader *r, const pd_source *source, pd_bundle_head *out_head, pd_error *err)
{
  TRY(pd_bundle_in_open(&r->in, source, out_head, err));
  TRY(pd_bundle_in_copy(&r->far, &r->in, err));
  return pd_bundle_in_copy(&r->aside, &r->in, err);
}

void pd_bundle_reader_done(pd_bundle_reader *r)
{
  pd_bundle_in_done(&r->in);
  pd_bundle_in_done(&r->aside);
  pd_bundle_in_done(&r->far);
  free(r->pieces);
}

void pd_bundle_again(pd_bundle_reader *r, pd_bundle_depth depth)
{
  pd_bundle_rewind(&r->in);
  r->depth = depth;
  r->commit_index = 0;
  r->piece_next = 0;
  r->is_in_graft = false;
  r->changes = r->value_bytes = 0;
}

static pd_code settle(pd_bundle_reader *r, pd_error *err)
{
  if (!r->in.code && r->aside.code) r->in.code = r->aside.code, r->in.why = r->aside.why;
  if (r->in.code && err) *err = r->in.why;
  return r->in.code;
}

pd_code pd_bundle_next(pd_bundle_reader *r, uint8_t *out_kind, pd_error *err)
{
  *out_kind = pd_bundle_u8(&r->in);
  bool is_of_graft = *out_kind == PD_BUNDLE_GRAFT || *out_kind == PD_BUNDLE_PART;
  if (*out_kind > PD_BUNDLE_PART) (void)!pd_bundle_fail(&r->in, PD_CORRUPT, "the bundle has an item of an unknown kind");
  if (r->is_in_graft && !is_of_graft) (void)!pd_bundle_fail(&r->in, PD_CORRUPT, "the bundle has parts of a commit that does not come");
  return settle(r, err);
}

static void take_text(pd_bundle_reader *r, pd_buf *texts, size_t *out_at)
{
  size_t at = texts->size;
  uint64_t size = pd_bundle_number(&r->in, PD_NOTE_SIZE_MAX);
  pd_bundle_bytes(&r->in, size, texts, NULL);
  if (r->in.code) return;
  pd_bytes text = {texts->data + at, (size_t)size};
  if (size && (memchr(text.data, 0, text.size) || !pd_utf8_check(text)))
    (void)!pd_bundle_fail(&r->in, PD_CORRUPT, "the bundle has an author, run or reason that is no text");
  if (!r->in.code) r->in.code = pd_buf_byte(texts, 0, &r->in.why);
  *out_at = at;
}

/* ---- values ---- */

/* Where the bytes of a value go: its hash, the commit's buffer, or nowhere. */
typedef struct sink {
  pd_buf *buf;
  pd_hash *hash;
} sink;

/* A piece that is new: the first pass writes down where it is. */
static uint64_t take_new_piece(pd_bundle_reader *r, uint64_t left, sink to)
{
  uint64_t size = pd_bundle_number(&r->in, left);
  if (r->depth == PD_BUNDLE_SKIP) {
    if (!r->in.code) r->in.code = pd_array_grow(&r->pieces, r->piece_count, &r->piece_capacity, sizeof *r->pieces, "a bundle", &r->in.why);
    if (!r->in.code) r->pieces[r->piece_count++] = (struct pd_bundle_piece){pd_bundle_tell(&r->in), size};
  }
  r->piece_next++;
  pd_bundle_bytes(&r->in, size, to.buf, to.hash);
  return size;
}

static uint64_t take_old_piece(pd_bundle_reader *r, uint64_t number, uint64_t left, sink to)
{
  if (r->in.code || number >= r->piece_next || number >= r->piece_count || r->pieces[number].size > left)
    return (void)!pd_bundle_fail(&r->in, PD_CORRUPT, "the bundle names a piece that it does not have"), 0;
  uint64_t size = r->pieces[number].size;
  if (!to.hash) return size;
  pd_bundle_seek(&r->aside, r->pieces[number].place);
  pd_bundle_bytes(&r->aside, size, to.buf, to.hash);
  return size;
}

static void take_pieces(pd_bundle_reader *r, uint64_t size, sink to)
{
  uint64_t left = size;
  uint64_t count = pd_bundle_number(&r->in, size); /* none is empty */
  for (uint64_t i = 0; i < count && !r->in.code && !r->aside.code; i++) {
    uint64_t which = pd_bundle_number(&r->in, PD_BUNDLE_PIECE_MAX);
    uint64_t got = which ? take_old_piece(r, which - 1, left, to) : take_new_piece(r, left, to);
    if (!got && !r->in.code) (void)!pd_bundle_fail(&r->in, PD_CORRUPT, "the bundle has an empty piece");
    left -= got;
  }
  if (left && !r->in.code) (void)!pd_bundle_fail(&r->in, PD_CORRUPT, "the bundle has a value in pieces that do not make it whole");
}

static void take_value(pd_bundle_reader *r, pd_bundle_commit *out, pd_bundle_change *ch, bool is_in_pieces)
{
  pd_hash hash;
  uint64_t size = pd_bundle_number(&r->in, UINT32_MAX - 1);
  if (size > r->value_size_max)
    (void)!pd_bundle_fail(&r->in, PD_LIMIT, "the bundle has a value of %llu bytes, the limit is %llu", (unsigned long long)size,
                          (unsigned long long)r->value_size_max);
  bool is_kept = !ch->is_erased && !(is_in_pieces && size > PD_CHUNKED_SIZE_MIN);
  if (is_kept && (out->kept_bytes += size) > PD_BUNDLE_COMMIT_MAX)
    (void)!pd_bundle_fail(&r->in, PD_LIMIT, "the bundle has a commit of over %zu bytes", PD_BUNDLE_COMMIT_MAX);
  ch->size = r->in.code ? 0 : (uint32_t)size;
  ch->value_at = out->bytes.size;
  if (ch->is_erased) {
    ch->value_id = pd_bundle_id(&r->in);
    return;
  }
  pd_hash_init(&hash);
  ch->is_far = r->depth == PD_BUNDLE_KEEP && !is_kept;
  ch->place = pd_bundle_tell(&r->in);
  sink to = {r->depth == PD_BUNDLE_KEEP && !ch->is_far ? &out->bytes : NULL, r->depth == PD_BUNDLE_SKIP ? NULL : &hash};
  if (is_in_pieces)
    take_pieces(r, ch->size, to);
  else
    pd_bundle_bytes(&r->in, ch->size, to.buf, to.hash);
  ch->value_id = pd_hash_end(&hash);
  r->value_bytes += ch->size;
}

/* One piece, to the end of `window`. */
static pd_code read_piece(pd_bundle_reader *r, uint64_t left, pd_buf *window, pd_error *err)
{
  pd_bundle_in *from = &r->far;
  uint64_t which = pd_bundle_number(from, PD_BUNDLE_PIECE_MAX);
  uint64_t size = which ? 0 : pd_bundle_number(from, left);
  if (which && which <= r->piece_count) {
    from = &r->aside;
    size = r->pieces[which - 1].size;
    pd_bundle_seek(from, r->pieces[which - 1].place);
  }
  if (!size || size > left) (void)!pd_bundle_fail(from, PD_CORRUPT, "the bundle changed while it was read");
  pd_bundle_bytes(from, size, window, NULL);
  if (from->code && err) *err = from->why;
  return from->code;
}

pd_code pd_bundle_value(pd_bundle_reader *r, const pd_bundle_change *ch, pd_bundle_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf piece = {0};
  pd_bundle_seek(&r->far, ch->place);
  uint64_t count = pd_bundle_number(&r->far, ch->size), left = ch->size;
  for (; count; count--) {
    pd_buf_clear(&piece);
    TRY(read_piece(r, left, &piece, err));
    left -= piece.size;
    TRY(visit(ctx, pd_buf_bytes(&piece), err));
  }
  if (!left && !r->far.code) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "the bundle changed while it was read");
}

/* ---- commits ---- */

static pd_bytes key_of(const pd_bundle_commit *commit, const pd_bundle_change *ch)
{
  return (pd_bytes){commit->bytes.data + ch->key_at, ch->key_size};
}

/* Which version it is: grafts say, and commits of stores whose numbers do not follow from the changes. */
static void take_version(pd_bundle_reader *r, pd_bundle_change *ch)
{
  ch->version = pd_bundle_number(&r->in, VERSION_MAX);
  if (!ch->version || (ch->is_linked && ch->version < 2))
    (void)!pd_bundle_fail(&r->in, PD_CORRUPT, "the bundle has a version that is none");
  if (!ch->is_linked && ch->version > 1) ch->created_ms = (int64_t)pd_bundle_number(&r->in, TIME_MAX);
}

static bool is_kind_of_change(const pd_bundle_commit *out, uint8_t flags)
{
  uint8_t extra = out->kind == PD_BUNDLE_COMMIT ? PD_BUNDLE_NUMBERED : PD_BUNDLE_LINKED;
  if (flags != (PD_BUNDLE_DELETE | extra)) flags &= (uint8_t)~extra;
  return flags == 0 || flags == PD_BUNDLE_DELETE || flags == PD_BUNDLE_ERASED || flags == PD_BUNDLE_PIECES;
}

static void take_change(pd_bundle_reader *r, pd_bundle_commit *out)
{
  pd_bundle_in *in = &r->in;
  in->code = pd_array_grow(&out->changes, out->count, &out->capacity, sizeof *out->changes, "a bundle", &in->why);
  if (in->code) return;
  pd_bundle_change *ch = &out->changes[out->count];
  *ch = (pd_bundle_change){.key_at = out->bytes.size};
  uint8_t flags = pd_bundle_u8(in);
  if (!is_kind_of_change(out, flags)) (void)!pd_bundle_fail(in, PD_CORRUPT, "the bundle has a change of an unknown kind");
  ch->is_delete = flags & PD_BUNDLE_DELETE;
  ch->is_erased = flags & PD_BUNDLE_ERASED;
  ch->is_linked = flags & PD_BUNDLE_LINKED;
  ch->key_size = (size_t)pd_bundle_number(in, PD_KEY_SIZE_MAX);
  pd_bundle_bytes(in, ch->key_size, &out->bytes, NULL);
  if (in->code) return;
  if (pd_key_check(key_of(out, ch), NULL)) (void)!pd_bundle_fail(in, PD_CORRUPT, "the bundle has a key that is none");
  if (out->count && pd_bytes_compare(key_of(out, ch - 1), key_of(out, ch)) >= 0)
    (void)!pd_bundle_fail(in, PD_CORRUPT, "the bundle has keys out of order");
  out->count++;
  r->changes++;
  if (!ch->is_delete && out->kind != PD_BUNDLE_COMMIT) take_version(r, ch);
  if (flags & PD_BUNDLE_NUMBERED) {
    ch->number = pd_bundle_number(in, VERSION_MAX);
    if (!ch->number) (void)!pd_bundle_fail(in, PD_CORRUPT, "the bundle has a version that is none");
  }
  if (!ch->is_delete) take_value(r, out, ch, flags & PD_BUNDLE_PIECES);
}

static void check_place(pd_bundle_reader *r, uint64_t coded, uint64_t index)
{
  if ((coded & 1) && (coded + 1) / 2 > index) (void)!pd_bundle_fail(&r->in, PD_CORRUPT, "the bundle has a commit before its parent");
}

static void take_parents(pd_bundle_reader *r, pd_bundle_commit *out)
{
  out->parent_count = (size_t)pd_bundle_number(&r->in, PD_PARENT_COUNT_MAX);
  if (!out->parent_count) (void)!pd_bundle_fail(&r->in, PD_CORRUPT, "the bundle has a commit without a parent");
  for (size_t i = 0; i < out->parent_count; i++) {
    out->parents[i] = pd_bundle_number(&r->in, UINT64_MAX / 4);
    check_place(r, out->parents[i], out->index);
  }
}

/* What a graft or part builds on is a commit of the bundle, nothing, or the part before. */
static void take_ground(pd_bundle_reader *r, pd_bundle_commit *out)
{
  uint64_t on = out->parents[0] = pd_bundle_number(&r->in, UINT64_MAX / 4);
  bool is_on_part = on == PD_BUNDLE_ON_PART;
  if (is_on_part != r->is_in_graft || (on && !(on & 1) && !is_on_part))
    (void)!pd_bundle_fail(&r->in, PD_CORRUPT, "the bundle has parts of a commit that do not follow each other");
  check_place(r, on, out->index);
  r->is_in_graft = out->kind == PD_BUNDLE_PART;
}

static void take_graft(pd_bundle_reader *r, pd_bundle_commit *out)
{
  bool is_part = out->kind == PD_BUNDLE_PART;
  if (!is_part) out->id = pd_bundle_id(&r->in);
  if (!is_part) out->tree = pd_bundle_id(&r->in);
  out->parent_count = is_part ? 0 : (size_t)pd_bundle_number(&r->in, PD_PARENT_COUNT_MAX);
  if (!is_part && !out->parent_count) (void)!pd_bundle_fail(&r->in, PD_CORRUPT, "the bundle has a commit without a parent");
  for (size_t i = 0; i < (is_part ? 1 : out->parent_count); i++) out->parent_ids[i] = pd_bundle_id(&r->in);
  take_ground(r, out);
}

pd_code pd_bundle_read_commit(pd_bundle_reader *r, uint8_t kind, pd_bundle_commit *out, pd_error *err)
{
  pd_bundle_in *in = &r->in;
  size_t origin_at = 0;
  pd_buf_clear(&out->texts);
  pd_buf_clear(&out->bytes);
  out->count = 0;
  out->kept_bytes = 0;
  out->kind = kind;
  out->index = r->commit_index;
  r->commit_index += kind != PD_BUNDLE_PART;
  if (kind != PD_BUNDLE_COMMIT) {
    take_graft(r, out);
  } else {
    out->id = pd_bundle_id(in);
    out->tree = pd_bundle_id(in);
    take_parents(r, out);
  }
  out->made_ms = (int64_t)pd_bundle_number(in, TIME_MAX);
  take_text(r, &out->texts, &origin_at);
  out->origin_size = out->texts.size ? out->texts.size - 1 : 0;
  take_text(r, &out->texts, &out->author_at);
  take_text(r, &out->texts, &out->run_at);
  take_text(r, &out->texts, &out->reason_at);
  uint64_t count = pd_bundle_number(in, PD_EDIT_COUNT_MAX);
  for (uint64_t i = 0; i < count && !in->code && !r->aside.code; i++) take_change(r, out);
  return settle(r, err);
}

bool pd_bundle_is_portable(pd_bytes key)
{
  static const char *const kinds[] = {"tag/", "pin/", "message/", "setting/", "erased/"};
  if (pd_bytes_starts(key, pd_text("setting/remote."))) return false;
  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    if (pd_bytes_starts(key, pd_text(kinds[i]))) return true;
  return false;
}

pd_code pd_bundle_read_meta(pd_bundle_reader *r, pd_buf *out_key, pd_buf *out_value, pd_error *err)
{
  pd_buf_clear(out_key);
  pd_buf_clear(out_value);
  pd_bundle_bytes(&r->in, pd_bundle_number(&r->in, PD_KEY_SIZE_MAX), out_key, NULL);
  pd_bundle_bytes(&r->in, pd_bundle_number(&r->in, PD_BUNDLE_META_SIZE_MAX), out_value, NULL);
  if (!r->in.code && (pd_key_check(pd_buf_bytes(out_key), NULL) || !pd_bundle_is_portable(pd_buf_bytes(out_key))))
    (void)!pd_bundle_fail(&r->in, PD_CORRUPT, "the bundle has a name of a tag, pin, link or setting that is none");
  return settle(r, err);
}

pd_code pd_bundle_read_end(pd_bundle_reader *r, pd_error *err)
{
  uint64_t commits = pd_bundle_number(&r->in, UINT64_MAX), changes = pd_bundle_number(&r->in, UINT64_MAX);
  bool is_right = commits == r->commit_index && changes == r->changes;
  if (!r->in.code && (!is_right || !pd_bundle_is_over(&r->in)))
    (void)!pd_bundle_fail(&r->in, PD_CORRUPT, "the bundle does not end where it should");
  return settle(r, err);
}
