/* doctor.c: `doctor`: what could be wrong with this home, and what to do. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "far_home.h"

typedef struct doctor_view {
  cli_session *cli;
  pd_json_writer *w;
  bool is_quiet; /* not what is fine */
} doctor_view;

static void show_diagnosis(void *ctx, const pd_diagnosis *d)
{
  static const out_colour colours[] = {OUT_GOOD, OUT_DIM, OUT_CHANGED, OUT_BAD};
  doctor_view *view = ctx;
  out_stream *o = &view->cli->out;
  if (view->w) {
    pd_json_open(view->w, '{');
    pd_json_put_text(view->w, "severity", pd_severity_name(d->severity));
    pd_json_put_text(view->w, "agent", d->agent);
    pd_json_put_text(view->w, "what", d->what);
    pd_json_put_text(view->w, "action", d->action);
    pd_json_close(view->w, '}');
    return;
  }
  if (view->is_quiet && d->severity == PD_SEVERITY_OK) return;
  out_set(o, colours[d->severity]);
  out_printf(o, "%-8s", pd_severity_name(d->severity));
  out_set(o, OUT_PLAIN);
  if (*d->agent) out_printf(o, "agent '%s': ", d->agent);
  out_safe(o, pd_text(d->what));
  out_text(o, "\n");
  if (!*d->action) return;
  out_text(o, "        ");
  out_safe(o, pd_text(d->action));
  out_text(o, "\n");
}

static int exit_of(pd_severity worst)
{
  return worst == PD_SEVERITY_ERROR ? CLI_EXIT_STORAGE : worst == PD_SEVERITY_WARNING ? CLI_EXIT_NEGATIVE : CLI_EXIT_OK;
}

/* The engine knows nothing of policies. */
static void look_at_policy(const cli_session *cli, doctor_view *view, pd_severity *worst)
{
  pd_error why = {0};
  if (cli->is_remote || strncmp(cli->uri, "sqlite:", 7) != 0 || pd_policy_check(cli->uri + 7, &why) == PD_OK) return;
  pd_diagnosis d = {.severity = PD_SEVERITY_ERROR,
                    .agent = "",
                    .what = why.message,
                    .action = "correct it: no home opens with it, and a server that runs keeps the rules from before"};
  show_diagnosis(view, &d);
  *worst = PD_SEVERITY_ERROR;
}

typedef struct notice_view {
  doctor_view *view;
  pd_severity *worst;
} notice_view;

static void show_notice(void *ctx, const char *text)
{
  notice_view *n = ctx;
  pd_diagnosis d = {.severity = PD_SEVERITY_WARNING, .agent = "", .what = text, .action = "remove it there"};
  show_diagnosis(n->view, &d);
  if (*n->worst < PD_SEVERITY_WARNING) *n->worst = PD_SEVERITY_WARNING;
}

/* …and nothing of settings. */
static pd_code look_at_config(const cli_session *cli, doctor_view *view, pd_severity *worst, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf file = {0};
  notice_view n = {view, worst};
  pd_error why = {0};
  if (cli->is_remote || strncmp(cli->uri, "sqlite:", 7) != 0) return PD_OK;
  TRY(pd_buf_printf(&file, err, "%s/perdure.toml%c", cli->uri + 7, 0));
  pd_code code = pd_config_each_notice(NULL, (const char *)file.data, show_notice, &n, &why);
  if (!code || code == PD_NOT_FOUND) code = pd_config_each_notice(NULL, NULL, show_notice, &n, &why);
  if (!code) return PD_OK;
  pd_diagnosis d = {.severity = PD_SEVERITY_ERROR, .agent = "", .what = why.message, .action = "correct it: no home opens with it"};
  show_diagnosis(view, &d);
  *worst = PD_SEVERITY_ERROR;
  return PD_OK;
}

static pd_code run_doctor(cli_session *cli, const args_parsed *args, pd_error *err)
{
  (void)args;
  pd_json_writer w;
  doctor_view view = {.cli = cli, .is_quiet = cli->is_quiet};
  pd_severity worst = PD_SEVERITY_OK;
  if (cli->is_json) {
    w = cli_json(cli, err);
    view.w = &w;
    pd_json_open(&w, '{');
    pd_json_key(&w, "findings");
    pd_json_open(&w, '[');
  }
  TRY(cli->is_remote ? far_doctor(cli, show_diagnosis, &view, &worst, err) : pd_doctor(cli->uri, show_diagnosis, &view, &worst, err));
  look_at_policy(cli, &view, &worst);
  TRY(look_at_config(cli, &view, &worst, err));
  cli->exit_code = exit_of(worst);
  if (!cli->is_json) return PD_OK;
  pd_json_close(&w, ']');
  pd_json_put_text(&w, "worst", pd_severity_name(worst));
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

const cli_command cmd_doctor = {
  .spec = {"doctor", NULL, 0, 0, false},
  .group = "care",
  .summary = "Say what could be wrong with this home, and what to do",
  .usage = "",
  .about = "Looks at the folder, its file system and permissions, at the files in it, and at the store of every agent: format,\n"
           "lock file, newest records, last keyframe, a sample of each ref, clock, signatures. Changes nothing. Quick; `verify`\n"
           "is the thorough one. Exits 0 if there is nothing worse than a note, 1 with warnings, 4 with errors.",
  .example = "$ perdure doctor\n$ perdure --json doctor",
  .run = run_doctor,
};
