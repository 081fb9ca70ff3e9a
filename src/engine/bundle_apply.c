/*
 * bundle_apply.c: the commits of a verified bundle become records of this store (D4). They are appended in groups, each in one go, under
 * the hidden ref of their line (bundle_lines.c): that which ends with the parent of the group's first commit, else a new one.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/bundle.h"
#include "engine/retired.h"
#include "engine/upload.h"

#include <stdlib.h>

#define GROUP_COUNT_MAX 512
#define GROUP_BYTES_MAX ((size_t)1 << 20)
#define LARGE_TRIES_MAX 16
#define WINDOW_SIZE ((size_t)1 << 20)
#define KEPT_BYTES_MAX ((size_t)16 << 10)
#define KEPT_CHANGES_MAX 32

/* Commits of one line that are appended together. */
typedef struct group {
  pd_importer *im;
  pd_import_line line; /* as it was staged last */
  char ref[PD_REF_SIZE_MAX + 1];
  pd_commit base;
  pd_commit last;    /* the last one that was appended: what a part may be built on */
  uint64_t here_seq; /* a graft that is here already: its parts are passed over */
  pd_bundle_commit commits[GROUP_COUNT_MAX];
  pd_ack acks[GROUP_COUNT_MAX];
  size_t count, bytes;
} group;

static void group_free(group **g)
{
  for (size_t i = 0; *g && i < GROUP_COUNT_MAX; i++) pd_bundle_commit_done(&(*g)->commits[i]);
  free(*g);
}

/* ---- is it here already? ---- */

typedef struct matcher {
  pd_store *s;
  const pd_bundle_commit *commit;
  pd_commit parents[PD_PARENT_COUNT_MAX];
  pd_buf scratch;
  uint64_t seq; /* 0: not here */
} matcher;

static bool has_same_changes(const pd_rec *rec, const pd_bundle_commit *commit, bool with_numbers)
{
  if (rec->change_count != commit->count || rec->has_dropped) return false;
  pd_cursor c = pd_rec_changes(rec);
  for (size_t i = 0; i < commit->count; i++) {
    const pd_bundle_change *mine = &commit->changes[i];
    pd_rec_change ch;
    pd_rec_next(rec, &c, &ch);
    if (ch.is_delete != mine->is_delete || !pd_bytes_equal(ch.key, (pd_bytes){commit->bytes.data + mine->key_at, mine->key_size}))
      return false;
    pd_id id = pd_rec_value_id(&ch);
    if (!ch.is_delete && !pd_id_equal(&id, &mine->value_id)) return false;
    if (with_numbers && mine->number && mine->number != ch.version) return false; /* the same put, done again after an undo */
  }
  return true;
}

/* Two commits may have the same id and yet count versions differently (a put of the value that was there, and an empty commit): only
 * the same changes on the same record, made at the same time, are the same (D5). */
static pd_code match(void *ctx, uint64_t seq, bool *out_stop, pd_error *err)
{
  matcher *m = ctx;
  pd_rec rec;
  pd_error why;
  if (pd_is_retired(m->s, seq)) return PD_OK; /* it may still have its changes, and nothing may be built on it */
  pd_code code = pd_record_at(m->s, seq, &m->scratch, &rec, &why);
  if (code == PD_RETIRED) return PD_OK;
  if (code && err) *err = why;
  TRY(code);
  if (rec.kind != PD_RECORD_COMMIT || !pd_id_equal(&rec.commit, &m->commit->id) || rec.parent_count != m->commit->parent_count)
    return PD_OK;
  if (rec.parent_seqs[0] != m->parents[0].seq || pd_rec_made_ms(&rec) != m->commit->made_ms) return PD_OK;
  bool is_exact = has_same_changes(&rec, m->commit, true);
  bool may_differ = !pd_version_keeps(m->s) && !m->seq; /* this store gives its own numbers: a twin will do, if there is no better one */
  if (is_exact || (may_differ && has_same_changes(&rec, m->commit, false))) m->seq = seq;
  *out_stop = is_exact;
  return PD_OK;
}

static pd_code find_here(pd_importer *im, const pd_bundle_commit *commit, uint64_t *out_seq, pd_error *err)
{
  matcher m = {.s = im->s, .commit = commit};
  for (size_t i = 0; i < commit->parent_count; i++) m.parents[i] = pd_import_parent(im, commit->index, commit->parents[i]);
  uint32_t prefix = pd_id_prefix(&commit->id);
  pd_store_lock(im->s);
  pd_code code = pd_retention_ready(im->s, err);
  if (!code) code = pd_index_search(im->s, prefix, prefix, match, &m, err);
  pd_store_unlock(im->s);
  pd_buf_done(&m.scratch);
  *out_seq = m.seq;
  return code;
}

/* ---- appending a group ---- */

static pd_code stage_start(group *g, pd_error *err)
{
  TRY(pd_import_line_stage(g->im->s, g->im->lines, &g->base, &g->line, err));
  pd_import_line_name(g->im->lines, &g->line, g->ref);
  return PD_OK;
}

static pd_change_in change_of(const pd_bundle_commit *commit, const pd_bundle_change *ch, pd_pieces *pieces)
{
  return (pd_change_in){.key = {commit->bytes.data + ch->key_at, ch->key_size},
                        .value = {ch->is_erased || ch->is_delete || ch->is_far ? NULL : commit->bytes.data + ch->value_at, ch->size},
                        .pieces = ch->is_far ? pieces : NULL,
                        .value_id = ch->value_id,
                        .is_delete = ch->is_delete,
                        .is_erased = ch->is_erased,
                        .is_cold = true,
                        .version = ch->version,
                        .number = ch->number,
                        .is_linked = ch->is_linked,
                        .created_ms = ch->created_ms,
                        .expect_version = PD_ANY_VERSION};
}

typedef pd_code (*make_record)(pd_store *s, const pd_intent *intent, pd_ack *out, pd_error *err);

static pd_code stage_record(pd_store *s, const pd_intent *intent, pd_ack *out, pd_error *err)
{
  return pd_stage(s, intent, NULL, out, err);
}

/* `pieces`: of each change, the large values in the bag; NULL if there are none. */
static pd_code make_commit(group *g, size_t index, make_record make, pd_pieces *pieces, pd_error *err)
{
  const pd_bundle_commit *commit = &g->commits[index];
  pd_change_in *changes = calloc(commit->count + 1, sizeof *changes);
  if (!changes) return pd_error_memory(err, "a bundle");
  for (size_t i = 0; i < commit->count; i++) changes[i] = change_of(commit, &commit->changes[i], pieces ? &pieces[i] : NULL);
  const char *texts = (const char *)commit->texts.data;
  pd_commit merged[PD_PARENT_COUNT_MAX];
  bool is_graft = commit->kind != PD_BUNDLE_COMMIT;
  pd_graft graft = {commit->parent_ids, commit->parent_count};
  for (size_t i = 1; !is_graft && i < commit->parent_count; i++) merged[i - 1] = pd_import_parent(g->im, commit->index, commit->parents[i]);
  pd_note note = {.author = texts + commit->author_at, .run = texts + commit->run_at, .reason = texts + commit->reason_at};
  note.expect_head = index ? &g->acks[index - 1].commit : &g->base.id;
  pd_origin origin = {{texts, commit->origin_size}, commit->made_ms};
  pd_intent intent = {.kind = PD_RECORD_COMMIT,
                      .ref = g->ref,
                      .note = &note,
                      .changes = changes,
                      .change_count = commit->count,
                      .merged = merged,
                      .merged_count = is_graft ? 0 : commit->parent_count - 1,
                      .graft = is_graft ? &graft : NULL,
                      .origin = &origin};
  pd_code code = make(g->im->s, &intent, &g->acks[index], err);
  free(changes);
  TRY(code);
  if (commit->kind == PD_BUNDLE_PART || pd_id_equal(&g->acks[index].commit, &commit->id)) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "the bundle changed while it was read");
}

static pd_code stage_group(void *ctx, pd_error *err)
{
  group *g = ctx;
  TRY(stage_start(g, err));
  for (size_t i = 0; i < g->count; i++) TRY(make_commit(g, i, stage_record, NULL, err));
  return PD_OK;
}

static pd_code stage_only_start(void *ctx, pd_error *err)
{
  return stage_start(ctx, err);
}

/* A value on its way from the bundle to the bag. */
typedef struct passage {
  pd_importer *im;
  pd_upload *upload;
  pd_buf window;
} passage;

static void passage_done(passage *p)
{
  pd_upload_free(p->upload);
  pd_buf_done(&p->window);
}

static pd_code pass_on(passage *p, bool is_end, pd_error *err)
{
  size_t used;
  TRY(pd_upload_add(p->upload, pd_buf_bytes(&p->window), is_end, &used, err));
  if (used) memmove(p->window.data, p->window.data + used, p->window.size - used);
  p->window.size -= used;
  return PD_OK;
}

static pd_code take_some(void *ctx, pd_bytes some, pd_error *err)
{
  passage *p = ctx;
  TRY(pd_buf_append(&p->window, some.data, some.size, err));
  if (p->window.size < WINDOW_SIZE) return PD_OK;
  TRY(pass_on(p, false, err));
  return pd_import_beat(p->im->s, p->im->lines, err);
}

static pd_code upload(group *g, const pd_bundle_commit *commit, const pd_bundle_change *ch, pd_pieces *out, pd_error *err)
{
  CLEANUP(passage_done) passage p = {.im = g->im};
  TRY(pd_upload_new(g->im->s, g->ref, (pd_bytes){commit->bytes.data + ch->key_at, ch->key_size}, &p.upload, err));
  TRY(pd_bundle_value(&g->im->reader, ch, take_some, &p, err));
  TRY(pass_on(&p, true, err));
  return pd_upload_end(p.upload, out, err);
}

static pd_code upload_all(group *g, pd_pieces *pieces, pd_error *err)
{
  const pd_bundle_commit *commit = &g->commits[0];
  for (size_t i = 0; i < commit->count; i++)
    if (commit->changes[i].is_far) TRY(upload(g, commit, &commit->changes[i], &pieces[i], err));
  return PD_OK;
}

/* A commit with values so large that they go into the bag in pieces first is written alone. gc may run between the two steps. */
static pd_code write_large(group *g, pd_error *err)
{
  pd_error why = {.code = PD_OK};
  pd_code code = PD_CONFLICT;
  pd_pieces *pieces = calloc(g->commits[0].count + 1, sizeof *pieces);
  if (!pieces) return pd_error_memory(err, "a bundle");
  for (unsigned tries = 0; code == PD_CONFLICT && tries < LARGE_TRIES_MAX; tries++) {
    code = pd_write_many(g->im->s, stage_only_start, g, &why);
    if (!code) code = pd_import_line_appended(g->im->lines, &g->line, &g->base, &why);
    if (!code) code = upload_all(g, pieces, &why);
    if (!code) code = make_commit(g, 0, pd_write, pieces, &why);
  }
  free(pieces);
  if (code && err) *err = why;
  return code;
}

static bool is_large(const pd_bundle_commit *commit)
{
  for (size_t i = 0; i < commit->count; i++)
    if (!commit->changes[i].is_delete && !commit->changes[i].is_erased && commit->changes[i].size > PD_CHUNKED_SIZE_MIN) return true;
  return false;
}

/* Hundreds of large ones would add up. */
static void trim(pd_bundle_commit *commit)
{
  if (commit->bytes.capacity > KEPT_BYTES_MAX) pd_buf_done(&commit->bytes);
  if (commit->capacity <= KEPT_CHANGES_MAX) return;
  free(commit->changes);
  commit->changes = NULL;
  commit->count = commit->capacity = 0;
}

/* Nodes that no keyframe has saved cannot leave the cache, and an import is faster than the thread that writes keyframes. */
static void trim_trees(pd_store *s)
{
  pd_store_lock(s);
  bool is_full = s->tree.pool.dirty_bytes > s->cache_size_max / 4;
  pd_store_unlock(s);
  if (is_full) (void)!pd_keyframe_write(s, NULL); /* what is in the log is whole without it */
  pd_store_lock(s);
  pd_cache_trim(s);
  pd_store_unlock(s);
}

static pd_code flush_group(group *g, pd_error *err)
{
  if (!g->count) return PD_OK;
  TRY(is_large(&g->commits[0]) ? write_large(g, err) : pd_write_many(g->im->s, stage_group, g, err));
  for (size_t i = 0; i < g->count; i++) {
    g->im->seqs[g->commits[i].item] = g->acks[i].seq;
    if (g->commits[i].kind == PD_BUNDLE_PART) continue;
    g->im->notes[g->commits[i].index].seq = g->acks[i].seq;
    g->im->report.added++;
  }
  const pd_ack *last = &g->acks[g->count - 1];
  g->last = (pd_commit){last->commit, last->tree, last->seq};
  TRY(pd_import_line_appended(g->im->lines, &g->line, &g->last, err));
  for (size_t i = 0; i < g->count; i++) trim(&g->commits[i]);
  trim_trees(g->im->s);
  g->count = g->bytes = 0;
  return PD_OK;
}

/* ---- all of them ---- */

/* Can it be appended behind what the group holds? */
static bool fits(const group *g, const pd_bundle_commit *commit)
{
  if (!g->count) return true;
  if (g->count == GROUP_COUNT_MAX || g->bytes + commit->bytes.size > GROUP_BYTES_MAX) return false;
  if (is_large(commit) || is_large(&g->commits[0])) return false;
  uint64_t first = g->commits[0].index;
  const pd_bundle_commit *last = &g->commits[g->count - 1];
  bool is_on_part = commit->kind != PD_BUNDLE_COMMIT && commit->parents[0] == PD_BUNDLE_ON_PART;
  if (commit->kind != PD_BUNDLE_COMMIT) return is_on_part && last->kind == PD_BUNDLE_PART; /* a graft may be here already */
  if (commit->parents[0] != 1 || last->kind == PD_BUNDLE_PART || last->index + 1 != commit->index) return false;
  for (size_t i = 1; i < commit->parent_count; i++)
    if ((commit->parents[i] & 1) && commit->index - (commit->parents[i] + 1) / 2 >= first) return false; /* it has no number yet */
  return true;
}

/* What the first of a group is appended to. */
static pd_commit ground_of(const group *g, const pd_bundle_commit *commit)
{
  if (commit->kind != PD_BUNDLE_COMMIT && commit->parents[0] == PD_BUNDLE_ON_PART) return g->last;
  return pd_import_parent(g->im, commit->index, commit->parents[0]);
}

/* A graft is here if its commit is, with whatever history. Its parts come before it, and are not needed then. */
static pd_code pass_graft(group *g, const pd_bundle_commit *commit, bool *out_passed, pd_error *err)
{
  pd_importer *im = g->im;
  pd_commit here;
  bool is_found = g->here_seq != 0;
  if (commit->parents[0] != PD_BUNDLE_ON_PART) {
    pd_store_lock(im->s);
    pd_code code = pd_import_find(im->s, &im->notes[commit->index].id, &here, &is_found, err);
    pd_store_unlock(im->s);
    TRY(code);
    g->here_seq = is_found ? here.seq : 0;
  }
  *out_passed = is_found;
  if (commit->kind == PD_BUNDLE_PART) return PD_OK;
  if (is_found) im->notes[commit->index].seq = g->here_seq;
  g->here_seq = 0;
  return PD_OK;
}

/* Is it here already? Only asked where a group begins: what follows something new is new. */
static pd_code pass_commit(group *g, const pd_bundle_commit *commit, bool *out_passed, pd_error *err)
{
  uint64_t seq;
  if (commit->kind != PD_BUNDLE_COMMIT) return pass_graft(g, commit, out_passed, err);
  TRY(find_here(g->im, commit, &seq, err));
  *out_passed = seq != 0;
  if (!seq) return PD_OK;
  g->im->notes[commit->index].seq = seq;
  return pd_import_item_found(g->im, commit, seq, err);
}

/* The next commit is read into the group's next place, and stays there if it belongs. */
static pd_code take_commit(group *g, pd_error *err)
{
  pd_importer *im = g->im;
  if (g->count == GROUP_COUNT_MAX) TRY(flush_group(g, err));
  pd_bundle_commit *commit = &g->commits[g->count];
  TRY(pd_import_read(im, commit, err));
  TRY(pd_import_item_add(im, commit, err));
  TRY(pd_import_forget(im, commit, err));
  if (g->count && !fits(g, commit)) {
    TRY(flush_group(g, err));
    pd_bundle_commit swap = g->commits[0];
    g->commits[0] = *commit;
    *commit = swap;
    commit = &g->commits[0];
  }
  if (!g->count) {
    bool is_passed;
    TRY(pass_commit(g, commit, &is_passed, err));
    if (is_passed) return PD_OK;
    g->base = ground_of(g, commit);
  }
  g->bytes += commit->bytes.size;
  g->count++;
  return PD_OK;
}

pd_code pd_import_apply(pd_importer *im, pd_error *err)
{
  CLEANUP(group_free) group *g = calloc(1, sizeof *g);
  if (!g) return pd_error_memory(err, "a bundle");
  g->im = im;
  pd_bundle_again(&im->reader, PD_BUNDLE_KEEP);
  im->phase = 2;
  TRY(pd_import_watch_ledger(im, err));
  while (im->reader.commit_index < im->note_count) {
    TRY(take_commit(g, err));
    TRY(pd_import_tick(im, err));
  }
  return flush_group(g, err);
}
