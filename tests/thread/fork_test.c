/* fork_test.c: forks, rewinds, differences, blame, runs, replay and travel. */
#include "support/temp_folder.h"
#include "thread/thread_world.h"

#define HEAD PD_VERSION_HEAD

/* Five versions: /n counts, /at/N stays, a message each. */
static void five(thread_world *w, pd_thread *t)
{
  char messages[64], patches[200];
  for (int i = 1; i <= 5; i++) {
    snprintf(messages, sizeof messages, "[{\"id\":\"m%d\"}]", i);
    snprintf(patches, sizeof patches,
             "[{\"op\":\"set\",\"path\":[\"n\"],\"value\":%d},{\"op\":\"set\",\"path\":[\"at\",\"v%d\"],\"value\":%d}]", i, i, i);
    world_append_to(w, t, messages, patches);
  }
}

static pd_id head_of(thread_world *w, const char *id)
{
  char ref[80];
  pd_commit commit;
  snprintf(ref, sizeof ref, "thread/%s", id);
  world_need(w, pd_resolve(w->store, ref, &commit, &w->err));
  return commit.id;
}

/* It is what its change sets make of it, also somewhere else. */
static void assert_replays(thread_world *w, pd_thread *t)
{
  pd_thread_replay_report report;
  pd_id head = head_of(w, pd_thread_id(t));
  world_need(w, pd_thread_replay(t, NULL, NULL, &report, &w->err));
  assert_true(report.is_same);
  assert_true(pd_id_equal(&report.commit, &head));
}

/* ---- forks ---- */

static void fork__has_its_own_identity_and_the_original_is_untouched(void **state)
{
  thread_world w;
  pd_thread *f = NULL;
  pd_thread_info info;
  (void)state;
  world_open(&w);
  five(&w, w.t);
  pd_id before = head_of(&w, "t");
  world_need(&w, pd_thread_fork(w.t, 3, &(pd_thread_options){.id = "f", .time_ms = 7000}, &f, &w.err));
  world_need(&w, pd_thread_info_get(f, &info, &w.err));
  assert_string_equal(info.id, "f");
  assert_string_equal(info.owner, "ada");
  assert_string_equal(info.forked_from, "t");
  assert_int_equal(info.forked_version, 3);
  assert_int_equal(info.version, 3);
  assert_int_equal(info.message_count, 3);
  assert_int_equal(info.created_ms, 7000);
  assert_string_equal(world_state_of(&w, f, HEAD, NULL), "{\"at\":{\"v1\":1,\"v2\":2,\"v3\":3},\"n\":3}");
  assert_int_equal(world_append_to(&w, f, "[{\"id\":\"m4\"}]", "[{\"op\":\"set\",\"path\":[\"n\"],\"value\":\"fork\"}]"), 4);
  assert_string_equal(world_state_of(&w, f, HEAD, "/n"), "\"fork\"");
  assert_string_equal(world_state_of(&w, f, 2, "/n"), "2"); /* the past that both share */
  assert_string_equal(world_state_of(&w, f, 3, "/n"), "3");
  pd_id after = head_of(&w, "t");
  assert_true(pd_id_equal(&before, &after));
  assert_string_equal(world_state_of(&w, w.t, HEAD, "/n"), "5");
  assert_refused(&w, pd_thread_fork(w.t, 3, &(pd_thread_options){.id = "f"}, NULL, &w.err), PD_EXISTS, "AlreadyExists");
  assert_refused(&w, pd_thread_fork(w.t, 6, &(pd_thread_options){.id = "g"}, NULL, &w.err), PD_NOT_FOUND, "VersionNotFound");
  assert_refused(&w, pd_thread_fork(w.t, 1, &(pd_thread_options){.id = "a/b"}, NULL, &w.err), PD_INVALID, "InvalidId");
  assert_replays(&w, f);
  pd_thread_close(f);
  world_close(&w);
}

static void fork__has_no_active_run(void **state)
{
  thread_world w;
  pd_thread *f = NULL;
  pd_thread_info info;
  (void)state;
  world_open(&w);
  pd_changeset set = world_set(NULL, NULL);
  set.active_run = "r1";
  world_need(&w, pd_thread_append(w.t, &set, 0, NULL, &w.err));
  world_need(&w, pd_thread_fork(w.t, HEAD, &(pd_thread_options){.id = "f"}, &f, &w.err));
  world_need(&w, pd_thread_info_get(f, &info, &w.err));
  assert_string_equal(info.active_run, "");
  world_need(&w, pd_thread_info_get(w.t, &info, &w.err));
  assert_string_equal(info.active_run, "r1");
  assert_replays(&w, f);
  pd_thread_close(f);
  world_close(&w);
}

static void fork__of_a_fork_of_a_fork_replays(void **state)
{
  thread_world w;
  pd_thread *f = NULL, *g = NULL, *h = NULL;
  (void)state;
  world_open(&w);
  five(&w, w.t);
  world_need(&w, pd_thread_fork(w.t, 5, &(pd_thread_options){.id = "f"}, &f, &w.err));
  world_append_to(&w, f, "[{\"id\":\"f6\"}]", NULL);
  world_need(&w, pd_thread_fork(f, 6, &(pd_thread_options){.id = "g", .owner = "bob"}, &g, &w.err));
  world_need(&w, pd_thread_fork(g, 6, &(pd_thread_options){.id = "h"}, &h, &w.err)); /* at the same version */
  world_append_to(&w, h, "[{\"id\":\"h7\"}]", "[{\"op\":\"delete\",\"path\":[\"at\"]}]");
  assert_replays(&w, f);
  assert_replays(&w, g);
  assert_replays(&w, h);
  assert_string_equal(world_state_of(&w, h, 6, "/n"), "5");
  pd_thread_close(f);
  pd_thread_close(g);
  pd_thread_close(h);
  world_close(&w);
}

/* ---- rewinds ---- */

static void rewind__goes_back_and_the_next_version_is_counted_from_there(void **state)
{
  thread_world w;
  pd_thread_point point;
  (void)state;
  world_open(&w);
  five(&w, w.t);
  assert_refused(&w, pd_thread_rewind(w.t, 2, 4, NULL, &point, &w.err), PD_CONFLICT, "VersionConflict");
  assert_int_equal(w.err.actual, 5);
  assert_refused(&w, pd_thread_rewind(w.t, 6, 5, NULL, &point, &w.err), PD_NOT_FOUND, "VersionNotFound");
  world_need(&w, pd_thread_rewind(w.t, 2, 5, NULL, &point, &w.err));
  assert_int_equal(point.version, 2);
  assert_int_equal(point.message_count, 2);
  assert_string_equal(world_state(&w), "{\"at\":{\"v1\":1,\"v2\":2},\"n\":2}");
  assert_string_equal(world_messages(&w, w.t, (pd_message_query){.version = HEAD}, NULL), "1:m1 2:m2 ");
  assert_int_equal(world_append(&w, "[{\"id\":\"m5\"}]", NULL), 3); /* m5 was forgotten with its version */
  assert_string_equal(world_messages(&w, w.t, (pd_message_query){.version = HEAD}, NULL), "1:m1 2:m2 3:m5 ");
  assert_replays(&w, w.t);
  world_need(&w, pd_thread_rewind(w.t, 0, PD_ANY_VERSION, NULL, NULL, &w.err));
  assert_string_equal(world_state(&w), "{}");
  assert_replays(&w, w.t);
  world_close(&w);
}

static void rewind__of_a_fork_behind_its_beginning_keeps_its_identity(void **state)
{
  thread_world w;
  pd_thread *f = NULL, *g = NULL;
  pd_thread_info info;
  pd_thread_point point;
  (void)state;
  world_open(&w);
  five(&w, w.t);
  world_need(&w, pd_thread_fork(w.t, 4, &(pd_thread_options){.id = "f", .owner = "bob", .time_ms = 7000}, &f, &w.err));
  world_append_to(&w, f, "[{\"id\":\"f5\"}]", NULL);
  world_need(&w, pd_thread_fork(f, 5, &(pd_thread_options){.id = "g", .owner = "eve", .time_ms = 8000}, &g, &w.err));
  world_append_to(&w, g, "[{\"id\":\"g6\"}]", NULL);
  static const uint64_t back[] = {6, 5, 4, 2, 0};
  for (size_t i = 0; i < COUNT_OF(back); i++) {
    world_need(&w, pd_thread_rewind(g, back[i], PD_ANY_VERSION, NULL, &point, &w.err));
    world_need(&w, pd_thread_info_get(g, &info, &w.err));
    assert_string_equal(info.id, "g");
    assert_string_equal(info.owner, "eve");
    assert_string_equal(info.forked_from, "f");
    assert_int_equal(info.version, back[i]);
    assert_int_equal(point.version, back[i]);
    assert_int_equal(info.message_count, back[i]);
    assert_replays(&w, g);
  }
  assert_int_equal(world_append_to(&w, g, "[{\"id\":\"again\"}]", NULL), 1);
  assert_replays(&w, g);
  assert_replays(&w, f);
  assert_replays(&w, w.t);
  pd_thread_close(f);
  pd_thread_close(g);
  world_close(&w);
}

/* ---- differences ---- */

static bool add_difference(void *ctx, const pd_thread_difference *d)
{
  thread_world *w = ctx;
  world_need(w, pd_buf_printf(&w->text, &w->err, "%.*s %.*s>%.*s\n", (int)d->path.size, (const char *)d->path.data, (int)d->before.size,
                              (const char *)d->before.data, (int)d->after.size, (const char *)d->after.data));
  return true;
}

static const char *diff(thread_world *w, uint64_t from, uint64_t to, pd_thread_diff_report *out)
{
  pd_buf_clear(&w->text);
  world_need(w, pd_thread_diff(w->t, from, to, add_difference, w, out, &w->err));
  return world_text(w);
}

static void diff__shows_the_paths_that_differ_and_the_messages_between(void **state)
{
  thread_world w;
  pd_thread_diff_report report;
  (void)state;
  world_open(&w);
  five(&w, w.t);
  assert_string_equal(diff(&w, 3, 5, &report), "/at/v4 >4\n/at/v5 >5\n/n 3>5\n");
  assert_int_equal(report.paths, 3);
  assert_int_equal(report.message_first, 4);
  assert_int_equal(report.message_count, 2);
  assert_string_equal(diff(&w, 5, 4, &report), "/at/v5 5>\n/n 5>4\n");
  assert_int_equal(report.message_first, 5);
  assert_int_equal(report.message_count, 1);
  assert_string_equal(diff(&w, 2, 2, &report), "");
  assert_int_equal(report.message_first, 0);
  assert_string_equal(diff(&w, 0, HEAD, &report), "/at/v1 >1\n/at/v2 >2\n/at/v3 >3\n/at/v4 >4\n/at/v5 >5\n/n >5\n");
  world_append(&w, NULL, "[{\"op\":\"set\",\"path\":[\"a/b\",\"~\"],\"value\":[[]]}]");
  assert_string_equal(diff(&w, 5, 6, NULL), "/a~1b/~0/0 >[]\n");
  assert_refused(&w, pd_thread_diff(w.t, 0, 7, NULL, NULL, NULL, &w.err), PD_NOT_FOUND, "VersionNotFound");
  world_close(&w);
}

/* ---- blame ---- */

static bool add_blame(void *ctx, const pd_thread_blame_line *l)
{
  thread_world *w = ctx;
  world_need(w, pd_buf_printf(&w->text, &w->err, "%.*s %llu %s %s %s\n", (int)l->path.size, (const char *)l->path.data,
                              (unsigned long long)l->version, l->run_id, l->reason, l->message_ids));
  return true;
}

static const char *blame(thread_world *w, pd_thread *t, uint64_t version, const char *path)
{
  pd_buf_clear(&w->text);
  world_need(w, pd_thread_blame(t, version, path, add_blame, w, &w->err));
  return world_text(w);
}

/* seed 003: 48 */
static void blame__says_which_change_set_run_and_messages_set_a_path(void **state)
{
  thread_world w;
  pd_thread *f = NULL;
  (void)state;
  world_open(&w);
  five(&w, w.t);
  pd_changeset set = world_set("[{\"id\":\"x\"},{\"id\":\"y\"}]", "[{\"op\":\"set\",\"path\":[\"at\",\"v2\"],\"value\":\"new\"}]");
  set.run_id = "r2";
  set.reason = PD_REASON_TOOL_RESULTS_COMMITTED;
  world_need(&w, pd_thread_append(w.t, &set, 5, NULL, &w.err));
  assert_string_equal(blame(&w, w.t, HEAD, "/at/v2"), "/at/v2 6 r2 ToolResultsCommitted [\"x\",\"y\"]\n");
  assert_string_equal(blame(&w, w.t, 5, "/at/v2"), "/at/v2 2 r1 UserMessage [\"m2\"]\n");
  assert_string_equal(blame(&w, w.t, 2, NULL),
                      "/at/v1 1 r1 UserMessage [\"m1\"]\n/at/v2 2 r1 UserMessage [\"m2\"]\n/n 2 r1 UserMessage [\"m2\"]\n");
  assert_refused(&w, pd_thread_blame(w.t, HEAD, "/at/v9", add_blame, &w, &w.err), PD_NOT_FOUND, "PathNotFound");
  world_need(&w, pd_thread_fork(w.t, 6, &(pd_thread_options){.id = "f"}, &f, &w.err));
  assert_string_equal(blame(&w, f, HEAD, "/n"), "/n 5 r1 UserMessage [\"m5\"]\n");
  pd_thread_close(f);
  world_need(&w, pd_thread_create(w.store, &(pd_thread_options){.id = "g", .state = pd_text("{\"a\":1}")}, &f, &w.err));
  assert_string_equal(blame(&w, f, HEAD, ""), "/a 0   []\n");
  pd_thread_close(f);
  world_close(&w);
}

/* ---- runs ---- */

static bool add_run(void *ctx, const pd_thread_run *r)
{
  thread_world *w = ctx;
  world_need(w, pd_buf_printf(&w->text, &w->err, "%llu %s<%s %llu-%llu %.*s%s\n", (unsigned long long)r->number, r->id, r->parent_run_id,
                              (unsigned long long)r->first_version, (unsigned long long)r->finished_version, (int)r->meta.size,
                              (const char *)r->meta.data, r->is_active ? " active" : ""));
  return true;
}

static const char *runs(thread_world *w, uint64_t version, uint64_t after, uint64_t limit)
{
  pd_buf_clear(&w->text);
  world_need(w, pd_thread_runs(w->t, version, after, limit, add_run, w, &w->err));
  return world_text(w);
}

static void append_run(thread_world *w, const char *run, pd_reason reason, const char *active, const char *meta)
{
  pd_changeset set = {.run_id = run, .reason = reason, .active_run = active, .run_meta = meta ? pd_text(meta) : (pd_bytes){NULL, 0}};
  set.parent_run_id = strcmp(run, "b") == 0 ? "a" : NULL;
  set.time_ms = 3000;
  world_need(w, pd_thread_append(w->t, &set, PD_ANY_VERSION, NULL, &w->err));
}

static void runs__of_a_thread_are_kept_and_one_is_active(void **state)
{
  thread_world w;
  pd_thread_info info;
  (void)state;
  world_open(&w);
  append_run(&w, "a", PD_REASON_USER_MESSAGE, "a", "{\"status\":\"running\"}");
  append_run(&w, "a", PD_REASON_ASSISTANT_TURN_COMMITTED, NULL, NULL);
  append_run(&w, "a", PD_REASON_RUN_FINISHED, "", "{\"status\":\"done\"}");
  append_run(&w, "b", PD_REASON_USER_MESSAGE, "b", NULL);
  assert_string_equal(runs(&w, HEAD, 0, 0), "1 a< 1-3 {\"status\":\"done\"}\n2 b<a 4-0  active\n");
  assert_string_equal(runs(&w, 2, 0, 0), "1 a< 1-0 {\"status\":\"running\"} active\n");
  assert_string_equal(runs(&w, 0, 0, 0), "");
  assert_string_equal(runs(&w, HEAD, 1, 0), "2 b<a 4-0  active\n");
  assert_string_equal(runs(&w, HEAD, 0, 1), "1 a< 1-3 {\"status\":\"done\"}\n");
  pd_buf_clear(&w.text);
  world_need(&w, pd_thread_run_get(w.t, "b", add_run, &w, &w.err));
  assert_string_equal(world_text(&w), "2 b<a 4-0  active\n");
  assert_refused(&w, pd_thread_run_get(w.t, "c", add_run, &w, &w.err), PD_NOT_FOUND, "RunNotFound");
  pd_changeset set = {.run_id = "c", .reason = PD_REASON_USER_MESSAGE, .active_run = "c"};
  assert_refused(&w, pd_thread_append(w.t, &set, PD_ANY_VERSION, NULL, &w.err), PD_CONFLICT, "RunActive"); /* one at a time */
  append_run(&w, "b", PD_REASON_RUN_FINISHED, NULL, NULL); /* the end of the active run ends its activity */
  append_run(&w, "b", PD_REASON_RUN_FINISHED, NULL, NULL); /* and is told once */
  world_need(&w, pd_thread_info_get(w.t, &info, &w.err));
  assert_string_equal(info.active_run, "");
  assert_string_equal(runs(&w, HEAD, 1, 0), "2 b<a 4-5 \n");
  assert_replays(&w, w.t);
  world_close(&w);
}

/* ---- replay and travel ---- */

typedef struct bytes_file {
  pd_buf data;
} bytes_file;

static pd_code write_bytes(void *ctx, const void *data, size_t size, pd_error *err)
{
  return pd_buf_append(&((bytes_file *)ctx)->data, data, size, err);
}

static pd_code read_bytes(void *ctx, uint64_t at, void *data, size_t size, pd_error *err)
{
  (void)err;
  memcpy(data, ((bytes_file *)ctx)->data.data + at, size);
  return PD_OK;
}

static pd_source source_of(bytes_file *f)
{
  return (pd_source){.read = read_bytes, .size = f->data.size, .ctx = f};
}

static uint64_t export_to(thread_world *w, pd_thread *t, bytes_file *f)
{
  pd_sink sink = {.write = write_bytes, .ctx = f};
  uint64_t lines = 0;
  pd_buf_clear(&f->data);
  world_need(w, pd_thread_export(t, &sink, &lines, &w->err));
  return lines;
}

static void make_rich(thread_world *w, pd_thread **out_fork)
{
  five(w, w->t);
  append_run(w, "a", PD_REASON_USER_MESSAGE, "a", "{\"k\":[1.50]}");
  pd_changeset set = world_set("[{\"id\":\"\xC3\xA9\",\"z\":1,\"a\":{}}]", "[{\"op\":\"append\",\"path\":[\"log\"],\"value\":\"x\"}]");
  set.snapshot = pd_text("{\"log\":[],\"\":{\"~/\":null}}");
  set.state_actions = pd_text("[{\"b\":1,\"a\":2}]");
  world_need(w, pd_thread_append(w->t, &set, PD_ANY_VERSION, NULL, &w->err));
  world_need(w, pd_thread_fork(w->t, 7, &(pd_thread_options){.id = "f", .parent = "", .meta = pd_text("{\"m\":1}")}, out_fork, &w->err));
  world_append_to(w, *out_fork, "[{\"id\":\"f8\"}]", "[{\"op\":\"append\",\"path\":[\"log\"],\"value\":{}}]");
}

/* seed 003: 48, 49 */
static void export__imported_elsewhere_gives_the_same_commits(void **state)
{
  thread_world w, other;
  bytes_file file = {0};
  pd_thread *f = NULL, *g = NULL;
  pd_thread_replay_report report;
  char expected[256];
  (void)state;
  world_open(&w);
  make_rich(&w, &f);
  assert_int_equal(export_to(&w, f, &file), 12); /* thread, 0 to 7, fork, 8, end */
  world_open_at(&other, "memory:");
  pd_source source = source_of(&file);
  world_need(&other, pd_thread_import(other.store, &source, &(pd_thread_import_options){.is_dry_run = true}, &report, &other.err));
  assert_refused(&other, pd_thread_open(other.store, "f", &g, &other.err), PD_NOT_FOUND, "NotFound");
  world_need(&other, pd_thread_import(other.store, &source, NULL, &report, &other.err));
  pd_id here = head_of(&w, "f"), there = head_of(&other, "f");
  assert_true(pd_id_equal(&here, &there));
  assert_true(pd_id_equal(&report.commit, &there));
  assert_int_equal(report.versions, 8);
  assert_int_equal(report.forks, 1);
  world_need(&other, pd_thread_open(other.store, "f", &g, &other.err));
  for (uint64_t v = 0; v <= 8; v++) {
    snprintf(expected, sizeof expected, "%s", world_state_of(&w, f, v, NULL));
    assert_string_equal(world_state_of(&other, g, v, NULL), expected);
  }
  snprintf(expected, sizeof expected, "%s", blame(&w, f, HEAD, NULL));
  assert_string_equal(blame(&other, g, HEAD, NULL), expected);
  assert_int_equal(world_append_to(&other, g, "[{\"id\":\"more\"}]", NULL), 9);
  assert_refused(&other, pd_thread_import(other.store, &source, NULL, NULL, &other.err), PD_EXISTS, "AlreadyExists");
  pd_thread_close(f);
  pd_thread_close(g);
  pd_buf_done(&file.data);
  world_close(&w);
  world_close(&other);
}

static void export__may_be_imported_under_another_id(void **state)
{
  thread_world w;
  bytes_file file = {0};
  pd_thread *f = NULL, *g = NULL;
  pd_thread_info info;
  (void)state;
  world_open(&w);
  make_rich(&w, &f);
  export_to(&w, f, &file);
  pd_source source = source_of(&file);
  assert_refused(&w, pd_thread_import(w.store, &source, NULL, NULL, &w.err), PD_EXISTS, "AlreadyExists");
  world_need(&w, pd_thread_import(w.store, &source, &(pd_thread_import_options){.id = "copy"}, NULL, &w.err));
  world_need(&w, pd_thread_open(w.store, "copy", &g, &w.err));
  world_need(&w, pd_thread_info_get(g, &info, &w.err));
  assert_int_equal(info.version, 8);
  assert_string_equal(info.forked_from, "t");
  assert_replays(&w, g);
  pd_thread_close(f);
  pd_thread_close(g);
  pd_buf_done(&file.data);
  world_close(&w);
}

/* Replace the first `what` by `with` in the export and try. */
static void assert_bad_export(thread_world *w, const bytes_file *good, const char *what, const char *with, pd_code code, const char *name)
{
  bytes_file bad = {0};
  const char *text = (const char *)good->data.data, *at = memmem(text, good->data.size, what, strlen(what));
  if (!at) fail_msg("the export has no %s", what);
  size_t before = (size_t)(at - text);
  world_need(w, pd_buf_append(&bad.data, text, before, &w->err));
  world_need(w, pd_buf_append(&bad.data, with, strlen(with), &w->err));
  world_need(w, pd_buf_append(&bad.data, at + strlen(what), good->data.size - before - strlen(what), &w->err));
  pd_source source = source_of(&bad);
  pd_thread *t = NULL;
  w->err = (pd_error){0};
  pd_code got = pd_thread_import(w->store, &source, NULL, NULL, &w->err);
  if (got != code || strcmp(pd_error_name(&w->err), name) != 0)
    fail_msg("'%s' for '%s': %d %s: %s", with, what, (int)got, pd_error_name(&w->err), w->err.message);
  assert_refused(w, pd_thread_open(w->store, "f", &t, &w->err), PD_NOT_FOUND, "NotFound");
  pd_buf_done(&bad.data);
}

static void export__damage_is_refused_whole(void **state)
{
  thread_world w, other;
  bytes_file file = {0};
  pd_thread *f = NULL;
  (void)state;
  world_open(&w);
  make_rich(&w, &f);
  export_to(&w, f, &file);
  world_open_at(&other, "memory:");
  static const char *const bad[][2] = {{"\"kind\":\"thread\"", "\"kind\":\"end\""},
                                       {"\"kind\":\"change\"", "\"kind\":\"chance\""},
                                       {"\"version\":3", "\"version\":4"},
                                       {"\"version\":0", "\"version\":-1"},
                                       {"\"id\":\"f\"", "\"id\":\"../f\""},
                                       {"\"id\":\"f\"", "\"id\":\"g\""},
                                       {"\"forks\":1", "\"forks\":2"},
                                       {"\"forks\":1", "\"forks\":0"},
                                       {"\"reason\":\"UserMessage\"", "\"reason\":\"Whim\""},
                                       {"\"time\":2000", "\"time\":20"},
                                       {"\"id\":\"m2\"", "\"id\":\"m1\""},
                                       {"\"id\":\"m2\"", "\"ie\":\"m2\""},
                                       {"\"op\":\"set\"", "\"op\":\"sot\""},
                                       {"\"commit\":\"", "\"commit\":\"0"},
                                       {"\"kind\":\"end\"", "\"extra\":1,\"kind\":\"end\""},
                                       {"\"since\":7", "\"since\":6"},
                                       {"\n", "\n\n"},
                                       {"}\n", "\n"}};
  for (size_t i = 0; i < COUNT_OF(bad); i++) assert_bad_export(&other, &file, bad[i][0], bad[i][1], PD_INVALID, "InvalidExport");
  assert_bad_export(&other, &file, "\"format\":1", "\"format\":2", PD_FORMAT, "UnknownFormat");
  assert_bad_export(&other, &file, "\"value\":2", "\"value\":9", PD_CORRUPT, "Corrupt"); /* the commits come out otherwise */
  assert_bad_export(&other, &file, "\"owner\":\"ada\"", "\"owner\":\"eve\"", PD_CORRUPT, "Corrupt");
  for (size_t size = 0; size < file.data.size; size += 37) { /* cut off anywhere */
    bytes_file cut = {.data = {.data = file.data.data, .size = size}};
    pd_source source = source_of(&cut);
    assert_refused(&other, pd_thread_import(other.store, &source, NULL, NULL, &other.err), PD_INVALID, "InvalidExport");
  }
  pd_source source = source_of(&file);
  assert_refused(&other, pd_thread_import(other.store, &source, &(pd_thread_import_options){.bytes_max = 100}, NULL, &other.err), PD_LIMIT,
                 "LimitExceeded");
  world_need(&other, pd_thread_import(other.store, &source, NULL, NULL, &other.err)); /* unharmed it is taken */
  pd_thread_close(f);
  pd_buf_done(&file.data);
  world_close(&w);
  world_close(&other);
}

/* Retention takes commits (unless its keep_refs are left as they are): what the head has can still be told. */
static void retention__of_a_thread_leaves_its_change_sets(void **state)
{
  thread_world w;
  bytes_file file = {0};
  pd_thread *f = NULL;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder), before[512];
  (void)state;
  world_open_at(&w, uri);
  world_need(&w, pd_thread_create(w.store, &(pd_thread_options){.id = "t", .time_ms = 1000}, &w.t, &w.err));
  make_rich(&w, &f);
  for (int i = 0; i < 20; i++) world_append_to(&w, f, NULL, "[{\"op\":\"set\",\"path\":[\"i\"],\"value\":1}]");
  world_need(&w, pd_gc(w.store, &(pd_gc_policy){.keep_last = 2}, NULL, &w.err));
  assert_string_equal(world_state_of(&w, f, 2, "/n"), "2"); /* threads are kept whole */
  snprintf(before, sizeof before, "%s", blame(&w, f, HEAD, "/log"));
  world_need(&w, pd_gc(w.store, &(pd_gc_policy){.keep_last = 2, .keep_refs = ""}, NULL, &w.err));
  assert_refused(&w, pd_thread_state(f, 2, NULL, &w.text, &w.err), PD_RETIRED, "Retired");
  assert_string_equal(blame(&w, f, HEAD, "/log"), before);
  assert_replays(&w, f);
  assert_replays(&w, w.t);
  assert_int_equal(export_to(&w, f, &file), 32);
  pd_source source = source_of(&file);
  world_need(&w, pd_thread_import(w.store, &source, &(pd_thread_import_options){.id = "again"}, NULL, &w.err));
  assert_int_equal(world_append_to(&w, f, "[{\"id\":\"new\"}]", NULL), 29);
  pd_thread_close(f);
  pd_buf_done(&file.data);
  world_close(&w);
  free(uri);
  temp_folder_free(folder);
}

/* Meddle with the store behind the thread's back: the replay tells. */
static void replay__tells_a_thread_that_was_meddled_with(void **state)
{
  thread_world w;
  pd_thread_replay_report report = {0};
  (void)state;
  world_open(&w);
  five(&w, w.t);
  assert_replays(&w, w.t);
  world_need(&w, pd_put(w.store, pd_text("state/n"), pd_text("77"), &(pd_note){.ref = "thread/t"}, NULL, &w.err));
  assert_refused(&w, pd_thread_replay(w.t, NULL, NULL, &report, &w.err), PD_CORRUPT, "Corrupt");
  assert_false(report.is_same);
  assert_int_equal(report.differs_at, 5);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(fork__has_its_own_identity_and_the_original_is_untouched),
    cmocka_unit_test(fork__has_no_active_run),
    cmocka_unit_test(fork__of_a_fork_of_a_fork_replays),
    cmocka_unit_test(rewind__goes_back_and_the_next_version_is_counted_from_there),
    cmocka_unit_test(rewind__of_a_fork_behind_its_beginning_keeps_its_identity),
    cmocka_unit_test(diff__shows_the_paths_that_differ_and_the_messages_between),
    cmocka_unit_test(blame__says_which_change_set_run_and_messages_set_a_path),
    cmocka_unit_test(runs__of_a_thread_are_kept_and_one_is_active),
    cmocka_unit_test(export__imported_elsewhere_gives_the_same_commits),
    cmocka_unit_test(export__may_be_imported_under_another_id),
    cmocka_unit_test(export__damage_is_refused_whole),
    cmocka_unit_test(retention__of_a_thread_leaves_its_change_sets),
    cmocka_unit_test(replay__tells_a_thread_that_was_meddled_with),
  };
  return cmocka_run_group_tests_name("forks and replays", tests, NULL, NULL);
}
