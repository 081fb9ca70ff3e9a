/*
 * import.c: a thread from its export. Everything is read, checked and rebuilt in memory first; what came out right is then brought over as
 * a whole (pd_transfer), so a bad export leaves nothing behind.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "thread/export.h"
#include "thread/rebuild.h"

#define BLOCK_SIZE ((size_t)65536)

typedef struct importer {
  const pd_source *source;
  const pd_thread_import_options *options;
  const char *rename; /* NULL: the thread keeps its id */
  pd_rebuild r;
  pd_buf data;    /* read, and not yet taken */
  size_t taken;   /* of data */
  uint64_t read;  /* of the source */
  uint64_t line;  /* number of the current one */
  uint64_t forks; /* that the first line promised */
  char id[PD_THREAD_ID_SIZE_MAX + 1];
  bool is_begun, is_over;
} importer;

static void importer_done(importer *im)
{
  pd_rebuild_done(&im->r);
  pd_buf_done(&im->data);
}

static pd_code wrong(const importer *im, const char *what, pd_error *err)
{
  return pd_error_named(err, PD_INVALID, "InvalidExport", "line %llu: %.400s", (unsigned long long)im->line, what);
}

/* What is wrong with a part is wrong with the line. */
static pd_code of_line(const importer *im, pd_code code, const pd_error *why, pd_error *err)
{
  if (code == PD_INVALID || code == PD_CONFLICT) return wrong(im, why->message, err);
  if (code == PD_LIMIT || code == PD_CORRUPT || code == PD_FORMAT)
    return pd_error_set(err, code, "line %llu: %.400s", (unsigned long long)im->line, why->message);
  if (code && err) *err = *why;
  return code;
}

/* ---- lines ---- */

static pd_code read_more(importer *im, pd_error *err)
{
  uint64_t left = im->source->size - im->read;
  size_t size = left < BLOCK_SIZE ? (size_t)left : BLOCK_SIZE;
  if (im->taken) {
    memmove(im->data.data, im->data.data + im->taken, im->data.size - im->taken);
    im->data.size -= im->taken;
    im->taken = 0;
  }
  if (im->data.size > PD_EXPORT_LINE_MAX)
    return pd_error_set(err, PD_LIMIT, "line %llu has more than %zu bytes", (unsigned long long)im->line, PD_EXPORT_LINE_MAX);
  TRY(pd_buf_reserve(&im->data, size, err));
  TRY(im->source->read(im->source->ctx, im->read, im->data.data + im->data.size, size, err));
  im->data.size += size;
  im->read += size;
  if (im->options->progress && !im->options->progress(im->options->ctx, im->read, im->source->size))
    return pd_error_set(err, PD_INVALID, "the import was given up");
  return PD_OK;
}

/* The next line without its end; PD_NOT_FOUND behind the last. Borrowed until the next call. */
static pd_code next_line(importer *im, pd_bytes *out, pd_error *err)
{
  size_t looked = 0;
  im->line++;
  for (;;) {
    const char *at = (const char *)im->data.data + im->taken;
    size_t size = im->data.size - im->taken;
    const char *end = size > looked ? memchr(at + looked, '\n', size - looked) : NULL;
    if (end) {
      *out = (pd_bytes){at, (size_t)(end - at)};
      im->taken += out->size + 1;
      return PD_OK;
    }
    looked = size;
    if (im->read == im->source->size) break;
    TRY(read_more(im, err));
  }
  return looked ? wrong(im, "the last line has no end", err) : PD_NOT_FOUND;
}

/* ---- parts ---- */

/* The identity that the thread ends up with gets the new id. */
static pd_code take_identity(importer *im, pd_json value, pd_error *err)
{
  CLEANUP(pd_identity_done) pd_identity identity = {0};
  TRY(pd_identity_parse(value, &identity, err));
  bool is_last = identity.forks == im->forks;
  if (identity.forks > im->forks) return pd_error_set(err, PD_INVALID, "there are more forks than the first line says");
  if (is_last && strcmp(identity.id, im->id) != 0) return pd_error_set(err, PD_INVALID, "the last identity is of another thread");
  if (is_last && im->rename) identity.id = im->rename;
  return pd_rebuild_identity(&im->r, &identity, err);
}

static pd_code take_thread(importer *im, pd_json line, pd_error *err)
{
  enum { KIND, FORMAT, ID, FORKS, IDENTITY, COUNT };
  pd_json_field f[COUNT] = {{"kind", {{0}, 0}}, {"format", {{0}, 0}}, {"id", {{0}, 0}}, {"forks", {{0}, 0}}, {"identity", {{0}, 0}}};
  CLEANUP(pd_buf_done) pd_buf id = {.size_max = PD_THREAD_ID_SIZE_MAX};
  uint64_t format;
  TRY(pd_json_fields(line, f, COUNT, err));
  if (!pd_json_u64(f[FORMAT].value, &format)) return pd_error_set(err, PD_INVALID, "'format' is no number");
  if (format != PD_EXPORT_FORMAT) return pd_error_set(err, PD_FORMAT, "the export has format %llu, known is 1", (unsigned long long)format);
  if (!pd_json_u64(f[FORKS].value, &im->forks)) return pd_error_set(err, PD_INVALID, "'forks' is no number");
  if (f[ID].value.kind != PD_JSON_STRING) return pd_error_set(err, PD_INVALID, "'id' is no string");
  TRY(pd_json_decode(f[ID].value, &id, err));
  if (id.size && memchr(id.data, 0, id.size)) return pd_error_set(err, PD_INVALID, "'id' has a NUL");
  if (id.size) memcpy(im->id, id.data, id.size);
  TRY(pd_thread_id_check(im->id, "thread", err));
  return take_identity(im, f[IDENTITY].value, err);
}

static pd_code take_change(importer *im, pd_json line, pd_error *err)
{
  pd_json_field f[] = {{"kind", {{0}, 0}}, {"version", {{0}, 0}}, {"change", {{0}, 0}}};
  uint64_t version;
  TRY(pd_json_fields(line, f, COUNT_OF(f), err));
  if (!pd_json_u64(f[1].value, &version)) return pd_error_set(err, PD_INVALID, "'version' is no number");
  if (f[2].value.kind != PD_JSON_OBJECT) return pd_error_set(err, PD_INVALID, "'change' is no object");
  return pd_rebuild_change(&im->r, version, f[2].value.raw, err);
}

static pd_code take_fork(importer *im, pd_json line, pd_error *err)
{
  pd_json_field f[] = {{"kind", {{0}, 0}}, {"identity", {{0}, 0}}};
  TRY(pd_json_fields(line, f, COUNT_OF(f), err));
  return take_identity(im, f[1].value, err);
}

static pd_code check_commit(const importer *im, pd_json value, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf hex = {0};
  pd_id commit;
  TRY(pd_json_decode(value, &hex, err));
  TRY(pd_buf_byte(&hex, 0, err));
  if (hex.size != PD_ID_HEX_SIZE || !pd_id_parse((const char *)hex.data, &commit))
    return pd_error_set(err, PD_INVALID, "'commit' is no commit id");
  if (im->rename || pd_id_equal(&commit, &im->r.t->commit.id)) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "its change sets give another commit than the export says");
}

static pd_code take_end(importer *im, pd_json line, pd_error *err)
{
  enum { KIND, VERSION, MESSAGES, RUNS, COMMIT, COUNT };
  pd_json_field f[COUNT] = {{"kind", {{0}, 0}}, {"version", {{0}, 0}}, {"messages", {{0}, 0}}, {"runs", {{0}, 0}}, {"commit", {{0}, 0}}};
  uint64_t numbers[3];
  TRY(pd_json_fields(line, f, COUNT, err));
  if (!im->r.t) return pd_error_set(err, PD_INVALID, "change set 0 is missing");
  for (int i = 0; i < 3; i++)
    if (!pd_json_u64(f[VERSION + i].value, &numbers[i])) return pd_error_set(err, PD_INVALID, "'%s' is no number", f[VERSION + i].name);
  const pd_thread_head *head = &im->r.t->head;
  if (im->r.identity.forks != im->forks) return pd_error_set(err, PD_INVALID, "there are fewer forks than the first line says");
  if (numbers[0] != head->version || numbers[1] != head->messages || numbers[2] != head->runs)
    return pd_error_set(err, PD_INVALID, "the numbers are not those of what came before");
  if (f[COMMIT].value.kind != PD_JSON_STRING) return pd_error_set(err, PD_INVALID, "'commit' is no string");
  TRY(check_commit(im, f[COMMIT].value, err));
  im->is_over = true;
  return PD_OK;
}

static pd_code take_line(importer *im, pd_bytes text, pd_error *err)
{
  pd_json line;
  TRY(pd_json_parse(text, &line, err));
  pd_json kind = pd_json_member(line, "kind");
  if (im->is_over) return pd_error_set(err, PD_INVALID, "there is more behind the end");
  if (!im->is_begun) {
    if (!pd_json_is(kind, "thread")) return pd_error_set(err, PD_INVALID, "this is no export of a thread: 'kind' is not \"thread\"");
    im->is_begun = true;
    return take_thread(im, line, err);
  }
  if (pd_json_is(kind, "change")) return take_change(im, line, err);
  if (pd_json_is(kind, "fork")) return take_fork(im, line, err);
  if (pd_json_is(kind, "end")) return take_end(im, line, err);
  return pd_error_set(err, PD_INVALID, "'kind' is none of change, fork, end");
}

/* ---- all of it ---- */

static pd_code read_all(importer *im, pd_error *err)
{
  pd_bytes line;
  pd_error why;
  pd_code code;
  TRY(pd_rebuild_open(&im->r, err));
  while ((code = next_line(im, &line, err)) == PD_OK) {
    code = take_line(im, line, &why);
    if (code) return of_line(im, code, &why, err);
  }
  if (code != PD_NOT_FOUND) return code;
  return im->is_over ? PD_OK : wrong(im, "the export is cut off", err);
}

/* Whoever did not come to an end left a ref that nobody sees: it would be in the way. */
static pd_code clear_way(pd_store *store, const char *ref, pd_error *err)
{
  pd_ref left;
  pd_error why;
  pd_code code = pd_ref_get(store, ref, &left, &why);
  if (code == PD_NOT_FOUND) return PD_OK;
  if (code && err) *err = why;
  TRY(code);
  return pd_ref_delete(store, ref, &(pd_note){.expect_head = &left.commit.id, .reason = "ThreadImported"}, err);
}

/* In the rebuilt store the ref has the first identity's name: it goes under that of the last. */
static pd_code bring_over(importer *im, pd_store *store, pd_error *err)
{
  char ref[PD_THREAD_REF_SIZE], hex[PD_ID_HEX_SIZE];
  const pd_identity *identity = &im->r.identity;
  const char *const refs[] = {pd_thread_ref(identity->id, ref)};
  TRY(pd_thread_check_absent(store, identity->id, err));
  TRY(clear_way(store, ref, err));
  if (strcmp(ref, pd_rebuild_ref(&im->r)) != 0)
    TRY(pd_fork(im->r.store, ref, pd_id_hex(&im->r.t->commit.id, hex), &(pd_note){.reason = "ThreadImported"}, NULL, err));
  TRY(pd_threads_add(store, identity, err));
  return pd_transfer(im->r.store, store, &(pd_transfer_options){.refs = refs, .ref_count = 1}, NULL, err);
}

static pd_code import_renamed(pd_store *store, const pd_source *source, const pd_thread_import_options *options,
                              pd_thread_replay_report *out, pd_error *err)
{
  CLEANUP(importer_done) importer im = {.source = source, .options = options, .rename = options->id};
  TRY(read_all(&im, err));
  if (!options->is_dry_run) TRY(bring_over(&im, store, err));
  out->commit = im.r.t->commit.id;
  return PD_OK;
}

static pd_code check_size(const pd_source *source, const pd_thread_import_options *options, pd_error *err)
{
  uint64_t limit = options->bytes_max ? options->bytes_max : PD_EXPORT_SIZE_MAX;
  if (source->size <= limit) return PD_OK;
  return pd_error_set(err, PD_LIMIT, "the export has %llu bytes, the limit is %llu", (unsigned long long)source->size,
                      (unsigned long long)limit);
}

pd_code pd_thread_import(pd_store *store, const pd_source *source, const pd_thread_import_options *options, pd_thread_replay_report *out,
                         pd_error *err)
{
  static const pd_thread_import_options none;
  if (!options) options = &none;
  CLEANUP(importer_done) importer im = {.source = source, .options = options};
  TRY(check_size(source, options, err));
  if (options->id) TRY(pd_thread_id_check(options->id, "thread", err));
  TRY(read_all(&im, err));
  pd_thread_replay_report report = {.versions = im.r.t->head.version,
                                    .messages = im.r.t->head.messages,
                                    .runs = im.r.t->head.runs,
                                    .forks = im.r.identity.forks,
                                    .commit = im.r.t->commit.id,
                                    .is_same = true};
  const char *id = options->id ? options->id : im.id;
  TRY(pd_thread_check_absent(store, id, err));
  if (strcmp(id, im.id) != 0)
    TRY(import_renamed(store, source, options, &report, err));
  else if (!options->is_dry_run)
    TRY(bring_over(&im, store, err));
  if (out) *out = report;
  return PD_OK;
}
