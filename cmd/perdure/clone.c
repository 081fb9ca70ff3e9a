/* clone.c: `clone`, `push` and `pull`: from home to home, here or on servers, through bundles. */
#include "base/array.h"
#include "base/base.h"
#include "base/error.h"
#include "base/names.h"
#include "bundle.h"
#include "commands.h"
#include "engine.h"
#include "far.h"
#include "remote/remote.h"
#include "transfer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define ORIGIN "origin"

/* The other side: where it is, and its store. */
typedef struct other {
  char *uri;
  char agent[PD_NAME_SIZE_MAX + 1];
  cli_session there; /* of that store */
} other;

static void other_done(other *o)
{
  pd_store_close(o->there.store, NULL);
  free(o->uri);
}

/* A plain folder is sqlite:FOLDER; a relative one is made absolute, because it is remembered. */
static pd_code other_uri(const char *text, char **out, pd_error *err)
{
  const char *path = strncmp(text, "sqlite:", 7) == 0 ? text + 7 : text;
  if (path == text && strchr(text, ':')) {
    *out = strdup(text);
    return *out ? PD_OK : pd_error_memory(err, "the store's name");
  }
  char *whole = realpath(path, NULL);
  if (!whole && errno != ENOENT) return pd_error_set(err, PD_STORAGE, "cannot use '%s': %s", path, strerror(errno));
  if (asprintf(out, "sqlite:%s", whole ? whole : path) < 0) *out = NULL;
  free(whole);
  return *out ? PD_OK : pd_error_memory(err, "the store's name");
}

static pd_code open_here(other *o, bool is_read_only, pd_error *err)
{
  pd_options options = {
    .is_read_only = is_read_only, .must_exist = true, .value_size_max = CLI_VALUE_SIZE_LIMIT, .cache_size_max = CLI_BUNDLE_CACHE_SIZE};
  return pd_store_open(o->uri, o->agent, &options, &o->there.store, err);
}

/* Is it there, and may we ask it? */
static pd_code look_there(other *o, pd_error *err)
{
  CLEANUP(names_done) names_list names = {0};
  return engine_names(&o->there, &names, err);
}

static pd_code other_open(cli_session *cli, const args_parsed *args, other *o, bool is_read_only, pd_error *err)
{
  bool is_named = args->spec == &cmd_clone.spec || args_get(args, "remote");
  TRY(far_other(cli, args, o->uri, is_named, err));
  o->there = (cli_session){.uri = o->uri, .agent = o->agent, .is_remote = pd_remote_is(o->uri)};
  pd_code code = o->there.is_remote ? look_there(o, err) : open_here(o, is_read_only, err);
  if (code == PD_DENIED) far_explain(cli, args, o->uri);
  if (code != PD_NOT_FOUND) return code;
  cli->exit_code = CLI_EXIT_STORAGE;
  return pd_error_set(err, PD_NOT_FOUND, "no store for agent '%s' in %s", o->agent, o->uri);
}

static pd_code other_name(const cli_session *cli, const args_parsed *args, const char *uri, other *o, pd_error *err)
{
  const char *agent = args_get(args, "remote-agent");
  if (!agent) agent = cli->agent;
  TRY(pd_agent_check(agent, err));
  strcpy(o->agent, agent);
  return other_uri(uri, &o->uri, err);
}

/* ---- clone ---- */

static pd_code clone_into(cli_session *cli, other *from, pd_error *err)
{
  bundle_view view;
  pd_import_report report;
  bundle_view_init(&view, cli, "clone", err);
  pd_transfer_options options = {.is_all = true, .export_progress = bundle_progress, .export_ctx = &view};
  options.import = (pd_import_options){.adopts_current = true, .visit_ref = bundle_take_ref, .progress = bundle_progress, .ctx = &view};
  pd_code code = transfer_bring(&from->there, cli, &options, &report, err);
  if (!code) code = transfer_remote_set(cli, ORIGIN, from->uri, from->agent, err);
  if (!code) code = bundle_print(&view, &report, false, err);
  bundle_view_done(&view);
  return code;
}

/* A clone is of a new store: else it would be a pull. One that was begun and killed may be ended. */
static pd_code check_new(cli_session *cli, pd_error *err)
{
  CLEANUP(names_done) names_list names = {0};
  TRY(engine_names(cli, &names, err));
  if (names_count(&names) == 1 && !names_at(&names, 0)->commit.seq) return PD_OK;
  snprintf(cli->hint, sizeof cli->hint, "to bring it up to date: perdure pull");
  return pd_error_set(err, PD_EXISTS, "agent '%s' in %s has a history already", cli->agent, cli->uri);
}

static pd_code make_or_open(cli_session *cli, pd_error *err)
{
  bool is_made;
  return cli->is_remote ? engine_make(cli, &is_made, err) : cli_open(cli, CLI_CREATE, err);
}

static pd_code clone_home(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(other_done) other from = {0}, to = {0};
  TRY(other_name(cli, args, args->words[0], &from, err));
  if (args->word_count > 1) {
    TRY(other_uri(args->words[1], &to.uri, err));
    TRY(far_move(cli, args, to.uri, err));
  }
  TRY(other_open(cli, args, &from, true, err));
  bundle_prepare(cli);
  TRY(make_or_open(cli, err));
  pd_code code = check_new(cli, err);
  if (!code) code = clone_into(cli, &from, err);
  pd_store_close(cli->store, NULL); /* its URI goes with this function */
  cli->store = NULL;
  return code;
}

static pd_code run_clone(cli_session *cli, const args_parsed *args, pd_error *err)
{
  const char *uri = cli->uri;
  bool is_remote = cli->is_remote;
  pd_code code = clone_home(cli, args, err);
  cli->uri = uri; /* DST is gone */
  cli->is_remote = is_remote;
  return code;
}

#define REMOTE_AGENT                                                                                                                       \
  {                                                                                                                                        \
    "remote-agent", 0, "NAME", "whose state there (default: the same agent)"                                                               \
  }

#define REMOTE_TOKEN                                                                                                                       \
  {                                                                                                                                        \
    "remote-token-file", 0, "FILE", "the token for the other home's server (PERDURE_REMOTE_TOKEN: the token itself)"                       \
  }

static const args_option clone_options[] = {REMOTE_AGENT, REMOTE_TOKEN, {0}};

const cli_command cmd_clone = {
  .spec = {"clone", clone_options, 1, 2, false},
  .group = "bundles",
  .summary = "Make a store from another, with all its history",
  .usage = "SRC [DST]",
  .about = "Copies every commit, ref, tag, pin, link and setting of the agent's store in the home SRC to DST (default:\n"
           "--store), and remembers SRC there as the place to push to and pull from.",
  .example = "$ perdure clone sqlite:../home ./copy\n$ perdure --agent twin clone ../home --remote-agent main",
  .run = run_clone,
};

/* ---- push and pull ---- */

static void free_bufs(pd_buf (*bufs)[2])
{
  pd_buf_done(&(*bufs)[0]);
  pd_buf_done(&(*bufs)[1]);
}

/* --remote, which is then remembered; else what was remembered. */
static pd_code find_remote(cli_session *cli, const args_parsed *args, other *o, pd_error *err)
{
  CLEANUP(free_bufs) pd_buf bufs[2] = {0};
  const char *uri = args_get(args, "remote");
  if (uri) return other_name(cli, args, uri, o, err);
  pd_code code = transfer_remote_get(cli, ORIGIN, &bufs[0], &bufs[1], err);
  if (code == PD_NOT_FOUND && !cli->exit_code) {
    cli->exit_code = CLI_EXIT_USAGE;
    snprintf(cli->hint, sizeof cli->hint, "say where with --remote URI; it is remembered");
  }
  TRY(code);
  o->uri = strdup((const char *)bufs[0].data);
  snprintf(o->agent, sizeof o->agent, "%s", (const char *)bufs[1].data);
  return o->uri ? PD_OK : pd_error_memory(err, "the store's name");
}

/* The current ref of the command's own store. */
static pd_code own_ref_of(cli_session *cli, char out[PD_REF_SIZE_MAX + 1], pd_error *err)
{
  CLEANUP(names_done) names_list names = {0};
  if (!cli->is_remote) {
    snprintf(out, PD_REF_SIZE_MAX + 1, "%s", pd_store_ref(cli->store));
    return PD_OK;
  }
  TRY(engine_names(cli, &names, err));
  for (size_t i = 0; i < names_count(&names); i++)
    if (names_at(&names, i)->is_current) snprintf(out, PD_REF_SIZE_MAX + 1, "%s", names_at(&names, i)->text);
  return PD_OK;
}

static pd_transfer_options transfer_of(const args_parsed *args, bundle_view *view, const char *const *own_ref)
{
  pd_transfer_options t = {.is_all = args_get(args, "all") != NULL, .export_progress = bundle_progress, .export_ctx = view};
  t.refs = args->word_count ? args->words : own_ref;
  t.ref_count = args->word_count ? args->word_count : 1;
  t.import = (pd_import_options){.visit_ref = bundle_take_ref, .progress = bundle_progress, .ctx = view};
  return t;
}

static pd_code remember(cli_session *cli, const args_parsed *args, const other *o, pd_error *err)
{
  return args_get(args, "remote") ? transfer_remote_set(cli, ORIGIN, o->uri, o->agent, err) : PD_OK;
}

static pd_code push_to(bundle_view *view, const args_parsed *args, other *to, pd_error *err)
{
  cli_session *cli = view->cli;
  char own[PD_REF_SIZE_MAX + 1] = "";
  const char *own_ref = own;
  pd_import_report report;
  TRY(own_ref_of(cli, own, err));
  pd_transfer_options t = transfer_of(args, view, &own_ref);
  pd_code code = transfer_bring(cli, &to->there, &t, &report, err);
  if (code == PD_CONFLICT) snprintf(cli->hint, sizeof cli->hint, "the other side has what you have not: perdure pull, merge, then push");
  TRY(code);
  TRY(remember(cli, args, to, err));
  return bundle_print(view, &report, false, err);
}

static pd_code run_push(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(other_done) other to = {0};
  bundle_view view;
  bundle_prepare(cli);
  TRY(engine_open(cli, CLI_WRITE, err));
  TRY(find_remote(cli, args, &to, err));
  TRY(other_open(cli, args, &to, false, err));
  bundle_view_init(&view, cli, "push", err);
  pd_code code = push_to(&view, args, &to, err);
  bundle_view_done(&view);
  return code;
}

/* The refs that came, by their names there. */
typedef struct fetched {
  bundle_view *view;
  pd_names names;
} fetched;

static void fetched_done(fetched *f)
{
  pd_names_done(&f->names);
}

static void take_fetched(void *ctx, const pd_import_ref *ref)
{
  fetched *f = ctx;
  bundle_take_ref(f->view, ref);
  pd_names_add(&f->names, ref->name + strlen(ORIGIN "/"));
}

static bool show_fetched(void *ctx, uint64_t done, uint64_t total)
{
  fetched *f = ctx;
  return bundle_progress(f->view, done, total);
}

/* Move a ref forward to what was fetched; one that has diverged is told, and stays. */
static pd_code forward_ref(cli_session *cli, const char *name, pd_error *err)
{
  char there[PD_REF_SIZE_MAX + 16];
  bool has_moved;
  pd_error why;
  snprintf(there, sizeof there, ORIGIN "/%s", name);
  pd_code code = transfer_forward(cli, name, there, &has_moved, &why);
  if (code == PD_CONFLICT) {
    cli_say(cli, "'%s' and '%s' have diverged; to bring them together: perdure merge %s --ref %s", name, there, there, name);
    cli->exit_code = CLI_EXIT_CONFLICT;
    return PD_OK;
  }
  if (code && err) *err = why;
  TRY(code);
  cli_say(cli, "'%s' %s", name, has_moved ? "moved forward" : "is up to date");
  return PD_OK;
}

static pd_code pull_from(bundle_view *view, const args_parsed *args, other *from, pd_error *err)
{
  cli_session *cli = view->cli;
  char own[PD_REF_SIZE_MAX + 1] = "";
  const char *own_ref = own;
  pd_import_report report;
  TRY(own_ref_of(cli, own, err));
  pd_transfer_options t = transfer_of(args, view, &own_ref);
  CLEANUP(fetched_done) fetched f = {.view = view};
  t.import = (pd_import_options){.as = ORIGIN, .visit_ref = take_fetched, .progress = show_fetched, .ctx = &f};
  TRY(transfer_bring(&from->there, cli, &t, &report, err));
  TRY(remember(cli, args, from, err));
  TRY(bundle_print(view, &report, false, err));
  TRY(pd_names_check(&f.names, "a list of refs", err));
  for (size_t i = 0; i < f.names.count; i++)
    if (strncmp(f.names.items[i], ORIGIN "/", strlen(ORIGIN "/")) != 0) TRY(forward_ref(cli, f.names.items[i], err));
  return PD_OK;
}

static pd_code run_pull(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(other_done) other from = {0};
  bundle_view view;
  bundle_prepare(cli);
  TRY(engine_open(cli, CLI_WRITE, err));
  TRY(find_remote(cli, args, &from, err));
  TRY(other_open(cli, args, &from, true, err));
  bundle_view_init(&view, cli, "pull", err);
  pd_code code = pull_from(&view, args, &from, err);
  bundle_view_done(&view);
  return code;
}

static const args_option remote_options[] = {
  {"remote", 0, "URI", "the other home; remembered for the next time"},
  REMOTE_AGENT,
  REMOTE_TOKEN,
  {"all", 'a', NULL, "all refs; with tags, pins, links and settings that are not there"},
  {0},
};

const cli_command cmd_push = {
  .spec = {"push", remote_options, 0, 64, false},
  .group = "bundles",
  .summary = "Bring refs to another home",
  .usage = "[REF…]",
  .about = "Brings the refs (default: the current one) to the other home and moves its refs forward. A ref that has\n"
           "diverged there is refused, and nothing is changed.",
  .example = "$ perdure push --remote sqlite:../home\n$ perdure push main experiment",
  .run = run_push,
};

const cli_command cmd_pull = {
  .spec = {"pull", remote_options, 0, 64, false},
  .group = "bundles",
  .summary = "Fetch refs from another home and move yours forward",
  .usage = "[REF…]",
  .about = "Fetches the refs (default: the current one) as origin/REF, then moves REF forward. One that has diverged\n"
           "stays, and the exit code is 3: perdure merge origin/REF. With --all, so it goes with every ref there.\n"
           "What is itself a picture of a third home (origin/…) is fetched and moves nothing here.",
  .example = "$ perdure pull --remote sqlite:../home\n$ perdure pull --all",
  .run = run_pull,
};
