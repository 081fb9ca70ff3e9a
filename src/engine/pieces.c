/* pieces.c: reading values that lie in the bag in pieces (dag/chunk.h). Everything is compared with its id as it comes (E6). */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "engine/store.h"

static pd_code walk_group(pd_store *s, const pd_group *group, const pd_pieces_walk *walk, pd_buf *blob, pd_error *err)
{
  pd_list_walk chunks;
  pd_chunk chunk;
  if (walk->list) TRY(walk->list(walk->ctx, &group->id, err));
  if (!walk->chunk) return PD_OK;
  TRY(pd_load_blob(s, &group->id, "a list of a value's pieces", blob, err));
  TRY(pd_group_open(pd_buf_bytes(blob), group, &chunks, err));
  while (pd_group_next(&chunks, &chunk)) TRY(walk->chunk(walk->ctx, &chunk, err));
  return PD_OK;
}

pd_code pd_pieces_walk_over(pd_store *s, const pd_id *list_id, const uint64_t *expect_size, const pd_pieces_walk *walk, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf list = {0};
  CLEANUP(pd_buf_done) pd_buf blob = {0};
  pd_list_walk groups;
  pd_group group;
  if (walk->list) TRY(walk->list(walk->ctx, list_id, err));
  TRY(pd_load_blob(s, list_id, "the list of a value's pieces", &list, err));
  TRY(pd_list_open(pd_buf_bytes(&list), &groups, err));
  if (expect_size && groups.size != *expect_size)
    return pd_error_set(err, PD_CORRUPT, "the pieces of a value have %llu bytes, it should have %llu", (unsigned long long)groups.size,
                        (unsigned long long)*expect_size);
  while (pd_list_next(&groups, &group)) TRY(walk_group(s, &group, walk, &blob, err));
  return PD_OK;
}

typedef struct all_blobs {
  pd_blob_visit visit;
  void *ctx;
} all_blobs;

static pd_code visit_list(void *ctx, const pd_id *id, pd_error *err)
{
  const all_blobs *all = ctx;
  return all->visit(all->ctx, id, err);
}

static pd_code visit_chunk(void *ctx, const pd_chunk *chunk, pd_error *err)
{
  const all_blobs *all = ctx;
  return all->visit(all->ctx, &chunk->id, err);
}

pd_code pd_chunks_visit(pd_store *s, const pd_id *list_id, pd_blob_visit visit, void *ctx, pd_error *err)
{
  all_blobs all = {visit, ctx};
  pd_pieces_walk walk = {.list = visit_list, .chunk = visit_chunk, .ctx = &all};
  return pd_pieces_walk_over(s, list_id, NULL, &walk, err);
}

/* ---- bytes ---- */

typedef struct outflow {
  pd_store *s;
  pd_hash whole;
  pd_buf piece;
  pd_piece_visit visit;
  void *ctx;
} outflow;

static void outflow_done(outflow *f)
{
  pd_buf_done(&f->piece);
}

static pd_code hand_out(void *ctx, const pd_chunk *chunk, pd_error *err)
{
  outflow *f = ctx;
  TRY(pd_load_blob(f->s, &chunk->id, "a piece of a value", &f->piece, err));
  if (f->piece.size != chunk->size) return pd_error_set(err, PD_CORRUPT, "a piece of a value has another size than it should");
  pd_hash_add(&f->whole, f->piece.data, f->piece.size);
  return f->visit(f->ctx, pd_buf_bytes(&f->piece), err);
}

pd_code pd_pieces_stream(pd_store *s, const pd_id *list_id, const pd_id *value_id, uint64_t size, pd_piece_visit visit, void *ctx,
                         pd_error *err)
{
  CLEANUP(outflow_done) outflow f = {.s = s, .visit = visit, .ctx = ctx};
  pd_hash_init(&f.whole);
  pd_pieces_walk walk = {.chunk = hand_out, .ctx = &f};
  TRY(pd_pieces_walk_over(s, list_id, &size, &walk, err));
  pd_id got = pd_hash_end(&f.whole);
  if (pd_id_equal(&got, value_id)) return PD_OK;
  char hex[PD_ID_HEX_SIZE];
  return pd_error_set(err, PD_CORRUPT, "the pieces of a value do not give its id %.16s…", pd_id_hex(value_id, hex));
}

static pd_code collect_piece(void *ctx, pd_bytes piece, pd_error *err)
{
  return pd_buf_append(ctx, piece.data, piece.size, err);
}

pd_code pd_pieces_read(pd_store *s, const pd_id *list_id, const pd_id *value_id, uint64_t size, pd_buf *out, pd_error *err)
{
  pd_buf_clear(out);
  TRY(pd_buf_reserve(out, (size_t)size, err));
  return pd_pieces_stream(s, list_id, value_id, size, collect_piece, out, err);
}
