/* thread.c: `thread`: conversations with their state. Most verbs are capabilities (tier.c); export and import are files. */
#include "base/base.h"
#include "base/error.h"
#include "base/file.h"
#include "bundle.h"
#include "commands.h"
#include "door.h"
#include "fields.h"
#include "progress.h"
#include "transfer.h"

#include <perdure/thread.h>

#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORDS_MAX 4

static void shut(pd_thread **thread)
{
  pd_thread_close(*thread);
}

static pd_code write_out(void *ctx, const void *data, size_t size, pd_error *err)
{
  cli_session *cli = ctx;
  (void)err; /* out.c tells a full disk at the end */
  out_bytes(&cli->out, (pd_bytes){data, size});
  return PD_OK;
}

/* Through a file, so that what comes of a failure in the middle is nothing; then to standard output. */
static pd_code export_there(cli_session *cli, const char *id, pd_error *err)
{
  static char block[1 << 16];
  CLEANUP(pd_fd_done) int fd = -1;
  uint64_t lines = 0;
  TRY(pd_file_temporary(&fd, err));
  TRY(transfer_thread_export(cli, id, fd, err));
  for (off_t at = 0;;) {
    ssize_t n = pread(fd, block, sizeof block, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return pd_file_refused(err, "read", "a temporary file");
    if (!n) break;
    for (ssize_t i = 0; i < n; i++) lines += block[i] == '\n';
    out_bytes(&cli->out, (pd_bytes){block, (size_t)n});
    out_drain(&cli->out);
    at += n;
  }
  cli_say(cli, "%" PRIu64 " lines", lines);
  return PD_OK;
}

static pd_code run_export(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(shut) pd_thread *thread = NULL;
  pd_sink sink = {.write = write_out, .ctx = cli};
  uint64_t lines;
  if (args->word_count != 2) return pd_error_set(err, PD_INVALID, "thread export: which one? Give its id");
  if (cli->is_remote) return export_there(cli, args->words[1], err);
  TRY(cli_open(cli, CLI_READ, err));
  TRY(pd_thread_open(cli->store, args->words[1], &thread, err));
  TRY(pd_thread_export(thread, &sink, &lines, err));
  cli_say(cli, "%" PRIu64 " lines", lines);
  return PD_OK;
}

static pd_code read_at(void *ctx, uint64_t at, void *data, size_t size, pd_error *err)
{
  const int *fd = ctx;
  for (char *to = data; size;) {
    ssize_t n = pread(*fd, to, size, (off_t)at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return pd_error_set(err, PD_STORAGE, "the export cannot be read: %s", n ? strerror(errno) : "it became shorter");
    to += n, at += (uint64_t)n, size -= (size_t)n;
  }
  return PD_OK;
}

static pd_code print_import(cli_session *cli, const pd_thread_replay_report *r, bool is_dry_run, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  cli_say(cli, "%s%" PRIu64 " versions, %" PRIu64 " messages, %" PRIu64 " runs", is_dry_run ? "dry run: " : "", r->versions, r->messages,
          r->runs);
  if (!cli->is_json) {
    out_printf(&cli->out, "%s\n", pd_id_hex(&r->commit, hex));
    return PD_OK;
  }
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_bool(&w, "dry_run", is_dry_run);
  pd_json_put_number(&w, "versions", r->versions);
  pd_json_put_number(&w, "messages", r->messages);
  pd_json_put_number(&w, "runs", r->runs);
  pd_json_put_id(&w, "commit", &r->commit);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static pd_code run_import(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(pd_fd_done) int fd = -1;
  struct stat st;
  progress_bar bar;
  pd_thread_replay_report report;
  const char *dry = args_get(args, "dry-run");
  if (args->word_count < 2 || args->word_count > 3) return pd_error_set(err, PD_INVALID, "thread import: FILE [NEW_ID], or - for FILE");
  TRY(bundle_open(args->words[1], &fd, err));
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return pd_error_set(err, PD_INVALID, "'%s' is no file", args->words[1]);
  if (!cli->is_remote) TRY(cli_open(cli, dry ? CLI_READ : CLI_CREATE, err));
  progress_init(&bar, cli, "import");
  pd_thread_import_options options = {
    .id = args->word_count == 3 ? args->words[2] : NULL, .is_dry_run = dry != NULL, .progress = progress_show, .ctx = &bar};
  pd_source source = {.read = read_at, .size = (uint64_t)st.st_size, .ctx = &fd};
  pd_code code = cli->is_remote ? transfer_thread_import(cli, fd, &options, &report, err)
                                : pd_thread_import(cli->store, &source, &options, &report, err);
  progress_clear(&bar);
  TRY(code);
  return print_import(cli, &report, dry != NULL, err);
}

static pd_code run_thread(cli_session *cli, const args_parsed *args, pd_error *err)
{
  const char *verb = args->word_count ? args->words[0] : "";
  if (strcmp(verb, "export") == 0) return run_export(cli, args, err);
  if (strcmp(verb, "import") == 0) return run_import(cli, args, err);
  return tier_run(cli, args, err);
}

static const args_option thread_options[] = {
  CLI_DOOR_OPTIONS,
  {"dry-run", 'n', NULL, "import: read and replay it, write nothing"},
  {0},
};

const cli_command cmd_thread = {
  .spec = {"thread", thread_options, 0, WORDS_MAX, true},
  .group = "agents",
  .summary = "Conversations with their state: every version kept, forked and replayed",
  .usage = "VERB [ID] [WORDS…] [--FIELD VALUE…]",
  .about = "A thread is a row of change sets: messages, patches of a JSON state, who and why.\n"
           "create [ID], list, show ID [VERSION], state ID [PATH], messages ID, log ID [AFTER], runs ID, delete ID;\n"
           "append ID takes a change set as --messages, --patches, --snapshot (JSON), with --run-id, --reason and\n"
           "--expected-version; exit code 3 says that another writer was faster. fork ID [VERSION [NEW_ID]],\n"
           "rewind ID VERSION, diff ID FROM [TO], blame ID [PATH]. replay ID rebuilds the thread from its change sets\n"
           "and compares every commit id; export ID writes it as lines of JSON, import FILE [NEW_ID] reads them.\n"
           "A run on it, one at a time, each call a checkpoint: begin ID, checkpoint ID REASON, finish ID [REASON],\n"
           "status ID, tool-begin ID CALL NAME, tool-suspend ID CALL, tool-resume ID CALL DECISION,\n"
           "tool-end ID CALL [STATUS].",
  .example = "$ perdure thread create trip --owner ada\n"
             "$ perdure thread append trip --expected-version 0 --run-id r1 --reason UserMessage \\\n"
             "    --messages '[{\"id\":\"m1\",\"role\":\"user\",\"content\":\"To Rome!\"}]' \\\n"
             "    --patches '[{\"op\":\"set\",\"path\":\"/to\",\"value\":\"Rome\"}]'\n"
             "$ perdure thread state trip /to --version 1\n"
             "$ perdure thread fork trip 0 trip-2 && perdure thread blame trip\n"
             "$ perdure thread export trip | perdure --agent other thread import -",
  .run = run_thread,
};
