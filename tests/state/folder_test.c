/* folder_test.c: watched folders: what briefings find in them, and what they leave alone. */
#include "state/world.h"

#include "base/base.h"
#include "base/buf.h"
#include "support/temp_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <perdure/token.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define GENERATE "state.briefing.generate"
#define ALL "{\"since\":\"2026-11-15T10:00:00Z\",\"detail_level\":\"detailed\"}"

typedef struct scene {
  world w;
  char *folder; /* watched */
} scene;

static void scene_open(scene *s)
{
  world_open(&s->w, NULL);
  s->folder = temp_folder_new();
}

static void scene_close(scene *s)
{
  temp_folder_free(s->folder);
  world_close(&s->w);
}

static char *path_of(const scene *s, const char *name)
{
  return text_of("%s/%s", s->folder, name);
}

static void write_file(const scene *s, const char *name, const char *text)
{
  char *path = path_of(s, name);
  FILE *f = fopen(path, "w");
  if (!f) fail_msg("%s: %s", path, strerror(errno));
  fputs(text, f);
  assert_int_equal(fclose(f), 0);
  free(path);
}

static void remove_file(const scene *s, const char *name)
{
  char *path = path_of(s, name);
  assert_int_equal(remove(path), 0);
  free(path);
}

static void make_folder(const scene *s, const char *name)
{
  char *path = path_of(s, name);
  assert_int_equal(mkdir(path, 0700), 0);
  free(path);
}

static void watch(scene *s, const char *more)
{
  if (world_callf(&s->w, "folders.watch", "{\"path\":\"%s\"%s}", s->folder, more)) fail_msg("%s", (const char *)s->w.out.data);
}

/* A second later, all that changed since the beginning. */
static void look(scene *s)
{
  s->w.now_ms += 1000;
  world_ok(&s->w, GENERATE, ALL);
}

static void want_files(scene *s, const char *created, const char *changed, const char *deleted)
{
  char got[100], wanted[100];
  snprintf(got, sizeof got, "%s", world_out(&s->w, "briefing.filesystem_changes.created"));
  snprintf(got + strlen(got), sizeof got - strlen(got), " %s", world_out(&s->w, "briefing.filesystem_changes.changed"));
  snprintf(got + strlen(got), sizeof got - strlen(got), " %s", world_out(&s->w, "briefing.filesystem_changes.deleted"));
  snprintf(wanted, sizeof wanted, "%s %s %s", created, changed, deleted);
  if (strcmp(got, wanted) != 0) fail_msg("created, changed, deleted: %s, not %s: %s", got, wanted, (const char *)s->w.out.data);
}

static void folders__what_was_created_changed_and_deleted_is_told_by_path(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  make_folder(&s, "sub");
  write_file(&s, "stays", "1");
  write_file(&s, "sub/changes", "1");
  write_file(&s, "sub/goes", "1");
  watch(&s, "");
  assert_string_equal(world_out(&s.w, "created"), "true");
  assert_string_equal(world_out(&s.w, "files"), "3");
  look(&s);
  want_files(&s, "0", "0", "0");
  write_file(&s, "sub/changes", "22");
  remove_file(&s, "sub/goes");
  write_file(&s, "comes", "333");
  look(&s);
  want_files(&s, "1", "1", "1");
  assert_string_equal(world_out(&s.w, "briefing.filesystem_changes.files.0.path"), "\"comes\"");
  assert_string_equal(world_out(&s.w, "briefing.filesystem_changes.files.0.kind"), "\"created\"");
  assert_string_equal(world_out(&s.w, "briefing.filesystem_changes.files.0.size_bytes"), "3");
  assert_string_equal(world_out(&s.w, "briefing.filesystem_changes.files.1.path"), "\"sub/changes\"");
  assert_string_equal(world_out(&s.w, "briefing.filesystem_changes.files.2.kind"), "\"deleted\"");
  assert_non_null(strstr(world_out(&s.w, "briefing.summary"),
                         "In your folders 1 file was created, 1 was changed, 1 was deleted (comes, sub/changes, sub/goes)"));
  look(&s); /* told again for the same time… */
  want_files(&s, "1", "1", "1");
  world_ok(&s.w, GENERATE, "{\"since\":\"2026-11-15T10:00:02Z\"}"); /* …and not for a later one */
  want_files(&s, "0", "0", "0");
  scene_close(&s);
}

static void folders__changes_made_while_nothing_ran_are_seen(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  write_file(&s, "a", "1");
  watch(&s, "");
  assert_int_equal(pd_home_close(s.w.home, &s.w.err), PD_OK);
  write_file(&s, "a", "2");
  write_file(&s, "b", "1");
  assert_int_equal(pd_home_open(s.w.uri, NULL, &s.w.home, &s.w.err), PD_OK);
  world_restart(&s.w);
  look(&s);
  want_files(&s, "1", "1", "0");
  scene_close(&s);
}

/* The same size, the same modification time: only the content is another. */
static void folders__a_change_that_hides_behind_size_and_time_is_found(void **state)
{
  (void)state;
  scene s;
  struct stat st;
  scene_open(&s);
  write_file(&s, "a", "one");
  char *path = path_of(&s, "a");
  assert_int_equal(stat(path, &st), 0);
  watch(&s, "");
  write_file(&s, "a", "two");
  struct timespec times[2] = {st.st_atim, st.st_mtim};
  assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
  free(path);
  look(&s);
  want_files(&s, "0", "1", "0");
  scene_close(&s);
}

/* Make the manifest believe that it read the files long after they were written: it then need not read them again. */
static void age_manifest(scene *s)
{
  pd_store *store = NULL;
  pd_iter *iter = NULL;
  pd_entry entry;
  pd_bytes value;
  pd_edit *edit = NULL;
  pd_scan scan = {.prefix = pd_text("manifest/")};
  assert_int_equal(pd_store_open(s->w.uri, "system", NULL, &store, &s->w.err), PD_OK);
  assert_int_equal(pd_edit_begin(store, NULL, &edit, &s->w.err), PD_OK);
  assert_int_equal(pd_iter_open(store, "main", &scan, &iter, &s->w.err), PD_OK);
  while (pd_iter_next(iter, &entry, &value, &s->w.err) == PD_OK) {
    char *text = strndup(value.data, value.size), *at = strstr(text, "\"read_ms\":");
    assert_non_null(at);
    at[10] = '9'; /* the first digit: some centuries on */
    assert_int_equal(pd_edit_put(edit, entry.key, pd_text(text), PD_ANY_VERSION, &s->w.err), PD_OK);
    free(text);
  }
  pd_iter_close(iter);
  assert_int_equal(pd_edit_commit(edit, NULL, &s->w.err), PD_OK);
  assert_int_equal(pd_store_close(store, &s->w.err), PD_OK);
}

static void folders__a_hidden_change_is_found_though_files_are_not_read_without_need(void **state)
{
  (void)state;
  scene s;
  struct stat st;
  scene_open(&s);
  write_file(&s, "a", "one");
  write_file(&s, "b", "one");
  char *path = path_of(&s, "a");
  assert_int_equal(stat(path, &st), 0);
  watch(&s, "");
  age_manifest(&s);
  int fd = open(path, O_WRONLY); /* the same inode, size and modification time */
  assert_true(fd >= 0 && write(fd, "two", 3) == 3);
  struct timespec times[2] = {st.st_atim, st.st_mtim};
  assert_int_equal(futimens(fd, times), 0);
  close(fd);
  free(path);
  look(&s);
  want_files(&s, "0", "1", "0");
  scene_close(&s);
}

static void folders__a_new_time_without_a_new_content_is_no_change(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  write_file(&s, "a", "one");
  watch(&s, "");
  write_file(&s, "a", "one");
  char *path = path_of(&s, "a");
  assert_int_equal(chmod(path, 0600), 0);
  struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
  assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
  free(path);
  look(&s);
  want_files(&s, "0", "0", "0");
  scene_close(&s);
}

static void folders__links_are_not_followed(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  char *outside = temp_folder_new(), *link = path_of(&s, "link"), *loop = path_of(&s, "loop"), *file = text_of("%s/f", outside);
  FILE *f = fopen(file, "w");
  assert_non_null(f);
  assert_int_equal(fclose(f), 0);
  assert_int_equal(symlink(outside, link), 0);
  assert_int_equal(symlink(".", loop), 0);
  watch(&s, "");
  assert_string_equal(world_out(&s.w, "files"), "2"); /* the links themselves */
  f = fopen(file, "w");
  assert_non_null(f);
  fputs("changed", f);
  assert_int_equal(fclose(f), 0);
  look(&s);
  want_files(&s, "0", "0", "0");
  assert_int_equal(unlink(link), 0);
  assert_int_equal(symlink("/elsewhere", link), 0);
  look(&s);
  want_files(&s, "0", "1", "0");
  temp_folder_free(outside);
  free(link);
  free(loop);
  free(file);
  scene_close(&s);
}

static void folders__hidden_names_count_only_if_asked_for(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  make_folder(&s, ".git");
  write_file(&s, ".git/a", "1");
  write_file(&s, ".hidden", "1");
  watch(&s, "");
  assert_string_equal(world_out(&s.w, "files"), "0");
  write_file(&s, ".git/b", "1");
  look(&s);
  want_files(&s, "0", "0", "0");
  watch(&s, ",\"hidden\":true");
  assert_string_equal(world_out(&s.w, "created"), "false");
  assert_string_equal(world_out(&s.w, "files"), "3");
  look(&s);
  want_files(&s, "0", "0", "0"); /* they were there before */
  write_file(&s, ".git/c", "1");
  look(&s);
  want_files(&s, "1", "0", "0");
  scene_close(&s);
}

static void folders__a_pipe_does_not_stop_the_look(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  char *pipe_path = path_of(&s, "pipe");
  assert_int_equal(mkfifo(pipe_path, 0600), 0);
  free(pipe_path);
  write_file(&s, "bad\xff\xfename", "1");
  write_file(&s, "a \"quote\" and\nnewline", "1");
  watch(&s, "");
  assert_string_equal(world_out(&s.w, "files"), "2");
  write_file(&s, "bad\xff\xfename", "2");
  remove_file(&s, "a \"quote\" and\nnewline");
  look(&s);
  want_files(&s, "0", "1", "1");
  scene_close(&s);
}

/* A disk that is not mounted is not ten thousand deletions. */
static void folders__a_folder_that_is_gone_is_unavailable_not_empty(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  write_file(&s, "a", "1");
  watch(&s, "");
  char *away = text_of("%s-away", s.folder);
  assert_int_equal(rename(s.folder, away), 0);
  look(&s);
  want_files(&s, "0", "0", "0");
  assert_string_not_equal(world_out(&s.w, "briefing.filesystem_changes.unavailable"), "[]");
  assert_non_null(strstr(world_out(&s.w, "briefing.summary"), "1 watched folder could not be looked at"));
  assert_int_equal(rename(away, s.folder), 0);
  free(away);
  look(&s);
  want_files(&s, "0", "0", "0");
  assert_string_equal(world_out(&s.w, "briefing.filesystem_changes.unavailable"), "[]");
  scene_close(&s);
}

/* The path had no link in it when it was watched; with one it leads elsewhere. */
static void folders__a_link_on_the_way_is_not_followed_later_either(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  make_folder(&s, "above");
  make_folder(&s, "above/inner");
  make_folder(&s, "other");
  make_folder(&s, "other/inner");
  write_file(&s, "other/inner/secret", "1");
  if (world_callf(&s.w, "folders.watch", "{\"path\":\"%s/above/inner\"}", s.folder)) fail_msg("%s", (const char *)s.w.out.data);
  char *above = path_of(&s, "above"), *aside = path_of(&s, "aside");
  assert_int_equal(rename(above, aside), 0);
  assert_int_equal(symlink("other", above), 0);
  look(&s);
  assert_string_not_equal(world_out(&s.w, "briefing.filesystem_changes.unavailable"), "[]");
  assert_null(strstr((const char *)s.w.out.data, "secret"));
  free(above);
  free(aside);
  scene_close(&s);
}

static void folders__what_comes_and_goes_in_between_is_nothing(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  watch(&s, "");
  write_file(&s, "a", "1");
  look(&s);
  want_files(&s, "1", "0", "0");
  remove_file(&s, "a");
  look(&s);
  want_files(&s, "0", "0", "0");
  write_file(&s, "a", "2");
  look(&s);
  want_files(&s, "1", "0", "0");
  scene_close(&s);
}

static void folders__ten_thousand_files_are_looked_at_quickly(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  char memory[] = "/dev/shm/perdure-XXXXXX"; /* making the files costs more than looking at them: not on a disk, if it can be helped */
  if (mkdtemp(memory)) {
    temp_folder_free(s.folder);
    s.folder = strdup(memory);
  }
  for (int i = 0; i < 100; i++) {
    char name[40];
    snprintf(name, sizeof name, "d%d", i);
    make_folder(&s, name);
    for (int k = 0; k < 100; k++) {
      snprintf(name, sizeof name, "d%d/f%d", i, k);
      write_file(&s, name, name);
    }
  }
  watch(&s, "");
  assert_string_equal(world_out(&s.w, "files"), "10000");
  write_file(&s, "d50/f50", "other");
  remove_file(&s, "d51/f51");
  write_file(&s, "d52/new", "new");
  look(&s);
  want_files(&s, "1", "1", "1");
  scene_close(&s);
}

static void folders_watch__err_FolderNotFound__for_whatever_is_no_folder(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  write_file(&s, "file", "1");
  static const char *const names[] = {"/there/is/none", "%s/none", "%s/file", "%s/file/x"};
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    char *path = strstr(names[i], "%s") ? text_of("%s%s", s.folder, names[i] + 2) : strdup(names[i]);
    char *input = text_of("{\"path\":\"%s\"}", path);
    world_fails(&s.w, "folders.watch", input, "FolderNotFound", "check_path");
    free(input);
    free(path);
  }
  static const char *const bad[] = {
    "{\"path\":\"relative\"}", "{\"path\":\"\"}", "{\"path\":\"../x\"}", "{\"path\":\"/a\\u0000b\"}", "{}", "{\"path\":1}"};
  for (size_t i = 0; i < COUNT_OF(bad); i++) world_fails(&s.w, "folders.watch", bad[i], "InvalidInput", NULL);
  scene_close(&s);
}

/* The home holds what all agents have: nobody watches it, from above or below, straight or by a link. */
static void folders_watch__the_home_itself_is_refused(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  world_ok(&s.w, "state.snapshot.create", "{}");
  char *inside = text_of("{\"path\":\"%s/snapshots\"}", s.w.folder), *itself = text_of("{\"path\":\"%s\"}", s.w.folder);
  char *link = path_of(&s, "link"), *by_link = text_of("{\"path\":\"%s/link\"}", s.folder);
  assert_int_equal(symlink(s.w.folder, link), 0);
  world_fails(&s.w, "folders.watch", inside, "PermissionDenied", NULL);
  world_fails(&s.w, "folders.watch", itself, "PermissionDenied", NULL);
  world_fails(&s.w, "folders.watch", by_link, "PermissionDenied", NULL);
  world_fails(&s.w, "folders.watch", "{\"path\":\"/\"}", "PermissionDenied", NULL);
  free(inside);
  free(itself);
  free(link);
  free(by_link);
  scene_close(&s);
}

static void folders_watch__no_more_than_32(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  for (int i = 0; i < 33; i++) {
    char name[16];
    snprintf(name, sizeof name, "d%d", i);
    make_folder(&s, name);
    pd_code code = world_callf(&s.w, "folders.watch", "{\"path\":\"%s/%s\"}", s.folder, name);
    assert_int_equal(code, i < 32 ? PD_OK : PD_LIMIT);
  }
  world_ok(&s.w, "folders.list", "{}");
  assert_string_equal(world_out(&s.w, "count"), "32");
  scene_close(&s);
}

static void folders_unwatch__forgets_what_was_known(void **state)
{
  (void)state;
  scene s;
  scene_open(&s);
  write_file(&s, "a", "1");
  watch(&s, "");
  world_ok(&s.w, "folders.list", "{}");
  assert_string_equal(world_out(&s.w, "folders.0.files"), "1");
  char *input = text_of("{\"path\":\"%s\"}", s.folder);
  s.w.agent = "bob";
  world_ok(&s.w, "folders.unwatch", input); /* it is not bob's */
  assert_string_equal(world_out(&s.w, "removed"), "false");
  s.w.agent = "main";
  world_ok(&s.w, "folders.unwatch", input);
  assert_string_equal(world_out(&s.w, "removed"), "true");
  world_ok(&s.w, "folders.unwatch", input);
  assert_string_equal(world_out(&s.w, "removed"), "false");
  free(input);
  write_file(&s, "a", "2");
  look(&s);
  want_files(&s, "0", "0", "0");
  watch(&s, "");
  look(&s);
  want_files(&s, "0", "0", "0"); /* a new beginning */
  scene_close(&s);
}

/* A token's agent learns nothing of the host: not even whether a folder is there. The operator may watch one for it. */
static void folders_watch__err_PermissionDenied__an_agent_with_a_token_names_no_folder(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  pd_token_info token = {.id = "0123456789abcdef", .role = PD_ROLE_AGENT, .agent = "main"};
  pd_ctx ctx = {.home = w.home, .agent = "main", .token = &token};
  static const char *const paths[] = {"/", "/etc", "/there/is/no/such/folder"};
  char input[128], first[512] = "";
  pd_buf out = {0};
  pd_error err;
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    snprintf(input, sizeof input, "{\"path\":\"%s\"}", paths[i]);
    assert_int_equal(pd_call(&ctx, "folders.watch", pd_text(input), &out, &err), PD_DENIED);
    if (i) assert_string_equal(err.message, first);
    snprintf(first, sizeof first, "%s", err.message);
  }
  ctx.is_operator = true;
  assert_int_equal(pd_call(&ctx, "folders.watch", pd_text("{\"path\":\"/srv\"}"), &out, &err), PD_OK);
  pd_buf_done(&out);
  world_close(&w);
}

static void folders__folders_without_files_are_looked_at_up_to_a_limit(void **state)
{
  (void)state;
  scene s;
  char name[16];
  world_open(&s.w, "[test.briefing]\nfiles_max = 1\n");
  s.folder = temp_folder_new();
  for (int i = 0; i < 1000; i++) {
    snprintf(name, sizeof name, "%d", i);
    make_folder(&s, name);
  }
  watch(&s, "");
  look(&s);
  assert_null(strstr((const char *)s.w.out.data, "is_cut"));
  for (int i = 1000; i < 1100; i++) {
    snprintf(name, sizeof name, "%d", i);
    make_folder(&s, name);
  }
  look(&s);
  assert_string_equal(world_out(&s.w, "briefing.filesystem_changes.is_cut"), "true");
  want_files(&s, "0", "0", "0");
  scene_close(&s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(folders__what_was_created_changed_and_deleted_is_told_by_path),
    cmocka_unit_test(folders__changes_made_while_nothing_ran_are_seen),
    cmocka_unit_test(folders__a_change_that_hides_behind_size_and_time_is_found),
    cmocka_unit_test(folders__a_hidden_change_is_found_though_files_are_not_read_without_need),
    cmocka_unit_test(folders__a_new_time_without_a_new_content_is_no_change),
    cmocka_unit_test(folders__links_are_not_followed),
    cmocka_unit_test(folders__hidden_names_count_only_if_asked_for),
    cmocka_unit_test(folders__a_pipe_does_not_stop_the_look),
    cmocka_unit_test(folders__a_folder_that_is_gone_is_unavailable_not_empty),
    cmocka_unit_test(folders__a_link_on_the_way_is_not_followed_later_either),
    cmocka_unit_test(folders__what_comes_and_goes_in_between_is_nothing),
    cmocka_unit_test(folders__ten_thousand_files_are_looked_at_quickly),
    cmocka_unit_test(folders_watch__err_FolderNotFound__for_whatever_is_no_folder),
    cmocka_unit_test(folders_watch__the_home_itself_is_refused),
    cmocka_unit_test(folders_watch__no_more_than_32),
    cmocka_unit_test(folders__folders_without_files_are_looked_at_up_to_a_limit),
    cmocka_unit_test(folders_watch__err_PermissionDenied__an_agent_with_a_token_names_no_folder),
    cmocka_unit_test(folders_unwatch__forgets_what_was_known),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
