/*
 * restore_kill_test.c: kill -9 at random moments of a restore, of a backup and of a snapshot, while others use the same stores: a process
 * that has all of them open, one that opens them for each read and verifies them, one that opens them for each put. In each round nobody
 * may see a store restored and another one not, and no acknowledged put may be lost but for what the restore sets aside.
 *
 * The others are this program again, with a role as their argument. The seed of the moments is printed; PERDURE_SEED replays it.
 * PERDURE_TORTURE=full: 30 agents and 300 kills; PERDURE_KILLS: another number of them.
 */
#include "base/base.h"
#include "base/clock.h"
#include "state/world.h"
#include "support/temp_folder.h"

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define PASSPHRASE "correct horse battery staple"
#define KEYS 3
#define AGENTS_MAX 30
#define STORES_MAX (AGENTS_MAX + 1)

static const pd_vault_options cheap = {.memory_kib = 64, .passes = 1};

/* What the processes of a round share. */
typedef struct board {
  _Atomic bool must_stop;
  _Atomic uint64_t reads, puts;
  _Atomic uint64_t acked[STORES_MAX]; /* the last put of the round that was acknowledged, by store; 0: none */
  char complaint[512];
} board;

typedef struct game {
  const char *uri;
  size_t count;
  board *board;
  char before, goal;
} game;

static void name_store(const game *g, size_t index, char out[16])
{
  if (index + 1 == g->count)
    strcpy(out, "shared");
  else
    snprintf(out, 16, "agent-%02u", (unsigned)index % 100);
}

/* ---- what is seen ---- */

/* Follows what one observer sees in a round: first the old state, from some moment on the new one. */
typedef struct observer {
  const game *g;
  bool has_seen_goal;
} observer;

static bool observe(observer *o, pd_store *store, const char *name, char *why, size_t size)
{
  for (unsigned k = 0; k < KEYS; k++) {
    char key[16], got = 0;
    pd_buf value = {0};
    pd_error err = {0};
    snprintf(key, sizeof key, "key-%u", k);
    if (pd_get(store, "main", pd_text(key), &value, NULL, &err)) {
      snprintf(why, size, "%s/%s: %.200s", name, key, err.message);
      return false;
    }
    got = value.size == 1 ? (char)value.data[0] : '?';
    pd_buf_done(&value);
    if (got == o->g->goal) o->has_seen_goal = true;
    if (got != o->g->goal && (got != o->g->before || o->has_seen_goal)) {
      snprintf(why, size, "mixed: %s/%s is %c, restoring from %c to %c", name, key, got, o->g->before, o->g->goal);
      return false;
    }
    o->g->board->reads++;
  }
  return true;
}

/* ---- the other processes ---- */

static int complain(const game *g, const char *text)
{
  snprintf(g->board->complaint, sizeof g->board->complaint, "%s", text);
  return 1;
}

/* As `perdure get` and `perdure verify` do. */
static int run_reader(const game *g)
{
  observer o = {.g = g};
  char name[16], why[400];
  for (size_t round = 0; !g->board->must_stop; round++)
    for (size_t i = 0; i < g->count && !g->board->must_stop; i++) {
      pd_store *s = NULL;
      pd_error err = {0};
      pd_options options = {.is_read_only = round % 2, .must_exist = true};
      name_store(g, i, name);
      if (pd_store_open(g->uri, name, &options, &s, &err)) return complain(g, err.message);
      if (!observe(&o, s, name, why, sizeof why)) return complain(g, why);
      if (i == round % g->count && pd_verify(s, NULL, NULL, &err)) return complain(g, err.message);
      if (pd_store_close(s, &err)) return complain(g, err.message);
    }
  return 0;
}

/* As `perdure put` does. */
static int run_writer(const game *g)
{
  char name[16], text[32];
  for (uint64_t n = 1; !g->board->must_stop; n++)
    for (size_t i = 0; i < g->count && !g->board->must_stop; i++) {
      pd_store *s = NULL;
      pd_error err = {0};
      name_store(g, i, name);
      snprintf(text, sizeof text, "%llu", (unsigned long long)n);
      if (pd_store_open(g->uri, name, NULL, &s, &err)) return complain(g, err.message);
      if (pd_put(s, pd_text("w"), pd_text(text), &(pd_note){.ref = "main"}, NULL, &err)) return complain(g, err.message);
      g->board->acked[i] = n;
      g->board->puts++;
      if (pd_store_close(s, &err)) return complain(g, err.message);
    }
  return 0;
}

static int run_restore(const game *g, const char *capability, const char *input)
{
  pd_home *home = NULL;
  pd_error err = {0};
  pd_buf out = {0};
  if (pd_home_open(g->uri, NULL, &home, &err) || pd_vault_unlock(home, pd_text(PASSPHRASE), &err)) return complain(g, err.message);
  pd_ctx ctx = {.home = home, .agent = "agent-00", .is_operator = true};
  if (pd_call(&ctx, capability, pd_text(input), &out, &err)) return complain(g, err.message);
  return 0;
}

static board *map_board(const char *path)
{
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(board))) abort();
  board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (b == MAP_FAILED) abort();
  close(fd);
  return b;
}

/* ROLE URI COUNT BOARD BEFORE GOAL [CAPABILITY INPUT] */
static int run_role(char **argv)
{
  game g = {.uri = argv[2], .count = strtoul(argv[3], NULL, 10), .board = map_board(argv[4]), .before = *argv[5], .goal = *argv[6]};
  if (strcmp(argv[1], "read") == 0) return run_reader(&g);
  if (strcmp(argv[1], "write") == 0) return run_writer(&g);
  return run_restore(&g, argv[7], argv[8]);
}

/* ---- the game ---- */

typedef struct match {
  world w;
  game g;
  char *board_path;
  pd_store *open[STORES_MAX]; /* as a server has them */
  const char *capability;
  char *inputs[2]; /* to state A, to state B */
  unsigned seed, seen[2];
  int64_t span_us; /* of a switch, as far as we know */
  bool is_aimed;
} match;

static pid_t start(const match *m, const char *role, const char *input)
{
  char count[16], before[2] = {m->g.before, 0}, goal[2] = {m->g.goal, 0};
  snprintf(count, sizeof count, "%zu", m->g.count);
  pid_t child = fork();
  if (child) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
  execl("/proc/self/exe", "restore_kill_test", role, m->g.uri, count, m->board_path, before, goal, m->capability, input, NULL);
  _exit(9);
}

static void put_all(match *m, const char *value)
{
  for (size_t i = 0; i < m->g.count; i++) {
    char name[16], key[16];
    pd_store *s = NULL;
    pd_edit *edit = NULL;
    name_store(&m->g, i, name);
    assert_int_equal(pd_store_open(m->w.uri, name, NULL, &s, &m->w.err), PD_OK);
    assert_int_equal(pd_edit_begin(s, &(pd_note){.ref = "main"}, &edit, &m->w.err), PD_OK);
    for (unsigned k = 0; k < KEYS; k++) {
      snprintf(key, sizeof key, "key-%u", k);
      assert_int_equal(pd_edit_put(edit, pd_text(key), pd_text(value), PD_ANY_VERSION, &m->w.err), PD_OK);
    }
    assert_int_equal(pd_edit_commit(edit, NULL, &m->w.err), PD_OK);
    assert_int_equal(pd_store_close(s, &m->w.err), PD_OK);
  }
}

static char *make_point(match *m, bool is_backup)
{
  world_ok(&m->w, is_backup ? "state.backup.create" : "state.snapshot.create", "{}");
  char *id = world_text(&m->w, is_backup ? "backup_id" : "snapshot_id");
  char *input = text_of("{\"%s\":\"%s\"}", is_backup ? "backup_id" : "snapshot_id", id);
  free(id);
  m->w.now_ms += 1000;
  return input;
}

static void begin_match(match *m, bool is_backup, size_t agents)
{
  const char *seed = getenv("PERDURE_SEED");
  *m = (match){.span_us = 4000 * (int64_t)agents, .seed = seed ? (unsigned)strtoul(seed, NULL, 10) : (unsigned)time(NULL)};
  printf("# PERDURE_SEED=%u\n", m->seed);
  world_open(&m->w, NULL);
  m->w.is_operator = true;
  m->board_path = text_of("%s.board", m->w.folder);
  m->g = (game){.uri = m->w.uri, .count = agents + 1, .board = map_board(m->board_path), .before = 'B', .goal = 'A'};
  m->capability = is_backup ? "state.backup.restore" : "state.snapshot.restore";
  assert_int_equal(pd_vault_init(m->w.home, pd_text(PASSPHRASE), &cheap, &m->w.err), PD_OK);
  assert_int_equal(pd_vault_unlock(m->w.home, pd_text(PASSPHRASE), &m->w.err), PD_OK);
  put_all(m, "A");
  m->inputs[0] = make_point(m, is_backup);
  put_all(m, "B");
  m->inputs[1] = make_point(m, is_backup);
  for (size_t i = 0; i < m->g.count; i++) {
    char name[16];
    name_store(&m->g, i, name);
    if (world_borrow(m->w.home, name, false, &m->open[i], &m->w.err)) fail_msg("%s: %s", name, m->w.err.message);
  }
}

static void end_match(match *m)
{
  for (size_t i = 0; i < m->g.count; i++) {
    if (pd_verify(m->open[i], NULL, NULL, &m->w.err)) fail_msg("%s", m->w.err.message);
    pd_home_return(m->w.home, m->open[i]);
  }
  munmap(m->g.board, sizeof(board));
  unlink(m->board_path);
  free(m->board_path);
  free(m->inputs[0]), free(m->inputs[1]);
  world_close(&m->w);
}

/* Wait for its switch to begin, and a little; or any moment of it. All the while look on, as a server's clients do. */
static void look_on(match *m, observer *o, pid_t child, int64_t whole_ms)
{
  char *joint = text_of("%s/.joint", m->w.folder), name[16], why[400];
  m->is_aimed = rand_r(&m->seed) % 4 != 0;
  bool has_begun = !m->is_aimed;
  int64_t span_us = m->is_aimed ? m->span_us : whole_ms * 1000, end = 0;
  int64_t give_up = pd_clock_monotonic_ms() + 60000;
  if (has_begun) end = pd_clock_monotonic_us() + rand_r(&m->seed) % span_us;
  for (size_t i = 0; !end || pd_clock_monotonic_us() < end; i = (i + 1) % m->g.count) {
    int how;
    if (!has_begun && access(joint, F_OK) == 0) {
      has_begun = true;
      end = pd_clock_monotonic_us() + rand_r(&m->seed) % span_us;
    }
    name_store(&m->g, i, name);
    if (!observe(o, m->open[i], name, why, sizeof why)) fail_msg("%s", why);
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid) break; /* it has finished */
    if (pd_clock_monotonic_ms() > give_up) fail_msg("the restore does not end (%d)", waitpid(child, &how, WNOHANG));
  }
  free(joint);
}

/* All stores have the same state, by a handle of its own each, and by the server's. */
static char final_state(match *m)
{
  char found = 0;
  for (unsigned is_server = 0; is_server < 2; is_server++)
    for (size_t i = 0; i < m->g.count; i++) {
      char name[16];
      pd_store *s = m->open[i];
      pd_buf value = {0};
      name_store(&m->g, i, name);
      if (!is_server && pd_store_open(m->w.uri, name, NULL, &s, &m->w.err)) fail_msg("%s: %s", name, m->w.err.message);
      if (pd_get(s, "main", pd_text("key-0"), &value, NULL, &m->w.err)) fail_msg("%s: %s", name, m->w.err.message);
      if (!found) found = (char)value.data[0];
      if ((char)value.data[0] != found) fail_msg("mixed: %s is %c where others are %c", name, value.data[0], found);
      pd_buf_done(&value);
      if (!is_server) assert_int_equal(pd_store_close(s, &m->w.err), PD_OK);
    }
  return found;
}

static uint64_t number_at(pd_store *store, const char *ref)
{
  pd_buf value = {0};
  char text[32] = "";
  if (pd_get(store, ref, pd_text("w"), &value, NULL, NULL) == PD_OK)
    snprintf(text, sizeof text, "%.*s", (int)value.size, (char *)value.data);
  pd_buf_done(&value);
  return strtoull(text, NULL, 10);
}

typedef struct ref_list {
  char (*names)[PD_REF_SIZE_MAX + 1];
  size_t count;
} ref_list;

static void add_ref(void *ctx, const pd_ref *ref)
{
  ref_list *list = ctx;
  if (strncmp(ref->name, "before-restore/", 15) != 0) return;
  list->names = realloc(list->names, (list->count + 1) * sizeof list->names[0]);
  strcpy(list->names[list->count++], ref->name);
}

/* The last acknowledged put is on main; or, if the state was replaced, on what the restore set aside. */
static void check_acked(match *m, char now)
{
  for (size_t i = 0; i < m->g.count; i++) {
    uint64_t acked = m->g.board->acked[i], on_main = number_at(m->open[i], "main");
    ref_list refs = {0};
    bool is_found = !acked || on_main == acked;
    if (!is_found && now == m->g.goal) {
      assert_int_equal(pd_ref_list(m->open[i], add_ref, &refs, &m->w.err), PD_OK);
      for (size_t r = 0; r < refs.count && !is_found; r++) is_found = number_at(m->open[i], refs.names[r]) == acked;
      free(refs.names);
    }
    if (!is_found)
      fail_msg("store %zu: put %llu was acknowledged and is lost: main has %llu (%s state)", i, (unsigned long long)acked,
               (unsigned long long)on_main, now == m->g.goal ? "new" : "old");
  }
}

static void end_child(match *m, pid_t child)
{
  int how;
  assert_int_equal(waitpid(child, &how, 0), child);
  if (!WIFEXITED(how) || WEXITSTATUS(how)) fail_msg("%s", m->g.board->complaint);
}

static void play_round(match *m, int64_t whole_ms)
{
  char before = final_state(m);
  m->g.before = before;
  m->g.goal = before == 'A' ? 'B' : 'A';
  memset(m->g.board, 0, sizeof *m->g.board);
  observer o = {.g = &m->g};
  pid_t reader = start(m, "read", ""), writer = start(m, "write", "");
  while (!m->g.board->reads || !m->g.board->puts) {
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)writer, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid) break;
    sched_yield();
  }
  pid_t restore = start(m, "restore", m->inputs[m->g.goal == 'B']);
  int how = 0;
  look_on(m, &o, restore, whole_ms);
  kill(restore, SIGKILL);
  assert_int_equal(waitpid(restore, &how, 0), restore);
  if (WIFEXITED(how) && WEXITSTATUS(how)) fail_msg("the restore failed: %s", m->g.board->complaint);
  m->g.board->must_stop = true;
  end_child(m, reader);
  end_child(m, writer);
  char now = final_state(m);
  check_acked(m, now);
  m->seen[now == m->g.goal]++;
  if (m->is_aimed) m->span_us = now == m->g.goal ? m->span_us * 2 / 3 + 1000 : m->span_us * 3 / 2; /* so that both outcomes are met */
}

static void play(bool is_backup)
{
  const char *torture = getenv("PERDURE_TORTURE");
  bool is_full = torture && strcmp(torture, "full") == 0;
  const char *number = getenv("PERDURE_KILLS");
  unsigned kills = number ? (unsigned)strtoul(number, NULL, 10) : is_full ? 300 : 20;
  match m;
  begin_match(&m, is_backup, is_full ? AGENTS_MAX : 8);
  int64_t from = pd_clock_monotonic_ms();
  int how;
  pid_t child = start(&m, "restore", m.inputs[0]);
  assert_int_equal(waitpid(child, &how, 0), child);
  if (!WIFEXITED(how) || WEXITSTATUS(how)) fail_msg("the first restore failed: %s", m.g.board->complaint);
  int64_t whole_ms = pd_clock_monotonic_ms() - from + 2;
  for (unsigned i = 0; i < kills; i++) play_round(&m, whole_ms);
  printf("# %u restores ended in the old state, %u in the new one\n", m.seen[0], m.seen[1]);
  end_match(&m);
}

static void restore__a_kill_at_any_moment_leaves_the_old_or_the_new_state_for_all(void **state)
{
  (void)state;
  play(true);
}

static void snapshot_restore__a_kill_at_any_moment_leaves_the_old_or_the_new_state_for_all(void **state)
{
  (void)state;
  play(false);
}

int main(int argc, char **argv)
{
  if (argc > 6) _exit(run_role(argv)); /* closes nothing, and no sanitizer minds */
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(restore__a_kill_at_any_moment_leaves_the_old_or_the_new_state_for_all),
    cmocka_unit_test(snapshot_restore__a_kill_at_any_moment_leaves_the_old_or_the_new_state_for_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
