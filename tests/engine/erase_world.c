/* erase_world.c: see erase_world.h. */
#include "erase_world.h"

#include "support/temp_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int64_t now_of(void *ctx)
{
  return ((world *)ctx)->now_ms;
}

pd_store *world_open(world *w, const char *uri)
{
  pd_store *s = NULL;
  pd_options options = {.now_ms = now_of, .now_ctx = w};
  if (pd_store_open(uri, "main", &options, &s, &w->err)) fail_msg("%s", w->err.message);
  return s;
}

int world_set_up(void **state)
{
  world *w = calloc(1, sizeof *w);
  w->folder = temp_folder_new();
  w->far = temp_folder_new();
  w->uri = text_of("sqlite:%s", w->folder);
  w->far_uri = text_of("sqlite:%s", w->far);
  w->now_ms = 1000000;
  w->here = world_open(w, w->uri);
  w->there = world_open(w, w->far_uri);
  w->bundle = -1;
  *state = w;
  return 0;
}

int world_tear_down(void **state)
{
  world *w = *state;
  if (w->here && pd_verify(w->here, NULL, NULL, &w->err)) return fprintf(stderr, "%s\n", w->err.message), 1;
  (void)!pd_store_close(w->here, NULL);
  (void)!pd_store_close(w->there, NULL);
  if (w->bundle >= 0) close(w->bundle);
  temp_folder_free(w->folder);
  temp_folder_free(w->far);
  free(w->uri), free(w->far_uri), free(w);
  return 0;
}

void world_put(world *w, pd_store *store, const char *key, const char *value)
{
  w->now_ms += 1000;
  if (pd_put(store, pd_text(key), pd_text(value), NULL, NULL, &w->err)) fail_msg("put %s: %s", key, w->err.message);
}

void world_erase(world *w, const char *key, bool is_lazy)
{
  pd_erase_options options = {.is_lazy = is_lazy};
  w->now_ms += 1000;
  if (pd_erase(w->here, pd_text(key), &options, NULL, &w->err)) fail_msg("erase %s: %s", key, w->err.message);
}

/* The history of the other store comes here as far/main. */
void world_import(world *w)
{
  char *path = text_of("%s/bundle", w->far);
  pd_import_options options = {.as = "far"};
  w->now_ms += 1000;
  w->bundle = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  free(path);
  if (pd_export(w->there, w->bundle, NULL, NULL, &w->err)) fail_msg("export: %s", w->err.message);
  if (pd_import(w->here, w->bundle, &options, NULL, &w->err)) fail_msg("import: %s", w->err.message);
}

pd_code world_read_at(world *w, const char *at, const char *key)
{
  pd_buf value = {0};
  pd_code code = pd_get(w->here, at, pd_text(key), &value, NULL, &w->err);
  pd_buf_done(&value);
  return code;
}

static bool file_has(const char *folder, const char *name, const char *text)
{
  char *path = text_of("%s/%s", folder, name);
  FILE *f = fopen(path, "r");
  static char bytes[8 << 20];
  size_t size = f ? fread(bytes, 1, sizeof bytes, f) : 0;
  if (f) fclose(f);
  free(path);
  return memmem(bytes, size, text, strlen(text)) != NULL;
}

void world_want_nowhere(world *w, const char *text)
{
  DIR *dir = opendir(w->folder);
  assert_non_null(dir);
  for (const struct dirent *entry; (entry = readdir(dir));)
    if (entry->d_name[0] != '.' && file_has(w->folder, entry->d_name, text)) fail_msg("'%s' is in %s", text, entry->d_name);
  closedir(dir);
}

int world_export_all(world *w, pd_store *store, const char *name)
{
  char *path = text_of("%s/%s", w->far, name);
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (pd_export(store, fd, &(pd_export_options){.is_all = true}, NULL, &w->err)) fail_msg("export: %s", w->err.message);
  free(path);
  return fd;
}

void world_import_file(world *w, pd_store *to, int fd)
{
  w->now_ms += 1000;
  if (pd_import(to, fd, &(pd_import_options){.as = "far"}, NULL, &w->err)) fail_msg("import: %s", w->err.message);
}

void world_gc(world *w)
{
  for (unsigned i = 0; i < 5; i++) world_put(w, w->here, "later", i % 2 ? "a" : "b");
  if (pd_gc(w->here, &(pd_gc_policy){.keep_last = 1}, NULL, &w->err)) fail_msg("gc: %s", w->err.message);
}

static void take_ledger(void *ctx, const pd_diagnosis *d)
{
  unsigned long entries;
  if (sscanf(d->what, "its ledger of erasures has %lu entries", &entries) == 1) *(size_t *)ctx = entries;
}

size_t world_entries(world *w)
{
  size_t entries = 0;
  if (pd_doctor(w->uri, take_ledger, &entries, NULL, &w->err)) fail_msg("doctor: %s", w->err.message);
  return entries;
}
