/* statestore_file_test.c: the StateStore that is a file: its bytes, and what becomes of files that are not as they should be. */
#include "state/desk.h"

#include <dirent.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* How many names in the file's folder contain `part`; the last of them into `out`, if it is not NULL. */
static int count_files(const desk *d, const char *part, char out[512])
{
  char *folder = text_of("%s/data", d->dir);
  DIR *dir = opendir(folder);
  int count = 0;
  assert_non_null(dir);
  for (struct dirent *e; (e = readdir(dir));) {
    if (!strstr(e->d_name, part)) continue;
    count++;
    if (out) snprintf(out, 512, "%s/%.200s", folder, e->d_name);
  }
  closedir(dir);
  free(folder);
  return count;
}

static void make_folder(const desk *d)
{
  char *folder = text_of("%s/data", d->dir);
  assert_int_equal(mkdir(folder, 0700), 0);
  free(folder);
}

static void file__is_written_as_the_seed_says(void **state)
{
  (void)state;
  desk d;
  desk_open(&d, PD_STATESTORE_FILE);
  assert_int_equal(access(d.path, F_OK), -1); /* nothing is written before something is set */
  desk_set(&d, "key1", "\"value1\"");
  desk_set(&d, "key2", "{ \"nested\": true }");
  desk_set(&d, "a \"quoted\"\\\n\xc3\xa9", "-1.50e3");
  desk_flush(&d);
  assert_file(d.path, "{\"version\":1,\"entries\":[[\"key1\",\"value1\"],[\"key2\",{\"nested\":true}],"
                      "[\"a \\\"quoted\\\"\\\\\\n\xc3\xa9\",-1.50e3]]}");
  assert_int_equal(count_files(&d, ".tmp", NULL), 0);
  assert_int_equal(pd_statestore_clear(d.s, pd_text(""), NULL, &d.err), PD_OK);
  desk_stop(&d);
  assert_file(d.path, "{\"version\":1,\"entries\":[]}");
  assert_int_equal(count_files(&d, ".lock", NULL), 0);
  desk_done(&d);
}

static void file__of_the_original_is_read_and_keeps_its_order(void **state)
{
  (void)state;
  desk d;
  desk_init(&d, PD_STATESTORE_FILE);
  make_folder(&d);
  write_text(d.path,
             "{\n  \"version\": 1,\n  \"entries\": [\n    [\"z\", \"value1\"],\n    [\"\", 0],\n    [\"a\", { \"nested\": [ true ] }],\n"
             "    [\"\\u0061b\", null],\n    [\"z\", 2]\n  ]\n}\n");
  desk_start(&d);
  assert_keys(&d, "", "z  a ab ");
  assert_value(&d, "z", "2");
  assert_value(&d, "a", "{\"nested\":[true]}");
  assert_value(&d, "ab", "null");
  assert_value(&d, "", "0");
  desk_set(&d, "n", "1");
  desk_stop(&d);
  assert_file(d.path, "{\"version\":1,\"entries\":[[\"z\",2],[\"\",0],[\"a\",{\"nested\":[true]}],[\"ab\",null],[\"n\",1]]}");
  assert_int_equal(d.warning_count, 0);
  desk_done(&d);
}

static void file__that_is_no_state_file_is_moved_aside_and_told(void **state)
{
  (void)state;
  static const char *const texts[] = {
    "",
    "{",
    "{\"version\":1,\"entries\":[[\"a\",1],[\"b\"", /* half of it */
    "{\"version\":1,\"entries\":[[\"a\",1]]}}",
    "[]",
    "null",
    "\x7f\x45LF\x02\x01",
    "{\"name\":\"package\",\"version\":\"1.0.0\"}",
    "{\"version\":2,\"entries\":[]}",
    "{\"version\":\"1\",\"entries\":[]}",
    "{\"version\":1}",
    "{\"entries\":[]}",
    "{\"version\":1,\"entries\":{}}",
    "{\"version\":1,\"entries\":[[\"a\"]]}",
    "{\"version\":1,\"entries\":[[\"a\",1,2]]}",
    "{\"version\":1,\"entries\":[[1,2]]}",
    "{\"version\":1,\"entries\":[[\"good\",1],\"a\"]}",
    "{\"version\":1,\"entries\":[[\"\\ud800\",1]]}",
    "{\"version\":1,\"entries\":[],\"version\":1}",
    "{\"version\":1,\"entries\":[],\"more\":1}",
    "\xef\xbb\xbf{\"version\":1,\"entries\":[]}",
  };
  desk d;
  desk_init(&d, PD_STATESTORE_FILE);
  make_folder(&d);
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    char aside[512];
    d.warning_count = 0;
    write_text(d.path, texts[i]);
    desk_start(&d);
    assert_keys(&d, "", "");
    assert_int_equal(d.warning_count, 1);
    assert_true(d.warning_code == PD_CORRUPT || d.warning_code == PD_FORMAT);
    assert_int_equal(count_files(&d, ".corrupt-", aside), 1);
    assert_non_null(strstr(d.warning, aside));
    assert_non_null(strstr(d.warning, d.path));
    assert_file(aside, texts[i]); /* nothing of it is lost */
    desk_set(&d, "a", "1");
    desk_stop(&d);
    assert_file(d.path, "{\"version\":1,\"entries\":[[\"a\",1]]}");
    unlink(aside);
  }
  desk_done(&d);
}

/* `text` takes the file's place. All of it is read, or it is moved aside with one warning: never a part, never something else. */
static void expect_whole_or_aside(desk *d, pd_bytes text, bool may_be_whole)
{
  d->warning_count = 0;
  assert_int_equal(pd_file_write(d->path, text, false, &d->err), PD_OK);
  desk_start(d);
  if (d->warning_count) {
    assert_keys(d, "", "");
    assert_int_equal(d->warning_count, 1);
    assert_true(d->warning_code == PD_CORRUPT || d->warning_code == PD_FORMAT);
  } else {
    assert_true(may_be_whole);
    assert_keys(d, "", "a b ");
    assert_value(d, "a", "[1,{\"b\":\"c\"}]");
    assert_value(d, "b", "\"x\"");
  }
  desk_stop(d);
}

static void make_whole(desk *d, pd_buf *out, size_t *out_text_size)
{
  desk_open(d, PD_STATESTORE_FILE);
  desk_set(d, "a", "[1,{\"b\":\"c\"}]");
  desk_set(d, "b", "\"x\"");
  desk_stop(d);
  assert_int_equal(pd_file_read(d->path, 4096, out, &d->err), PD_OK);
  *out_text_size = out->size;
  while (out->data[*out_text_size - 1] != '}') --*out_text_size;
  assert_int_equal(out->size, *out_text_size + 66);
}

static void file__cut_anywhere_is_moved_aside(void **state)
{
  (void)state;
  desk d;
  pd_buf whole = {0};
  size_t text_size;
  make_whole(&d, &whole, &text_size);
  for (size_t size = 0; size < whole.size; size++) expect_whole_or_aside(&d, (pd_bytes){whole.data, size}, size >= text_size);
  assert_true(count_files(&d, ".corrupt-", NULL) >= (int)text_size);
  pd_buf_done(&whole);
  desk_done(&d);
}

static void file__a_flipped_bit_is_never_read_as_the_truth(void **state)
{
  (void)state;
  desk d;
  pd_buf whole = {0};
  size_t text_size;
  make_whole(&d, &whole, &text_size);
  for (size_t i = 0; i < whole.size; i++)
    for (int bit = 0; bit < 8; bit++) {
      whole.data[i] ^= (uint8_t)(1 << bit);
      expect_whole_or_aside(&d, pd_buf_bytes(&whole), false);
      whole.data[i] ^= (uint8_t)(1 << bit);
    }
  expect_whole_or_aside(&d, pd_buf_bytes(&whole), true);
  assert_int_equal(d.warning_count, 0);
  pd_buf_done(&whole);
  desk_done(&d);
}

static void file__whoever_only_looks_gets_an_error_and_moves_nothing(void **state)
{
  (void)state;
  static const char *const texts[] = {"{\"name\":\"my-precious-app\"}", "no JSON at all", "", "{\"version\":1,\"entries\":[[\"a\",1]"};
  desk d;
  desk_init(&d, PD_STATESTORE_FILE);
  make_folder(&d);
  d.options.refuses_damage = true;
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    write_text(d.path, texts[i]);
    pd_code code = pd_statestore_open(&d.options, &d.s, &d.err);
    assert_true(code == PD_CORRUPT || code == PD_FORMAT);
    assert_non_null(strstr(d.err.message, d.path));
    assert_file(d.path, texts[i]);
    assert_int_equal(count_files(&d, ".corrupt-", NULL), 0);
    assert_int_equal(count_files(&d, ".lock", NULL), 0);
  }
  desk_done(&d);
}

static void file__a_half_written_draft_of_a_crash_is_no_harm(void **state)
{
  (void)state;
  desk d;
  desk_open(&d, PD_STATESTORE_FILE);
  desk_set(&d, "a", "1");
  desk_stop(&d);
  char *draft = text_of("%s.tmp", d.path);
  write_text(draft, "{\"version\":1,\"ent");
  desk_start(&d);
  assert_value(&d, "a", "1");
  desk_set(&d, "a", "2");
  desk_stop(&d);
  assert_file(d.path, "{\"version\":1,\"entries\":[[\"a\",2]]}");
  assert_int_equal(access(draft, F_OK), -1);
  assert_int_equal(d.warning_count, 0);
  free(draft);
  desk_done(&d);
}

static void file__what_is_no_file_is_refused(void **state)
{
  (void)state;
  desk d;
  desk_init(&d, PD_STATESTORE_FILE);
  make_folder(&d);
  assert_int_equal(mkdir(d.path, 0700), 0);
  assert_int_equal(pd_statestore_open(&d.options, &d.s, &d.err), PD_STORAGE);
  assert_non_null(strstr(d.err.message, d.path));
  d.options.path = "";
  assert_int_equal(pd_statestore_open(&d.options, &d.s, &d.err), PD_INVALID);
  char *below = text_of("%s/x/y", d.database);
  write_text(d.database, "a file");
  d.options.path = below; /* a part of the path is a file */
  assert_int_equal(pd_statestore_open(&d.options, &d.s, &d.err), PD_FORMAT);
  assert_null(d.s);
  free(below);
  desk_done(&d);
}

static void file__keeps_its_mode_and_its_link(void **state)
{
  (void)state;
  desk d;
  struct stat is;
  desk_init(&d, PD_STATESTORE_FILE);
  make_folder(&d);
  char *real = text_of("%s/real.json", d.dir);
  write_text(real, "{\"version\":1,\"entries\":[]}");
  assert_int_equal(chmod(real, 0640), 0);
  assert_int_equal(symlink(real, d.path), 0);
  desk_start(&d);
  desk_set(&d, "a", "1");
  desk_stop(&d);
  assert_file(real, "{\"version\":1,\"entries\":[[\"a\",1]]}");
  assert_int_equal(lstat(d.path, &is), 0);
  assert_true(S_ISLNK(is.st_mode));
  assert_int_equal(stat(real, &is), 0);
  assert_int_equal(is.st_mode & 0777, 0640);
  free(real);
  desk_done(&d);
}

static void file__a_second_process_is_told_who_has_it(void **state)
{
  (void)state;
  desk d;
  int status = 0;
  desk_open(&d, PD_STATESTORE_FILE);
  desk_set(&d, "a", "1");
  desk_flush(&d);
  pid_t child = fork();
  if (!child) {
    char who[32];
    pd_statestore *s = NULL;
    pd_error err = {0};
    snprintf(who, sizeof who, "process %ld", (long)getppid());
    pd_code code = pd_statestore_open(&d.options, &s, &err);
    _exit(code == PD_CONFLICT && strcmp(pd_error_name(&err), "StateFileInUse") == 0 && strstr(err.message, who) && !s ? 0 : 1);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  pd_statestore *second = NULL;
  assert_int_equal(pd_statestore_open(&d.options, &second, &d.err), PD_CONFLICT); /* nor twice in one process */
  desk_restart(&d);                                                               /* after a close it is free */
  assert_value(&d, "a", "1");
  desk_done(&d);
}

static void file__of_a_killed_process_is_free_again(void **state)
{
  (void)state;
  desk d;
  int ready[2], status;
  char byte;
  desk_init(&d, PD_STATESTORE_FILE);
  d.options.flush_interval_ms = 0;
  assert_int_equal(pipe(ready), 0);
  pid_t child = fork();
  if (!child) {
    pd_statestore *s = NULL;
    if (pd_statestore_open(&d.options, &s, NULL) || pd_statestore_set(s, pd_text("a"), pd_text("1"), NULL)) _exit(1);
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  assert_int_equal(read(ready[0], &byte, 1), 1);
  pd_statestore *second = NULL;
  assert_int_equal(pd_statestore_open(&d.options, &second, &d.err), PD_CONFLICT);
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  desk_start(&d);
  assert_value(&d, "a", "1"); /* it was acknowledged */
  close(ready[0]);
  close(ready[1]);
  desk_done(&d);
}

static void limit_files(rlim_t size)
{
  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
  limit.rlim_cur = size;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* A flush that fails keeps everything, tells, tries again by itself, and the file on disk is the old one meanwhile. */
static void file__a_failed_flush_keeps_the_data_and_is_tried_again(void **state)
{
  (void)state;
  desk d;
  pd_statestore_stats stats;
  signal(SIGXFSZ, SIG_IGN);
  desk_init(&d, PD_STATESTORE_FILE);
  d.options.flush_interval_ms = 1;
  desk_start(&d);
  desk_set(&d, "a", "1");
  desk_flush(&d);
  limit_files(64);
  desk_set(&d, "b", "\"0123456789012345678901234567890123456789012345678901234567890123456789\"");
  wait_for(&d, 1, 2); /* the second try comes by itself, too */
  assert_int_equal(pd_statestore_flush(d.s, &d.err), PD_FULL);
  assert_int_equal(pd_statestore_close(d.s, &d.err), PD_FULL); /* and a close that would lose it does not close */
  pd_statestore_stats_get(d.s, &stats);
  assert_false(stats.is_closed);
  assert_true(stats.pending > 0 && stats.failed_in_row >= 2 && *stats.last_error);
  pthread_mutex_lock(&d.lock);
  assert_true(d.warning_count >= 1);
  assert_non_null(strstr(d.warning, "failed"));
  pthread_mutex_unlock(&d.lock);
  assert_file(d.path, "{\"version\":1,\"entries\":[[\"a\",1]]}");
  assert_int_equal(count_files(&d, ".tmp", NULL), 0);
  limit_files(RLIM_INFINITY);
  wait_for(&d, stats.flushes + 1, 0);
  pd_statestore_stats_get(d.s, &stats);
  assert_int_equal(stats.pending, 0);
  assert_int_equal(stats.failed_in_row, 0);
  assert_string_equal(stats.last_error, "");
  desk_restart(&d);
  assert_keys(&d, "", "a b ");
  desk_done(&d);
}

static void file__on_a_full_disk_a_durable_set_says_so_and_keeps_the_value(void **state)
{
  (void)state;
  desk d;
  desk_init(&d, PD_STATESTORE_FILE);
  make_folder(&d);
  char *folder = text_of("%s/data", d.dir), *big = malloc(300001);
  if (mount("tmpfs", folder, "tmpfs", 0, "size=128k") != 0) {
    free(folder);
    free(big);
    desk_done(&d);
    skip(); /* only root may make a small disk */
  }
  memset(big, 'x', 300000);
  big[0] = big[299999] = '"';
  big[300000] = '\0';
  d.options.flush_interval_ms = 0;
  desk_start(&d);
  desk_set(&d, "a", "1");
  assert_int_equal(pd_statestore_set(d.s, pd_text("big"), pd_text(big), &d.err), PD_FULL);
  assert_non_null(strstr(d.err.message, d.path));
  assert_value(&d, "big", big);
  assert_file(d.path, "{\"version\":1,\"entries\":[[\"a\",1]]}");
  desk_delete(&d, "big"); /* which makes room, so this is durable again */
  desk_set(&d, "c", "1");
  assert_file(d.path, "{\"version\":1,\"entries\":[[\"a\",1],[\"c\",1]]}");
  desk_stop(&d);
  assert_int_equal(umount(folder), 0);
  free(folder);
  free(big);
  desk_done(&d);
}

/* Root may write everywhere, so the folder is gone and a file in its place. */
static void file__a_folder_that_comes_back_is_written_again(void **state)
{
  (void)state;
  desk d;
  desk_open(&d, PD_STATESTORE_FILE);
  desk_set(&d, "a", "1");
  char *folder = text_of("%s/data", d.dir), *away = text_of("%s/away", d.dir);
  assert_int_equal(rename(folder, away), 0);
  write_text(folder, "in the way");
  assert_int_equal(pd_statestore_flush(d.s, &d.err), PD_FORMAT);
  assert_value(&d, "a", "1");
  assert_int_equal(unlink(folder), 0);
  desk_flush(&d); /* the folder is made again */
  assert_file(d.path, "{\"version\":1,\"entries\":[[\"a\",1]]}");
  free(folder);
  free(away);
  desk_done(&d);
}

static int run_in_locked_folder(desk *d)
{
  if (setgid(65534) || setuid(65534)) return 2;
  pd_statestore *s = NULL;
  d->options.flush_interval_ms = 3600000;
  if (pd_statestore_open(&d->options, &s, &d->err)) return 3;
  if (d->warning_count != 1 || pd_statestore_get(s, pd_text("a"), &d->value, &d->err)) return 4;
  if (pd_statestore_set(s, pd_text("a"), pd_text("2"), &d->err)) return 5;
  if (pd_statestore_flush(s, &d->err) != PD_STORAGE || pd_statestore_close(s, &d->err) != PD_STORAGE) return 6;
  if (pd_statestore_get(s, pd_text("a"), &d->value, &d->err) || d->value.data[0] != '2') return 7;
  pd_statestore_free(s);
  return 0;
}

static void file__in_a_folder_that_may_not_be_written_can_be_read_and_says_why(void **state)
{
  (void)state;
  desk d;
  int status = 0;
  if (getuid() != 0) skip();
  desk_open(&d, PD_STATESTORE_FILE);
  desk_set(&d, "a", "1");
  desk_stop(&d);
  assert_int_equal(chmod(d.dir, 0755) || chmod(d.path, 0644), 0);
  char *folder = text_of("%s/data", d.dir);
  assert_int_equal(chmod(folder, 0555), 0);
  pid_t child = fork();
  if (!child) _exit(run_in_locked_folder(&d));
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(WEXITSTATUS(status), 0);
  assert_file(d.path, "{\"version\":1,\"entries\":[[\"a\",1]]}");
  free(folder);
  desk_done(&d);
}

static int open_as_nobody(desk *d)
{
  if (setgid(65534) || setuid(65534)) return 2;
  if (pd_statestore_open(&d->options, &d->s, &d->err)) return 3;
  return d->warning_count == 1 && count_files(d, ".corrupt-", NULL) == 1 && access(d->path, F_OK) != 0 ? 0 : 4;
}

static void file__that_may_not_be_read_is_moved_aside(void **state)
{
  (void)state;
  desk d;
  int status = 0;
  if (getuid() != 0) skip();
  desk_open(&d, PD_STATESTORE_FILE);
  desk_set(&d, "a", "1");
  desk_stop(&d);
  char *folder = text_of("%s/data", d.dir);
  assert_int_equal(chmod(d.dir, 0755) || chmod(folder, 0777) || chmod(d.path, 0), 0);
  pid_t child = fork();
  if (!child) _exit(open_as_nobody(&d));
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(WEXITSTATUS(status), 0);
  free(folder);
  desk_done(&d);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(file__is_written_as_the_seed_says),
    cmocka_unit_test(file__of_the_original_is_read_and_keeps_its_order),
    cmocka_unit_test(file__that_is_no_state_file_is_moved_aside_and_told),
    cmocka_unit_test(file__cut_anywhere_is_moved_aside),
    cmocka_unit_test(file__a_flipped_bit_is_never_read_as_the_truth),
    cmocka_unit_test(file__whoever_only_looks_gets_an_error_and_moves_nothing),
    cmocka_unit_test(file__a_half_written_draft_of_a_crash_is_no_harm),
    cmocka_unit_test(file__what_is_no_file_is_refused),
    cmocka_unit_test(file__keeps_its_mode_and_its_link),
    cmocka_unit_test(file__a_second_process_is_told_who_has_it),
    cmocka_unit_test(file__of_a_killed_process_is_free_again),
    cmocka_unit_test(file__a_failed_flush_keeps_the_data_and_is_tried_again),
    cmocka_unit_test(file__on_a_full_disk_a_durable_set_says_so_and_keeps_the_value),
    cmocka_unit_test(file__a_folder_that_comes_back_is_written_again),
    cmocka_unit_test(file__in_a_folder_that_may_not_be_written_can_be_read_and_says_why),
    cmocka_unit_test(file__that_may_not_be_read_is_moved_aside),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
