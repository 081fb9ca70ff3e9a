/*
 * gc_test.c: src/engine/gc*.c and retired.c against a naive model: every commit a full copy. What a policy keeps must be readable whole,
 * key by key; what was retired must say so, and never answer something else.
 */
#include <perdure/perdure.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define KEYS 24
#define REFS 4
#define COMMITS_MAX 4096

static char folder[64], uri[128];
static int64_t now_ms;
static uint64_t random_state;

static int64_t clock_now(void *ctx)
{
  (void)ctx;
  return now_ms;
}

static uint64_t random_below(uint64_t n)
{
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (random_state >> 33) % n;
}

/* ---- the model ---- */

typedef struct commit {
  pd_id id;
  int parent; /* index; -1: the root commit */
  uint64_t seq;
  int64_t time_ms;
  int values[KEYS];        /* 0: absent */
  uint64_t versions[KEYS]; /* of each key here */
  int wrote;               /* the key it changed */
  bool was_retired;
} commit;

typedef struct ref {
  bool exists;
  int head, redo;
} ref;

static commit commits[COMMITS_MAX];
static int commit_count, value_count;
static ref refs[REFS];
static int pinned[64], pin_count;

static const char *ref_name(int i)
{
  static const char *const names[REFS] = {"main", "fork/a", "fork/b", "idle"};
  return names[i];
}

static void key_text(int key, char out[16])
{
  snprintf(out, 16, "key/%02d", key);
}

/* Some are inline, some in the bag, some in pieces. */
static pd_bytes value_bytes(int value, char *out, size_t room)
{
  size_t size = value % 37 == 0 ? 120000 : value % 11 == 0 ? 20000 : (size_t)(value % 60) + 8;
  if (size > room) size = room;
  for (size_t i = 0; i < size; i++) out[i] = (char)('a' + (i * 7 + (size_t)value * 31 + (i * i) % 13) % 26);
  int head = snprintf(out, 9, "%07d", value);
  out[head] = '.';
  return (pd_bytes){out, size};
}

static char bytes_room[131072];

static void expect_ok(pd_code code, const pd_error *err)
{
  if (code) fail_msg("%s: %s", pd_code_name(code), err->message);
}

static pd_store *open_store(void)
{
  pd_store *s = NULL;
  pd_error err;
  pd_options options = {.now_ms = clock_now};
  expect_ok(pd_store_open(uri, "main", &options, &s, &err), &err);
  return s;
}

static void model_reset(void)
{
  memset(commits, 0, sizeof commits);
  memset(refs, 0, sizeof refs);
  commit_count = value_count = pin_count = 0;
  refs[0] = (ref){true, -1, -1};
}

static void put_commit(pd_store *s, int r)
{
  char key[16];
  pd_error err;
  pd_ack ack;
  pd_note note = {.ref = ref_name(r), .author = "tester", .reason = "why not"};
  commit *c = &commits[commit_count];
  if (refs[r].head >= 0)
    *c = commits[refs[r].head];
  else
    memset(c, 0, sizeof *c);
  int k = (int)random_below(KEYS);
  key_text(k, key);
  bool deletes = c->values[k] && random_below(8) == 0;
  now_ms += 1000;
  if (deletes) {
    expect_ok(pd_delete(s, pd_text(key), PD_ANY_VERSION, &note, &ack, &err), &err);
    c->values[k] = 0;
    c->versions[k] = 0;
  } else {
    c->values[k] = ++value_count;
    expect_ok(pd_put(s, pd_text(key), value_bytes(value_count, bytes_room, sizeof bytes_room), &note, &ack, &err), &err);
    assert_true(ack.version > c->versions[k]);
    c->versions[k] = ack.version;
  }
  c->parent = refs[r].head;
  c->id = ack.commit;
  c->seq = ack.seq;
  c->time_ms = now_ms;
  c->wrote = k;
  c->was_retired = false;
  refs[r].head = commit_count++;
  refs[r].redo = -1;
}

static const char *at_of(const commit *c, char out[PD_ID_HEX_SIZE])
{
  return pd_id_hex(&c->id, out);
}

static void fork_or_move(pd_store *s, int r)
{
  char at[PD_ID_HEX_SIZE];
  pd_error err;
  int target = (int)random_below((uint64_t)commit_count);
  if (commits[target].was_retired) return;
  now_ms += 1000;
  if (!refs[r].exists) {
    expect_ok(pd_fork(s, ref_name(r), at_of(&commits[target], at), NULL, NULL, &err), &err);
    refs[r] = (ref){true, target, -1};
  } else if (random_below(2)) {
    expect_ok(pd_reset(s, ref_name(r), at_of(&commits[target], at), NULL, NULL, &err), &err);
    refs[r].head = target;
    refs[r].redo = -1;
  } else if (refs[r].head >= 0 && commits[refs[r].head].parent >= 0 && !commits[commits[refs[r].head].parent].was_retired) {
    pd_note note = {.ref = ref_name(r)};
    expect_ok(pd_undo(s, 1, &note, NULL, &err), &err);
    if (refs[r].redo < 0) refs[r].redo = refs[r].head;
    refs[r].head = commits[refs[r].head].parent;
  }
}

static void pin_one(pd_store *s)
{
  char name[32], at[PD_ID_HEX_SIZE];
  pd_error err;
  int target = (int)random_below((uint64_t)commit_count);
  if (commits[target].was_retired || pin_count == 64) return;
  snprintf(name, sizeof name, "mark-%d", pin_count);
  if (pin_count % 2)
    expect_ok(pd_tag_set(s, name, at_of(&commits[target], at), false, NULL, NULL, &err), &err);
  else
    expect_ok(pd_pin_set(s, at_of(&commits[target], at), NULL, NULL, &err), &err);
  pinned[pin_count++] = target;
}

static void live_a_while(pd_store *s, int steps)
{
  for (int i = 0; i < steps && commit_count < COMMITS_MAX - 1; i++) {
    int r = (int)random_below(REFS);
    uint64_t what = random_below(100);
    if (r == REFS - 1 && refs[r].exists && random_below(20)) r = 0; /* the idle one */
    if (!commit_count || (refs[r].exists && what < 85))
      put_commit(s, refs[r].exists ? r : 0);
    else if (what < 97)
      fork_or_move(s, r);
    else
      pin_one(s);
  }
}

/* ---- what the policy keeps, by the naive model ---- */

static bool keeps[COMMITS_MAX];

static void model_keep(uint64_t keep_last, uint64_t keep_days)
{
  memset(keeps, 0, sizeof keeps);
  for (int r = 0; r < REFS; r++) {
    if (!refs[r].exists) continue;
    int c = refs[r].head;
    for (uint64_t i = 0; c >= 0 && i < keep_last; i++, c = commits[c].parent) keeps[c] = true;
    if (refs[r].redo >= 0) keeps[refs[r].redo] = true;
  }
  for (int i = 0; i < pin_count; i++) keeps[pinned[i]] = true;
  for (int i = 0; keep_days && i < commit_count; i++)
    if (commits[i].time_ms >= now_ms - (int64_t)keep_days * 86400000) keeps[i] = true;
}

/* ---- comparing ---- */

static void check_key(pd_store *s, const commit *c, int k)
{
  char key[16], at[PD_ID_HEX_SIZE];
  pd_buf value = {0};
  pd_entry entry;
  pd_error err;
  key_text(k, key);
  pd_code code = pd_get(s, at_of(c, at), pd_text(key), &value, &entry, &err);
  if (!c->values[k]) {
    assert_int_equal(code, PD_NOT_FOUND);
    return;
  }
  expect_ok(code, &err);
  pd_bytes expected = value_bytes(c->values[k], bytes_room, sizeof bytes_room);
  assert_int_equal(value.size, expected.size);
  assert_memory_equal(value.data, expected.data, expected.size);
  assert_int_equal(entry.version, c->versions[k]);
  pd_buf_done(&value);
}

static void check_list(pd_store *s, const commit *c)
{
  char at[PD_ID_HEX_SIZE], key[16];
  pd_iter *it;
  pd_entry entry;
  pd_bytes value;
  pd_error err;
  expect_ok(pd_iter_open(s, at_of(c, at), NULL, &it, &err), &err);
  for (int k = 0; k < KEYS; k++) {
    if (!c->values[k]) continue;
    key_text(k, key);
    expect_ok(pd_iter_next(it, &entry, &value, &err), &err);
    assert_int_equal(entry.key.size, strlen(key));
    assert_memory_equal(entry.key.data, key, strlen(key));
    pd_bytes expected = value_bytes(c->values[k], bytes_room, sizeof bytes_room);
    assert_int_equal(value.size, expected.size);
    assert_memory_equal(value.data, expected.data, expected.size);
  }
  assert_int_equal(pd_iter_next(it, &entry, &value, &err), PD_NOT_FOUND);
  pd_iter_close(it);
}

/* A retired commit says so; one that is readable though nobody asked for it must be whole. */
static void check_commit(pd_store *s, commit *c, bool must_be_there)
{
  char at[PD_ID_HEX_SIZE], by_seq[32];
  pd_commit found;
  pd_error err;
  pd_code code = pd_resolve(s, at_of(c, at), &found, &err);
  if (code) {
    if (must_be_there) fail_msg("record %llu should be kept: %s", (unsigned long long)c->seq, err.message);
    assert_true(code == PD_RETIRED || code == PD_NOT_FOUND);
    assert_non_null(strstr(err.message, "gc"));
    snprintf(by_seq, sizeof by_seq, "#%llu", (unsigned long long)c->seq);
    code = pd_resolve(s, by_seq, &found, &err);
    /* the very same commit may have been made twice: by another record it may still be there */
    if (code) assert_int_equal(code, PD_RETIRED);
    c->was_retired = true;
    return;
  }
  if (c->was_retired) return; /* a twin of it came later */
  for (int k = 0; k < KEYS; k++) check_key(s, c, k);
  check_list(s, c);
}

static void check_all(pd_store *s)
{
  for (int i = 0; i < commit_count; i++) check_commit(s, &commits[i], keeps[i] && !commits[i].was_retired);
}

/* The last `count` versions of each key on each ref's line: value, and who and why. */
typedef struct version_check {
  const commit *c;
  int key;
  uint64_t seen, expected[COMMITS_MAX];
} version_check;

static bool see_version(void *ctx, const pd_version_info *v)
{
  version_check *check = ctx;
  assert_string_equal(v->author, "tester");
  assert_string_equal(v->reason, "why not");
  assert_int_equal(v->entry.version, check->expected[check->seen]);
  check->seen++;
  return true;
}

static int value_at_version(int c, int key, uint64_t version)
{
  while (commits[c].versions[key] != version) c = commits[c].parent;
  return commits[c].values[key];
}

/* The versions of a key since it was created, the newest first. */
static size_t line_versions(int c, int key, uint64_t out[COMMITS_MAX])
{
  size_t count = 0;
  for (; c >= 0 && commits[c].values[key]; c = commits[c].parent)
    if (!count || out[count - 1] != commits[c].versions[key]) out[count++] = commits[c].versions[key];
  return count;
}

static void check_versions(pd_store *s, uint64_t count)
{
  for (int r = 0; r < REFS; r++) {
    if (!refs[r].exists || refs[r].head < 0) continue;
    const commit *head = &commits[refs[r].head];
    for (int k = 0; k < KEYS; k++) {
      char key[16];
      pd_buf value = {0};
      pd_error err;
      if (!head->values[k]) continue;
      key_text(k, key);
      static version_check check;
      check = (version_check){.c = head, .key = k};
      size_t total = line_versions(refs[r].head, k, check.expected);
      expect_ok(pd_history(s, ref_name(r), pd_text(key), 0, see_version, &check, &err), &err);
      assert_int_equal(check.expected[0], head->versions[k]);
      assert_true(check.seen >= (total < count ? total : count));
      for (size_t i = 0; i < total && i < count; i++) {
        expect_ok(pd_get_version(s, ref_name(r), pd_text(key), check.expected[i], &value, NULL, &err), &err);
        pd_bytes expected = value_bytes(value_at_version(refs[r].head, k, check.expected[i]), bytes_room, sizeof bytes_room);
        assert_int_equal(value.size, expected.size);
        assert_memory_equal(value.data, expected.data, expected.size);
      }
      for (size_t i = check.seen; i < total; i++)
        assert_int_equal(pd_get_version(s, ref_name(r), pd_text(key), check.expected[i], &value, NULL, &err), PD_RETIRED);
      pd_buf_done(&value);
    }
  }
}

static void say(void *ctx, const char *what)
{
  (void)ctx;
  print_message("# finding: %s\n", what);
}

static void check_clean(pd_store *s)
{
  pd_error err;
  pd_verify_options options = {.finding = say};
  expect_ok(pd_verify(s, &options, NULL, &err), &err);
}

static bool ignore_record(void *ctx, const pd_record *record)
{
  ++*(int *)ctx;
  assert_true(record->seq > 0);
  return true;
}

/* Logs end where history was retired; they do not fail. */
static void check_logs(pd_store *s)
{
  pd_error err;
  int count = 0;
  pd_log_query whole = {.whole_store = true};
  expect_ok(pd_log(s, &whole, ignore_record, &count, &err), &err);
  assert_true(count > 0);
  for (int r = 0; r < REFS; r++) {
    if (!refs[r].exists) continue;
    pd_log_query line = {.at = ref_name(r)}, moves = {.ref = ref_name(r)};
    expect_ok(pd_log(s, &line, ignore_record, &count, &err), &err);
    expect_ok(pd_log(s, &moves, ignore_record, &count, &err), &err);
  }
}

/* ---- tests ---- */

static void round_of_gc(uint64_t seed, bool is_small)
{
  print_message("# seed %llu\n", (unsigned long long)seed);
  random_state = seed;
  model_reset();
  pd_store *s = open_store(), *other = open_store();
  for (int turn = 0; turn < 3; turn++) {
    pd_error err;
    pd_gc_report dry, report;
    live_a_while(s, is_small ? 60 : 400);
    if (random_below(2)) expect_ok(pd_store_keyframe(s, &err), &err);
    live_a_while(other, is_small ? 30 : 200);
    pd_gc_policy policy = {.keep_last = 1 + random_below(20), .keep_versions = random_below(5), .author = "janitor"};
    model_keep(policy.keep_last, 0);
    policy.is_dry = true;
    expect_ok(pd_gc(s, &policy, &dry, &err), &err);
    policy.is_dry = false;
    expect_ok(pd_gc(random_below(2) ? s : other, &policy, &report, &err), &err);
    assert_true(report.retired <= report.commits);
    assert_int_equal(report.retired, dry.retired);
    assert_int_equal(report.dropped_versions, dry.dropped_versions);
    assert_int_equal(report.kept_marks, dry.kept_marks);
    check_all(s);
    check_all(other);
    /* later, a ref may stand on a line whose versions an earlier gc was not asked to keep */
    uint64_t versions = !turn && policy.keep_versions ? policy.keep_versions : 1;
    check_versions(other, versions);
    check_logs(s);
    check_clean(s);
    pd_store *fresh = open_store();
    check_all(fresh);
    check_versions(fresh, versions);
    check_clean(fresh);
    expect_ok(pd_store_close(fresh, &err), &err);
  }
  pd_store_close(s, NULL);
  pd_store_close(other, NULL);
}

static void gc__keeps_what_the_policy_says_and_tells_what_is_gone(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 12; seed++) {
    snprintf(uri, sizeof uri, "memory:gc-%llu", (unsigned long long)seed);
    round_of_gc(seed, seed % 3 != 0);
  }
}

static void gc__does_the_same_in_files(void **state)
{
  (void)state;
  for (uint64_t seed = 101; seed <= 104; seed++) {
    snprintf(uri, sizeof uri, "sqlite:%s/%llu", folder, (unsigned long long)seed);
    round_of_gc(seed, true);
  }
}

static void fill(pd_store *s, int count)
{
  for (int i = 0; i < count; i++) put_commit(s, 0);
}

static void gc__ends_walks_with_retired_and_logs_without_an_error(void **state)
{
  (void)state;
  strcpy(uri, "memory:gc-walk");
  random_state = 5;
  model_reset();
  pd_store *s = open_store();
  pd_error err;
  pd_gc_info info;
  pd_commit found;
  pd_ack ack;
  int count = 0;
  expect_ok(pd_gc_status(s, &info, &err), &err);
  assert_int_equal(info.retired_ms, 0);
  fill(s, 300);
  char before[64];
  snprintf(before, sizeof before, "main@%lld", (long long)commits[100].time_ms);
  expect_ok(pd_resolve(s, before, &found, &err), &err);
  pd_gc_policy policy = {.keep_last = 10, .author = "janitor"};
  expect_ok(pd_gc(s, &policy, NULL, &err), &err);
  expect_ok(pd_gc_status(s, &info, &err), &err);
  assert_true(info.cut > 200 && info.retired_ms == now_ms);
  assert_string_equal(info.by, "janitor");
  expect_ok(pd_resolve(s, "main~5", &found, &err), &err);
  assert_int_equal(pd_resolve(s, "main~100", &found, &err), PD_RETIRED);
  assert_non_null(strstr(err.message, "'janitor'"));
  assert_int_equal(pd_resolve(s, before, &found, &err), PD_RETIRED);
  assert_int_equal(pd_undo(s, 150, NULL, &ack, &err), PD_RETIRED);
  expect_ok(pd_log(s, NULL, ignore_record, &count, &err), &err);
  assert_true(count >= 10 && count < 40);
  assert_int_equal(pd_resolve(s, "ffffffff", &found, &err), PD_NOT_FOUND);
  fill(s, 5); /* life goes on */
  expect_ok(pd_undo(s, 3, NULL, &ack, &err), &err);
  check_clean(s);
  pd_store_close(s, NULL);
}

/* The heads of two refs over main's; what each of their commits has can be read if it is kept. */
static void gc__keeps_all_of_the_refs_that_are_to_stay_whole(void **state)
{
  (void)state;
  pd_store *s = NULL;
  pd_error err;
  pd_gc_report r;
  pd_buf value = {0};
  pd_commit found;
  char text[32], at[64];
  expect_ok(pd_store_open("memory:gc-whole", "main", NULL, &s, &err), &err);
  expect_ok(pd_fork(s, "thread/a", "root", NULL, NULL, &err), &err);
  expect_ok(pd_fork(s, "threads", "root", NULL, NULL, &err), &err);
  for (int i = 0; i < 300; i++) {
    snprintf(text, sizeof text, "%d", i);
    const char *on = i % 3 == 0 ? "thread/a" : i % 3 == 1 ? "threads" : "main";
    expect_ok(pd_put(s, pd_text("k"), pd_text(text), &(pd_note){.ref = on}, NULL, &err), &err);
  }
  expect_ok(pd_gc(s, &(pd_gc_policy){.keep_last = 2, .is_dry = true, .keep_refs = ""}, &r, &err), &err);
  assert_int_equal(r.kept_refs, 0);
  expect_ok(pd_setting_set(s, PD_SETTING_GC_KEEP_REFS, pd_text("other threads/"), NULL, &err), &err);
  expect_ok(pd_gc(s, &(pd_gc_policy){.keep_last = 2, .is_dry = true}, &r, &err), &err);
  assert_int_equal(r.kept_refs, 0); /* "threads/" is not the beginning of "threads" */
  expect_ok(pd_setting_set(s, PD_SETTING_GC_KEEP_REFS, pd_text("threads thread/"), NULL, &err), &err);
  expect_ok(pd_gc(s, &(pd_gc_policy){.keep_last = 2, .is_dry = true}, &r, &err), &err);
  assert_int_equal(r.kept_refs, 200);
  assert_int_equal(pd_setting_delete(s, PD_SETTING_GC_KEEP_REFS, NULL, &err), PD_OK);
  for (int i = 0; i < 4000; i++) expect_ok(pd_put(s, pd_text("k"), pd_text("far away"), NULL, NULL, &err), &err);
  expect_ok(pd_gc(s, &(pd_gc_policy){.keep_last = 2}, &r, &err), &err);
  assert_int_equal(r.kept_refs, 100);
  for (int i = 0; i < 100; i++) {
    snprintf(at, sizeof at, "thread/a~%d", 99 - i);
    snprintf(text, sizeof text, "%d", 3 * i);
    expect_ok(pd_get(s, at, pd_text("k"), &value, NULL, &err), &err);
    assert_memory_equal(value.data, text, strlen(text));
  }
  assert_int_equal(pd_resolve(s, "threads~50", &found, &err), PD_RETIRED);
  check_clean(s);
  pd_buf_done(&value);
  pd_store_close(s, NULL);
}

static void gc__keeps_days_by_the_clock(void **state)
{
  (void)state;
  strcpy(uri, "memory:gc-days");
  random_state = 6;
  model_reset();
  pd_store *s = open_store();
  pd_error err;
  fill(s, 100);
  now_ms += 10 * (int64_t)86400000;
  fill(s, 100);
  pd_gc_policy policy = {.keep_last = 1, .keep_days = 5};
  pd_gc_report report;
  expect_ok(pd_gc(s, &policy, &report, &err), &err);
  assert_int_equal(report.kept_days, 100);
  assert_true(report.retired >= 95 && report.retired <= 100);
  model_keep(1, 5);
  check_all(s);
  check_clean(s);
  pd_store_close(s, NULL);
}

/* Another handle was in the middle of something when gc took it from under it. */
static void gc__of_another_handle_is_noticed(void **state)
{
  (void)state;
  snprintf(uri, sizeof uri, "sqlite:%s/other", folder);
  random_state = 7;
  model_reset();
  pd_store *a = open_store(), *b = open_store();
  pd_error err;
  char at[PD_ID_HEX_SIZE];
  fill(a, 200);
  expect_ok(pd_store_keyframe(a, &err), &err);
  fill(a, 200);
  pd_iter *it;
  expect_ok(pd_iter_open(b, at_of(&commits[50], at), NULL, &it, &err), &err);
  pd_gc_policy policy = {.keep_last = 3};
  expect_ok(pd_gc(a, &policy, NULL, &err), &err);
  pd_entry entry;
  pd_bytes value;
  pd_code code;
  while (!(code = pd_iter_next(it, &entry, &value, &err))) continue;
  assert_true(code == PD_NOT_FOUND || code == PD_RETIRED); /* to its end, or told: never damage */
  pd_iter_close(it);
  model_keep(3, 0);
  fill(b, 20);
  model_keep(23, 0);
  check_all(b);
  check_all(a);
  check_clean(b);
  pd_store_close(a, NULL);
  pd_store_close(b, NULL);
}

/* Between two keyframes a second gc cuts where the first did, but what it keeps before the cut may be other: its list takes the first's
 * place, which goes. */
static void gc__twice_at_one_cut_leaves_all_behind_it_readable(void **state)
{
  (void)state;
  static const pd_gc_policy policy = {.keep_last = 5, .keep_refs = ""};
  pd_error err;
  char value[16], at[16], early[PD_ID_HEX_SIZE];
  pd_ack ack;
  snprintf(uri, sizeof uri, "sqlite:%s/twice", folder);
  pd_store *s = open_store();
  for (int i = 1; i <= 40; i++) {
    snprintf(value, sizeof value, "%d", i);
    expect_ok(pd_put(s, pd_text("n"), pd_text(value), NULL, &ack, &err), &err);
    if (i == 10) pd_id_hex(&ack.commit, early);
  }
  expect_ok(pd_store_close(s, &err), &err); /* with a keyframe, behind which gc may cut */
  s = open_store();
  for (int i = 41; i <= 60; i++) {
    snprintf(value, sizeof value, "%d", i);
    expect_ok(pd_put(s, pd_text("n"), pd_text(value), NULL, NULL, &err), &err);
  }
  expect_ok(pd_pin_set(s, early, NULL, NULL, &err), &err);
  expect_ok(pd_gc(s, &policy, NULL, &err), &err);
  expect_ok(pd_pin_delete(s, early, NULL, &err), &err);
  expect_ok(pd_gc(s, &policy, NULL, &err), &err);
  for (int i = 0; i < 5; i++) {
    pd_buf found = {0};
    snprintf(at, sizeof at, "main~%d", i);
    expect_ok(pd_get(s, at, pd_text("n"), &found, NULL, &err), &err);
    snprintf(value, sizeof value, "%d", 60 - i);
    assert_memory_equal(found.data, value, found.size);
    pd_buf_done(&found);
  }
  assert_int_equal(pd_get(s, early, pd_text("n"), NULL, NULL, &err), PD_RETIRED);
  expect_ok(pd_store_close(s, &err), &err);
}

static int make_folder(void **state)
{
  (void)state;
  strcpy(folder, "/tmp/perdure-gc-XXXXXX");
  now_ms = 1700000000000;
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(gc__ends_walks_with_retired_and_logs_without_an_error),
    cmocka_unit_test(gc__keeps_all_of_the_refs_that_are_to_stay_whole),
    cmocka_unit_test(gc__keeps_days_by_the_clock),
    cmocka_unit_test(gc__of_another_handle_is_noticed),
    cmocka_unit_test(gc__twice_at_one_cut_leaves_all_behind_it_readable),
    cmocka_unit_test(gc__keeps_what_the_policy_says_and_tells_what_is_gone),
    cmocka_unit_test(gc__does_the_same_in_files),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
