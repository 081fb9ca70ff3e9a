/* record.c: see record.h. */
#include "dag/record.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "dag/node.h"

#include <stdlib.h>

#define CHANGE_DELETE 1u
#define CHANGE_IN_BAG 2u
#define CHANGE_ERASED 4u
#define CHANGE_CHUNKED 8u /* with CHANGE_IN_BAG */
#define CHANGE_CARRIED 16u
#define CHANGE_FLAGS_MAX 31u
#define KIND_DROPPED 0x80u
#define KIND_IMPORTED 0x40u
#define KIND_GRAFTED 0x20u
#define KIND_MASK 0x1Fu
#define TIME_MAX ((uint64_t)INT64_MAX / 2)
#define CHECK_SIZE 4
#define TRAILER_SIZE (PD_ID_SIZE + CHECK_SIZE)

static bool has_target(pd_record_kind kind)
{
  return kind == PD_RECORD_FORK || kind == PD_RECORD_RESET || kind == PD_RECORD_UNDO || kind == PD_RECORD_REDO;
}

/* ---- encoding ---- */

static pd_code add_back(pd_buf *out, uint64_t seq, uint64_t other, pd_error *err)
{
  return pd_add_varint(out, other ? seq - other : 0, err);
}

static uint8_t flags_of(const pd_rec_change *ch)
{
  return (uint8_t)((ch->is_delete ? CHANGE_DELETE : 0) | (ch->is_in_bag ? CHANGE_IN_BAG : 0) | (ch->is_erased ? CHANGE_ERASED : 0) |
                   (ch->is_chunked ? CHANGE_CHUNKED : 0) | (ch->is_carried ? CHANGE_CARRIED : 0));
}

static pd_code encode_change(const pd_rec *rec, pd_rec_change *ch, pd_buf *out, size_t record_at, pd_error *err)
{
  TRY(pd_buf_byte(out, flags_of(ch), err));
  TRY(pd_add_sized(out, ch->key, err));
  TRY(pd_add_varint(out, ch->version, err));
  TRY(add_back(out, rec->seq, ch->prev_seq, err));
  if (ch->is_delete) return PD_OK;
  if (ch->is_carried) TRY(pd_add_varint(out, (uint64_t)ch->created_ms, err));
  TRY(pd_add_varint(out, ch->size, err));
  if (rec->is_redacted) TRY(pd_add_varint(out, ch->pos, err));
  if (ch->is_erased) return pd_add_id(out, &ch->value_id, err);
  if (ch->is_in_bag) {
    ch->pos = ch->is_chunked ? PD_POS_CHUNKED : PD_POS_BAG;
    TRY(pd_add_id(out, &ch->value_id, err));
    return ch->is_chunked ? pd_add_id(out, &ch->list_id, err) : PD_OK;
  }
  if (!rec->is_redacted) ch->pos = (uint32_t)(out->size - record_at);
  return pd_buf_append(out, ch->value.data, ch->value.size, err);
}

static pd_code encode_parents(const pd_rec *rec, pd_buf *out, pd_error *err)
{
  TRY(pd_add_varint(out, rec->parent_count, err));
  if (rec->is_grafted) TRY(pd_add_varint(out, rec->seq - rec->base_seq, err));
  for (size_t i = 0; rec->is_grafted && i < (rec->parent_count ? rec->parent_count : 1); i++) TRY(pd_add_id(out, &rec->parent_ids[i], err));
  for (size_t i = 0; !rec->is_grafted && i < rec->parent_count; i++) TRY(pd_add_varint(out, rec->seq - rec->parent_seqs[i], err));
  return PD_OK;
}

static pd_code encode_commit(pd_rec *rec, pd_rec_change *changes, pd_buf *out, size_t record_at, pd_error *err)
{
  TRY(encode_parents(rec, out, err));
  TRY(pd_add_varint(out, rec->change_count, err));
  rec->changes_pos = (uint32_t)(out->size - record_at);
  for (size_t i = 0; i < rec->change_count; i++) TRY(encode_change(rec, &changes[i], out, record_at, err));
  return PD_OK;
}

pd_code pd_rec_encode(pd_rec *rec, pd_rec_change *changes, pd_buf *out, pd_error *err)
{
  size_t record_at = out->size;
  uint8_t head[2] = {rec->is_redacted ? PD_RECORD_FORMAT_REDACTED : PD_RECORD_FORMAT,
                     (uint8_t)((unsigned)rec->kind | (rec->has_dropped ? KIND_DROPPED : 0) | (rec->is_imported ? KIND_IMPORTED : 0) |
                               (rec->is_grafted ? KIND_GRAFTED : 0))};
  TRY(pd_buf_append(out, head, sizeof head, err));
  TRY(pd_add_varint(out, (uint64_t)rec->time_ms, err));
  TRY(add_back(out, rec->seq, rec->keyframe_seq, err));
  TRY(pd_add_sized(out, rec->ref, err));
  TRY(add_back(out, rec->seq, rec->ref_prev_seq, err));
  TRY(pd_add_sized(out, rec->author, err));
  TRY(pd_add_sized(out, rec->run, err));
  TRY(pd_add_sized(out, rec->reason, err));
  if (rec->is_imported) {
    TRY(pd_add_varint(out, (uint64_t)rec->made_ms, err));
    TRY(pd_add_sized(out, rec->origin, err));
  }
  rec->ids_pos = (uint32_t)(out->size - record_at);
  if (rec->kind == PD_RECORD_COMMIT || has_target(rec->kind)) {
    TRY(pd_add_id(out, &rec->commit, err));
    TRY(pd_add_id(out, &rec->tree, err));
  }
  if (has_target(rec->kind)) TRY(pd_add_varint(out, rec->seq - rec->target_seq, err));
  if (rec->kind == PD_RECORD_KEYFRAME) {
    TRY(pd_add_id(out, &rec->catalog, err));
    TRY(pd_add_varint(out, rec->seq - rec->covers, err));
  }
  if (rec->kind == PD_RECORD_COMMIT) TRY(encode_commit(rec, changes, out, record_at, err));
  if (out->size - record_at + TRAILER_SIZE > PD_RECORD_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "a commit of %zu bytes is over the limit of %zu", out->size - record_at, PD_RECORD_SIZE_MAX);
  return PD_OK;
}

/* ---- audit: the normal form is hashed, never stored ---- */

static void hash_change(pd_hash *hash, const uint8_t *from, const uint8_t *to, const pd_rec_change *ch, const pd_id *id)
{
  uint8_t flags = (uint8_t)((ch->is_delete ? CHANGE_DELETE : 0) | (ch->is_carried ? CHANGE_CARRIED : 0));
  pd_hash_add(hash, &flags, 1);
  pd_hash_add(hash, from + 1, (size_t)(to - from - 1));
  if (!ch->is_delete) pd_hash_add(hash, id->bytes, PD_ID_SIZE);
}

/* What stands for the value in the record. */
static size_t stored_size(const pd_rec_change *ch)
{
  if (ch->is_delete) return 0;
  if (ch->is_erased) return PD_ID_SIZE;
  if (ch->is_in_bag) return ch->is_chunked ? 2 * PD_ID_SIZE : PD_ID_SIZE;
  return ch->size;
}

/* Hash what stands before the values and each value's id. `known` are the changes as encoded, or NULL to compute ids. */
static pd_id audit_of(const pd_rec *rec, pd_bytes body, const pd_rec_change *known, const pd_id *prev_audit)
{
  pd_hash hash;
  pd_hash_init(&hash);
  pd_hash_add(&hash, prev_audit->bytes, PD_ID_SIZE);
  size_t plain = rec->kind == PD_RECORD_COMMIT ? rec->changes_pos : body.size;
  static const uint8_t format = PD_RECORD_FORMAT; /* the normal form is that of a record that was never redacted */
  pd_hash_add(&hash, &format, 1);
  pd_hash_add(&hash, (const uint8_t *)body.data + 1, plain - 1);
  pd_cursor c = {(const uint8_t *)body.data + plain, (const uint8_t *)body.data + body.size, false};
  for (size_t i = 0; i < rec->change_count; i++) {
    const uint8_t *from = c.next;
    pd_rec_change ch;
    pd_rec_next(rec, &c, &ch);
    const uint8_t *to = c.next - stored_size(&ch) - (rec->is_redacted && !ch.is_delete ? pd_varint_size(ch.pos) : 0);
    pd_id id = known ? known[i].value_id : pd_rec_value_id(&ch);
    hash_change(&hash, from, to, &ch, &id);
  }
  return pd_hash_end(&hash);
}

static void check_of(pd_bytes bytes, uint8_t out[CHECK_SIZE])
{
  pd_id sum = pd_sha256(bytes);
  memcpy(out, sum.bytes, CHECK_SIZE);
}

pd_code pd_rec_reserve(pd_buf *out, pd_error *err)
{
  return pd_buf_reserve(out, TRAILER_SIZE, err);
}

void pd_rec_seal(pd_rec *rec, const pd_rec_change *changes, const pd_id *prev_audit, pd_buf *out, size_t record_at)
{
  uint8_t *at = out->data + record_at;
  if (rec->kind == PD_RECORD_COMMIT) {
    memcpy(at + rec->ids_pos, rec->commit.bytes, PD_ID_SIZE);
    memcpy(at + rec->ids_pos + PD_ID_SIZE, rec->tree.bytes, PD_ID_SIZE);
  }
  pd_bytes body = {at, out->size - record_at};
  rec->bytes = body;
  rec->audit = audit_of(rec, body, changes, prev_audit);
  memcpy(out->data + out->size, rec->audit.bytes, PD_ID_SIZE);
  out->size += PD_ID_SIZE;
  body.size += PD_ID_SIZE;
  check_of(body, out->data + out->size);
  out->size += CHECK_SIZE;
}

pd_id pd_rec_audit(const pd_rec *rec, const pd_id *prev_audit)
{
  pd_bytes body = {rec->bytes.data, rec->bytes.size - TRAILER_SIZE};
  return audit_of(rec, body, NULL, prev_audit);
}

/* ---- decoding ---- */

/* A distance back from `seq`; 0 is "none". Fails before the beginning. */
static uint64_t take_back(pd_cursor *c, uint64_t seq)
{
  uint64_t back = pd_take_varint(c);
  if (back > seq) c->failed = true;
  return back && !c->failed ? seq - back : 0;
}

void pd_rec_next(const pd_rec *rec, pd_cursor *c, pd_rec_change *out)
{
  memset(out, 0, sizeof *out);
  uint8_t flags = pd_take_u8(c);
  bool is_redacted = rec->is_redacted || (rec->bytes.size && *(const uint8_t *)rec->bytes.data == PD_RECORD_FORMAT_REDACTED);
  out->is_delete = flags & CHANGE_DELETE;
  out->is_in_bag = flags & CHANGE_IN_BAG;
  out->is_erased = flags & CHANGE_ERASED;
  out->is_chunked = flags & CHANGE_CHUNKED;
  out->is_carried = flags & CHANGE_CARRIED;
  if (flags > CHANGE_FLAGS_MAX || (out->is_delete && flags != CHANGE_DELETE) || (out->is_chunked && !out->is_in_bag)) c->failed = true;
  if (out->is_erased && !is_redacted) c->failed = true;
  out->key = pd_take_sized(c, PD_KEY_SIZE_MAX);
  out->version = pd_take_varint(c);
  out->prev_seq = take_back(c, rec->seq);
  out->pos = PD_POS_BAG;
  if (!out->key.size || !out->version) c->failed = true;
  if (out->is_delete) return;
  uint64_t created = out->is_carried ? pd_take_varint(c) : 0;
  if (created > TIME_MAX || (out->is_carried && (out->prev_seq || out->version < 2))) c->failed = true;
  out->created_ms = (int64_t)created;
  uint64_t size = pd_take_varint(c);
  if (size >= UINT32_MAX) c->failed = true;
  out->size = (uint32_t)size;
  uint64_t pos = is_redacted ? pd_take_varint(c) : 0;
  if (pos > UINT32_MAX) c->failed = true;
  if (out->is_erased) {
    out->value_id = pd_take_id(c);
    out->pos = (uint32_t)pos;
  } else if (out->is_in_bag) {
    out->value_id = pd_take_id(c);
    if (out->is_chunked) out->list_id = pd_take_id(c);
    out->pos = out->is_chunked ? PD_POS_CHUNKED : PD_POS_BAG;
    if (is_redacted && pos != out->pos) c->failed = true;
  } else {
    out->pos = c->failed ? 0 : is_redacted ? (uint32_t)pos : (uint32_t)(c->next - (const uint8_t *)rec->bytes.data);
    out->value = pd_take_bytes(c, c->failed ? 0 : out->size);
  }
}

pd_id pd_rec_value_id(const pd_rec_change *change)
{
  return change->is_in_bag || change->is_delete || change->is_erased ? change->value_id : pd_sha256(change->value);
}

pd_cursor pd_rec_changes(const pd_rec *rec)
{
  const uint8_t *data = rec->bytes.data;
  pd_cursor c = {data + rec->changes_pos, data + rec->bytes.size - TRAILER_SIZE, rec->kind != PD_RECORD_COMMIT};
  return c;
}

pd_code pd_rec_find(const pd_rec *rec, pd_bytes key, pd_rec_change *out, pd_error *err)
{
  pd_cursor c = pd_rec_changes(rec);
  for (size_t i = 0; i < rec->change_count; i++) {
    pd_rec_next(rec, &c, out);
    if (pd_bytes_equal(out->key, key)) return PD_OK;
  }
  return pd_error_set(err, PD_CORRUPT, "record %llu does not change the key that it should", (unsigned long long)rec->seq);
}

/* A commit before this one; the root commit counts as record 0. */
static uint64_t take_commit(pd_cursor *c, uint64_t seq)
{
  uint64_t back = pd_take_varint(c);
  if (!back || back > seq) c->failed = true;
  return seq - (c->failed ? 0 : back);
}

static void decode_parents(pd_rec *out, pd_cursor *c)
{
  out->parent_count = pd_take_varint(c);
  if (out->parent_count > PD_PARENT_COUNT_MAX || (!out->parent_count && !out->is_grafted)) c->failed = true;
  if (c->failed) out->parent_count = 0;
  if (out->is_grafted) out->base_seq = take_commit(c, out->seq);
  for (size_t i = 0; out->is_grafted && i < (out->parent_count ? out->parent_count : 1); i++) {
    out->parent_seqs[i] = PD_SEQ_GONE;
    out->parent_ids[i] = pd_take_id(c);
  }
  for (size_t i = 0; !out->is_grafted && i < out->parent_count; i++) out->parent_seqs[i] = take_commit(c, out->seq);
}

static void decode_commit(pd_rec *out, pd_cursor *c)
{
  out->target_seq = out->seq;
  decode_parents(out, c);
  uint64_t count = pd_take_varint(c);
  if (count > PD_EDIT_COUNT_MAX) c->failed = true;
  out->changes_pos = (uint32_t)(c->next - (const uint8_t *)out->bytes.data);
  out->change_count = c->failed ? 0 : (size_t)count;
}

static void check_changes(const pd_rec *rec, pd_cursor *c)
{
  pd_rec_change ch;
  for (size_t i = 0; !c->failed && i < rec->change_count; i++) pd_rec_next(rec, c, &ch);
}

static void decode_body(pd_rec *out, pd_cursor *c)
{
  uint8_t format = pd_take_u8(c), kind = pd_take_u8(c);
  if (format != PD_RECORD_FORMAT && format != PD_RECORD_FORMAT_REDACTED) c->failed = true;
  out->is_redacted = format == PD_RECORD_FORMAT_REDACTED;
  out->has_dropped = kind & KIND_DROPPED;
  out->is_imported = kind & KIND_IMPORTED;
  out->is_grafted = kind & KIND_GRAFTED;
  kind &= KIND_MASK;
  if (!kind || kind >= PD_RECORD_KIND_COUNT || (out->has_dropped && !out->is_redacted)) c->failed = true;
  if (out->is_grafted && kind != PD_RECORD_COMMIT) c->failed = true;
  out->kind = c->failed ? PD_RECORD_COMMIT : (pd_record_kind)kind;
  uint64_t time = pd_take_varint(c);
  if (time > TIME_MAX) c->failed = true;
  out->time_ms = (int64_t)time;
  out->keyframe_seq = take_back(c, out->seq);
  out->ref = pd_take_sized(c, PD_REF_SIZE_MAX);
  out->ref_prev_seq = take_back(c, out->seq);
  out->author = pd_take_sized(c, PD_NOTE_SIZE_MAX);
  out->run = pd_take_sized(c, PD_NOTE_SIZE_MAX);
  out->reason = pd_take_sized(c, PD_NOTE_SIZE_MAX);
  if (out->is_imported) {
    uint64_t made = pd_take_varint(c);
    if (made > TIME_MAX) c->failed = true;
    out->made_ms = (int64_t)made;
    out->origin = pd_take_sized(c, PD_NOTE_SIZE_MAX);
  }
  out->ids_pos = (uint32_t)(c->next - (const uint8_t *)out->bytes.data);
  if (out->kind == PD_RECORD_COMMIT || has_target(out->kind)) {
    out->commit = pd_take_id(c);
    out->tree = pd_take_id(c);
  }
  if (has_target(out->kind)) {
    uint64_t back = pd_take_varint(c);
    if (back > out->seq) c->failed = true;
    out->target_seq = out->seq - (c->failed ? 0 : back);
  }
  if (out->kind == PD_RECORD_KEYFRAME) {
    out->catalog = pd_take_id(c);
    out->covers = take_back(c, out->seq);
  }
  if (out->kind == PD_RECORD_COMMIT) decode_commit(out, c);
}

pd_code pd_rec_decode_checked(uint64_t seq, pd_bytes bytes, pd_rec *out, pd_error *err)
{
  memset(out, 0, sizeof *out);
  out->seq = seq;
  out->bytes = bytes;
  const uint8_t *data = bytes.data;
  pd_cursor c = {data, data + bytes.size - TRAILER_SIZE, false};
  decode_body(out, &c);
  memcpy(out->audit.bytes, data + bytes.size - TRAILER_SIZE, PD_ID_SIZE);
  bool is_whole = out->kind == PD_RECORD_COMMIT ? !c.failed : pd_cursor_ok(&c);
  return is_whole ? PD_OK : pd_error_set(err, PD_CORRUPT, "record %llu is malformed", (unsigned long long)seq);
}

pd_code pd_rec_decode(uint64_t seq, pd_bytes bytes, pd_rec *out, pd_error *err)
{
  if (bytes.size < TRAILER_SIZE || bytes.size > PD_RECORD_SIZE_MAX || !seq)
    return pd_error_set(err, PD_CORRUPT, "record %llu is malformed: %zu bytes", (unsigned long long)seq, bytes.size);
  uint8_t check[CHECK_SIZE];
  const uint8_t *data = bytes.data;
  pd_bytes checked = {data, bytes.size - CHECK_SIZE};
  check_of(checked, check);
  if (memcmp(check, data + checked.size, CHECK_SIZE) != 0)
    return pd_error_set(err, PD_CORRUPT, "record %llu does not match its checksum", (unsigned long long)seq);
  TRY(pd_rec_decode_checked(seq, bytes, out, err));
  pd_cursor c = {data + (out->kind == PD_RECORD_COMMIT ? out->changes_pos : bytes.size - TRAILER_SIZE), data + bytes.size - TRAILER_SIZE,
                 false};
  check_changes(out, &c);
  if (!pd_cursor_ok(&c)) return pd_error_set(err, PD_CORRUPT, "record %llu is malformed", (unsigned long long)seq);
  return PD_OK;
}

int64_t pd_rec_made_ms(const pd_rec *rec)
{
  return rec->is_imported ? rec->made_ms : rec->time_ms;
}

uint64_t pd_rec_base(const pd_rec *rec)
{
  return rec->is_grafted ? rec->base_seq : rec->parent_seqs[0];
}

bool pd_rec_is_part(const pd_rec *rec)
{
  return rec->is_grafted && !rec->parent_count;
}

const pd_id *pd_rec_maker(const pd_rec *rec)
{
  return pd_rec_is_part(rec) ? &rec->parent_ids[0] : &rec->commit;
}

/* ---- redaction ---- */

/* What is left of the changes; rec->change_count of them. */
static void choose_changes(pd_rec *rec, const pd_rec *old, pd_redact_choose choose, void *ctx, pd_rec_change *out, bool *out_changed)
{
  size_t count = 0;
  pd_cursor c = pd_rec_changes(old);
  for (size_t i = 0; i < old->change_count; i++) {
    pd_rec_change *ch = &out[count];
    pd_rec_next(old, &c, ch);
    pd_redaction what = choose(ctx, old, ch);
    if (what == PD_REDACT_ERASE && (ch->is_delete || ch->is_erased)) what = PD_REDACT_KEEP;
    if (what != PD_REDACT_KEEP) *out_changed = true;
    if (what == PD_REDACT_DROP) {
      rec->has_dropped = true;
      continue;
    }
    if (what == PD_REDACT_ERASE) {
      ch->value_id = pd_rec_value_id(ch);
      ch->is_erased = true;
    }
    count++;
  }
  rec->change_count = count;
}

static pd_code encode_redacted(pd_rec *rec, pd_rec_change *changes, pd_buf *out, pd_error *err)
{
  size_t record_at = out->size;
  rec->is_redacted = true;
  TRY(pd_rec_encode(rec, changes, out, err));
  TRY(pd_rec_reserve(out, err));
  memcpy(out->data + out->size, rec->audit.bytes, PD_ID_SIZE); /* it stays what it was */
  out->size += PD_ID_SIZE;
  check_of((pd_bytes){out->data + record_at, out->size - record_at}, out->data + out->size);
  out->size += CHECK_SIZE;
  return PD_OK;
}

pd_code pd_rec_redact(const pd_rec *rec, pd_redact_choose choose, void *ctx, bool keep_empty, pd_buf *out, bool *out_changed, pd_error *err)
{
  *out_changed = false;
  if (rec->kind != PD_RECORD_COMMIT) return pd_buf_append(out, rec->bytes.data, rec->bytes.size, err);
  pd_rec made = *rec;
  pd_rec_change *changes = calloc(rec->change_count + 1, sizeof *changes);
  if (!changes) return pd_error_memory(err, "a record");
  pd_code code = PD_OK;
  choose_changes(&made, rec, choose, ctx, changes, out_changed);
  if (!*out_changed && (rec->change_count || keep_empty))
    code = pd_buf_append(out, rec->bytes.data, rec->bytes.size, err);
  else if (made.change_count || keep_empty)
    code = encode_redacted(&made, changes, out, err);
  else
    *out_changed = true;
  free(changes);
  return code;
}

pd_code pd_rec_value_at(uint64_t seq, pd_bytes bytes, uint32_t pos, uint32_t size, pd_bytes *out, pd_error *err)
{
  const uint8_t *data = bytes.data;
  if (bytes.size && *data == PD_RECORD_FORMAT) {
    if (pos > bytes.size || size > bytes.size - pos)
      return pd_error_set(err, PD_CORRUPT, "record %llu is too short for its value", (unsigned long long)seq);
    *out = (pd_bytes){data + pos, size};
    return PD_OK;
  }
  pd_rec rec;
  TRY(pd_rec_decode(seq, bytes, &rec, err));
  pd_cursor c = pd_rec_changes(&rec);
  for (size_t i = 0; i < rec.change_count; i++) {
    pd_rec_change ch;
    pd_rec_next(&rec, &c, &ch);
    if (ch.is_delete || ch.pos != pos || ch.size != size) continue;
    if (ch.is_erased) return pd_error_set(err, PD_ERASED, "the value was erased");
    if (ch.is_in_bag) continue;
    *out = ch.value;
    return PD_OK;
  }
  return pd_error_set(err, PD_CORRUPT, "record %llu does not hold its value", (unsigned long long)seq);
}
