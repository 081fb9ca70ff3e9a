/*
 * bisect.c: `bisect`: the first commit on a line of history at which a command fails on the value of a key.
 *
 * Only commits that changed the key are candidates, oldest first; between two of them the value is the same. The search keeps that
 * what is at `low` is good and what is at `high` is bad, and halves the distance; commits that cannot be tried are stepped around.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"
#include "record.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND_WORDS_MAX 4096
#define EXIT_SKIP 125

typedef enum verdict { VERDICT_NONE = 0, VERDICT_GOOD, VERDICT_BAD, VERDICT_SKIP } verdict;

typedef struct candidate {
  pd_id commit;
  verdict verdict;
} candidate;

typedef struct bisect {
  cli_session *cli;
  pd_bytes key;
  const char *key_text;
  char **command;
  pd_commit good, bad;
  candidate *candidates; /* oldest first, once turned round */
  size_t count, capacity;
  bool has_met_good;
  pd_code code; /* of the visitor */
  uint64_t runs, skips;
} bisect;

static void bisect_done(bisect *b)
{
  free(b->candidates);
}

/* ---- who is suspected ---- */

static bool changes_key(const pd_record *record, pd_bytes key)
{
  for (size_t i = 0; i < record->change_count; i++)
    if (pd_bytes_equal(record->changes[i].key, key)) return true;
  return false;
}

static bool visit_commit(void *ctx, const pd_record *record)
{
  bisect *b = ctx;
  if (changes_key(record, b->key)) {
    b->code = pd_array_grow(&b->candidates, b->count, &b->capacity, sizeof *b->candidates, "the commits", NULL);
    if (b->code) return false;
    b->candidates[b->count++] = (candidate){.commit = record->commit.id};
  }
  b->has_met_good = record->parent_count && pd_id_equal(&record->parents[0], &b->good.id);
  return !b->has_met_good;
}

static void turn_round(bisect *b)
{
  for (size_t i = 0; i < b->count / 2; i++) {
    candidate other = b->candidates[i];
    b->candidates[i] = b->candidates[b->count - 1 - i];
    b->candidates[b->count - 1 - i] = other;
  }
}

static pd_code collect(bisect *b, const char *good, const char *bad, pd_error *err)
{
  CLEANUP(engine_log_done) engine_log at_good = {.cli = b->cli, .query = {.at = good, .limit = 1}}, log = {.cli = b->cli, .query.at = bad};
  char hex[PD_ID_HEX_SIZE];
  TRY(engine_log_begin(&at_good, err));
  TRY(engine_log_begin(&log, err));
  b->good = at_good.start;
  b->bad = log.start;
  if (pd_id_equal(&b->good.id, &b->bad.id)) return pd_error_set(err, PD_INVALID, "--good %s and --bad %s are the same commit", good, bad);
  log.query.at = pd_id_hex(&b->bad.id, hex); /* it does not move meanwhile */
  TRY(engine_log_visit(&log, visit_commit, b, err));
  if (b->code) return pd_error_memory(err, "the commits");
  if (!b->has_met_good)
    return pd_error_set(err, PD_INVALID, "--good %s is no ancestor of --bad %s along first parents: there is no line to search", good, bad);
  if (!b->count) return pd_error_set(err, PD_NOT_FOUND, "key '%s' does not change between %s and %s", b->key_text, good, bad);
  turn_round(b);
  return PD_OK;
}

/* ---- one trial ---- */

static void close_file(FILE **file)
{
  if (*file) fclose(*file);
}

/* A file, not a pipe: a command that does not read its input, or not all of it, must not stop us. */
static pd_code make_input(pd_bytes value, FILE **out, pd_error *err)
{
  *out = tmpfile();
  bool is_ok = *out && fwrite(value.data ? value.data : "", 1, value.size, *out) == value.size && fflush(*out) == 0;
  if (is_ok) is_ok = lseek(fileno(*out), 0, SEEK_SET) == 0;
  return is_ok ? PD_OK : pd_error_set(err, PD_STORAGE, "cannot make a file for the value: %s", strerror(errno));
}

static int spawn(char **command, int input, pid_t *out)
{
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE); /* we ignore it; the command is not asked to */
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO); /* standard output is for the answer */
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  int failed = posix_spawnp(out, command[0], &actions, &attributes, command, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return failed;
}

static pd_code run_command(bisect *b, pd_bytes value, int *out_status, pd_error *err)
{
  CLEANUP(close_file) FILE *input = NULL;
  pid_t child;
  TRY(make_input(value, &input, err));
  int failed = spawn(b->command, fileno(input), &child);
  if (failed) return pd_error_set(err, PD_INVALID, "cannot run '%s': %s", b->command[0], strerror(failed));
  while (waitpid(child, out_status, 0) < 0)
    if (errno != EINTR) return pd_error_set(err, PD_STORAGE, "cannot wait for '%s': %s", b->command[0], strerror(errno));
  b->runs++;
  return PD_OK;
}

static pd_code judge(const bisect *b, int status, verdict *out, pd_error *err)
{
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  if (WIFSIGNALED(status)) return pd_error_set(err, PD_INVALID, "'%s' was ended by signal %d", b->command[0], WTERMSIG(status));
  if (code > EXIT_SKIP)
    return pd_error_set(err, PD_INVALID, "'%s' ended with exit code %d: 126 and above stop the search", b->command[0], code);
  *out = code == 0 ? VERDICT_GOOD : code == EXIT_SKIP ? VERDICT_SKIP : VERDICT_BAD;
  return PD_OK;
}

static const char *verdict_name(verdict v)
{
  static const char *const names[] = {"untested", "good", "bad", "skipped"};
  return names[v];
}

/* A deleted key is tried with no input; a value that was erased or retired cannot be tried. */
static pd_code try_commit(bisect *b, const pd_id *commit, verdict *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  char hex[PD_ID_HEX_SIZE];
  pd_error why;
  int status;
  pd_code code = engine_get(b->cli, pd_id_hex(commit, hex), b->key, 0, &value, NULL, &why);
  if (code == PD_ERASED || code == PD_RETIRED) {
    cli_say(b->cli, "%.12s  skipped: %s", hex, why.message);
    *out = VERDICT_SKIP;
    return PD_OK;
  }
  if (code && code != PD_NOT_FOUND) {
    *err = why;
    return code;
  }
  setenv("PERDURE_KEY", b->key_text, 1);
  setenv("PERDURE_COMMIT", hex, 1);
  setenv("PERDURE_FOUND", code ? "0" : "1", 1);
  TRY(run_command(b, pd_buf_bytes(&value), &status, err));
  TRY(judge(b, status, out, err));
  cli_say(b->cli, "%.12s  %s", hex, verdict_name(*out));
  return PD_OK;
}

/* ---- the search ---- */

static pd_code check_ends(bisect *b, const char *good, const char *bad, pd_error *err)
{
  verdict at_good, at_bad;
  TRY(try_commit(b, &b->good.id, &at_good, err));
  if (at_good != VERDICT_GOOD) return pd_error_set(err, PD_INVALID, "--good %s is not good: it is %s", good, verdict_name(at_good));
  TRY(try_commit(b, &b->candidates[b->count - 1].commit, &at_bad, err));
  if (at_bad != VERDICT_BAD) return pd_error_set(err, PD_INVALID, "--bad %s is not bad: it is %s", bad, verdict_name(at_bad));
  b->candidates[b->count - 1].verdict = VERDICT_BAD;
  return PD_OK;
}

/* The untested candidate nearest to the middle of low … high; `high` if there is none. Candidates are numbered from 1; 0 is --good. */
static size_t choose(const bisect *b, size_t low, size_t high)
{
  size_t middle = low + (high - low) / 2;
  for (size_t step = 0; step < high - low; step++) {
    if (middle + step < high && b->candidates[middle + step - 1].verdict == VERDICT_NONE) return middle + step;
    if (middle > low + step && b->candidates[middle - step - 1].verdict == VERDICT_NONE) return middle - step;
  }
  return high;
}

/* Afterwards the first bad commit is one of low+1 … high: the last of them, if there is no other. */
static pd_code search(bisect *b, size_t *out_low, size_t *out_high, pd_error *err)
{
  size_t low = 0, high = b->count;
  while (high - low > 1) {
    size_t next = choose(b, low, high);
    if (next == high) break; /* all that is left was skipped */
    candidate *c = &b->candidates[next - 1];
    TRY(try_commit(b, &c->commit, &c->verdict, err));
    b->skips += c->verdict == VERDICT_SKIP;
    if (c->verdict == VERDICT_GOOD) low = next;
    if (c->verdict == VERDICT_BAD) high = next;
  }
  *out_low = low;
  *out_high = high;
  return PD_OK;
}

/* ---- the answer ---- */

static bool print_record(void *ctx, const pd_record *record)
{
  record_print(ctx, record, NULL, RECORD_CHANGES_SHOWN);
  return true;
}

static bool print_record_json(void *ctx, const pd_record *record)
{
  record_json(ctx, record);
  return true;
}

static pd_code show_commit(bisect *b, const pd_id *commit, pd_record_visit visit, void *ctx, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  CLEANUP(engine_log_done) engine_log log = {.cli = b->cli, .query.at = pd_id_hex(commit, hex), .is_one = true};
  TRY(engine_log_begin(&log, err));
  return engine_log_visit(&log, visit, ctx, err);
}

static pd_code answer_json(bisect *b, size_t low, size_t high, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  bool is_found = high - low == 1;
  pd_json_writer w = cli_json(b->cli, err);
  pd_json_open(&w, '{');
  pd_json_put_bytes(&w, "key", b->key);
  pd_json_put_id(&w, "good", &b->good.id);
  pd_json_put_id(&w, "bad", &b->bad.id);
  pd_json_put_number(&w, "candidates", b->count);
  pd_json_put_number(&w, "runs", b->runs);
  pd_json_put_number(&w, "skipped", b->skips);
  pd_json_put_bool(&w, "is_found", is_found);
  if (is_found) {
    pd_json_key(&w, "first_bad");
    TRY(show_commit(b, &b->candidates[high - 1].commit, print_record_json, &w, err));
  } else {
    pd_json_key(&w, "suspects");
    pd_json_open(&w, '[');
    for (size_t i = low; i < high; i++) pd_json_text(&w, pd_text(pd_id_hex(&b->candidates[i].commit, hex)));
    pd_json_close(&w, ']');
  }
  pd_json_close(&w, '}');
  return cli_json_end(b->cli, &w);
}

static pd_code answer(bisect *b, size_t low, size_t high, pd_error *err)
{
  out_stream *o = &b->cli->out;
  char hex[PD_ID_HEX_SIZE];
  if (high - low > 1) b->cli->exit_code = CLI_EXIT_NEGATIVE;
  if (b->cli->is_json) return answer_json(b, low, high, err);
  if (high - low == 1) {
    pd_id_hex(&b->candidates[high - 1].commit, hex);
    cli_say(b->cli, "the first bad commit, after %" PRIu64 " run%s of the command:", b->runs, b->runs == 1 ? "" : "s");
    out_printf(o, "%s\n\n", hex);
    return show_commit(b, &b->candidates[high - 1].commit, print_record, o, err);
  }
  cli_say(b->cli, "the first bad commit is one of these %zu; the others were skipped:", high - low);
  for (size_t i = low; i < high; i++) out_printf(o, "%s\n", pd_id_hex(&b->candidates[i].commit, hex));
  return PD_OK;
}

static unsigned steps_for(size_t count)
{
  unsigned steps = 0;
  while (count > 1) count -= count / 2, steps++;
  return steps;
}

static pd_code run_bisect(cli_session *cli, const args_parsed *args, pd_error *err)
{
  const char *good = args_get(args, "good"), *bad = args_get(args, "bad");
  if (!good || !bad) return pd_error_set(err, PD_INVALID, "bisect needs --good A and --bad B");
  if (args->word_count < 2) return pd_error_set(err, PD_INVALID, "bisect needs a command to run, after --");
  CLEANUP(bisect_done)
  bisect b = {.cli = cli, .key = pd_text(args->words[0]), .key_text = args->words[0], .command = (char **)args->words + 1};
  size_t low, high;
  TRY(pd_key_check(b.key, err));
  TRY(engine_open(cli, CLI_READ, err));
  TRY(collect(&b, good, bad, err));
  unsigned steps = steps_for(b.count);
  cli_say(cli, "%zu commit%s changed '%s'; about %u step%s", b.count, b.count == 1 ? "" : "s", b.key_text, steps, steps == 1 ? "" : "s");
  TRY(check_ends(&b, good, bad, err));
  TRY(search(&b, &low, &high, err));
  return answer(&b, low, high, err);
}

static const args_option bisect_options[] = {
  {"good", 0, "A", "a point at which the command succeeds"},
  {"bad", 0, "B", "a later point at which it fails"},
  {0},
};

const cli_command cmd_bisect = {
  .spec = {"bisect", bisect_options, 1, COMMAND_WORDS_MAX, false},
  .group = "history",
  .summary = "Find the first commit at which a command fails on a value",
  .usage = "KEY --good A --bad B -- COMMAND…",
  .about = "Runs COMMAND with the value of KEY on its standard input, at commits between A and B that changed KEY, and\n"
           "prints the first at which it fails. PERDURE_KEY and PERDURE_COMMIT are in its environment; PERDURE_FOUND\n"
           "is 0 where the key is absent, and its input empty. Its exit code says: 0 good, 1 to 124 bad, 125 cannot\n"
           "be tried here, 126 and above stop. A must be an ancestor of B along first parents. What COMMAND prints\n"
           "goes to standard error. Exit code 1, and the suspects, if skipped commits hide the answer.",
  .example = "$ perdure bisect plan --good v1 --bad main -- jq -e '.budget >= 0'\n"
             "$ perdure bisect plan --good root --bad main -- sh -c '! grep -q ERROR'",
  .run = run_bisect,
};
