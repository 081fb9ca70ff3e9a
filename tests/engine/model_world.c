/* model_world.c: see model_world.h. */
#include "engine/model_world.h"

#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define KEY_TEXT_MAX 1100

/* Shared with the store's own threads, which may ask for the time while a round is under way. */
static _Atomic int64_t clock_ms = 1700000000000;

static int64_t read_clock(void *ctx)
{
  (void)ctx;
  return atomic_load(&clock_ms);
}

int64_t world_now_ms(void)
{
  return atomic_load(&clock_ms);
}

void world_tick(void)
{
  atomic_fetch_add(&clock_ms, 10);
}

void world_disagree(world *w, const char *fmt, ...)
{
  char what[1024];
  va_list args;
  va_start(args, fmt);
  vsnprintf(what, sizeof what, fmt, args);
  va_end(args);
  print_error("%s, operation %llu (%s), handle %d: %s\n", w->uri, (unsigned long long)w->op, w->doing, w->current, what);
  print_error("replay: PERDURE_SEED=%llu\n", (unsigned long long)w->seed);
  fail();
  abort();
}

void world_expect(world *w, pd_code code, pd_code expected, const pd_error *err)
{
  if (code == expected) return;
  world_disagree(w, "answered %s (%s), expected %s", pd_code_name(code), code == PD_OK ? "" : err->message, pd_code_name(expected));
}

uint64_t world_random(world *w, uint64_t below)
{
  uint64_t x = w->random += 0x9E3779B97F4A7C15u; /* splitmix64 */
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  x ^= x >> 31;
  return below ? x % below : x;
}

bool world_chance(world *w, unsigned percent)
{
  return world_random(w, 100) < percent;
}

static int compare_keys(const void *a, const void *b)
{
  return pd_bytes_compare(*(const pd_bytes *)a, *(const pd_bytes *)b);
}

/* Keys of several shapes: shared prefixes of all lengths, one a prefix of the other, non-ASCII, the longest allowed. */
static void make_keys(world *w)
{
  static const char *const shapes[] = {"k%zu", "user/%zu", "user/%zu/name", "user/%zu/name/first", "\xC3\xBC/%zu", "\xF0\x9F\x90\x84%zu"};
  w->keys = calloc(w->key_count, sizeof *w->keys);
  for (size_t i = 0; i < w->key_count; i++) {
    char text[KEY_TEXT_MAX];
    int size = snprintf(text, sizeof text, shapes[i % 6], i / 4);
    if (i % 29 == 7) {
      memset(text + size, 'x', sizeof text - (size_t)size);
      size = i % 2 ? PD_KEY_SIZE_MAX : 300;
    }
    char *copy = malloc((size_t)size);
    memcpy(copy, text, (size_t)size);
    w->keys[i] = (pd_bytes){copy, (size_t)size};
  }
  qsort(w->keys, w->key_count, sizeof *w->keys, compare_keys);
  for (size_t i = 1; i < w->key_count; i++) assert_true(pd_bytes_compare(w->keys[i - 1], w->keys[i]) < 0);
}

void world_handle_open(world *w, int index)
{
  pd_options options = {.flush_ms = w->flush_ms, .now_ms = read_clock, .cache_size_max = index ? 256 * 1024 : 0};
  pd_error err = {0};
  world_expect(w, pd_store_open(w->uri, "model", &options, &w->handles[index], &err), PD_OK, &err);
}

static bool note_seq(void *ctx, const pd_record *record)
{
  *(uint64_t *)ctx = record->seq;
  return false;
}

void world_open(world *w, const char *uri, uint32_t flush_ms, size_t key_count, uint64_t seed)
{
  *w = (world){.uri = uri, .flush_ms = flush_ms, .key_count = key_count, .seed = seed, .random = seed, .doing = "open"};
  w->can_close_all = strncmp(uri, "memory:", 7) != 0;
  make_keys(w);
  for (int i = 0; i < WORLD_HANDLES; i++) world_handle_open(w, i);
  pd_error err = {0};
  pd_commit root;
  world_expect(w, pd_resolve(w->handles[0], "root", &root, &err), PD_OK, &err);
  model_init(&w->model, key_count, &root);
  pd_log_query newest = {.whole_store = true, .limit = 1};
  world_expect(w, pd_log(w->handles[0], &newest, note_seq, &w->model.base_seq, &err), PD_OK, &err);
}

void world_close(world *w)
{
  for (int i = 0; i < WORLD_HANDLES; i++) {
    pd_error err = {0};
    pd_store *store = w->handles[i];
    w->handles[i] = NULL;
    world_expect(w, pd_store_close(store, &err), PD_OK, &err);
  }
  model_done(&w->model);
  for (size_t i = 0; i < w->key_count; i++) free((void *)w->keys[i].data);
  free(w->keys);
  pd_buf_done(&w->expected);
}

pd_store *world_handle(world *w)
{
  int next = (int)world_random(w, WORLD_HANDLES);
  if (w->flush_ms && next != w->current) {
    pd_error err = {0};
    world_expect(w, pd_store_flush(w->handles[w->current], &err), PD_OK, &err);
  }
  w->current = next;
  return w->handles[next];
}

const char *world_ref_name(int ref)
{
  static const char *const names[MODEL_REFS] = {"main", "x", "try/1", "try/2", "thread:7", "A.b-c_d", "0", "zz"};
  return names[ref];
}

/* Mostly small, some large enough for the bag, some of these in pieces, a few empty. */
static size_t value_size(uint32_t value)
{
  uint32_t h = value * 2654435761u >> 16;
  if (value == 0) return 0;
  if (h % 500 == 1) return 20000 + h % 65000 + h % 2 * 40000; /* half of them in pieces */
  if (h % 40 == 1) return 500 + h % 6000;
  return 8 + h % 90;
}

pd_bytes world_value(world *w, uint32_t value)
{
  pd_buf_clear(&w->expected);
  size_t size = value_size(value);
  assert_int_equal(pd_buf_reserve(&w->expected, size + 32, NULL), PD_OK);
  for (size_t i = 0; i < size; i++) w->expected.data[i] = (uint8_t)(value * 31 + i * (value | 1));
  w->expected.size = size;
  if (size >= 8) memcpy(w->expected.data, &(uint64_t){value}, 8); /* no two values are alike */
  return pd_buf_bytes(&w->expected);
}

uint32_t world_value_pick(world *w)
{
  if (world_chance(w, 12)) return (uint32_t)world_random(w, w->value_count + 1);
  return ++w->value_count;
}

size_t world_key_pick(world *w)
{
  if (world_chance(w, 50)) return world_random(w, w->key_count < 16 ? w->key_count : w->key_count / 8);
  return world_random(w, w->key_count);
}

int world_ref_pick(world *w)
{
  return world_chance(w, 50) ? 0 : (int)world_random(w, MODEL_REFS);
}

static void point_ref(world *w, world_point *p)
{
  int ref = world_ref_pick(w);
  const model_ref *r = &w->model.refs[ref];
  snprintf(p->text, sizeof p->text, "%s", world_ref_name(ref));
  p->commit = r->head;
  p->code = r->exists ? PD_OK : PD_NOT_FOUND;
}

static void point_id(world *w, world_point *p)
{
  p->commit = (uint32_t)world_random(w, w->model.commit_count);
  pd_id_hex(&w->model.commits[p->commit].id, p->text);
  if (world_chance(w, 50)) return;
  p->text[world_chance(w, 50) ? 16 : 4 + world_random(w, 3)] = 0; /* of 4 to 6 digits some will fit several commits */
  if (model_find_short(&w->model, p->text, &p->commit) > 1) p->code = PD_AMBIGUOUS;
}

static void point_record(world *w, world_point *p)
{
  if (!w->model.record_count) return point_ref(w, p);
  const model_record *r = &w->model.records[world_random(w, w->model.record_count)];
  if (r->kind != PD_RECORD_COMMIT) return point_ref(w, p);
  snprintf(p->text, sizeof p->text, "#%llu", (unsigned long long)r->seq);
  p->commit = r->commit;
}

static void point_time(world *w, world_point *p)
{
  int ref = world_ref_pick(w);
  if (!w->model.refs[ref].exists || !w->model.record_count) return point_ref(w, p);
  const model_record *r = &w->model.records[world_random(w, w->model.record_count)];
  int64_t time_ms = r->time_ms + (int64_t)world_random(w, 10);
  p->commit = model_ref_at(&w->model, ref, time_ms);
  if (p->commit == MODEL_NONE) return point_ref(w, p);
  snprintf(p->text, sizeof p->text, "%s@%lld", ref == 0 && world_chance(w, 30) ? "" : world_ref_name(ref), (long long)time_ms);
}

static void point_back(world *w, world_point *p)
{
  if (p->code != PD_OK || strchr(p->text, '@')) return;
  size_t depth = model_depth(&w->model, p->commit);
  uint64_t count = world_chance(w, 70) ? world_random(w, 5) : world_random(w, depth + 3);
  size_t size = strlen(p->text);
  if (count == 1 && world_chance(w, 50))
    snprintf(p->text + size, sizeof p->text - size, "~");
  else
    snprintf(p->text + size, sizeof p->text - size, "~%llu", (unsigned long long)count);
  p->commit = model_back(&w->model, p->commit, count);
  if (p->commit == MODEL_NONE) p->code = PD_NOT_FOUND;
}

void world_point_pick(world *w, world_point *out)
{
  *out = (world_point){.code = PD_OK, .commit = MODEL_NONE, .at = out->text};
  unsigned shape = (unsigned)world_random(w, 100);
  if (shape < 30) {
    out->at = shape < 15 ? NULL : out->text;
    out->commit = w->model.refs[0].head;
    return;
  }
  if (shape < 50)
    point_ref(w, out);
  else if (shape < 75)
    point_id(w, out);
  else if (shape < 85)
    point_record(w, out);
  else if (shape < 95)
    point_time(w, out);
  else {
    snprintf(out->text, sizeof out->text, "root");
    out->commit = MODEL_ROOT;
  }
  if (!out->text[0]) point_ref(w, out);
  if (world_chance(w, 30)) point_back(w, out);
}

void world_check_entry(world *w, const pd_entry *entry, size_t key, const model_entry *expected)
{
  if (!pd_bytes_equal(entry->key, w->keys[key])) world_disagree(w, "the entry has another key");
  if (entry->version != expected->version)
    world_disagree(w, "version %llu, expected %u", (unsigned long long)entry->version, expected->version);
  if (entry->seq != expected->seq)
    world_disagree(w, "record %llu, expected %llu", (unsigned long long)entry->seq, (unsigned long long)expected->seq);
  world_require(w, entry->created_ms == expected->created_ms);
  world_require(w, entry->updated_ms == expected->updated_ms);
  pd_bytes value = world_value(w, expected->value);
  world_require(w, entry->size == value.size);
  pd_id id = pd_value_id(value);
  world_require(w, pd_id_equal(&id, &entry->value_id));
}

void world_check_value(world *w, pd_bytes value, const model_entry *expected)
{
  if (!pd_bytes_equal(value, world_value(w, expected->value))) world_disagree(w, "another value than number %u", expected->value);
}
