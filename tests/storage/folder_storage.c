/* folder_storage.c: see folder_storage.h. */
#include "storage/folder_storage.h"

#include "support/temp_folder.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_DISK 77

char *folder_uri_new(const char *scheme, const char *name)
{
  char *folder = temp_folder_new(), *uri = text_of("%s%s/%s", scheme, folder, name);
  free(folder);
  return uri;
}

void folder_uri_destroy(const char *uri, const char *scheme)
{
  char *folder = strdup(uri + strlen(scheme));
  *strrchr(folder, '/') = '\0';
  temp_folder_free(folder);
}

int folder_set_up(void **state)
{
  *state = temp_folder_new();
  return 0;
}

int folder_tear_down(void **state)
{
  temp_folder_free(*state);
  return 0;
}

void write_text(const char *path, const char *text, size_t size)
{
  FILE *file = fopen(path, "w");
  if (!file || fwrite(text, 1, size, file) != size || fclose(file) != 0) fail_msg("cannot write %s", path);
}

char *read_text(const char *path, size_t *out_size)
{
  FILE *file = fopen(path, "r");
  if (!file) fail_msg("cannot read %s", path);
  char *text = calloc(1, 1 << 20);
  *out_size = fread(text, 1, (1 << 20) - 1, file);
  fclose(file);
  return text;
}

static char *big_document(void)
{
  size_t size = 6000000;
  char *text = malloc(size + 1);
  uint32_t n = 1;
  for (size_t i = 0; i < size; i++) text[i] = (char)('0' + ((n = n * 1664525u + 1013904223u) >> 20) % 64);
  for (size_t i = 0; i < size; i++)
    if (text[i] == '\\') text[i] = 'x';
  text[size] = '\0';
  char *all =
    text_of("{\"agent_id\":\"x\",\"tick_index\":2,\"timestamp\":1,\"status\":\"s\",\"memory\":{\"short_term_history\":[{\"c\":\"%s\"}],"
            "\"working_variables\":{}},\"event_queue_backup\":[]}",
            text);
  free(text);
  return all;
}

/* 0, or the number of the step that went wrong. */
static int live_on_full_disk(const char *scheme, const char *name, const char *folder)
{
  char *uri = text_of("%s%s/%s", scheme, folder, name), *small = snapshot_new("x", 1, 3), *big = big_document(),
       *next = snapshot_new("x", 3, 4);
  pd_storage *s = NULL;
  pd_buf got = {0};
  pd_snapshot facts;
  pd_error err = {0};
  if (pd_storage_open(uri, &s, &err)) return 1;
  if (pd_storage_save(s, "x", pd_text(small), &err)) return 2;
  pd_code code = pd_storage_save(s, "x", pd_text(big), &err);
  if (code != PD_FULL) {
    fprintf(stderr, "# %s: %s\n", pd_code_name(code), err.message);
    return 3;
  }
  if (pd_storage_load(s, "x", &got, &err)) return 4;
  if (pd_snapshot_check((pd_bytes){got.data, got.size}, "x", &facts, NULL) || facts.tick_index != 1 || facts.history_count != 3) return 5;
  code = pd_storage_save(s, "x", pd_text(next), &err);
  if (code) {
    fprintf(stderr, "# %s: %s\n", pd_code_name(code), err.message);
    return 6;
  }
  pd_storage_close(s);
  if (pd_storage_open(uri, &s, &err) || pd_storage_load(s, "x", &got, &err)) return 7;
  if (pd_snapshot_check((pd_bytes){got.data, got.size}, "x", &facts, NULL) || facts.tick_index != 3) return 8;
  pd_storage_close(s);
  return 0;
}

void run_on_small_disk(int (*live)(const char *folder, const void *ctx), const void *ctx)
{
  char *folder = temp_folder_new();
  pid_t child = fork();
  if (!child) {
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("none", folder, "tmpfs", 0, "size=3m"))
      _exit(NO_DISK);
    _exit(live(folder, ctx));
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  temp_folder_free(folder);
  assert_true(WIFEXITED(status));
  if (WEXITSTATUS(status) == NO_DISK) skip();
  assert_int_equal(WEXITSTATUS(status), 0);
}

typedef struct place {
  const char *scheme, *name;
} place;

static int live_there(const char *folder, const void *ctx)
{
  const place *p = ctx;
  return live_on_full_disk(p->scheme, p->name, folder);
}

void expect_full_disk_is_survived(const char *scheme, const char *name)
{
  run_on_small_disk(live_there, &(place){scheme, name});
}
