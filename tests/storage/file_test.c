/* file_test.c: file: under the contract, and what only it does: files that are torn, foreign, or somebody else's. */
#include "base/base.h"
#include "storage/folder_storage.h"
#include "support/temp_folder.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

static char *uri_new(void)
{
  return folder_uri_new("file:", "deep/snapshots");
}

static void uri_destroy(const char *uri)
{
  char *folder = strdup(uri + strlen("file:"));
  *strstr(folder, "/deep") = '\0';
  temp_folder_free(folder);
}

static pd_storage *open_in(const char *folder)
{
  char *uri = text_of("file:%s", folder);
  pd_storage *s = storage_open(uri);
  free(uri);
  return s;
}

static void file__the_file_is_the_document_and_private(void **state)
{
  pd_storage *s = open_in(*state);
  char *document = snapshot_new("worker_007", 1, 2), *path = text_of("%s/worker_007.json", (char *)*state);
  storage_save(s, "worker_007", document);
  size_t size;
  char *text = read_text(path, &size);
  assert_memory_equal(text, document, strlen(document)); /* and behind it white space: the seal */
  assert_int_equal(strspn(text + strlen(document), " \t\n"), size - strlen(document));
  struct stat is;
  assert_int_equal(stat(path, &is), 0);
  assert_int_equal(is.st_mode & 07777, 0600);
  free(text);
  free(path);
  free(document);
  pd_storage_close(s);
}

/* Neither loaded nor overwritten; deleted on demand. */
static void expect_foreign(const char *folder, const char *text, size_t size)
{
  char *path = text_of("%s/x.json", folder), *mine = snapshot_new("x", 5, 1);
  write_text(path, text, size);
  pd_storage *s = open_in(folder);
  storage_load_refused(s, "x", PD_CORRUPT, "x.json");
  storage_save_refused(s, "x", mine, PD_CORRUPT, "it is not overwritten");
  storage_load_refused(s, "x", PD_CORRUPT, "x.json");
  size_t after;
  char *still = read_text(path, &after);
  assert_int_equal(after, size);
  assert_memory_equal(still, text, size);
  assert_int_equal(pd_storage_delete(s, "x", NULL), PD_OK);
  storage_save(s, "x", mine);
  storage_expect(s, "x", mine);
  pd_storage_close(s);
  unlink(path);
  free(still);
  free(mine);
  free(path);
}

static void file__what_is_no_snapshot_is_refused_and_kept(void **state)
{
  static const char *const foreign[] = {
    "", " ", "{}", "[]", "null", "{\"name\":\"package\",\"version\":\"1.0.0\"}\n", "\177ELF\002\001", "\xff\xfe{}"};
  for (size_t i = 0; i < COUNT_OF(foreign); i++) expect_foreign(*state, foreign[i], strlen(foreign[i]));
  char *other = snapshot_new("y", 1, 1);
  expect_foreign(*state, other, strlen(other));
  free(other);
}

static void file__every_truncation_is_noticed(void **state)
{
  char *document = snapshot_new("x", 1, 2), *path = text_of("%s/x.json", (char *)*state);
  pd_storage *s = open_in(*state);
  for (size_t size = 0; size < strlen(document); size++) {
    write_text(path, document, size);
    storage_load_refused(s, "x", PD_CORRUPT, "x.json");
  }
  write_text(path, document, strlen(document));
  storage_expect(s, "x", document);
  pd_storage_close(s);
  free(path);
  free(document);
}

/* In every way that a byte can be another one: the document is refused, or is what it was. */
static void file__every_flipped_byte_is_noticed(void **state)
{
  CLEANUP(pd_buf_done) pd_buf got = {0};
  pd_storage *s = open_in(*state);
  char *document = snapshot_new("x", 12, 2), *path = text_of("%s/x.json", (char *)*state);
  storage_save(s, "x", document);
  size_t size;
  char *sound = read_text(path, &size);
  for (size_t at = 0; at < size; at++) {
    static const char others[] = " \t\r\n0a\"";
    for (size_t i = at % 2; i < 8 + sizeof others - 1; i += 2) {
      char was = sound[at];
      sound[at] = i < 8 ? (char)(was ^ 1 << i) : others[i - 8];
      write_text(path, sound, size);
      pd_code code = sound[at] == was ? PD_CORRUPT : pd_storage_load(s, "x", &got, NULL);
      if (code != PD_CORRUPT) fail_msg("byte %zu: %02x for %02x: %s", at, (uint8_t)sound[at], (uint8_t)was, pd_code_name(code));
      sound[at] = was;
    }
  }
  for (size_t cut = 0; cut < size; cut++) { /* the document without its seal is whole; anything shorter is not */
    write_text(path, sound, cut);
    pd_code code = pd_storage_load(s, "x", &got, NULL);
    if (cut < strlen(document)) assert_int_equal(code, PD_CORRUPT);
    if (code == PD_OK) expect_same_meaning((pd_bytes){got.data, got.size}, pd_text(document));
  }
  write_text(path, document, strlen(document)); /* as another program would write it */
  storage_expect(s, "x", document);
  pd_storage_close(s);
  free(sound);
  free(path);
  free(document);
}

static void file__opening_and_reading_make_nothing(void **state)
{
  char *folder = text_of("%s/a/b", (char *)*state), *parent = text_of("%s/a", (char *)*state), *document = snapshot_new("x", 1, 1);
  uint64_t epoch;
  pd_storage *s = open_in(folder);
  storage_expect(s, "x", NULL);
  assert_int_equal(pd_storage_epoch(s, "x", &epoch, NULL), PD_OK);
  assert_int_equal(pd_storage_delete(s, "x", NULL), PD_NOT_FOUND);
  char *names = storage_names(s);
  assert_string_equal(names, "");
  assert_int_equal(access(parent, F_OK), -1);
  storage_save(s, "x", document);
  storage_expect(s, "x", document);
  pd_storage_close(s);
  free(names), free(folder), free(parent), free(document);
}

static void file__a_file_that_is_too_large_is_refused(void **state)
{
  char *path = text_of("%s/x.json", (char *)*state);
  write_text(path, "{", 1);
  assert_int_equal(truncate(path, (off_t)PD_SNAPSHOT_SIZE_MAX + 1000), 0);
  pd_storage *s = open_in(*state);
  storage_load_refused(s, "x", PD_CORRUPT, "larger than any snapshot");
  pd_storage_close(s);
  free(path);
}

static void file__what_is_no_file_is_refused(void **state)
{
  char *path = text_of("%s/x.json", (char *)*state), *uri = text_of("file:%s/plain/x", (char *)*state),
       *plain = text_of("%s/plain", (char *)*state);
  assert_int_equal(mkdir(path, 0700), 0);
  pd_storage *s = open_in(*state);
  char *mine = snapshot_new("x", 1, 1);
  storage_load_refused(s, "x", PD_STORAGE, "x.json");
  storage_save_refused(s, "x", mine, PD_STORAGE, "x.json");
  pd_storage_close(s);
  write_text(plain, "", 0);
  storage_open_refused(uri, PD_FORMAT, "plain");
  storage_open_refused("file:", PD_INVALID, "names no folder");
  free(mine);
  free(plain);
  free(uri);
  free(path);
}

static void file__half_written_drafts_are_nobodys(void **state)
{
  char *fresh = text_of("%s/x.json.draft-AbCdEf", (char *)*state), *old = text_of("%s/y.json.draft-AbCdEf", (char *)*state);
  char *other = text_of("%s/notes.txt.draft-AbCdEf", (char *)*state), *mine = text_of("%s/z.json.backup", (char *)*state);
  struct timeval long_ago[2] = {{1000000000, 0}, {1000000000, 0}};
  const char *const all[] = {fresh, old, other, mine};
  for (size_t i = 0; i < COUNT_OF(all); i++) write_text(all[i], "{\"agent_id\":", 12);
  for (size_t i = 1; i < COUNT_OF(all); i++) assert_int_equal(utimes(all[i], long_ago), 0);
  pd_storage *s = open_in(*state);
  storage_expect(s, "x", NULL);
  char *names = storage_names(s);
  assert_string_equal(names, "");
  assert_int_equal(access(old, F_OK), 0); /* who only reads removes nothing */
  char *mine_now = snapshot_new("x", 1, 1);
  storage_save(s, "x", mine_now);
  free(mine_now);
  assert_int_equal(access(fresh, F_OK), 0);
  assert_int_equal(access(old, F_OK), -1);
  assert_int_equal(access(other, F_OK), 0);
  assert_int_equal(access(mine, F_OK), 0);
  pd_storage_close(s);
  free(names);
  free(fresh), free(old), free(other), free(mine);
}

static void file__a_full_disk_loses_nothing(void **state)
{
  (void)state;
  expect_full_disk_is_survived("file:", "snapshots");
}

static void open__uris_that_name_no_storage_are_refused(void **state)
{
  (void)state;
  char *longest = calloc(1, 5002);
  memset(longest, 'a', 5001);
  storage_open_refused(NULL, PD_INVALID, "empty");
  storage_open_refused("", PD_INVALID, "empty");
  storage_open_refused("./data", PD_INVALID, "write file:DIR");
  storage_open_refused("ftp://x", PD_INVALID, "unknown storage scheme 'ftp'");
  storage_open_refused("sqlite:./x", PD_INVALID, "sqlite-snapshots:FILE");
  storage_open_refused(longest, PD_LIMIT, "longer than");
  storage_open_refused("unknown://user:secret@host", PD_INVALID, "scheme 'unknown'");
  pd_error err = {0};
  pd_storage *s = NULL;
  assert_int_equal(pd_storage_open("unknown://user:secret@host", &s, &err), PD_INVALID);
  assert_null(strstr(err.message, "secret"));
  free(longest);
}

int main(void)
{
  static const storage_contract_target target = {"file", uri_new, uri_destroy, false, PD_LASTS_POWER};
  static const struct CMUnitTest own[] = {
    cmocka_unit_test_setup_teardown(file__the_file_is_the_document_and_private, folder_set_up, folder_tear_down),
    cmocka_unit_test_setup_teardown(file__what_is_no_snapshot_is_refused_and_kept, folder_set_up, folder_tear_down),
    cmocka_unit_test_setup_teardown(file__every_truncation_is_noticed, folder_set_up, folder_tear_down),
    cmocka_unit_test_setup_teardown(file__every_flipped_byte_is_noticed, folder_set_up, folder_tear_down),
    cmocka_unit_test_setup_teardown(file__opening_and_reading_make_nothing, folder_set_up, folder_tear_down),
    cmocka_unit_test_setup_teardown(file__a_file_that_is_too_large_is_refused, folder_set_up, folder_tear_down),
    cmocka_unit_test_setup_teardown(file__what_is_no_file_is_refused, folder_set_up, folder_tear_down),
    cmocka_unit_test_setup_teardown(file__half_written_drafts_are_nobodys, folder_set_up, folder_tear_down),
    cmocka_unit_test(file__a_full_disk_loses_nothing),
    cmocka_unit_test(open__uris_that_name_no_storage_are_refused),
  };
  return storage_contract_run(&target, own, COUNT_OF(own));
}
