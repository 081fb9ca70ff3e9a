/* bundle_world.c: see bundle_world.h. */
#include "engine/bundle_world.h"

#include "base/buf.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define KEYS 14
#define LARGE_SIZE 30000   /* in the bag */
#define CHUNKED_SIZE 90000 /* in the bag, in pieces */

static uint64_t state;

static uint64_t pick(uint64_t below)
{
  uint64_t x = state += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return (x ^ x >> 31) % below;
}

pd_store *world_open(void)
{
  pd_store *s = NULL;
  pd_error err = {0};
  if (pd_store_open("memory:", "main", NULL, &s, &err)) fail_msg("open: %s", err.message);
  return s;
}

void world_put(pd_store *s, const char *key, const char *value, const pd_note *note)
{
  pd_error err;
  if (pd_put(s, pd_text(key), pd_text(value), note, NULL, &err)) fail_msg("put %s: %s", key, err.message);
}

/* ---- a life ---- */

typedef struct names {
  char list[64][PD_REF_SIZE_MAX + 1];
  size_t count;
} names;

static void take_ref(void *ctx, const pd_ref *ref)
{
  names *n = ctx;
  if (n->count < 64) strcpy(n->list[n->count++], ref->name);
}

static const char *pick_ref(pd_store *s, names *n)
{
  n->count = 0;
  assert_int_equal(pd_ref_list(s, take_ref, n, NULL), PD_OK);
  return n->list[pick(n->count)];
}

static pd_bytes pick_value(pd_buf *buf)
{
  pd_buf_clear(buf);
  size_t size = pick(12) ? pick(60) : pick(4) ? LARGE_SIZE : CHUNKED_SIZE;
  uint8_t letter = (uint8_t)('a' + pick(4));
  for (size_t i = 0; i < size; i++) assert_int_equal(pd_buf_byte(buf, (uint8_t)(letter + i % 7 * (size > 100)), NULL), PD_OK);
  return pd_buf_bytes(buf);
}

static void merge(pd_store *s, const char *ref, const char *other)
{
  pd_commit ours, theirs;
  assert_int_equal(pd_resolve(s, ref, &ours, NULL), PD_OK);
  assert_int_equal(pd_resolve(s, other, &theirs, NULL), PD_OK);
  pd_change_in change = {
    .key = pd_text("merged"), .value = pd_text(other), .value_id = pd_value_id(pd_text(other)), .expect_version = PD_ANY_VERSION};
  pd_note note = {.author = "merger"};
  pd_intent intent = {
    .kind = PD_RECORD_COMMIT, .ref = ref, .note = &note, .changes = &change, .change_count = 1, .merged = &theirs, .merged_count = 1};
  assert_int_equal(pd_write(s, &intent, NULL, NULL), PD_OK);
}

static void batch(pd_store *s, const pd_note *note)
{
  pd_edit *edit;
  pd_buf value = {0};
  assert_int_equal(pd_edit_begin(s, note, &edit, NULL), PD_OK);
  for (uint64_t n = pick(6); n; n--) {
    char key[32];
    snprintf(key, sizeof key, "key-%u", (unsigned)pick(KEYS));
    if (pick(4))
      assert_int_equal(pd_edit_put(edit, pd_text(key), pick_value(&value), PD_ANY_VERSION, NULL), PD_OK);
    else
      assert_int_equal(pd_edit_delete(edit, pd_text(key), PD_ANY_VERSION, NULL), PD_OK);
  }
  assert_int_equal(pd_edit_commit(edit, NULL, NULL), PD_OK);
  pd_buf_done(&value);
}

static void rewind_ref(pd_store *s, const char *ref, names *n)
{
  pd_note note = {.ref = ref};
  char other[PD_REF_SIZE_MAX + 1];
  strcpy(other, ref);
  switch (pick(4)) {
  case 0: (void)!pd_undo(s, 1 + pick(3), &note, NULL, NULL); break;
  case 1: (void)!pd_redo(s, 1, &note, NULL, NULL); break;
  case 2: assert_int_equal(pd_reset(s, other, pick_ref(s, n), NULL, NULL, NULL), PD_OK); break;
  default:
    if (strcmp(ref, "main") != 0) assert_int_equal(pd_ref_delete(s, other, NULL, NULL), PD_OK);
  }
}

static void step(pd_store *s, bool forward_only)
{
  static unsigned serial;
  names n;
  char ref[PD_REF_SIZE_MAX + 1], key[32], name[32];
  pd_buf value = {0};
  strcpy(ref, pick_ref(s, &n));
  pd_note note = {.ref = ref, .author = "ada", .run = "run", .reason = pick(2) ? "why" : NULL};
  snprintf(key, sizeof key, "key-%u", (unsigned)pick(KEYS));
  switch (pick(12)) {
  case 0:
    snprintf(name, sizeof name, "ref-%u", ++serial);
    if (n.count < 8) assert_int_equal(pd_fork(s, name, ref, NULL, NULL, NULL), PD_OK);
    break;
  case 1: merge(s, ref, pick_ref(s, &n)); break;
  case 2: batch(s, &note); break;
  case 3: (void)!pd_delete(s, pd_text(key), PD_ANY_VERSION, &note, NULL, NULL); break;
  case 4:
    if (!forward_only) rewind_ref(s, ref, &n);
    break;
  case 5: assert_int_equal(pd_tag_set(s, key, ref, true, NULL, NULL, NULL), PD_OK); break;
  case 6:
    if (!pick(6)) assert_int_equal(pd_store_keyframe(s, NULL), PD_OK);
    break;
  default: assert_int_equal(pd_put(s, pd_text(key), pick_value(&value), &note, NULL, NULL), PD_OK);
  }
  pd_buf_done(&value);
}

static void live(pd_store *s, uint64_t seed, unsigned steps, bool forward_only)
{
  state = seed;
  pd_buf value = {0};
  assert_int_equal(pd_put(s, pd_text("begin"), pick_value(&value), NULL, NULL, NULL), PD_OK);
  for (unsigned i = 0; i < steps; i++) step(s, forward_only);
  assert_int_equal(pd_put(s, pd_text("end"), pick_value(&value), NULL, NULL, NULL), PD_OK);
  pd_buf_done(&value);
}

void world_live(pd_store *s, uint64_t seed, unsigned steps)
{
  live(s, seed, steps, false);
}

void world_live_on(pd_store *s, uint64_t seed, unsigned steps)
{
  live(s, seed, steps, true);
}

/* ---- comparing ---- */

typedef struct history {
  pd_entry entries[512];
  pd_id commits[512];
  size_t count;
} history;

static bool take_version(void *ctx, const pd_version_info *info)
{
  history *h = ctx;
  assert_true(h->count < 512);
  h->entries[h->count] = info->entry;
  h->commits[h->count++] = info->commit;
  assert_non_null(info->author);
  return true;
}

static bool has_own_numbers;

static void same_history(pd_store *a, pd_store *b, const char *at, pd_bytes key)
{
  static history one, two;
  one.count = two.count = 0;
  assert_int_equal(pd_history(a, at, key, 0, take_version, &one, NULL), PD_OK);
  assert_int_equal(pd_history(b, at, key, 0, take_version, &two, NULL), PD_OK);
  assert_int_equal(one.count, two.count);
  for (size_t i = 0; i < one.count; i++) {
    if (!has_own_numbers) assert_int_equal(one.entries[i].version, two.entries[i].version);
    assert_int_equal(one.entries[i].updated_ms, two.entries[i].updated_ms);
    assert_true(pd_id_equal(&one.entries[i].value_id, &two.entries[i].value_id));
    assert_true(pd_id_equal(&one.commits[i], &two.commits[i]));
  }
}

static void same_entry(const pd_entry *x, const pd_entry *y)
{
  assert_true(pd_bytes_equal(x->key, y->key));
  assert_true(pd_id_equal(&x->value_id, &y->value_id));
  if (!has_own_numbers) assert_int_equal(x->version, y->version);
  assert_int_equal(x->size, y->size);
  assert_int_equal(x->created_ms, y->created_ms);
  assert_int_equal(x->updated_ms, y->updated_ms);
}

/* The same bytes, or erased on both sides. */
static void same_value(pd_store *a, pd_store *b, const char *at, pd_bytes key)
{
  pd_buf v = {0}, w = {0};
  pd_error here, there;
  pd_code one = pd_get(a, at, key, &v, NULL, &here), two = pd_get(b, at, key, &w, NULL, &there);
  if (one != two || (one && one != PD_ERASED)) fail_msg("%s and %s", one ? here.message : "fine", two ? there.message : "fine");
  if (!one) assert_true(pd_bytes_equal(pd_buf_bytes(&v), pd_buf_bytes(&w)));
  if (one) assert_string_equal(here.message, there.message); /* by whom and when */
  pd_buf_done(&v);
  pd_buf_done(&w);
}

static void same_keys(pd_store *a, pd_store *b, const char *at, bool with_versions)
{
  pd_iter *one, *two;
  pd_entry x, y;
  pd_scan keys = {.keys_only = true};
  assert_int_equal(pd_iter_open(a, at, &keys, &one, NULL), PD_OK);
  assert_int_equal(pd_iter_open(b, at, &keys, &two, NULL), PD_OK);
  pd_code code;
  while (!(code = pd_iter_next(one, &x, NULL, NULL))) {
    assert_int_equal(pd_iter_next(two, &y, NULL, NULL), PD_OK);
    if (with_versions) same_entry(&x, &y);
    assert_true(pd_bytes_equal(x.key, y.key));
    same_value(a, b, at, x.key);
  }
  assert_int_equal(code, PD_NOT_FOUND);
  assert_int_equal(pd_iter_next(two, &y, NULL, NULL), PD_NOT_FOUND);
  pd_iter_close(one);
  pd_iter_close(two);
}

typedef struct ids {
  pd_id *list;
  size_t count, capacity;
} ids;

static bool take_commit(void *ctx, const pd_record *record)
{
  ids *all = ctx;
  if (record->kind != PD_RECORD_COMMIT || strcmp(record->ref, PD_META_REF) == 0) return true;
  if (all->count == all->capacity) all->list = realloc(all->list, (all->capacity = all->capacity * 2 + 64) * sizeof *all->list);
  all->list[all->count++] = record->commit.id;
  return true;
}

void world_subset(pd_store *part, pd_store *whole)
{
  ids all = {0};
  pd_commit commit;
  char hex[PD_ID_HEX_SIZE];
  assert_int_equal(pd_log(part, &(pd_log_query){.whole_store = true}, take_commit, &all, NULL), PD_OK);
  for (size_t i = 0; i < all.count; i++) {
    pd_error err;
    if (pd_resolve(whole, pd_id_hex(&all.list[i], hex), &commit, &err)) fail_msg("%s", err.message);
    same_keys(part, whole, hex, false);
  }
  free(all.list);
}

static bool find_tag(void *ctx, const char *name, pd_bytes value, const pd_entry *entry)
{
  (void)value, (void)entry; /* what was here before wins */
  assert_int_equal(pd_meta_get(ctx, "tag", name, NULL, NULL, NULL), PD_OK);
  return true;
}

static void same_tags(pd_store *a, pd_store *b)
{
  assert_int_equal(pd_meta_list(a, "tag", find_tag, b, NULL), PD_OK);
  assert_int_equal(pd_meta_list(b, "tag", find_tag, a, NULL), PD_OK);
}

void world_same(pd_store *a, pd_store *b)
{
  names refs = {0}, others = {0};
  assert_int_equal(pd_ref_list(a, take_ref, &refs, NULL), PD_OK);
  assert_int_equal(pd_ref_list(b, take_ref, &others, NULL), PD_OK);
  assert_int_equal(refs.count, others.count);
  for (size_t i = 0; i < refs.count; i++) {
    pd_ref x, y;
    assert_int_equal(pd_ref_get(a, refs.list[i], &x, NULL), PD_OK);
    if (pd_ref_get(b, refs.list[i], &y, NULL)) fail_msg("ref %s is missing", refs.list[i]);
    assert_true(pd_id_equal(&x.commit.id, &y.commit.id));
    same_keys(a, b, refs.list[i], true);
    for (unsigned k = 0; k < KEYS; k++) {
      char key[32];
      bool has;
      snprintf(key, sizeof key, "key-%u", k);
      assert_int_equal(pd_has(a, refs.list[i], pd_text(key), &has, NULL), PD_OK);
      if (has) same_history(a, b, refs.list[i], pd_text(key));
    }
  }
  same_tags(a, b);
  world_subset(a, b);
  world_subset(b, a);
}

void world_same_but_numbers(pd_store *a, pd_store *b)
{
  has_own_numbers = true;
  world_same(a, b);
  has_own_numbers = false;
}

static void print_finding(void *ctx, const char *what)
{
  (void)ctx;
  printf("# finding: %s\n", what);
}

void world_sound(pd_store *s)
{
  pd_verify_options options = {.finding = print_finding};
  pd_error err;
  if (pd_store_keyframe(s, &err)) fail_msg("keyframe: %s", err.message);
  if (pd_verify(s, &options, NULL, &err)) fail_msg("verify: %s", err.message);
}

/* ---- bundles ---- */

int world_file(const uint8_t *bytes, size_t size)
{
  int fd = memfd_create("bundle", MFD_CLOEXEC);
  assert_true(fd >= 0);
  if (size) assert_int_equal(write(fd, bytes, size), (ssize_t)size);
  return fd;
}

int open_null(void)
{
  return open("/dev/null", O_WRONLY | O_CLOEXEC);
}

int world_export(pd_store *s, const pd_export_options *options, pd_export_report *out)
{
  int fd = world_file(NULL, 0);
  pd_error err;
  if (pd_export(s, fd, options, out, &err)) fail_msg("export: %s", err.message);
  return fd;
}

void world_import(pd_store *s, int fd, const pd_import_options *options, pd_import_report *out)
{
  pd_error err;
  if (pd_import(s, fd, options, out, &err)) fail_msg("import: %s", err.message);
}

void world_bytes(pd_store *s, const pd_export_options *options, pd_buf *out)
{
  int fd = world_export(s, options, NULL);
  off_t size = lseek(fd, 0, SEEK_END);
  pd_buf_clear(out);
  assert_int_equal(pd_buf_reserve(out, (size_t)size, NULL), PD_OK);
  assert_int_equal(pread(fd, out->data, (size_t)size, 0), size);
  out->size = (size_t)size;
  close(fd);
}
