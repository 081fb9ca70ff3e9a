/* briefing_files.c: the section of a briefing that tells what happened in the agent's watched folders. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/briefing.h"
#include "state/folder.h"
#include "state/moment.h"

#include <stdlib.h>

/* One change, for the list. Texts are the manifests'. */
typedef struct file_change {
  const char *folder, *path, *kind;
  uint64_t size;
  int64_t time_ms;
} file_change;

typedef struct file_changes {
  pd_folder_list folders;
  pd_manifest manifests[PD_FOLDERS_MAX];
  pd_manifest_scan scans[PD_FOLDERS_MAX];
  file_change *items;
  size_t count, capacity;
  uint64_t created, changed, deleted, touched_folders;
} file_changes;

static void file_changes_free(file_changes **all)
{
  if (!*all) return;
  for (size_t i = 0; i < PD_FOLDERS_MAX; i++) pd_manifest_done(&(*all)->manifests[i]);
  pd_folders_done(&(*all)->folders);
  free((*all)->items);
  free(*all);
}

/* What became of a file since then; NULL: nothing. What came and went in between is nothing. */
static const char *kind_of(const pd_file *file, int64_t since_ms, int64_t *out_ms)
{
  if (file->deleted_ms) {
    *out_ms = file->deleted_ms;
    return file->deleted_ms > since_ms && file->created_ms <= since_ms ? "deleted" : NULL;
  }
  *out_ms = file->created_ms;
  if (file->created_ms > since_ms) return "created";
  *out_ms = file->changed_ms;
  return file->changed_ms > since_ms ? "changed" : NULL;
}

static pd_code take_folder(file_changes *all, size_t index, int64_t since_ms, pd_error *err)
{
  const pd_manifest *m = &all->manifests[index];
  size_t before = all->count;
  for (size_t i = 0; i < m->count; i++) {
    const pd_file *file = &m->files[i];
    int64_t time_ms = 0;
    const char *kind = kind_of(file, since_ms, &time_ms);
    if (!kind) continue;
    all->created += kind[0] == 'c' && kind[1] == 'r';
    all->changed += kind[0] == 'c' && kind[1] == 'h';
    all->deleted += kind[0] == 'd';
    TRY(pd_array_grow(&all->items, all->count, &all->capacity, sizeof all->items[0], "a list of changed files", err));
    all->items[all->count++] = (file_change){all->folders.items[index].path, file->path, kind, file->size, time_ms};
  }
  all->touched_folders += all->count > before;
  return PD_OK;
}

static int by_path(const void *a, const void *b)
{
  const file_change *x = a, *y = b;
  int order = strcmp(x->folder, y->folder);
  return order ? order : strcmp(x->path, y->path);
}

static pd_code look(pd_briefing *b, file_changes *all, pd_error *err)
{
  uint64_t left = b->home->config.briefing_files_max;
  TRY(pd_folders_read(b->home, b->agent, &all->folders, err));
  for (size_t i = 0; i < all->folders.count; i++) {
    TRY(pd_folder_look(b->home, b->agent, &all->folders.items[i], left, b->frame->now_ms, &all->scans[i], &all->manifests[i], err));
    left -= all->scans[i].file_count;
    TRY(take_folder(all, i, b->since_ms, err));
  }
  if (all->count > 1) qsort(all->items, all->count, sizeof all->items[0], by_path);
  return PD_OK;
}

static void write_counts(pd_json_writer *w, const file_changes *all)
{
  uint64_t unreadable = 0;
  bool is_cut = false;
  pd_json_put_number(w, "created", all->created);
  pd_json_put_number(w, "changed", all->changed);
  pd_json_put_number(w, "deleted", all->deleted);
  pd_json_put_number(w, "folders", all->folders.count);
  pd_json_key(w, "unavailable");
  pd_json_open(w, '[');
  for (size_t i = 0; i < all->folders.count; i++) {
    unreadable += all->scans[i].unreadable;
    is_cut |= all->scans[i].is_cut;
    if (!all->scans[i].why[0]) continue;
    pd_json_open(w, '{');
    pd_json_put_text(w, "folder", all->folders.items[i].path);
    pd_json_put_text(w, "reason", all->scans[i].why);
    pd_json_close(w, '}');
  }
  pd_json_close(w, ']');
  if (unreadable) pd_json_put_number(w, "unreadable", unreadable);
  if (is_cut) pd_json_put_bool(w, "is_cut", true);
}

static void write_list(pd_json_writer *w, const file_changes *all)
{
  pd_json_key(w, "files");
  pd_json_open(w, '[');
  for (size_t i = 0; i < all->count && i < PD_BRIEF_LIST_MAX; i++) {
    const file_change *c = &all->items[i];
    pd_json_open(w, '{');
    pd_json_put_text(w, "kind", c->kind);
    pd_json_put_text(w, "folder", c->folder);
    pd_json_put_text(w, "path", c->path);
    if (c->kind[0] != 'd') pd_json_put_number(w, "size_bytes", c->size);
    pd_json_put_time(w, "timestamp", c->time_ms);
    pd_json_close(w, '}');
  }
  pd_json_close(w, ']');
  if (all->count > PD_BRIEF_LIST_MAX) pd_json_put_number(w, "more", all->count - PD_BRIEF_LIST_MAX);
}

static pd_code write_sentence(const file_changes *all, pd_buf *out, pd_error *err)
{
  size_t told = 0, lost = 0;
  for (size_t i = 0; i < all->folders.count; i++) lost += all->scans[i].why[0] != 0;
  if (all->count) {
    const struct {
      uint64_t count;
      const char *what;
    } kinds[] = {{all->created, "created"}, {all->changed, "changed"}, {all->deleted, "deleted"}};
    TRY(pd_buf_printf(out, err, "In your folders "));
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
      if (!kinds[i].count) continue;
      if (told++) TRY(pd_buf_append(out, ", ", 2, err));
      TRY(pd_brief_count(out, kinds[i].count, told == 1 ? "file was" : "was", told == 1 ? "files were" : "were", err));
      TRY(pd_buf_printf(out, err, " %s", kinds[i].what));
    }
    for (size_t i = 0; i < all->count && i < PD_BRIEF_NAMED_MAX; i++)
      TRY(pd_buf_printf(out, err, "%s%.80s", i ? ", " : " (", all->items[i].path));
    TRY(pd_buf_printf(out, err, all->count > PD_BRIEF_NAMED_MAX ? ", …)" : ")"));
  }
  if (lost) {
    if (all->count) TRY(pd_buf_append(out, "; ", 2, err));
    TRY(pd_brief_count(out, lost, "watched folder", "watched folders", err));
    TRY(pd_buf_printf(out, err, " could not be looked at"));
  }
  return PD_OK;
}

pd_code pd_brief_files(pd_briefing *b, pd_section *out, pd_error *err)
{
  CLEANUP(file_changes_free) file_changes *all = calloc(1, sizeof *all);
  if (!all) return pd_error_memory(err, "a look at folders");
  TRY(look(b, all, err));
  for (int is_full = 0; is_full <= (b->is_detailed && all->count); is_full++) {
    pd_json_writer w = {.out = is_full ? &out->full : &out->brief, .err = err};
    pd_json_open(&w, '{');
    write_counts(&w, all);
    if (is_full) write_list(&w, all);
    pd_json_close(&w, '}');
    TRY(w.code);
  }
  return write_sentence(all, &out->sentence, err);
}
