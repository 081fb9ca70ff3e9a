/*
 * flip_test.c: every single-bit flip of a store's files is detected or harmless, never answered with wrong data.
 *
 * A small store is made, closed or left by SIGKILL with its WAL; what it answers to a list of questions is written down. Then, again and
 * again: copy it, flip one bit of one file, open it and ask the same questions. Each answer must be the one written down, or an error; a
 * listing that ends with an error must be right up to there.
 */
#include "base/base.h"
#include "base/buf.h"
#include "crash/crash.h"
#include "crash/writer.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define FLIPS_SHORT 100
#define FLIPS_FULL 2000
#define KEY_COUNT 30
#define WRITE_COUNT 120
#define POINTS_MAX 400
#define SECONDS_MAX 120 /* for one flipped store; else it hangs */

/* ---- the questions ---- */

typedef struct answers {
  char points[POINTS_MAX][PD_ID_HEX_SIZE];
  size_t point_count;
  pd_buf *texts; /* of the right answers */
  size_t text_count;
} answers;

static void add(pd_buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(pd_buf *out, const char *fmt, ...)
{
  char text[1024];
  va_list args;
  va_start(args, fmt);
  int size = vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  if (size < 0 || (size_t)size >= sizeof text || pd_buf_append(out, text, (size_t)size, NULL) != PD_OK) abort();
}

static void add_id(pd_buf *out, const pd_id *id)
{
  char hex[PD_ID_HEX_SIZE];
  add(out, " %s", pd_id_hex(id, hex));
}

static void add_entry(pd_buf *out, const pd_entry *e)
{
  add(out, "%.*s v%llu #%llu %llu %lld %lld", (int)e->key.size, (const char *)e->key.data, (unsigned long long)e->version,
      (unsigned long long)e->seq, (unsigned long long)e->size, (long long)e->created_ms, (long long)e->updated_ms);
  add_id(out, &e->value_id);
  add(out, "\n");
}

static void add_value(pd_buf *out, pd_bytes value)
{
  pd_id id = pd_value_id(value); /* computed here from the bytes: nothing is believed */
  add(out, "%zu bytes", value.size);
  add_id(out, &id);
  add(out, "\n");
}

static bool add_record(void *ctx, const pd_record *r)
{
  pd_buf *out = ctx;
  if (r->kind == PD_RECORD_KEYFRAME) return true; /* the store may add one by itself */
  add(out, "#%llu %s %s %s/%s/%s %lld", (unsigned long long)r->seq, pd_record_kind_name(r->kind), r->ref, r->author, r->run, r->reason,
      (long long)r->time_ms);
  add_id(out, &r->commit.id);
  add_id(out, &r->commit.tree);
  for (size_t i = 0; i < r->parent_count; i++) add_id(out, &r->parents[i]);
  for (size_t i = 0; i < r->change_count; i++) {
    const pd_change *c = &r->changes[i];
    add(out, "\n  %.*s %d v%llu %llu", (int)c->key.size, (const char *)c->key.data, c->is_delete, (unsigned long long)c->version,
        (unsigned long long)c->size);
    add_id(out, &c->value_id);
  }
  add(out, "\n");
  return true;
}

static bool add_version(void *ctx, const pd_version_info *v)
{
  add_entry(ctx, &v->entry);
  add_id(ctx, &v->commit);
  add(ctx, " %s/%s/%s\n", v->author, v->run, v->reason);
  return true;
}

static bool add_difference(void *ctx, const pd_difference *d)
{
  add(ctx, "%.*s\n", (int)d->key.size, (const char *)d->key.data);
  if (d->before) add_entry(ctx, d->before);
  if (d->after) add_entry(ctx, d->after);
  return true;
}

static void add_ref(void *ctx, const pd_ref *r)
{
  add(ctx, "%s %d %d %lld", r->name, r->is_current, r->can_redo, (long long)r->updated_ms);
  add_id(ctx, &r->commit.id);
  add(ctx, "\n");
}

static pd_code ask_list(pd_store *store, const char *at, pd_buf *out)
{
  pd_iter *iter = NULL;
  pd_entry entry;
  pd_bytes value;
  TRY(pd_iter_open(store, at, NULL, &iter, NULL));
  pd_code code;
  while ((code = pd_iter_next(iter, &entry, &value, NULL)) == PD_OK) {
    add_entry(out, &entry);
    add_value(out, value);
  }
  pd_iter_close(iter);
  if (code != PD_NOT_FOUND) return code;
  add(out, "end\n");
  return PD_OK;
}

static pd_code ask_get(pd_store *store, const char *at, const char *key, pd_buf *out)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_entry entry;
  pd_code code = pd_get(store, at, pd_text(key), &value, &entry, NULL);
  if (code == PD_NOT_FOUND) {
    add(out, "absent\n"); /* an answer like any other: it must be right */
    return PD_OK;
  }
  TRY(code);
  add_entry(out, &entry);
  add_value(out, pd_buf_bytes(&value));
  return PD_OK;
}

static pd_code ask_history(pd_store *store, const char *key, pd_buf *out)
{
  pd_code code = pd_history(store, NULL, pd_text(key), 0, add_version, out, NULL);
  if (code != PD_NOT_FOUND) return code;
  add(out, "absent\n");
  return PD_OK;
}

static pd_code ask_point(pd_store *store, const char *at, size_t index, pd_buf *out)
{
  char key[32];
  pd_commit commit;
  snprintf(key, sizeof key, "key/%zu", index % KEY_COUNT);
  TRY(pd_resolve(store, at, &commit, NULL));
  add_id(out, &commit.tree);
  TRY(ask_get(store, at, key, out));
  return index % 4 ? PD_OK : ask_list(store, at, out);
}

/* Question number `index`; PD_LIMIT past the last. */
static pd_code ask(pd_store *store, const answers *a, size_t index, pd_buf *out)
{
  char key[32];
  if (index < a->point_count) return ask_point(store, a->points[index], index, out);
  index -= a->point_count;
  snprintf(key, sizeof key, "key/%zu", index % KEY_COUNT);
  if (index < KEY_COUNT) return ask_get(store, NULL, key, out);
  index -= KEY_COUNT;
  if (index < KEY_COUNT) return ask_history(store, key, out);
  index -= KEY_COUNT;
  switch (index) {
  case 0: return ask_list(store, NULL, out);
  case 1: return ask_list(store, "side", out);
  case 2: return pd_log(store, &(pd_log_query){.whole_store = true}, add_record, out, NULL);
  case 3: return pd_log(store, &(pd_log_query){.ref = "main"}, add_record, out, NULL);
  case 4: return pd_log(store, &(pd_log_query){.key = pd_text("key/1")}, add_record, out, NULL);
  case 5: return pd_diff(store, "root", "main", add_difference, out, NULL);
  case 6: return pd_diff(store, "main~20", "side", add_difference, out, NULL);
  case 7: return pd_ref_list(store, add_ref, out, NULL);
  default: return PD_LIMIT;
  }
}

static bool add_point(void *ctx, const pd_record *r)
{
  answers *a = ctx;
  if (r->kind == PD_RECORD_COMMIT && a->point_count < POINTS_MAX) pd_id_hex(&r->commit.id, a->points[a->point_count++]);
  return true;
}

/* Write down the right answers, with the store undamaged. */
static void write_down(answers *a, const char *folder)
{
  char uri[CRASH_URI_MAX];
  pd_store *store = NULL;
  pd_error err = {0};
  snprintf(uri, sizeof uri, "sqlite:%s", folder);
  pd_options options = {.is_read_only = true};
  if (pd_store_open(uri, "main", &options, &store, &err) != PD_OK) fail_msg("%s", err.message);
  assert_int_equal(pd_log(store, &(pd_log_query){.whole_store = true}, add_point, a, &err), PD_OK);
  for (;;) {
    pd_buf text = {0};
    pd_code code = ask(store, a, a->text_count, &text);
    if (code == PD_LIMIT) break;
    if (code != PD_OK) fail_msg("question %zu: %s", a->text_count, pd_code_name(code));
    a->texts = realloc(a->texts, (a->text_count + 1) * sizeof text);
    a->texts[a->text_count++] = text;
  }
  if (crash_verify(store, &err) != PD_OK) fail_msg("%s", err.message);
  pd_store_close(store, NULL);
  assert_true(a->point_count > 50);
}

static void forget(answers *a)
{
  for (size_t i = 0; i < a->text_count; i++) pd_buf_done(&a->texts[i]);
  free(a->texts);
}

/* ---- one flip ---- */

typedef enum verdict {
  HARMLESS = 0,
  DETECTED = 1,
  DETECTED_BY_VERIFY = 2, /* no question touched it */
  WRONG = 3
} verdict;

/* Ask everything of a damaged store. */
static verdict question(const answers *a, pd_store *store)
{
  verdict v = HARMLESS;
  for (size_t i = 0; i < a->text_count; i++) {
    CLEANUP(pd_buf_done) pd_buf text = {0};
    pd_code code = ask(store, a, i, &text);
    bool is_right = code == PD_OK ? pd_bytes_equal(pd_buf_bytes(&text), pd_buf_bytes(&a->texts[i]))
                                  : pd_bytes_starts(pd_buf_bytes(&a->texts[i]), pd_buf_bytes(&text));
    if (code == PD_NOT_FOUND || code == PD_AMBIGUOUS) is_right = false; /* it is there */
    if (!is_right) {
      printf("# question %zu of %zu answered wrongly (%s)\n", i, a->text_count, pd_code_name(code));
      return WRONG;
    }
    if (code != PD_OK) v = DETECTED;
  }
  pd_code code = pd_verify(store, NULL, NULL, NULL);
  if (code != PD_OK && v == HARMLESS) v = DETECTED_BY_VERIFY;
  return v;
}

static verdict open_and_question(const answers *a, const char *folder, bool is_read_only)
{
  char uri[CRASH_URI_MAX];
  pd_store *store = NULL;
  pd_options options = {.is_read_only = is_read_only, .must_exist = true};
  pd_error err = {0};
  snprintf(uri, sizeof uri, "sqlite:%s", folder);
  pd_code code = pd_store_open(uri, "main", &options, &store, &err);
  if (code == PD_NOT_FOUND) {
    printf("# the store is there, but: %s\n", err.message);
    return WRONG;
  }
  if (code != PD_OK) return DETECTED;
  verdict v = question(a, store);
  pd_store_close(store, NULL);
  return v;
}

typedef struct flip {
  char file[64];
  uint64_t byte;
  unsigned bit;
} flip;

static bool is_store_file(const char *folder, const char *name, uint64_t *out_size)
{
  char path[CRASH_PATH_MAX + 300];
  struct stat st;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0 || strlen(name) >= sizeof((flip){0}).file) return false;
  *out_size = (uint64_t)st.st_size;
  return true;
}

/* A byte of a file; mostly one that is not zero, for files are grown before they are filled. */
static uint64_t pick_byte(const char *folder, const char *name, uint64_t size)
{
  char path[CRASH_PATH_MAX + 300];
  uint64_t at = crash_random(size);
  uint8_t byte = 0;
  if (crash_random(4) == 0) return at;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  int fd = open(path, O_RDONLY);
  assert_true(fd >= 0);
  for (int tries = 0; tries < 1000 && pread(fd, &byte, 1, (off_t)at) == 1 && !byte; tries++) at = crash_random(size);
  close(fd);
  return at;
}

/* Any bit of any file; half of the time of a file chosen first, so that small ones get their share. */
static void pick_flip(const char *folder, flip *out)
{
  flip files[16];
  uint64_t sizes[16], total = 0;
  size_t count = 0;
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  for (struct dirent *e; count < 16 && (e = readdir(dir));)
    if (is_store_file(folder, e->d_name, &sizes[count])) {
      snprintf(files[count].file, sizeof files[count].file, "%.60s", e->d_name);
      total += sizes[count++];
    }
  closedir(dir);
  assert_true(count > 0);
  size_t i = 0;
  if (crash_random(2)) {
    i = crash_random(count);
  } else {
    for (uint64_t at = crash_random(total); at >= sizes[i]; i++) at -= sizes[i];
  }
  *out = files[i];
  out->byte = pick_byte(folder, out->file, sizes[i]);
  out->bit = (unsigned)crash_random(8);
}

static void apply_flip(const char *folder, const flip *f)
{
  char path[CRASH_PATH_MAX + 300];
  uint8_t byte = 0;
  snprintf(path, sizeof path, "%s/%s", folder, f->file);
  int fd = open(path, O_RDWR);
  assert_true(fd >= 0 && pread(fd, &byte, 1, (off_t)f->byte) == 1);
  byte ^= (uint8_t)(1u << f->bit);
  assert_true(pwrite(fd, &byte, 1, (off_t)f->byte) == 1);
  close(fd);
}

/* In a child of its own, so that a crash is a finding and not the end. */
static verdict flip_once(const answers *a, const char *whole, const char *copy, const flip *f)
{
  int status = 0;
  if (!crash_copy(whole, copy)) fail_msg("cannot copy %s", whole);
  apply_flip(copy, f);
  bool is_read_only = crash_random(3) == 0;
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    alarm(SECONDS_MAX);
    verdict v = open_and_question(a, copy, is_read_only);
    fflush(stdout);
    _exit(v);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  crash_remove(copy);
  if (WIFEXITED(status) && WEXITSTATUS(status) < WRONG) return (verdict)WEXITSTATUS(status);
  printf("# bit %u of byte %llu of %s: %s\n", f->bit, (unsigned long long)f->byte, f->file,
         WIFEXITED(status) ? WEXITSTATUS(status) == WRONG ? "WRONG DATA" : "the checker failed" : "the reader died");
  return WRONG;
}

/* ---- the stores ---- */

static pd_code fill(pd_store *store, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  for (uint64_t i = 0; i < WRITE_COUNT; i++) {
    char key[32];
    snprintf(key, sizeof key, "key/%llu", (unsigned long long)(i * 7 % KEY_COUNT));
    crash_value(i + 1, &value);
    pd_note note = {.author = "flip", .run = "r1", .reason = "to be damaged", .ref = i > 60 && i % 5 == 0 ? "side" : NULL};
    TRY(pd_put(store, pd_text(key), pd_buf_bytes(&value), &note, NULL, err));
    if (i == 40 || i == 90) TRY(pd_store_keyframe(store, err));
    if (i == 50) TRY(pd_fork(store, "side", "main~10", NULL, NULL, err));
    if (i == 70) TRY(pd_delete(store, pd_text("key/0"), PD_ANY_VERSION, NULL, NULL, err));
    if (i == 100) TRY(pd_undo(store, 2, NULL, NULL, err));
  }
  return PD_OK;
}

/* Fill a store in a child, which then closes it or is killed with it open. */
static void make_store(const char *folder, bool is_closed)
{
  int status = 0;
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    char uri[CRASH_URI_MAX];
    pd_store *store = NULL;
    pd_error err = {0};
    snprintf(uri, sizeof uri, "sqlite:%s", folder);
    pd_code code = pd_store_open(uri, "main", NULL, &store, &err);
    if (code == PD_OK) code = fill(store, &err);
    if (code != PD_OK) printf("# %s\n", err.message);
    fflush(stdout);
    if (code == PD_OK && !is_closed) raise(SIGKILL);
    if (code == PD_OK) code = pd_store_close(store, NULL);
    _exit(code != PD_OK);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(is_closed ? WIFEXITED(status) && WEXITSTATUS(status) == 0 : WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void flip_many(bool is_closed, uint64_t flips)
{
  char folder[CRASH_PATH_MAX], whole[CRASH_PATH_MAX + 16], reference[CRASH_PATH_MAX + 16], copy[CRASH_PATH_MAX + 16];
  uint64_t counts[WRONG + 1] = {0};
  static answers a;
  a = (answers){0};
  crash_scratch(folder);
  snprintf(whole, sizeof whole, "%s/whole", folder);
  snprintf(reference, sizeof reference, "%s/reference", folder);
  snprintf(copy, sizeof copy, "%s/copy", folder);
  make_store(whole, is_closed);
  if (!crash_copy(whole, reference)) fail_msg("cannot copy %s", whole);
  write_down(&a, reference); /* of a copy: asking may tidy up, and the files are to stay as they were left */
  for (uint64_t i = 0; i < flips; i++) {
    flip f;
    pick_flip(whole, &f);
    counts[flip_once(&a, whole, copy, &f)]++;
  }
  printf("# %s: %llu flips: %llu harmless, %llu detected, %llu detected by verify alone, %llu wrong\n",
         is_closed ? "closed" : "left by SIGKILL", (unsigned long long)flips, (unsigned long long)counts[HARMLESS],
         (unsigned long long)counts[DETECTED], (unsigned long long)counts[DETECTED_BY_VERIFY], (unsigned long long)counts[WRONG]);
  forget(&a);
  crash_scratch_remove(folder);
  assert_int_equal(counts[WRONG], 0);
  assert_true(counts[DETECTED] + counts[DETECTED_BY_VERIFY] > flips / 20); /* else the flips hit nothing */
}

static void flip__a_closed_store_never_answers_with_wrong_data(void **state)
{
  (void)state;
  flip_many(true, crash_count(FLIPS_SHORT, FLIPS_FULL) / 2);
}

static void flip__a_killed_store_never_answers_with_wrong_data(void **state)
{
  (void)state;
  flip_many(false, crash_count(FLIPS_SHORT, FLIPS_FULL) / 2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(flip__a_closed_store_never_answers_with_wrong_data),
    cmocka_unit_test(flip__a_killed_store_never_answers_with_wrong_data),
  };
  crash_seed();
  return cmocka_run_group_tests_name("flip", tests, NULL, NULL);
}
