/*
 * part_test.c: an append loads the part of the state that its patches need (src/thread/part.h). Two stores get the same change sets: in one
 * the handle has the whole state in memory, in the other a new handle is opened for each append and loads a part. Commits, states and
 * refusals are the same. Costs are counted in keys that are read, not in time.
 */
#include "base/doc.h"
#include "support/temp_folder.h"
#include "thread/part.h"
#include "thread/random_change.h"
#include "thread/run_context.h"
#include "thread/thread.h"
#include "thread/thread_world.h"

#include <perdure/run.h>

#include <sys/wait.h>
#include <unistd.h>

#define TRIALS 1500
#define STEPS 8

static int64_t fixed_now(void *ctx)
{
  (void)ctx;
  return 5000;
}

typedef struct pair {
  thread_world whole, part;
  uint64_t parts, wholes, refused; /* appends of the second store */
} pair;

static void open_one(thread_world *w)
{
  *w = (thread_world){0};
  world_need(w, pd_store_open("memory:", "main", &(pd_options){.now_ms = fixed_now}, &w->store, &w->err));
}

static void pair_open(pair *p)
{
  *p = (pair){0};
  open_one(&p->whole);
  open_one(&p->part);
}

static void pair_close(pair *p)
{
  world_close(&p->whole);
  world_close(&p->part);
}

static void pair_create(pair *p, const char *id, pd_bytes state)
{
  pd_thread_options o = {.id = id, .state = state, .time_ms = 1000};
  pd_thread_close(p->whole.t);
  p->whole.t = NULL;
  world_need(&p->whole, pd_thread_create(p->whole.store, &o, &p->whole.t, &p->whole.err));
  world_need(&p->part, pd_thread_create(p->part.store, &o, NULL, &p->part.err));
}

static int printed(pd_bytes text)
{
  return (int)(text.size < 1000 ? text.size : 1000);
}

/* Append to both; what they say is the same. Returns whether it was taken. */
static bool pair_append(pair *p, const char *id, pd_bytes patches)
{
  pd_changeset set = world_set(NULL, NULL);
  pd_thread *t = NULL;
  pd_thread_ack a, b;
  set.patches = patches;
  world_state_of(&p->whole, p->whole.t, PD_VERSION_HEAD, NULL); /* the handle has it in memory now */
  p->whole.err = p->part.err = (pd_error){0};
  pd_code whole = pd_thread_append(p->whole.t, &set, PD_ANY_VERSION, &a, &p->whole.err);
  world_need(&p->part, pd_thread_open(p->part.store, id, &t, &p->part.err));
  assert_null(t->doc);
  pd_code part = pd_thread_append(t, &set, PD_ANY_VERSION, &b, &p->part.err);
  if (whole != part || strcmp(p->whole.err.message, p->part.err.message) != 0 ||
      strcmp(pd_error_name(&p->whole.err), pd_error_name(&p->part.err)) != 0)
    fail_msg("whole: %d %s, part: %d %s: %.*s", whole, p->whole.err.message, part, p->part.err.message, printed(patches),
             (const char *)patches.data);
  if (!whole && !pd_id_equal(&a.commit, &b.commit)) fail_msg("the commits differ: %.*s", printed(patches), (const char *)patches.data);
  *(part ? &p->refused : t->doc ? &p->wholes : &p->parts) += 1;
  pd_thread_close(t);
  return !part;
}

static void assert_same_state(pair *p, const char *id)
{
  pd_thread *t = NULL;
  world_need(&p->part, pd_thread_open(p->part.store, id, &t, &p->part.err));
  assert_string_equal(world_state_of(&p->whole, p->whole.t, PD_VERSION_HEAD, NULL), world_state_of(&p->part, t, PD_VERSION_HEAD, NULL));
  pd_thread_close(t);
}

/* ---- by hand ---- */

#define LONG_NAME                                                                                                                          \
  "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn" \
  "nnnnnnnnnn"                                                                                                                             \
  "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn" \
  "nnnnnn"

static const char *const state_by_hand =
  "{\"a\":{\"b\":{\"c\":1,\"d\":2},\"only\":{\"one\":{\"deep\":1}}},\"a-b\":1,\"a!\":2,\"empty\":{},\"list\":[1,[2,3],{\"x\":1}],\"none\":["
  "],"
  "\"n\":5,\"s\":\"text\",\"~\":1,\"a/b\":{\"#0\":1,\"#\":2},\"0\":{\"1\":true,\"-\":2},\"\":{\"\":1},\"" LONG_NAME
  "\":{\"x\":[1,2],\"y\":1},\"" LONG_NAME
  "2\":1,\"cnt\":{\"$counter\":{\"r1\":3}},\"set\":{\"$set\":{\"1\":true}},\"flag\":false,\"max\":3}";

static const char *const good[] = {
  "[{\"op\":\"set\",\"path\":[\"a\",\"b\",\"c\"],\"value\":9}]",
  "[{\"op\":\"set\",\"path\":\"/a/b\",\"value\":{}},{\"op\":\"set\",\"path\":\"/a/b/z\",\"value\":1}]",
  "[{\"op\":\"delete\",\"path\":\"/a/b/c\"},{\"op\":\"delete\",\"path\":\"/a/b/d\"}]",
  "[{\"op\":\"delete\",\"path\":\"/a/only/one/deep\"}]",
  "[{\"op\":\"delete\",\"path\":\"/a/only/one\"},{\"op\":\"set\",\"path\":\"/a/only/two/x\",\"value\":[]}]",
  "[{\"op\":\"delete\",\"path\":\"/a/only\"},{\"op\":\"delete\",\"path\":\"/a/b\"}]",
  "[{\"op\":\"delete\",\"path\":\"/a\"},{\"op\":\"set\",\"path\":\"/a/b/c\",\"value\":1}]",
  "[{\"op\":\"delete\",\"path\":\"/not/there\"}]",
  "[{\"op\":\"delete\",\"path\":\"\"}]",
  "[{\"op\":\"set\",\"path\":\"/new/0/x\",\"value\":1}]",
  "[{\"op\":\"set\",\"path\":[\"new\",0,\"x\"],\"value\":1}]",
  "[{\"op\":\"set\",\"path\":\"/new/-\",\"value\":1}]",
  "[{\"op\":\"set\",\"path\":\"/empty/x/y\",\"value\":1}]",
  "[{\"op\":\"append\",\"path\":\"/list\",\"value\":4},{\"op\":\"insert\",\"path\":\"/list\",\"index\":0,\"value\":{}}]",
  "[{\"op\":\"set\",\"path\":\"/list/1/0\",\"value\":9},{\"op\":\"set\",\"path\":\"/list/2/y\",\"value\":1}]",
  "[{\"op\":\"remove\",\"path\":\"/list\",\"value\":[2,3]},{\"op\":\"remove\",\"path\":\"/list\",\"index\":0}]",
  "[{\"op\":\"append\",\"path\":\"/none\",\"value\":1},{\"op\":\"append\",\"path\":\"/fresh\",\"value\":1}]",
  "[{\"op\":\"set\",\"path\":\"/list/-\",\"value\":1},{\"op\":\"set\",\"path\":\"/0/-\",\"value\":1},{\"op\":\"set\",\"path\":\"/0/"
  "1\",\"value\":1}]",
  "[{\"op\":\"merge_object\",\"path\":\"\",\"value\":{\"n\":1,\"m\":{\"x\":1}}}]",
  "[{\"op\":\"merge_object\",\"path\":\"/a\",\"value\":{}},{\"op\":\"merge_object\",\"path\":\"/a\",\"value\":{\"b\":1}}]",
  "[{\"op\":\"merge_object\",\"path\":\"/gone\",\"value\":{}},{\"op\":\"merge_object\",\"path\":\"/empty\",\"value\":{\"x\":{}}}]",
  "[{\"op\":\"merge_object\",\"path\":\"/a\",\"value\":{\"only\":[]}},{\"op\":\"append\",\"path\":\"/a/only\",\"value\":1}]",
  "[{\"op\":\"increment\",\"path\":\"/n\",\"by\":2},{\"op\":\"decrement\",\"path\":\"/other\",\"by\":1}]",
  "[{\"op\":\"set\",\"path\":\"/~0\",\"value\":2},{\"op\":\"delete\",\"path\":\"/a~1b/#0\"}]",
  "[{\"op\":\"delete\",\"path\":\"/a~1b/#0\"},{\"op\":\"delete\",\"path\":\"/a~1b/#\"}]",
  "[{\"op\":\"set\",\"path\":[\"\",\"\"],\"value\":2},{\"op\":\"delete\",\"path\":\"/a!\"},{\"op\":\"delete\",\"path\":\"/a-b\"}]",
  "[{\"op\":\"set\",\"path\":[\"" LONG_NAME "\",\"x\",0],\"value\":7},{\"op\":\"set\",\"path\":[\"" LONG_NAME
  "\",\"z\",\"w\"],\"value\":7}]",
  "[{\"op\":\"delete\",\"path\":[\"" LONG_NAME "\"]},{\"op\":\"set\",\"path\":[\"" LONG_NAME "3\"],\"value\":[]}]",
  "[{\"op\":\"lattice_merge\",\"path\":\"/cnt\",\"lattice\":\"counter\",\"value\":{\"r1\":4,\"r2\":1}}]",
  "[{\"op\":\"lattice_merge\",\"path\":\"/set\",\"lattice\":\"set\",\"value\":[1,2]},{\"op\":\"lattice_merge\",\"path\":\"/new/"
  "set\",\"lattice\":\"or_set\",\"value\":[{\"item\":1,\"tag\":\"t\"}]}]",
  "[{\"op\":\"lattice_merge\",\"path\":\"/flag\",\"lattice\":\"flag\",\"value\":true},{\"op\":\"lattice_merge\",\"path\":\"/"
  "max\",\"lattice\":\"max\",\"value\":2}]",
};

static const char *const bad[] = {
  "[{\"op\":\"set\",\"path\":[\"a\",0],\"value\":1}]",
  "[{\"op\":\"set\",\"path\":[\"a\",\"b\",\"c\"],\"value\":1},{\"op\":\"set\",\"path\":[\"a\",\"b\",1],\"value\":1}]",
  "[{\"op\":\"set\",\"path\":\"/n/x\",\"value\":1}]",
  "[{\"op\":\"set\",\"path\":\"/list/x\",\"value\":1}]",
  "[{\"op\":\"set\",\"path\":\"/list/7\",\"value\":1}]",
  "[{\"op\":\"append\",\"path\":\"/a\",\"value\":1}]",
  "[{\"op\":\"insert\",\"path\":\"/list\",\"index\":9,\"value\":1}]",
  "[{\"op\":\"insert\",\"path\":\"/gone\",\"index\":0,\"value\":1}]",
  "[{\"op\":\"remove\",\"path\":\"/list\",\"index\":3}]",
  "[{\"op\":\"merge_object\",\"path\":\"/list\",\"value\":{\"x\":1}}]",
  "[{\"op\":\"merge_object\",\"path\":\"/n\",\"value\":{}}]",
  "[{\"op\":\"increment\",\"path\":\"/a\",\"by\":1}]",
  "[{\"op\":\"increment\",\"path\":\"/s\",\"by\":1}]",
  "[{\"op\":\"set\",\"path\":\"\",\"value\":[]}]",
  "[{\"op\":\"set\",\"path\":\"/n\",\"value\":1},{\"op\":\"increment\",\"path\":\"/a\",\"by\":1}]",
  "[{\"op\":\"lattice_merge\",\"path\":\"/a\",\"lattice\":\"counter\",\"value\":{\"r\":1}}]",
  "[{\"op\":\"lattice_merge\",\"path\":\"/max\",\"lattice\":\"max\",\"value\":\"text\"}]",
};

static void part__each_op_gives_the_commit_that_the_whole_state_gives(void **state)
{
  pair p;
  char id[16];
  (void)state;
  pair_open(&p);
  for (size_t i = 0; i < COUNT_OF(good); i++) {
    snprintf(id, sizeof id, "g%zu", i);
    pair_create(&p, id, pd_text(state_by_hand));
    if (!pair_append(&p, id, pd_text(good[i]))) fail_msg("%s: %s", good[i], p.part.err.message);
    assert_same_state(&p, id);
  }
  assert_int_equal(p.wholes, 1); /* the one that deletes the root */
  pair_close(&p);
}

static void part__what_is_refused_is_refused_with_the_same_words(void **state)
{
  pair p;
  (void)state;
  pair_open(&p);
  pair_create(&p, "t", pd_text(state_by_hand));
  for (size_t i = 0; i < COUNT_OF(bad); i++)
    if (pair_append(&p, "t", pd_text(bad[i]))) fail_msg("taken: %s", bad[i]);
  assert_same_state(&p, "t");
  pair_close(&p);
}

/* ---- by chance ---- */

static const char *const lattices[] = {
  "[{\"op\":\"lattice_merge\",\"path\":\"/lat/c\",\"lattice\":\"counter\",\"value\":{\"r1\":%d}}]",
  "[{\"op\":\"lattice_merge\",\"path\":\"/lat/s\",\"lattice\":\"set\",\"value\":[%d]}]",
  "[{\"op\":\"lattice_merge\",\"path\":\"/a/m\",\"lattice\":\"max\",\"value\":%d}]",
  "[{\"op\":\"delete\",\"path\":\"/lat/c\"},{\"op\":\"set\",\"path\":\"/map/%d\",\"value\":{}}]",
  "[{\"op\":\"set\",\"path\":\"/map/%d/x\",\"value\":[[]]}]",
  "[{\"op\":\"delete\",\"path\":\"/map/%d\"},{\"op\":\"delete\",\"path\":\"/map\"}]",
};

static void random_step(pair *p, random_source *r, const char *id, pd_buf *patches)
{
  random_patches(r, patches);
  if (random_below(r, 4) == 0) {
    pd_buf_clear(patches);
    world_need(&p->part, pd_buf_printf(patches, &p->part.err, lattices[random_below(r, COUNT_OF(lattices))], (int)random_below(r, 4)));
  }
  pair_append(p, id, pd_buf_bytes(patches));
}

static void part__random_patches_give_the_same_commits_states_and_refusals(void **state)
{
  pair p;
  random_source r = random_from(20261118);
  pd_buf patches = {0}, before = {0};
  char id[16];
  (void)state;
  pair_open(&p);
  for (int i = 0; i < TRIALS; i++) {
    snprintf(id, sizeof id, "r%d", i);
    pd_buf_clear(&before);
    random_add(&before, "{\"a\":");
    random_value(&r, 4, &before);
    random_add(&before, ",\"map\":");
    random_value(&r, 4, &before);
    random_add(&before, ",\"z\":{\"y\":1}}");
    pair_create(&p, id, pd_buf_bytes(&before));
    for (int k = 0; k < STEPS; k++) random_step(&p, &r, id, &patches);
    assert_same_state(&p, id);
  }
  printf("# %llu by parts, %llu by the whole, %llu refused\n", (unsigned long long)p.parts, (unsigned long long)p.wholes,
         (unsigned long long)p.refused);
  assert_true(p.parts > 3000 && p.refused > 500);
  assert_true(p.wholes * 20 < p.parts);
  pd_buf_done(&patches);
  pd_buf_done(&before);
  pair_close(&p);
}

/* ---- the limit ---- */

static void append_large(pair *p, const char *name, size_t size, bool is_taken)
{
  pd_buf patches = {0};
  char *text = malloc(size);
  assert_non_null(text);
  memset(text, 'x', size);
  world_need(&p->part, pd_buf_printf(&patches, &p->part.err, "[{\"op\":\"set\",\"path\":\"/%s\",\"value\":\"", name));
  world_need(&p->part, pd_buf_append(&patches, text, size, &p->part.err));
  random_add(&patches, "\"}]");
  assert_int_equal(pair_append(p, "t", pd_buf_bytes(&patches)), is_taken);
  free(text);
  pd_buf_done(&patches);
}

static void part__the_limit_of_a_state_is_the_same(void **state)
{
  pair p;
  (void)state;
  pair_open(&p);
  pair_create(&p, "t", pd_text("{\"n\":1}"));
  append_large(&p, "a", (size_t)15 << 20, true);
  append_large(&p, "b", (size_t)15 << 20, true);
  assert_int_equal(p.wholes, 0);
  append_large(&p, "c", (size_t)15 << 20, true); /* from here on a part leaves too little room */
  append_large(&p, "d", (size_t)15 << 20, true);
  append_large(&p, "e", (size_t)4 << 20, false);
  assert_int_equal(p.part.err.code, PD_LIMIT);
  assert_true(pair_append(&p, "t", pd_text("[{\"op\":\"increment\",\"path\":\"/n\",\"by\":1}]")));
  assert_true(pair_append(&p, "t", pd_text("[{\"op\":\"delete\",\"path\":\"/d\"},{\"op\":\"delete\",\"path\":\"/c\"}]")));
  append_large(&p, "e", (size_t)4 << 20, true);
  pair_close(&p);
}

static void part__the_bound_of_a_state_is_never_below_its_size(void **state)
{
  thread_world w;
  uint64_t bound;
  pd_buf text = {0};
  (void)state;
  world_open(&w);
  /* names that take six bytes for one, empty names, containers in containers */
  random_add(&text, "{");
  for (int i = 1; i < 32; i++) world_need(&w, pd_buf_printf(&text, &w.err, "\"\\u%04x\\u%04x\\u%04x\":{\"\":[{\"\":{}},[[]]]},", i, i, i));
  random_add(&text, "\"last\":\"\\u0001\"}");
  pd_thread_close(w.t);
  world_need(&w, pd_thread_create(w.store, &(pd_thread_options){.id = "x", .state = pd_buf_bytes(&text), .time_ms = 1}, &w.t, &w.err));
  world_append(&w, NULL, "[{\"op\":\"set\",\"path\":\"/z\",\"value\":1}]");
  assert_null(w.t->doc);
  assert_true(pd_state_bound_known(&w.t->commit.tree, &bound));
  world_state(&w);
  assert_true(bound >= w.text.size);
  world_append(&w, "[{\"id\":\"m\"}]", NULL); /* the state is the same, so is what is known of it */
  uint64_t later;
  assert_true(pd_state_bound_known(&w.t->commit.tree, &later));
  assert_int_equal(later, bound);
  pd_buf_done(&text);
  world_close(&w);
}

/* ---- what it costs ---- */

static void make_large(thread_world *w, const char *id, int leaves)
{
  pd_buf text = {0};
  random_add(&text, "{\"items\":{");
  for (int i = 0; i < leaves; i++) world_need(w, pd_buf_printf(&text, &w->err, "%s\"item-%06d\":{\"v\":%d}", i ? "," : "", i, i));
  random_add(&text, "}}");
  world_need(w, pd_thread_create(w->store, &(pd_thread_options){.id = id, .state = pd_buf_bytes(&text), .time_ms = 1000}, NULL, &w->err));
  pd_buf_done(&text);
}

/* Keys that the thread room has read. The linker puts these in front of the engine's own. */
static uint64_t keys_read;

pd_code __real_pd_iter_next(pd_iter *iter, pd_entry *out_entry, pd_bytes *out_value, pd_error *err);
pd_code __wrap_pd_iter_next(pd_iter *iter, pd_entry *out_entry, pd_bytes *out_value, pd_error *err);
pd_code __wrap_pd_iter_next(pd_iter *iter, pd_entry *out_entry, pd_bytes *out_value, pd_error *err)
{
  keys_read++;
  return __real_pd_iter_next(iter, out_entry, out_value, err);
}

pd_code __real_pd_edit_get(pd_edit *edit, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, pd_error *err);
pd_code __wrap_pd_edit_get(pd_edit *edit, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, pd_error *err);
pd_code __wrap_pd_edit_get(pd_edit *edit, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, pd_error *err)
{
  keys_read++;
  return __real_pd_edit_get(edit, key, out_value, out_entry, err);
}

/* Each with a handle of its own, as capabilities do. */
static uint64_t price_of_append(thread_world *w, const char *id, int number)
{
  char patches[160];
  pd_thread *t = NULL;
  uint64_t before = keys_read;
  snprintf(patches, sizeof patches, "[{\"op\":\"set\",\"path\":\"/items/item-000005/v\",\"value\":1%05d}]", number);
  world_need(w, pd_thread_open(w->store, id, &t, &w->err));
  world_append_to(w, t, NULL, patches);
  assert_null(t->doc);
  pd_thread_close(t);
  return keys_read - before;
}

static pd_run_context *attach(thread_world *w, const char *id, pd_thread **out_t)
{
  pd_run_context *run = NULL;
  world_need(w, pd_thread_open(w->store, id, out_t, &w->err));
  world_need(w, pd_run_attach(*out_t, NULL, &run, &w->err));
  return run;
}

static uint64_t price_of_run(thread_world *w, const char *id, int number)
{
  char patches[160];
  pd_thread *t = NULL;
  uint64_t before = keys_read;
  snprintf(patches, sizeof patches, "[{\"op\":\"set\",\"path\":\"/items/item-000007/v\",\"value\":1%05d}]", number);
  pd_run_context *run = attach(w, id, &t);
  world_need(w, pd_run_patch(run, pd_text(patches), &w->err));
  world_need(w, pd_tool_call_begin(run, &(pd_tool_call){.id = "c", .name = "tool"}, &w->err));
  world_need(w, pd_run_checkpoint(run, PD_REASON_USER_MESSAGE, NULL, &w->err));
  pd_run_close(run);
  assert_null(t->doc);
  pd_thread_close(t);
  run = attach(w, id, &t);
  world_need(w, pd_tool_call_patch(run, "c", pd_text(patches), &w->err));
  world_need(w, pd_tool_call_end(run, "c", &(pd_tool_result){.status = PD_TOOL_SUCCEEDED}, &w->err));
  world_need(w, pd_run_checkpoint(run, PD_REASON_TOOL_RESULTS_COMMITTED, NULL, &w->err));
  pd_run_close(run);
  assert_null(t->doc);
  pd_thread_close(t);
  return keys_read - before;
}

static void begin_run(thread_world *w, const char *id)
{
  pd_thread *t = NULL;
  pd_run_context *run = NULL;
  world_need(w, pd_thread_open(w->store, id, &t, &w->err));
  world_need(w, pd_run_begin(t, &(pd_run_options){.run_id = "run"}, &run, &w->err));
  pd_run_close(run);
  pd_thread_close(t);
}

static void part__a_patch_of_10000_leaves_costs_what_one_of_10_does(void **state)
{
  static const char *const ids[] = {"small", "large"};
  uint64_t append[2], run[2];
  thread_world w;
  (void)state;
  world_open(&w);
  make_large(&w, "small", 10);
  make_large(&w, "large", 10000);
  for (int i = 0; i < 2; i++) {
    price_of_append(&w, ids[i], 0); /* the first one counts the leaves */
    append[i] = price_of_append(&w, ids[i], 1);
    begin_run(&w, ids[i]);
    run[i] = price_of_run(&w, ids[i], 2);
  }
  printf("# keys read: an append %llu and %llu, a run's two calls %llu and %llu\n", (unsigned long long)append[0],
         (unsigned long long)append[1], (unsigned long long)run[0], (unsigned long long)run[1]);
  assert_true(append[0] > 0 && run[0] > 0);
  assert_int_equal(append[1], append[0]);
  assert_int_equal(run[1], run[0]);
  world_close(&w);
}

/* An array is loaded whole, but not for each of many appends. */
static void part__a_handle_that_appends_often_has_the_state_in_memory(void **state)
{
  thread_world w;
  pd_thread *t = NULL;
  pd_buf text = {0};
  (void)state;
  world_open(&w);
  random_add(&text, "{\"log\":[0");
  for (int i = 0; i < 2000; i++) random_add(&text, ",1");
  random_add(&text, "]}");
  world_need(&w, pd_thread_create(w.store, &(pd_thread_options){.id = "log", .state = pd_buf_bytes(&text), .time_ms = 1}, &t, &w.err));
  for (int i = 0; i < 10; i++) world_append_to(&w, t, NULL, "[{\"op\":\"append\",\"path\":\"/log\",\"value\":2}]");
  assert_non_null(t->doc);
  uint64_t before = keys_read;
  for (int i = 0; i < 10; i++) world_append_to(&w, t, NULL, "[{\"op\":\"append\",\"path\":\"/log\",\"value\":2}]");
  assert_true(keys_read - before < 200);
  pd_thread_close(t);
  pd_buf_done(&text);
  world_close(&w);
}

/* ---- runs ---- */

/* The same run in both stores: one is asked for its state before each step, so it has the whole of it. */
typedef struct run_pair {
  pair p;
  pd_thread *threads[2];
  pd_run_context *runs[2];
  pd_scopes *scopes;
  uint64_t taken, refused, parts;
} run_pair;

static void reopen_run(run_pair *rp, const char *id, int side, bool is_new)
{
  thread_world *w = side ? &rp->p.part : &rp->p.whole;
  pd_run_options o = {.run_id = "run", .scopes = rp->scopes, .now_ms = fixed_now};
  pd_run_close(rp->runs[side]);
  pd_thread_close(rp->threads[side]);
  rp->runs[side] = NULL;
  rp->threads[side] = NULL;
  world_need(w, pd_thread_open(w->store, id, &rp->threads[side], &w->err));
  world_need(w, is_new ? pd_run_begin(rp->threads[side], &o, &rp->runs[side], &w->err)
                       : pd_run_attach(rp->threads[side], &o, &rp->runs[side], &w->err));
}

static pd_code run_step(pd_run_context *run, uint64_t kind, const char *call, pd_bytes patches, pd_error *err)
{
  switch (kind) {
  case 0:
  case 1:
  case 2: return pd_run_patch(run, patches, err);
  case 3: return pd_tool_call_begin(run, &(pd_tool_call){.id = call, .name = "tool"}, err);
  case 4:
  case 5: return pd_tool_call_patch(run, call, patches, err);
  case 6: return pd_tool_call_end(run, call, &(pd_tool_result){.status = PD_TOOL_SUCCEEDED}, err);
  case 7: return pd_tool_call_suspend(run, call, pd_text("{}"), err);
  case 8: return pd_tool_call_resume(run, call, &(pd_decision){.id = call}, NULL, err);
  default: return pd_run_checkpoint(run, PD_REASON_USER_MESSAGE, NULL, err);
  }
}

static void step_both(run_pair *rp, random_source *r, const char *id, pd_buf *patches)
{
  static const char *const calls[] = {"c1", "c2"};
  pd_error whole = {0}, part = {0};
  uint64_t kind = random_below(r, 11);
  const char *call = calls[random_below(r, 2)];
  random_patches(r, patches);
  if (random_below(r, 8) == 0) {
    pd_buf_clear(patches);
    random_add(patches, random_below(r, 2) ? "[{\"op\":\"set\",\"path\":\"/draft/x\",\"value\":1}]"
                                           : "[{\"op\":\"set\",\"path\":\"/__run/x\",\"value\":1}]");
  }
  world_need(&rp->p.whole, pd_run_state(rp->runs[0], NULL, &rp->p.whole.text, &rp->p.whole.err));
  pd_code a = run_step(rp->runs[0], kind, call, pd_buf_bytes(patches), &whole);
  pd_code b = run_step(rp->runs[1], kind, call, pd_buf_bytes(patches), &part);
  if (a != b || strcmp(whole.message, part.message) != 0 || strcmp(pd_error_name(&whole), pd_error_name(&part)) != 0)
    fail_msg("step %d: whole: %d %s, part: %d %s: %.*s", (int)kind, a, whole.message, b, part.message, printed(pd_buf_bytes(patches)),
             (const char *)patches->data);
  *(a ? &rp->refused : &rp->taken) += 1;
  rp->parts += rp->runs[1]->is_part;
  if (kind > 8 && random_below(r, 2))
    for (int side = 0; side < 2; side++) reopen_run(rp, id, side, false);
}

static void one_run(run_pair *rp, random_source *r, const char *id, pd_buf *text)
{
  pd_thread_info a, b;
  pd_buf_clear(text);
  random_add(text, "{\"a\":");
  random_value(r, 3, text);
  random_add(text, ",\"list\":[1,2],\"z\":{\"y\":1}}");
  pair_create(&rp->p, id, pd_buf_bytes(text));
  for (int side = 0; side < 2; side++) reopen_run(rp, id, side, true);
  for (int k = 0; k < 20; k++) step_both(rp, r, id, text);
  for (int side = 0; side < 2; side++) {
    thread_world *w = side ? &rp->p.part : &rp->p.whole;
    world_need(w, pd_run_finish(rp->runs[side], PD_DONE_CANCELLED, NULL, &w->err));
  }
  world_need(&rp->p.whole, pd_thread_info_get(rp->threads[0], &a, &rp->p.whole.err));
  world_need(&rp->p.part, pd_thread_info_get(rp->threads[1], &b, &rp->p.part.err));
  assert_true(pd_id_equal(&a.commit, &b.commit));
}

static void part__random_runs_give_the_same_commits_and_refusals(void **state)
{
  run_pair rp = {0};
  random_source r = random_from(20261119);
  pd_buf text = {0};
  char id[16];
  (void)state;
  pair_open(&rp.p);
  world_need(&rp.p.part, pd_scopes_new(&rp.scopes, &rp.p.part.err));
  world_need(&rp.p.part, pd_scopes_add(rp.scopes, "/draft", PD_SCOPE_TOOL_CALL, &rp.p.part.err));
  for (int i = 0; i < 200; i++) {
    snprintf(id, sizeof id, "run%d", i);
    one_run(&rp, &r, id, &text);
  }
  printf("# %llu steps taken, %llu refused, %llu left a part\n", (unsigned long long)rp.taken, (unsigned long long)rp.refused,
         (unsigned long long)rp.parts);
  assert_true(rp.taken > 1000 && rp.refused > 500 && rp.parts > 500);
  for (int side = 0; side < 2; side++) {
    pd_run_close(rp.runs[side]);
    pd_thread_close(rp.threads[side]);
  }
  pd_scopes_free(rp.scopes);
  pd_buf_done(&text);
  pair_close(&rp.p);
}

/* ---- another process ---- */

static void append_elsewhere(const char *uri, int number)
{
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (!pid) {
    thread_world w;
    pd_thread *t = NULL;
    char patches[200];
    pd_changeset set = world_set(NULL, patches);
    w = (thread_world){0};
    snprintf(patches, sizeof patches,
             "[{\"op\":\"set\",\"path\":\"/theirs/n%d\",\"value\":%d},{\"op\":\"increment\",\"path\":\"/both\",\"by\":1}]", number, number);
    set.patches = pd_text(patches);
    bool is_done = !pd_store_open(uri, "main", NULL, &w.store, NULL) && !pd_thread_open(w.store, "t", &t, NULL) &&
                   !pd_thread_append(t, &set, PD_ANY_VERSION, NULL, NULL);
    pd_thread_close(t);
    _exit(is_done && !pd_store_close(w.store, NULL) ? 0 : 1);
  }
  int status = -1;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
}

static void part__another_process_may_write_in_between(void **state)
{
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  thread_world w;
  pd_thread *kept = NULL;
  char patches[200];
  (void)state;
  world_open_at(&w, uri);
  world_need(&w, pd_thread_create(w.store, &(pd_thread_options){.id = "t", .state = pd_text("{\"both\":0}"), .time_ms = 1}, NULL, &w.err));
  world_need(&w, pd_thread_open(w.store, "t", &kept, &w.err)); /* is elsewhere each time it appends */
  for (int i = 0; i < 10; i++) {
    append_elsewhere(uri, i);
    snprintf(patches, sizeof patches,
             "[{\"op\":\"set\",\"path\":\"/ours/n%d\",\"value\":%d},{\"op\":\"increment\",\"path\":\"/both\",\"by\":1}]", i, i);
    world_append_to(&w, kept, NULL, patches);
    assert_null(kept->doc);
    snprintf(patches, sizeof patches, "%d", 2 * i + 2);
    assert_string_equal(world_state_of(&w, kept, PD_VERSION_HEAD, "/both"), patches);
  }
  pd_thread_replay_report report;
  world_need(&w, pd_thread_replay(kept, NULL, NULL, &report, &w.err));
  assert_true(report.is_same);
  pd_thread_close(kept);
  world_close(&w);
  free(uri);
  temp_folder_free(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(part__each_op_gives_the_commit_that_the_whole_state_gives),
    cmocka_unit_test(part__what_is_refused_is_refused_with_the_same_words),
    cmocka_unit_test(part__random_patches_give_the_same_commits_states_and_refusals),
    cmocka_unit_test(part__the_limit_of_a_state_is_the_same),
    cmocka_unit_test(part__the_bound_of_a_state_is_never_below_its_size),
    cmocka_unit_test(part__a_patch_of_10000_leaves_costs_what_one_of_10_does),
    cmocka_unit_test(part__a_handle_that_appends_often_has_the_state_in_memory),
    cmocka_unit_test(part__random_runs_give_the_same_commits_and_refusals),
    cmocka_unit_test(part__another_process_may_write_in_between),
  };
  return cmocka_run_group_tests_name("parts of a state", tests, NULL, NULL);
}
