/* sqlite_test.c: sqlite: under the contract, and what only it does: files, rights, formats, a full disk, foreign programs. */
#include "backend/sqlite_files.h"
#include "base/base.h"
#include "contract/backend_contract.h"
#include "support/temp_folder.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define NOBODY 65534

static char *uri_new(void)
{
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s/home", folder);
  free(folder);
  return uri;
}

static void uri_destroy(const char *uri)
{
  char *folder = strdup(uri + strlen("sqlite:"));
  *strrchr(folder, '/') = '\0';
  temp_folder_free(folder);
}

static int set_up(void **state)
{
  *state = temp_folder_new();
  return 0;
}

static int tear_down(void **state)
{
  temp_folder_free(*state);
  return 0;
}

/* ---- files -------------------------------------------------------------------------------------------------------- */

static unsigned mode_of(const char *folder, const char *name)
{
  struct stat st;
  char *path = file_in(folder, name);
  if (stat(path, &st) != 0) fail_msg("no %s", path);
  free(path);
  return st.st_mode & 07777;
}

static void sqlite__files_are_private_to_their_owner(void **state)
{
  char *folder = file_in(*state, "deep/er");
  mode_t mask = umask(0);
  pd_backend *b = open_main(folder, PD_BACKEND_CREATE, PD_OK, NULL);
  assert_int_equal(append_some(b, 1, NULL), PD_OK);
  umask(mask);
  assert_int_equal(mode_of(*state, "deep"), 0700);
  assert_int_equal(mode_of(folder, ""), 0700);
  static const char *const names[] = {"main.db", "main.db-wal", "main.db-shm", "main.lock"};
  for (size_t i = 0; i < COUNT_OF(names); i++) assert_int_equal(mode_of(folder, names[i]), 0600);
  assert_int_equal(count_files(folder), 4);
  b->ops->close(b);
  assert_int_equal(count_files(folder), 2);
  free(folder);
}

static void sqlite__paths_that_look_like_uris_are_only_paths(void **state)
{
  static const char *const names[] = {"file:x", "a b", "50%25", "#1", "t/", "é", ":memory:"};
  char *before = getcwd(NULL, 0);
  assert_int_equal(chdir(*state), 0);
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    make_store(names[i], 3);
    pd_backend *b = open_main(names[i], PD_BACKEND_OPEN_READ_ONLY, PD_OK, NULL);
    assert_int_equal(tail_of(b), 3);
    b->ops->close(b);
    char *path = file_in(names[i], "main.db");
    if (!is_file(path)) fail_msg("no %s", path);
    free(path);
  }
  assert_int_equal(chdir(before), 0);
  free(before);
}

static void sqlite__a_store_knows_its_application_and_format(void **state)
{
  make_store(*state, 1);
  size_t size;
  char *path = file_in(*state, "main.db");
  uint8_t *data = read_file(path, &size);
  assert_memory_equal(data, "SQLite format 3", 16);
  assert_memory_equal(data + 60, "\0\0\0\1", 4);
  assert_memory_equal(data + 68, "PDBU", 4);
  free(data);
  free(path);
}

static void sqlite__names_that_leave_the_folder_are_refused(void **state)
{
  const pd_backend_ops *ops = NULL;
  const char *rest = NULL;
  pd_backend *b = NULL;
  static const char *const bad[] = {"", ".", "..", "../x", "a/b", ".hidden"};
  assert_int_equal(pd_backend_find("sqlite:", &ops, &rest, NULL), PD_OK);
  for (size_t i = 0; i < COUNT_OF(bad); i++) assert_int_equal(ops->open(*state, bad[i], PD_BACKEND_CREATE, &b, NULL), PD_INVALID);
  assert_int_equal(count_files(*state), 0);
}

/* ---- B11: what is not a store ------------------------------------------------------------------------------------- */

/* Refused with PD_FORMAT, whatever the flags; the file is as it was and nothing lies beside it. */
static void expect_format(const char *folder, const char *says)
{
  size_t before_size, after_size;
  char *path = file_in(folder, "main.db");
  uint8_t *before = read_file(path, &before_size);
  static const unsigned flags[] = {0, PD_BACKEND_CREATE, PD_BACKEND_OPEN_READ_ONLY};
  for (size_t i = 0; i < COUNT_OF(flags); i++) {
    pd_error err = {0};
    assert_null(open_main(folder, flags[i], PD_FORMAT, &err));
    if (!strstr(err.message, says) || !strstr(err.message, path)) fail_msg("'%s' does not say '%s' of %s", err.message, says, path);
  }
  uint8_t *after = read_file(path, &after_size);
  assert_int_equal(before_size, after_size);
  assert_memory_equal(before, after, before_size);
  assert_int_equal(count_files(folder), 1);
  free(before);
  free(after);
  free(path);
}

static void B11_garbage_is_not_a_store(void **state)
{
  char *path = file_in(*state, "main.db");
  uint8_t noise[8192];
  for (size_t i = 0; i < sizeof noise; i++) noise[i] = (uint8_t)(i * 2654435761u >> 15);
  static const size_t sizes[] = {1, 15, 16, 99, 100, 511, 4096, 8192};
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    write_file(path, noise, sizes[i]);
    expect_format(*state, "is not a perdure store");
  }
  write_file(path, "{\"version\":1,\"entries\":[]}\n", 27);
  expect_format(*state, "is not a perdure store");
  memset(noise, 0, sizeof noise);
  write_file(path, noise, sizeof noise);
  expect_format(*state, "is not a perdure store");
  write_file(path, "SQLite format 3", 16);
  expect_format(*state, "is not a perdure store");
  free(path);
}

static void B11_another_programs_database_is_not_a_store(void **state)
{
  run_sql(*state, "CREATE TABLE log(seq INTEGER PRIMARY KEY, count, data)");
  expect_format(*state, "is not a perdure store");
  run_sql(*state, "PRAGMA application_id=1; PRAGMA user_version=1");
  expect_format(*state, "is not a perdure store");
}

static void B11_a_newer_format_is_refused(void **state)
{
  char *lock = file_in(*state, "main.lock");
  make_store(*state, 2);
  unlink(lock);
  run_sql(*state, "PRAGMA user_version=2");
  expect_format(*state, "was written by a newer perdure (format 2, this one knows 1)");
  run_sql(*state, "PRAGMA user_version=0");
  expect_format(*state, "unknown format 0");
  run_sql(*state, "PRAGMA user_version=1");
  pd_backend *b = open_main(*state, 0, PD_OK, NULL);
  assert_int_equal(tail_of(b), 2);
  b->ops->close(b);
  free(lock);
}

static void B11_a_folder_in_the_place_of_the_file_or_a_file_in_that_of_the_folder(void **state)
{
  char *path = file_in(*state, "main.db"), *file = file_in(*state, "file"), *below = file_in(*state, "file/below");
  assert_int_equal(mkdir(path, 0700), 0);
  open_main(*state, PD_BACKEND_CREATE, PD_FORMAT, NULL);
  write_file(file, "x", 1);
  open_main(file, PD_BACKEND_CREATE, PD_FORMAT, NULL);
  open_main(below, PD_BACKEND_CREATE, PD_FORMAT, NULL);
  open_main(below, 0, PD_FORMAT, NULL);
  free(path), free(file), free(below);
}

static void B11_an_empty_file_counts_as_absent(void **state)
{
  char *path = file_in(*state, "main.db");
  write_file(path, "", 0);
  open_main(*state, 0, PD_NOT_FOUND, NULL);
  open_main(*state, PD_BACKEND_OPEN_READ_ONLY, PD_NOT_FOUND, NULL);
  assert_int_equal(count_files(*state), 1);
  make_store(*state, 2);
  assert_int_equal(mode_of(*state, "main.db"), 0600);
  free(path);
}

static void B11_a_wal_without_its_database_is_not_replayed_into_a_new_one(void **state)
{
  char *folder = file_in(*state, "a"), *db = file_in(folder, "main.db"), *wal = file_in(folder, "main.db-wal"),
       *kept = file_in(*state, "wal"), *lock = file_in(folder, "main.lock");
  pd_backend *b = open_main(folder, PD_BACKEND_CREATE, PD_OK, NULL);
  assert_int_equal(append_some(b, 5, NULL), PD_OK);
  copy_file(wal, kept);
  b->ops->close(b);
  assert_int_equal(unlink(db), 0);
  assert_int_equal(unlink(lock), 0);
  copy_file(kept, wal);
  b = open_main(folder, PD_BACKEND_CREATE, PD_OK, NULL);
  assert_int_equal(tail_of(b), 0);
  assert_int_equal(append_some(b, 1, NULL), PD_OK);
  b->ops->close(b);
  free(folder), free(db), free(wal), free(kept), free(lock);
}

/* ---- rights ------------------------------------------------------------------------------------------------------- */

/* Tests run as root, whom no right stops: `work` runs in a child that is nobody. It answers 0, or the line that failed. */
static void as_nobody(int (*work)(const char *folder), const char *folder)
{
  int status = 0;
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    if (getuid() == 0 && (setresgid(NOBODY, NOBODY, NOBODY) != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0)) _exit(255);
    _exit(work(folder));
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail_msg("the child failed at line %d", WEXITSTATUS(status) + 0);
}

#define EXPECT(claim)                                                                                                                      \
  do {                                                                                                                                     \
    if (!(claim)) return __LINE__ % 255 + (__LINE__ % 255 == 0);                                                                           \
  } while (0)

static pd_code try_open(const char *folder, unsigned flags, pd_backend **out, pd_error *err)
{
  const pd_backend_ops *ops = NULL;
  const char *rest = NULL;
  if (pd_backend_find("sqlite:", &ops, &rest, err) != PD_OK) return PD_INVALID;
  return ops->open(folder, "main", flags, out, err);
}

static int refused_everywhere(const char *folder)
{
  static const unsigned flags[] = {0, PD_BACKEND_CREATE, PD_BACKEND_OPEN_READ_ONLY};
  for (size_t i = 0; i < COUNT_OF(flags); i++) {
    pd_backend *b = NULL;
    pd_error err = {0};
    EXPECT(try_open(folder, flags[i], &b, &err) == PD_STORAGE);
    EXPECT(strstr(err.message, "no permission") && strstr(err.message, folder));
  }
  return 0;
}

static void sqlite__a_folder_without_rights_is_refused_by_name(void **state)
{
  make_store(*state, 3);
  assert_int_equal(chmod(*state, 0), 0);
  as_nobody(refused_everywhere, *state);
  assert_int_equal(chmod(*state, 0700), 0);
}

static int refused_to_create(const char *folder)
{
  pd_backend *b = NULL;
  pd_error err = {0};
  EXPECT(try_open(folder, PD_BACKEND_CREATE, &b, &err) == PD_STORAGE);
  EXPECT(strstr(err.message, "no permission"));
  return 0;
}

static void sqlite__creating_where_one_may_not_is_refused(void **state)
{
  char *below = file_in(*state, "below");
  assert_int_equal(chmod(*state, 0555), 0);
  as_nobody(refused_to_create, *state);
  as_nobody(refused_to_create, below);
  assert_int_equal(count_files(*state), 0);
  free(below);
}

static int readable_only(const char *folder)
{
  pd_backend *b = NULL;
  pd_error err = {0};
  EXPECT(try_open(folder, 0, &b, &err) == PD_STORAGE);
  EXPECT(strstr(err.message, "no permission"));
  EXPECT(try_open(folder, PD_BACKEND_OPEN_READ_ONLY, &b, &err) == PD_OK);
  EXPECT(b->ops->flags(b) & PD_BACKEND_READ_ONLY);
  uint64_t tail = 0;
  EXPECT(b->ops->log_tail(b, &tail, NULL) == PD_OK && tail == 7);
  EXPECT(b->ops->log_tail_hint(b) == 7);
  EXPECT(read_all(b, &err) == PD_OK);
  EXPECT(append_some(b, 1, &err) == PD_READ_ONLY);
  b->ops->close(b);
  return 0;
}

static void sqlite__a_store_that_may_only_be_read_is_read(void **state)
{
  static const char *const names[] = {"main.db", "main.lock"};
  make_store(*state, 7);
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    char *path = file_in(*state, names[i]);
    assert_int_equal(chmod(path, 0444), 0);
    free(path);
  }
  assert_int_equal(chmod(*state, 0555), 0);
  as_nobody(readable_only, *state);
  assert_int_equal(count_files(*state), 2);
}

static int read_without_lock(const char *folder)
{
  pd_backend *b = NULL;
  pd_error err = {0};
  EXPECT(try_open(folder, PD_BACKEND_OPEN_READ_ONLY, &b, &err) == PD_OK);
  EXPECT(b->ops->log_tail_hint(b) == 2);
  EXPECT(read_all(b, &err) == PD_OK);
  b->ops->close(b);
  return 0;
}

static void sqlite__without_its_lock_file_a_store_can_still_be_read(void **state)
{
  char *lock = file_in(*state, "main.lock"), *db = file_in(*state, "main.db");
  make_store(*state, 2);
  assert_int_equal(unlink(lock), 0);
  assert_int_equal(chmod(db, 0444), 0);
  assert_int_equal(chmod(*state, 0555), 0);
  as_nobody(read_without_lock, *state);
  free(lock), free(db);
}

static int refuses_pending_wal(const char *folder)
{
  pd_backend *b = NULL;
  pd_error err = {0};
  EXPECT(try_open(folder, PD_BACKEND_OPEN_READ_ONLY, &b, &err) == PD_STORAGE);
  EXPECT(strstr(err.message, "-wal"));
  return 0;
}

static void sqlite__a_pending_wal_that_cannot_be_read_is_not_passed_over(void **state)
{
  char *folder = file_in(*state, "a"), *copy = file_in(*state, "copy");
  static const char *const names[] = {"main.db", "main.db-wal"};
  pd_backend *b = open_main(folder, PD_BACKEND_CREATE, PD_OK, NULL);
  assert_int_equal(append_some(b, 4, NULL), PD_OK);
  assert_int_equal(mkdir(copy, 0700), 0);
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    char *from = file_in(folder, names[i]), *to = file_in(copy, names[i]);
    copy_file(from, to);
    assert_int_equal(chmod(to, 0444), 0);
    free(from), free(to);
  }
  b->ops->close(b);
  assert_int_equal(chmod(copy, 0555), 0);
  assert_int_equal(chmod(*state, 0755), 0);
  as_nobody(refuses_pending_wal, copy);
  free(folder), free(copy);
}

/* ---- a full disk -------------------------------------------------------------------------------------------------- */

static int fill_up(const char *folder)
{
  pd_backend *b = NULL;
  pd_error err = {0};
  pd_code code = PD_OK;
  uint8_t bytes[2000] = {1};
  pd_bytes record = {bytes, sizeof bytes};
  uint64_t tail = 0, found = 0;
  const struct rlimit small = {256 << 10, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
  pd_id id = pd_value_id(record);
  signal(SIGXFSZ, SIG_IGN);
  EXPECT(try_open(folder, PD_BACKEND_CREATE, &b, &err) == PD_OK);
  EXPECT(setrlimit(RLIMIT_FSIZE, &small) == 0);
  while ((code = b->ops->log_append(b, tail + 1, &record, 1, &err)) == PD_OK) tail++;
  EXPECT(code == PD_FULL && strstr(err.message, "no space left") && tail > 10);
  EXPECT(b->ops->log_append(b, tail + 1, &record, 1, &err) == PD_FULL);
  EXPECT(b->ops->bag_put(b, &id, &record, 1, &err) == PD_FULL);
  EXPECT(b->ops->log_tail(b, &found, &err) == PD_OK && found == tail && b->ops->log_tail_hint(b) == tail);
  EXPECT(read_all(b, &err) == PD_OK);
  EXPECT(setrlimit(RLIMIT_FSIZE, &none) == 0);
  EXPECT(b->ops->log_append(b, tail + 1, &record, 1, &err) == PD_OK);
  EXPECT(b->ops->bag_put(b, &id, &record, 1, &err) == PD_OK);
  EXPECT(read_all(b, &err) == PD_OK && b->ops->log_tail_hint(b) == tail + 1);
  b->ops->close(b);
  return 0;
}

/* The lock file is there, as when the disk becomes full between it and the database. */
static int create_without_room(const char *folder)
{
  static const rlim_t rooms[] = {0, 100, 1000, 5000, 20000};
  pd_backend *b = NULL;
  pd_error err = {0};
  char *path = text_of("%s/main.db", folder);
  signal(SIGXFSZ, SIG_IGN);
  for (size_t i = 0; i < COUNT_OF(rooms); i++) {
    EXPECT(try_open(folder, PD_BACKEND_CREATE, &b, &err) == PD_OK);
    b->ops->close(b);
    EXPECT(unlink(path) == 0);
    EXPECT(setrlimit(RLIMIT_FSIZE, &(struct rlimit){rooms[i], RLIM_INFINITY}) == 0);
    pd_code code = try_open(folder, PD_BACKEND_CREATE, &b, &err);
    if (code != PD_FULL) fprintf(stderr, "# room for %d bytes: %s\n", (int)rooms[i], err.message);
    EXPECT(code == PD_FULL && strstr(err.message, "no space left"));
    EXPECT(setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}) == 0);
  }
  free(path);
  return 0;
}

static void B8_a_store_that_has_no_room_to_be_made_is_a_full_disk(void **state)
{
  assert_int_equal(chmod(*state, 0777), 0);
  as_nobody(create_without_room, *state);
}

static void B8_a_full_disk_changes_nothing_and_work_goes_on_when_there_is_room(void **state)
{
  assert_int_equal(chmod(*state, 0777), 0);
  as_nobody(fill_up, *state);
}

static void B8_a_blob_that_is_too_large_is_refused_whole_and_work_goes_on(void **state)
{
  pd_backend *a = open_main(*state, PD_BACKEND_CREATE, PD_OK, NULL), *b = open_main(*state, 0, PD_OK, NULL);
  const pd_bytes blobs[] = {pd_text("fits"), {"", 1000000000}, pd_text("fits too")}; /* refused by its size, unread */
  pd_id ids[3] = {{{1}}, {{2}}, {{3}}};
  pd_buf out = {0};
  pd_error err = {0};
  assert_int_equal(a->ops->bag_put(a, ids, blobs, 3, &err), PD_LIMIT);
  assert_int_equal(a->ops->log_append(a, 1, &blobs[1], 1, &err), PD_LIMIT);
  for (size_t i = 0; i < 3; i++) assert_int_equal(a->ops->bag_get(a, &ids[i], &out, NULL), PD_NOT_FOUND);
  assert_int_equal(append_some(b, 1, NULL), PD_OK); /* nothing was left open in the other handle */
  assert_int_equal(append_some(a, 1, NULL), PD_OK);
  assert_int_equal(a->ops->bag_put(a, ids, blobs, 1, &err), PD_OK);
  a->ops->close(a);
  b->ops->close(b);
}

/* ---- the WAL, other programs -------------------------------------------------------------------------------------- */

static void sqlite__the_wal_is_checkpointed_and_does_not_grow_for_ever(void **state)
{
  pd_backend *b = open_main(*state, PD_BACKEND_CREATE, PD_OK, NULL);
  uint8_t *bytes = calloc(1, 200000);
  pd_bytes record = {bytes, 200000};
  struct stat st;
  char *wal = file_in(*state, "main.db-wal");
  for (uint64_t seq = 1; seq <= 400; seq++) assert_int_equal(b->ops->log_append(b, seq, &record, 1, NULL), PD_OK); /* 80 MB */
  assert_int_equal(stat(wal, &st), 0);
  assert_true(st.st_size < 24 << 20);
  assert_int_equal(read_all(b, NULL), PD_OK);
  b->ops->close(b);
  free(bytes), free(wal);
}

static void sqlite__a_wal_that_one_large_put_blew_up_is_cut_back(void **state)
{
  pd_backend *b = open_main(*state, PD_BACKEND_CREATE, PD_OK, NULL);
  pd_bytes blob = {calloc(1, 60 << 20), 60 << 20};
  pd_id id = {{1}};
  struct stat st;
  char *wal = file_in(*state, "main.db-wal");
  assert_int_equal(b->ops->bag_put(b, &id, &blob, 1, NULL), PD_OK);
  assert_int_equal(stat(wal, &st), 0);
  assert_true(st.st_size > 60 << 20);
  assert_int_equal(append_some(b, 2, NULL), PD_OK);
  assert_int_equal(stat(wal, &st), 0);
  assert_true(st.st_size <= 32 << 20);
  b->ops->close(b);
  free((void *)blob.data), free(wal);
}

static void *append_in_thread(void *arg)
{
  pd_backend *b = arg;
  return (void *)(intptr_t)append_some(b, 1, NULL);
}

static void sqlite__another_programs_transaction_is_waited_for(void **state)
{
  make_store(*state, 1);
  pd_backend *b = open_main(*state, 0, PD_OK, NULL);
  sqlite3 *db = NULL;
  char *path = file_in(*state, "main.db");
  pthread_t thread;
  void *answer = NULL;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE; UPDATE meta SET value=1 WHERE name='created_ms'", NULL, NULL, NULL), SQLITE_OK);
  assert_int_equal(pthread_create(&thread, NULL, append_in_thread, b), 0);
  assert_int_equal(tail_of(b), 1); /* readers go on */
  assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
  pthread_join(thread, &answer);
  assert_int_equal((intptr_t)answer, PD_OK);
  assert_int_equal(tail_of(b), 2);
  sqlite3_close(db);
  b->ops->close(b);
  free(path);
}

static void sqlite__usage_tells_what_is_there(void **state)
{
  pd_backend *b = open_main(*state, PD_BACKEND_CREATE, PD_OK, NULL);
  pd_backend_usage usage = {0};
  pd_bytes blobs[] = {pd_text("12345"), pd_text("1234567")};
  pd_id ids[] = {pd_value_id(blobs[0]), pd_value_id(blobs[1])};
  assert_int_equal(append_some(b, 10, NULL), PD_OK);
  assert_int_equal(b->ops->bag_put(b, ids, blobs, 2, NULL), PD_OK);
  assert_int_equal(b->ops->usage(b, &usage, NULL), PD_OK);
  assert_int_equal(usage.log_bytes, 300);
  assert_int_equal(usage.bag_bytes, 12);
  assert_int_equal(usage.bag_count, 2);
  assert_true(usage.disk_bytes >= 4096 * 3);
  b->ops->close(b);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
  const backend_contract_target target = {.name = "sqlite",
                                          .uri_new = uri_new,
                                          .uri_destroy = uri_destroy,
                                          .is_lasting = true,
                                          .is_shareable = true,
                                          .has_joint = true,
                                          .has_gc_lock = true};
  const struct CMUnitTest tests[] = {
    CASE(sqlite__files_are_private_to_their_owner),
    CASE(sqlite__paths_that_look_like_uris_are_only_paths),
    CASE(sqlite__a_store_knows_its_application_and_format),
    CASE(sqlite__names_that_leave_the_folder_are_refused),
    CASE(B11_garbage_is_not_a_store),
    CASE(B11_another_programs_database_is_not_a_store),
    CASE(B11_a_newer_format_is_refused),
    CASE(B11_a_folder_in_the_place_of_the_file_or_a_file_in_that_of_the_folder),
    CASE(B11_an_empty_file_counts_as_absent),
    CASE(B11_a_wal_without_its_database_is_not_replayed_into_a_new_one),
    CASE(sqlite__a_folder_without_rights_is_refused_by_name),
    CASE(sqlite__creating_where_one_may_not_is_refused),
    CASE(sqlite__a_store_that_may_only_be_read_is_read),
    CASE(sqlite__without_its_lock_file_a_store_can_still_be_read),
    CASE(sqlite__a_pending_wal_that_cannot_be_read_is_not_passed_over),
    CASE(B8_a_full_disk_changes_nothing_and_work_goes_on_when_there_is_room),
    CASE(B8_a_store_that_has_no_room_to_be_made_is_a_full_disk),
    CASE(B8_a_blob_that_is_too_large_is_refused_whole_and_work_goes_on),
    CASE(sqlite__the_wal_is_checkpointed_and_does_not_grow_for_ever),
    CASE(sqlite__a_wal_that_one_large_put_blew_up_is_cut_back),
    CASE(sqlite__another_programs_transaction_is_waited_for),
    CASE(sqlite__usage_tells_what_is_there),
  };
  return backend_contract_run(&target, tests, sizeof tests / sizeof tests[0]);
}
