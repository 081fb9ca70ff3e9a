/* door.c: see door.h. */
#include "door.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "far.h"
#include "far_home.h"
#include "home_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define ASK_AGAIN_MS 10
#define ASK_COUNT_MAX 1000

static const char *session_of(const args_parsed *args)
{
  const char *session = args_get(args, "session");
  if (!session) session = getenv("PERDURE_SESSION");
  return session && *session ? session : NULL;
}

static bool is_operator(const cli_session *cli, const args_parsed *args)
{
  return cli->is_operator || args_get(args, "operator");
}

/* Who calls: the agent, named or `main`. NULL: nobody but the operator, whose alerts, messages and process events are not an agent's unless
 * one was named: so an alert for all can be sent. */
static const char *caller(const cli_session *cli, bool is_operator, const char *capability)
{
  static const char *const sends[] = {"alerts.send", "queue.send", "process.record"};
  for (size_t i = 0; is_operator && !cli->has_agent && i < COUNT_OF(sends); i++)
    if (strcmp(capability, sends[i]) == 0) return NULL;
  return cli->agent;
}

/* ---- on the server of the home ---- */

/* What to ask it: with a session that names it as the server. */
typedef struct home_request {
  pd_code (*ask)(const cli_session *there, struct home_request *request, pd_error *err);
  const char *what, *session, *agent; /* a capability or a verb */
  bool is_operator;
  bool (*progress)(void *ctx, uint64_t done, uint64_t total);
  void *progress_ctx;
  pd_bytes input;
  pd_buf *out;
  const char *path;
  const passphrase *pass;
  bool can_repeat; /* it does no harm if it was done already */
  bool is_unsent;  /* out: nobody was there to see it */
} home_request;

static bool only_looks(const char *capability)
{
  pd_capability_info info;
  pd_json document, effect;
  if (pd_capability_find(capability, &info, NULL) || pd_json_parse(pd_text(info.document), &document, NULL)) return false;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(document, "side_effects"));
  return !pd_json_walk_next(&walk, NULL, &effect);
}

/* It is about to stop and refused us; or it has stopped, which leaves no socket behind. Then it has not seen the request, or was ended
 * before it could answer (a second signal, a kill, no more time): what changes something may have been done, and is not done again. */
static bool has_left(const home_request *request, const char *path, pd_code code, pd_error *err)
{
  if (code != PD_STORAGE) return false;
  if (strcmp(pd_error_name(err), "Draining") == 0) return true;
  if (access(path, F_OK) == 0) return false;
  if (request->is_unsent || request->can_repeat) return true;
  pd_error_set(err, PD_STORAGE, "the server of this home was ended before it answered: %s may have been done, look before it is repeated",
               request->what);
  return false;
}

/* False: no server runs. One that is about to stop is asked again until it is gone, or has thought better of it. */
static bool ask_home(cli_session *cli, home_request *request, pd_code *out_code, pd_error *err)
{
  char path[HOME_SERVER_PATH_SIZE], uri[HOME_SERVER_PATH_SIZE + 8];
  for (unsigned i = 0; home_server_find(cli, path); i++) {
    cli_session there = *cli;
    pd_error why = {0};
    snprintf(uri, sizeof uri, "unix:%s", path);
    there.uri = uri;
    there.is_remote = there.has_agent = true;
    pd_code code = request->ask(&there, request, &why);
    if (!has_left(request, path, code, &why) || i == ASK_COUNT_MAX) {
      *out_code = code;
      if (code) *err = why;
      return true;
    }
    nanosleep(&(struct timespec){.tv_nsec = ASK_AGAIN_MS * 1000000L}, NULL);
  }
  return false;
}

static pd_code ask_call(const cli_session *there, home_request *r, pd_error *err)
{
  cli_session as = *there;
  as.agent = r->agent;
  pd_buf_clear(r->out);
  far_caller who = {.session = r->session,
                    .is_operator = r->is_operator,
                    .progress = r->progress,
                    .progress_ctx = r->progress_ctx,
                    .out_is_unsent = &r->is_unsent};
  return far_call_as(&as, &who, r->what, r->input, r->out, err);
}

static pd_code ask_vault(const cli_session *there, home_request *r, pd_error *err)
{
  return far_vault(there, r->what, r->pass, NULL, NULL, r->path, err);
}

bool door_call_server(cli_session *cli, const args_parsed *args, const char *capability, pd_bytes input,
                      bool (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx, pd_buf *out, pd_code *out_code, pd_error *err)
{
  bool is_by_operator = is_operator(cli, args);
  home_request request = {
    .ask = ask_call,
    .what = capability,
    .session = session_of(args),
    .agent = caller(cli, is_by_operator, capability),
    .is_operator = is_by_operator,
    .progress = progress,
    .progress_ctx = ctx,
    .input = input,
    .out = out,
    .can_repeat = only_looks(capability),
  };
  return ask_home(cli, &request, out_code, err);
}

pd_code door_vault(cli_session *cli, const char *verb, const char *path, const passphrase *pass, pd_error *err)
{
  home_request request = {.ask = ask_vault, .what = verb, .path = path, .pass = pass, .can_repeat = true};
  pd_code code = PD_OK;
  if (cli->is_remote) return far_vault(cli, verb, pass, NULL, NULL, path, err);
  bool starts = strcmp(verb, "unlock") == 0;
  do {
    if (starts) TRY(home_server_start(cli, err));
    if (ask_home(cli, &request, &code, err)) return code;
  } while (starts);
  return pd_error_set(err, PD_NOT_FOUND, "no server of the home %s runs", cli->uri);
}

/* ---- in this process ---- */

/* Who only looks does not make a home: it would hide that the folder is the wrong one. */
static pd_code open_home(cli_session *cli, const char *capability, pd_home **out, pd_error *err)
{
  pd_home_options options = {.must_exist = strncmp(cli->uri, "sqlite:", 7) == 0 && only_looks(capability)};
  pd_code code = pd_home_open(cli->uri, &options, out, err);
  if (code != PD_NOT_FOUND) return code;
  cli->exit_code = CLI_EXIT_STORAGE;
  snprintf(cli->hint, sizeof cli->hint, "make one with: perdure init");
  return pd_error_set(err, PD_NOT_FOUND, "there is no home at %s", cli->uri);
}

static pd_code call_here(cli_session *cli, const args_parsed *args, const char *capability, pd_bytes input, pd_buf *out, pd_error *err)
{
  pd_home *home = NULL;
  pd_buf_clear(out);
  TRY(open_home(cli, capability, &home, err));
  pd_ctx ctx = {.home = home, .session = session_of(args), .is_operator = is_operator(cli, args)};
  ctx.agent = caller(cli, ctx.is_operator, capability);
  pd_code code = pd_call(&ctx, capability, input, out, err);
  pd_code closed = pd_home_close(home, code ? NULL : err);
  return code ? code : closed;
}

pd_code door_call(cli_session *cli, const args_parsed *args, const char *capability, pd_bytes input, pd_buf *out, pd_error *err)
{
  pd_json json;
  pd_code code = PD_OK;
  bool is_by_operator = is_operator(cli, args);
  if (cli->is_remote) {
    cli_session as = *cli;
    as.agent = caller(cli, is_by_operator, capability);
    return far_call(&as, session_of(args), is_by_operator, capability, input, out, err);
  }
  if (input.size && pd_json_parse(input, &json, NULL)) return call_here(cli, args, capability, input, out, err); /* it will say why */
  bool starts = strcmp(capability, "session.begin") == 0;
  do {
    if (starts) TRY(home_server_start(cli, err));
    if (door_call_server(cli, args, capability, input, NULL, NULL, out, &code, err)) return code;
  } while (starts);
  return call_here(cli, args, capability, input, out, err);
}
