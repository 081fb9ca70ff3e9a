/* bundle.c: `export` and `import`: history as one file. */
#include "bundle.h"
#include "base/base.h"
#include "base/error.h"
#include "base/json_report.h"
#include "commands.h"
#include "engine.h"
#include "progress.h"
#include "transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void close_fd(int *fd)
{
  if (*fd > STDERR_FILENO) close(*fd);
}

static pd_code refused(const char *what, const char *path, pd_error *err)
{
  int why = errno;
  return pd_error_set(err, why == ENOSPC || why == EDQUOT ? PD_FULL : PD_STORAGE, "cannot %s '%s': %s", what, path, strerror(why));
}

/* ---- what became of the refs ---- */

void bundle_take_ref(void *ctx, const pd_import_ref *ref)
{
  bundle_view *view = ctx;
  char hex[PD_ID_HEX_SIZE];
  if (view->cli->is_json) {
    pd_json_open(&view->refs, '{');
    pd_json_put_text(&view->refs, "ref", ref->name);
    pd_json_put_id(&view->refs, "commit", &ref->commit);
    pd_json_put_text(&view->refs, "fate", pd_import_fate_names[ref->fate - 1]);
    pd_json_close(&view->refs, '}');
  } else {
    out_printf(&view->lines, "%-10s %s  %s\n", pd_import_fate_names[ref->fate - 1], cli_short_id(&ref->commit, hex), ref->name);
  }
}

bool bundle_progress(void *ctx, uint64_t done, uint64_t total)
{
  bundle_view *view = ctx;
  return progress_show(&view->bar, done, total);
}

void bundle_prepare(cli_session *cli)
{
  cli->value_size_max = CLI_VALUE_SIZE_LIMIT;
  cli->cache_size_max = CLI_BUNDLE_CACHE_SIZE;
}

void bundle_view_init(bundle_view *view, cli_session *cli, const char *what, pd_error *err)
{
  memset(view, 0, sizeof *view);
  view->cli = cli;
  view->lines.is_memory = true;
  view->refs = (pd_json_writer){.out = &view->json, .err = err};
  progress_init(&view->bar, cli, what);
}

void bundle_view_done(bundle_view *view)
{
  progress_clear(&view->bar);
  pd_buf_done(&view->json);
  pd_buf_done(&view->lines.buf);
}

pd_code bundle_print(bundle_view *view, const pd_import_report *report, bool is_dry_run, pd_error *err)
{
  cli_session *cli = view->cli;
  progress_clear(&view->bar);
  if (!cli->is_json) {
    out_bytes(&cli->out, (pd_bytes){view->lines.buf.data, view->lines.buf.size});
    cli_say(cli, "%s%" PRIu64 " of %" PRIu64 " commits from '%s' %s new", is_dry_run ? "dry run: " : "", report->added, report->commits,
            report->source, is_dry_run ? "would be" : "were");
    return PD_OK;
  }
  TRY(view->refs.code);
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "source", report->source);
  pd_json_put_bool(&w, "dry_run", is_dry_run);
  pd_json_put_number(&w, "commits", report->commits);
  pd_json_put_number(&w, "added", report->added);
  pd_json_put_number(&w, "changes", report->changes);
  pd_json_put_number(&w, "value_bytes", report->value_bytes);
  pd_json_put_number(&w, "metas_added", report->metas_added);
  pd_json_key(&w, "refs");
  out_printf(&cli->out, "[%.*s]", (int)view->json.size, (const char *)view->json.data);
  w.needs_comma = true;
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

/* ---- export ---- */

static pd_code print_export(cli_session *cli, const pd_export_report *r, const char *path, pd_error *err)
{
  bool is_stdout = strcmp(path, "-") == 0; /* which then is the bundle's alone */
  cli_say(cli, "%" PRIu64 " commits and %" PRIu64 " refs in %" PRIu64 " bytes%s", r->commits, r->refs, r->file_bytes,
          r->needs ? "; it needs a store that has what it builds on" : "");
  if (!cli->is_json || is_stdout) return PD_OK;
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "file", path);
  pd_json_put_number(&w, "commits", r->commits);
  pd_json_put_number(&w, "changes", r->changes);
  pd_json_put_number(&w, "refs", r->refs);
  pd_json_put_number(&w, "metas", r->metas);
  pd_json_put_number(&w, "needs", r->needs);
  pd_json_put_number(&w, "value_bytes", r->value_bytes);
  pd_json_put_number(&w, "file_bytes", r->file_bytes);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

/* Beside the file, then renamed: a bundle that could not be finished replaces nothing. For its owner alone. */
static pd_code export_to(cli_session *cli, const char *path, const pd_export_options *options, pd_export_report *out, pd_error *err)
{
  char beside[4096];
  if (strcmp(path, "-") == 0) return transfer_export(cli, STDOUT_FILENO, options, out, err);
  if (snprintf(beside, sizeof beside, "%s.XXXXXX", path) >= (int)sizeof beside)
    return pd_error_set(err, PD_INVALID, "the name is too long");
  CLEANUP(close_fd) int fd = mkostemp(beside, O_CLOEXEC);
  if (fd < 0) return refused("write", path, err);
  pd_code code = transfer_export(cli, fd, options, out, err);
  if (!code && (fsync(fd) != 0 || rename(beside, path) != 0)) code = refused("write", path, err);
  if (code) unlink(beside);
  return code;
}

static pd_code run_export(cli_session *cli, const args_parsed *args, pd_error *err)
{
  const char *since[ARGS_GIVEN_MAX], *path = args->words[args->word_count - 1];
  size_t since_count = 0, given = 0;
  progress_bar bar;
  for (const char *at; since_count < ARGS_GIVEN_MAX && (at = args_next(args, "since", &given));) since[since_count++] = at;
  pd_export_options options = {.refs = args->words,
                               .ref_count = args->word_count - 1,
                               .is_all = args_get(args, "all") != NULL,
                               .since = since,
                               .since_count = since_count,
                               .progress = progress_show,
                               .ctx = &bar};
  pd_export_report report;
  if (options.is_all && options.ref_count) return pd_error_set(err, PD_INVALID, "either REF or --all, not both");
  if (strcmp(path, "-") == 0 && isatty(STDOUT_FILENO))
    return pd_error_set(err, PD_INVALID, "a bundle is not for a terminal: name a file, or redirect the output");
  bundle_prepare(cli);
  TRY(engine_open(cli, CLI_READ, err));
  progress_init(&bar, cli, "export");
  pd_code code = export_to(cli, path, &options, &report, err);
  progress_clear(&bar);
  TRY(code);
  return print_export(cli, &report, path, err);
}

static const args_option export_options[] = {
  {"all", 'a', NULL, "every commit and ref, with tags, pins, message links and settings"},
  {"since", 0, "X", "leave out X and what came before it; the importer must have it (repeatable)"},
  {0},
};

const cli_command cmd_export = {
  .spec = {"export", export_options, 1, 64, false},
  .group = "bundles",
  .summary = "Write history and lineage into one file",
  .usage = "[REF…|--all] FILE",
  .about = "Writes a bundle: the commits of the refs (default: the current one) with their values, authors, runs,\n"
           "reasons and times, packed and with a checksum. `-` is standard output. What was erased travels as erased.\n"
           "A history that gc has cut travels from there on, the oldest commits with all their keys.",
  .example = "$ perdure export --all backup.bundle\n$ perdure export main --since main~10 - | ssh host perdure import -",
  .run = run_export,
};

/* ---- import ---- */

/* A bundle is read more than once, so what comes through a pipe is kept in a file without a name. */
static pd_code spool(int from, int *out, pd_error *err)
{
  static char block[1 << 16];
  FILE *file = tmpfile();
  if (!file) return refused("make", "a temporary file", err);
  *out = fcntl(fileno(file), F_DUPFD_CLOEXEC, 3);
  fclose(file);
  if (*out < 0) return refused("make", "a temporary file", err);
  for (;;) {
    ssize_t n = read(from, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return refused("read", "standard input", err);
    if (!n) return PD_OK;
    if (write(*out, block, (size_t)n) != n) return refused("write", "a temporary file", err);
  }
}

pd_code bundle_open(const char *path, int *out, pd_error *err)
{
  if (strcmp(path, "-") == 0) return spool(STDIN_FILENO, out, err);
  *out = open(path, O_RDONLY | O_CLOEXEC);
  return *out < 0 ? refused("open", path, err) : PD_OK;
}

static pd_code import_from(bundle_view *view, int fd, const pd_import_options *options, pd_error *err)
{
  pd_import_report report;
  cli_session *cli = view->cli;
  pd_code code = transfer_import(cli, fd, options, &report, err);
  if (code == PD_CONFLICT) snprintf(cli->hint, sizeof cli->hint, "import it beside yours with --as origin, then: perdure merge origin/REF");
  if (code == PD_NOT_FOUND && !cli->exit_code) cli->exit_code = CLI_EXIT_CONFLICT;
  TRY(code);
  return bundle_print(view, &report, options->is_dry_run, err);
}

static pd_code run_import(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(close_fd) int fd = -1;
  bundle_view view;
  pd_import_options options = {.is_dry_run = args_get(args, "dry-run") != NULL,
                               .as = args_get(args, "as"),
                               .visit_ref = bundle_take_ref,
                               .progress = bundle_progress,
                               .ctx = &view};
  TRY(bundle_open(args->words[0], &fd, err));
  bundle_prepare(cli);
  TRY(engine_open(cli, options.is_dry_run ? CLI_READ : CLI_CREATE, err));
  bundle_view_init(&view, cli, "import", err);
  pd_code code = import_from(&view, fd, &options, err);
  bundle_view_done(&view);
  return code;
}

static const args_option import_options[] = {
  {"as", 0, "PREFIX", "name the refs PREFIX/REF, so that yours stay as they are"},
  {"dry-run", 'n', NULL, "verify it and say what would come in; change nothing"},
  {0},
};

const cli_command cmd_import = {
  .spec = {"import", import_options, 1, 1, false},
  .group = "bundles",
  .summary = "Take in a bundle",
  .usage = "FILE",
  .about = "Verifies the whole bundle, then takes in its commits with the same ids, versions, authors and times, and\n"
           "moves the refs forward. A damaged bundle, or one whose refs have diverged from yours, changes nothing.\n"
           "Tags, pins, links and settings that are here already stay as they are. `-` is standard input.",
  .example = "$ perdure import --dry-run backup.bundle\n$ perdure import backup.bundle --as origin",
  .run = run_import,
};
