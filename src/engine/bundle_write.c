/* bundle_write.c: commits and their values on the way into a bundle. Pieces of values go once (bundle_out.h). */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/bundle_out.h"

#include <stdlib.h>

/* ---- values ---- */

/* A piece, unless it was sent before. */
static pd_code write_piece(pd_exporter *ex, const pd_id *id, pd_buf *scratch, pd_error *err)
{
  uint32_t *number;
  TRY(pd_id_map_add(&ex->sent, id, &number, NULL, err));
  if (*number) return pd_bundle_add_number(&ex->out, *number, err);
  TRY(pd_load_blob(ex->s, id, "a value", scratch, err));
  *number = ++ex->piece_count;
  TRY(pd_bundle_add_number(&ex->out, 0, err));
  return pd_bundle_add_sized(&ex->out, pd_buf_bytes(scratch), err);
}

static pd_code take_chunk(void *ctx, const pd_chunk *chunk, pd_error *err)
{
  return pd_buf_append(ctx, &chunk->id, sizeof chunk->id, err);
}

static pd_code write_chunks(pd_exporter *ex, const pd_rec_change *ch, pd_buf *scratch, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf ids = {0};
  uint64_t size = ch->size;
  pd_pieces_walk walk = {.chunk = take_chunk, .ctx = &ids};
  TRY(pd_pieces_walk_over(ex->s, &ch->list_id, &size, &walk, err));
  TRY(pd_bundle_add_number(&ex->out, ids.size / PD_ID_SIZE, err));
  for (size_t at = 0; at < ids.size; at += PD_ID_SIZE) TRY(write_piece(ex, (const pd_id *)(const void *)(ids.data + at), scratch, err));
  return PD_OK;
}

pd_code pd_export_value(pd_exporter *ex, const pd_rec_change *ch, pd_buf *scratch, pd_error *err)
{
  TRY(pd_bundle_add_number(&ex->out, ch->size, err));
  if (ch->is_erased) return pd_bundle_add(&ex->out, ch->value_id.bytes, PD_ID_SIZE, err);
  ex->report.value_bytes += ch->size;
  if (!ch->is_in_bag) return pd_bundle_add(&ex->out, ch->value.data, ch->value.size, err);
  if (ch->is_chunked) ex->chunked_bytes += ch->size;
  if (ch->is_chunked) return write_chunks(ex, ch, scratch, err);
  TRY(pd_bundle_add_number(&ex->out, 1, err));
  return write_piece(ex, &ch->value_id, scratch, err);
}

/* ---- items ---- */

pd_code pd_export_origin(pd_exporter *ex, const pd_rec *rec, pd_error *err)
{
  TRY(pd_bundle_add_number(&ex->out, (uint64_t)pd_rec_made_ms(rec), err));
  TRY(pd_bundle_add_sized(&ex->out, rec->is_imported ? rec->origin : pd_text(ex->head.store), err));
  TRY(pd_bundle_add_sized(&ex->out, rec->author, err));
  TRY(pd_bundle_add_sized(&ex->out, rec->run, err));
  return pd_bundle_add_sized(&ex->out, rec->reason, err);
}

uint8_t pd_export_flags(const pd_rec_change *ch)
{
  return ch->is_delete ? PD_BUNDLE_DELETE : ch->is_erased ? PD_BUNDLE_ERASED : ch->is_in_bag ? PD_BUNDLE_PIECES : 0;
}

static pd_code write_change(pd_exporter *ex, const pd_rec_change *ch, pd_buf *scratch, pd_error *err)
{
  bool is_numbered = ex->has_numbers && !ch->is_delete;
  uint8_t flags = (uint8_t)(pd_export_flags(ch) | (is_numbered ? PD_BUNDLE_NUMBERED : 0));
  TRY(pd_bundle_add(&ex->out, &flags, 1, err));
  TRY(pd_bundle_add_sized(&ex->out, ch->key, err));
  if (is_numbered) TRY(pd_bundle_add_number(&ex->out, ch->version, err));
  ex->report.changes++;
  return ch->is_delete ? PD_OK : pd_export_value(ex, ch, scratch, err);
}

static uint64_t coded(const pd_exporter *ex, const pd_knot *child, uint32_t parent)
{
  if (parent == PD_KNOT_NONE) return 0;
  const pd_knot *p = &ex->links[parent];
  return p->is_wanted ? 2 * (uint64_t)(child->place - p->place) - 1 : 2 * ((uint64_t)p->place + 1);
}

pd_code pd_export_commit(pd_exporter *ex, const pd_knot *l, const pd_rec *rec, pd_buf *scratch, pd_error *err)
{
  static const uint8_t kind = PD_BUNDLE_COMMIT;
  TRY(pd_bundle_add(&ex->out, &kind, 1, err));
  TRY(pd_bundle_add(&ex->out, rec->commit.bytes, PD_ID_SIZE, err));
  TRY(pd_bundle_add(&ex->out, rec->tree.bytes, PD_ID_SIZE, err));
  TRY(pd_bundle_add_number(&ex->out, 1 + l->more_count, err));
  TRY(pd_bundle_add_number(&ex->out, coded(ex, l, l->parent), err));
  for (uint32_t k = 0; k < l->more_count; k++) TRY(pd_bundle_add_number(&ex->out, coded(ex, l, ex->more[l->more + k]), err));
  TRY(pd_export_origin(ex, rec, err));
  TRY(pd_bundle_add_number(&ex->out, rec->change_count, err));
  pd_cursor c = pd_rec_changes(rec);
  uint64_t bytes_before = ex->report.value_bytes - ex->chunked_bytes;
  for (size_t i = 0; i < rec->change_count; i++) {
    pd_rec_change ch;
    pd_rec_next(rec, &c, &ch);
    TRY(write_change(ex, &ch, scratch, err));
  }
  if (ex->report.value_bytes - ex->chunked_bytes - bytes_before > PD_BUNDLE_COMMIT_MAX)
    return pd_error_set(err, PD_LIMIT, "the commit of record %llu holds over %zu bytes of values: too much for a bundle",
                        (unsigned long long)rec->seq, PD_BUNDLE_COMMIT_MAX);
  return PD_OK;
}

pd_code pd_export_fetch(pd_exporter *ex, uint64_t seq, pd_buf *copy, pd_rec *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_buf_clear(copy);
  pd_store_lock(ex->s);
  pd_code code = pd_record_walk(ex->s, seq, &scratch, out, err);
  if (!code) code = pd_buf_append(copy, out->bytes.data, out->bytes.size, err);
  pd_store_unlock(ex->s);
  TRY(code);
  return pd_rec_decode_checked(seq, pd_buf_bytes(copy), out, err);
}
