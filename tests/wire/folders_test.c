/*
 * folders_test.c: folders of the server's machine that agents name: only below folders.roots, without links and `..`, when they are named
 * and whenever they are looked at; and what is elsewhere is refused in one way, whether or not it is there.
 */
#include "base/base.h"
#include "support/temp_folder.h"
#include "wire/server_world.h"

#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SECRET "merger-with-acme.txt"
#define BRIEFING "{\"since\":\"2000-01-01T00:00:00Z\",\"detail_level\":\"detailed\"}"

/* A server, and beside it GROUND: data (a root) with work/sub/known in it, data2, outside with work/sub/SECRET, and links. */
typedef struct world {
  served *s;
  char ground[PATH_MAX];
  char *agent; /* its token */
} world;

/* ---- files ---- */

static char *at(const world *w, const char *name)
{
  return text_of("%s/%s", w->ground, name);
}

static void make_folder(const world *w, const char *name)
{
  char *path = at(w, name);
  assert_int_equal(mkdir(path, 0755), 0);
  free(path);
}

static void make_file(const world *w, const char *name)
{
  char *path = at(w, name);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(name, f);
  assert_int_equal(fclose(f), 0);
  free(path);
}

static void make_link(const world *w, const char *target, const char *name)
{
  char *path = at(w, name);
  assert_int_equal(symlink(target, path), 0);
  free(path);
}

static void move(const world *w, const char *from, const char *to)
{
  char *old = at(w, from), *new = at(w, to);
  assert_int_equal(rename(old, new), 0);
  free(old);
  free(new);
}

/* Roots: names below GROUND. NULL: no such setting. */
static void configure(const world *w, const char *folder, const char *first, const char *second)
{
  char *path = text_of("%s/home/perdure.toml", folder);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  if (first) fprintf(f, "[folders]\nroots = [\"%s/%s\"", w->ground, first);
  if (first && second) fprintf(f, ", \"%s/%s\"", w->ground, second);
  if (first) fputs("]\n", f);
  assert_int_equal(fclose(f), 0);
  free(path);
}

static void set_up(world *w, const char *const *args, const char *first, const char *second)
{
  static const char *const folders[] = {"data",       "data/work", "data/work/sub", "data2",
                                        "data2/work", "outside",   "outside/work",  "outside/work/sub"};
  char *ground = temp_folder_new(), *folder = temp_folder_new(), *home = text_of("%s/home", folder);
  assert_non_null(realpath(ground, w->ground));
  for (size_t i = 0; i < COUNT_OF(folders); i++) make_folder(w, folders[i]);
  make_file(w, "data/work/sub/known");
  make_file(w, "outside/work/sub/known");
  make_file(w, "outside/work/sub/" SECRET);
  assert_int_equal(mkdir(home, 0700), 0);
  configure(w, folder, first, second);
  w->s = served_start_in(folder, args);
  w->agent = served_token(w->s, "create --agent ada");
  free(ground);
  free(home);
}

static void tear_down(world *w)
{
  temp_folder_free(strdup(w->ground));
  served_free(w->s);
  free(w->agent);
}

/* ---- calls ---- */

/* With a token (NULL: none) and more headers. */
static reply call(const world *w, const char *token, const char *more, const char *capability, const char *input)
{
  char *path = text_of("/v1/call/%s", capability), *bearer = token ? text_of("Authorization: Bearer %s\r\n", token) : strdup("");
  char *headers = text_of("%s%s", bearer, more);
  reply r = ask(w->s, "POST", path, headers, input);
  free(path);
  free(bearer);
  free(headers);
  return r;
}

/* A path that begins with '/' is taken as it is, others are below GROUND. */
static reply watch(const world *w, const char *token, const char *more, const char *name)
{
  char *path = *name == '/' ? strdup(name) : at(w, name), *input = text_of("{\"path\":\"%s\"}", path);
  reply r = call(w, token, more, "folders.watch", input);
  free(path);
  free(input);
  return r;
}

static void watched(const world *w, const char *token, const char *more, const char *name)
{
  reply r = watch(w, token, more, name);
  if (r.status != 200) fail_msg("%s: %d %s", name, r.status, r.body);
  reply_done(&r);
}

/* Refused, as everything is that is not below a root. */
static void refused(const world *w, const char *token, const char *more, const char *name)
{
  static char first[4096];
  reply r = watch(w, token, more, name);
  if (r.status != 403 || !strstr(r.body, "\"PermissionDenied\"")) fail_msg("%s: %d %s", name, r.status, r.body);
  if (*first && strcmp(first, r.body) != 0) fail_msg("%s: it is refused in another way: %s\nthan before: %s", name, r.body, first);
  snprintf(first, sizeof first, "%s", r.body);
  reply_done(&r);
}

static void briefing_has(const world *w, const char *part, bool is_there)
{
  reply r = call(w, w->agent, "", "state.briefing.generate", BRIEFING);
  assert_int_equal(r.status, 200);
  if ((strstr(r.body, part) != NULL) != is_there) fail_msg("%s is %sin %s", part, is_there ? "not " : "", r.body);
  if (strstr(r.body, SECRET)) fail_msg("it tells what is outside: %s", r.body);
  reply_done(&r);
}

static void reload(const world *w, const char *first, const char *second)
{
  unsigned before = served_log_count(w->s, "\"reloaded\"");
  configure(w, w->s->folder, first, second);
  assert_int_equal(kill(w->s->pid, SIGHUP), 0);
  while (served_log_count(w->s, "\"reloaded\"") == before) usleep(10000);
}

static const char *const with_tokens[] = {"--log", "json", "--socket", "@socket", NULL};

/* ---- naming ---- */

static void folders__an_agent_with_a_token_watches_below_a_root(void **state)
{
  (void)state;
  world w;
  set_up(&w, with_tokens, "data", NULL);
  watched(&w, w.agent, "", "data/work");
  make_file(&w, "data/work/new");
  briefing_has(&w, "\"path\":\"new\"", true);
  watched(&w, w.agent, "", "data/./work//");
  watched(&w, w.agent, "", "data"); /* the root itself */
  reply r = call(&w, w.agent, "", "folders.list", "{}");
  assert_non_null(strstr(r.body, "\"count\":2"));
  reply_done(&r);
  char *input = text_of("{\"path\":\"%s/data/work/.\"}", w.ground);
  r = call(&w, w.agent, "", "folders.unwatch", input);
  assert_non_null(strstr(r.body, "\"removed\":true"));
  reply_done(&r);
  free(input);
  r = watch(&w, w.agent, "", "data/none"); /* below a root it may know that */
  assert_non_null(strstr(r.body, "\"FolderNotFound\""));
  reply_done(&r);
  tear_down(&w);
}

static void folders__what_is_not_below_a_root_is_refused_in_one_way(void **state)
{
  (void)state;
  static const char *const paths[] = {
    "/",
    "/etc",
    "/there/is/none",
    "outside",
    "outside/none",
    "outside/work/sub/" SECRET, /* elsewhere */
    "data2",
    "data2/work",
    "data2/none",
    "dat", /* names that begin like the root's */
    "data/../outside",
    "data/work/../../outside",
    "data/../none",
    "data/work/..",
    "data/work/../work",
    "data/..", /* .. */
    "data/link",
    "data/link/",
    "data/dangling",
    "data/inner", /* a link at the end */
    "data/link/work",
    "data/link/none",
    "data/dangling/x",
    "data/inner/sub",
    "data/up/outside", /* and in the middle */
    "data/magic",
    "data/magic/self/cwd",
  };
  world w;
  set_up(&w, with_tokens, "data", NULL);
  make_link(&w, "../outside", "data/link");
  make_link(&w, "../nowhere", "data/dangling");
  make_link(&w, "work", "data/inner");
  make_link(&w, "..", "data/up");
  make_link(&w, "/proc", "data/magic");
  for (size_t i = 0; i < COUNT_OF(paths); i++) refused(&w, w.agent, "", paths[i]);
  tear_down(&w);
}

static void folders__without_roots_an_agent_names_no_folder(void **state)
{
  (void)state;
  static const char *const paths[] = {"data", "data/work", "none", "/etc"};
  world w;
  set_up(&w, with_tokens, NULL, NULL);
  for (size_t i = 0; i < COUNT_OF(paths); i++) refused(&w, w.agent, "", paths[i]);
  tear_down(&w);
}

static void folders__a_root_that_is_a_link_or_gone_has_nothing_below_it(void **state)
{
  (void)state;
  world w;
  set_up(&w, with_tokens, "linked", "gone");
  make_link(&w, "data", "linked");
  refused(&w, w.agent, "", "linked");
  refused(&w, w.agent, "", "linked/work");
  refused(&w, w.agent, "", "linked/none");
  refused(&w, w.agent, "", "data/work");
  refused(&w, w.agent, "", "gone");
  refused(&w, w.agent, "", "gone/work");
  tear_down(&w);
}

/* The home below a root is still what all agents have. */
static void folders__the_home_below_a_root_is_refused_like_the_rest(void **state)
{
  (void)state;
  static const char *const names[] = {"", "/home", "/home/audit", "/home/none"};
  world w;
  char folder[PATH_MAX];
  set_up(&w, with_tokens, "data", NULL);
  assert_non_null(realpath(w.s->folder, folder));
  char ground[PATH_MAX];
  memcpy(ground, w.ground, sizeof ground);
  memcpy(w.ground, folder, sizeof folder);
  reload(&w, ".", NULL); /* the folder that the home lies in */
  memcpy(w.ground, ground, sizeof ground);
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    char *path = text_of("%s%s", folder, names[i]);
    refused(&w, w.agent, "", path);
    free(path);
  }
  tear_down(&w);
}

/* ---- looking ---- */

static void swap(const world *w, const char *name, const char *target)
{
  char *aside = text_of("%s-aside", name);
  move(w, name, aside);
  make_link(w, target, name);
  free(aside);
}

static void swap_back(const world *w, const char *name)
{
  char *aside = text_of("%s-aside", name), *path = at(w, name);
  assert_int_equal(unlink(path), 0);
  move(w, aside, name);
  free(aside);
  free(path);
}

static void folders__a_folder_that_became_a_link_is_not_looked_at(void **state)
{
  (void)state;
  static const struct {
    const char *name, *target;
  } swaps[] = {{"data", "outside"}, {"data/work", "../outside/work"}, {"data/work/sub", "../../outside/work/sub"}};
  world w;
  set_up(&w, with_tokens, "data", NULL);
  watched(&w, w.agent, "", "data/work/sub");
  for (size_t i = 0; i < COUNT_OF(swaps); i++) {
    briefing_has(&w, "\"unavailable\":[]", true);
    swap(&w, swaps[i].name, swaps[i].target);
    briefing_has(&w, "\"unavailable\":[]", false);
    swap_back(&w, swaps[i].name);
  }
  move(&w, "data", "away"); /* a root that was removed */
  briefing_has(&w, "\"unavailable\":[]", false);
  tear_down(&w);
}

/* What a folder inside became leads nowhere, either: whether the file is there, too, is not told. */
static void folders__a_link_inside_does_not_tell_whether_its_target_has_the_file(void **state)
{
  (void)state;
  world w;
  set_up(&w, with_tokens, "data", NULL);
  watched(&w, w.agent, "", "data/work");
  swap(&w, "data/work/sub", "../../outside/work/sub"); /* which has a file of that name */
  move(&w, "data/work/sub-aside", "data2/sub-aside");
  briefing_has(&w, "\"deleted\":1", true);
  tear_down(&w);
}

static void folders__other_roots_hold_from_the_next_look_on(void **state)
{
  (void)state;
  world w;
  set_up(&w, with_tokens, "data", NULL);
  watched(&w, w.agent, "", "data/work");
  refused(&w, w.agent, "", "data2/work");
  reload(&w, "data2", NULL);
  briefing_has(&w, "\"unavailable\":[]", false);
  refused(&w, w.agent, "", "data/work");
  watched(&w, w.agent, "", "data2/work");
  reload(&w, "data2", "data");
  briefing_has(&w, "\"unavailable\":[]", true);
  reload(&w, NULL, NULL);
  briefing_has(&w, "\"unavailable\":[]", false);
  refused(&w, w.agent, "", "data2/work");
  tear_down(&w);
}

/* ---- who ---- */

static void folders__the_operator_is_not_bound_to_the_roots(void **state)
{
  (void)state;
  world w;
  reply r;
  set_up(&w, with_tokens, "data", NULL);
  char *operator= served_token(w.s, "create --role operator");
  watched(&w, operator, "Perdure-Agent: ada\r\n", "data2/work");
  watched(&w, operator, "Perdure-Agent: ada\r\nPerdure-Role: agent\r\n", "outside/work/sub");
  refused(&w, w.agent, "", "data2/work"); /* though it is watched for the agent */
  briefing_has(&w, "\"unavailable\":[]", true);
  watched(&w, w.agent, "", "data/work");
  watched(&w, operator, "Perdure-Agent: ada\r\n", "data/work"); /* now it is the operator's word */
  watched(&w, w.agent, "", "data/work");                        /* and stays it */
  reload(&w, NULL, NULL);
  briefing_has(&w, "\"unavailable\":[]", true);
  reload(&w, "data", NULL);
  char *input = text_of("{\"path\":\"%s/data/work\",\"hidden\":true}", w.ground);
  r = call(&w, w.agent, "", "folders.watch", input); /* more than the operator said */
  assert_int_equal(r.status, 200);
  reply_done(&r);
  reload(&w, NULL, NULL);
  briefing_has(&w, "\"unavailable\":[]", false);
  free(input);
  free(operator);
  tear_down(&w);
}

static void folders__narrowed_tokens_and_auditors_are_bound_to_both(void **state)
{
  (void)state;
  static const char *const tokens[] = {"create --agent ada --capability 'state.*'", "create --agent ada --prefix plan",
                                       "create --role auditor"};
  world w;
  set_up(&w, with_tokens, "data", NULL);
  for (size_t i = 0; i < COUNT_OF(tokens); i++) {
    char *token = served_token(w.s, tokens[i]);
    for (int is_agent = 0; is_agent < (i == 2 ? 2 : 1); is_agent++) {
      reply r = watch(&w, token, is_agent ? "Perdure-Agent: ada\r\nPerdure-Role: agent\r\n" : "", "data/work");
      if (r.status != 403) fail_msg("%s: %d %s", tokens[i], r.status, r.body);
      reply_done(&r);
    }
    free(token);
  }
  char *narrow = served_token(w.s, "create --agent ada --capability 'folders.*'");
  watched(&w, narrow, "", "data/work");
  refused(&w, narrow, "", "data2/work");
  free(narrow);
  tear_down(&w);
}

/* A server that cannot tell agents apart cannot tell whose files they may see, either. */
static void folders__without_tokens_agents_are_bound_to_the_roots(void **state)
{
  (void)state;
  static const char *const agents[] = {"", "Perdure-Agent: ada\r\n", "Perdure-Role: agent\r\n"};
  world w;
  set_up(&w, (const char *const[]){"--no-auth", NULL}, "data", NULL);
  for (size_t i = 0; i < COUNT_OF(agents); i++) {
    refused(&w, NULL, agents[i], "outside");
    refused(&w, NULL, agents[i], "none");
    refused(&w, NULL, agents[i], "data/../outside");
    watched(&w, NULL, agents[i], "data/work");
  }
  watched(&w, NULL, "Perdure-Role: operator\r\nPerdure-Agent: ada\r\n", "data2/work");
  tear_down(&w);
}

static int watch_by_socket(const world *w, const char *role, const char *name)
{
  char *input = text_of("{\"path\":\"%s/%s\"}", w->ground, name), *headers = text_of("Perdure-Agent: ada\r\n%s", role);
  int fd = served_connect_unix(w->s);
  reply r = ask_on(fd, "POST", "/v1/call/folders.watch", headers, input);
  int status = r.status;
  reply_done(&r);
  close(fd);
  free(input);
  free(headers);
  return status;
}

static void folders__agents_of_the_unix_socket_are_bound_to_the_roots(void **state)
{
  (void)state;
  world w;
  set_up(&w, with_tokens, "data", NULL);
  assert_int_equal(watch_by_socket(&w, "", "data/work"), 200);
  assert_int_equal(watch_by_socket(&w, "", "outside"), 403);
  assert_int_equal(watch_by_socket(&w, "", "none"), 403);
  assert_int_equal(watch_by_socket(&w, "Perdure-Role: operator\r\n", "data2/work"), 200);
  tear_down(&w);
}

static void folders__agents_of_mcp_are_bound_to_the_roots(void **state)
{
  (void)state;
  static const char *const names[] = {"data/work", "outside", "none"};
  world w;
  set_up(&w, (const char *const[]){"--no-auth", NULL}, "data", NULL);
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    char *body = text_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"folders_watch\",\"arguments\":{"
                         "\"path\":\"%s/%s\"},\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                         "\"io.modelcontextprotocol/clientCapabilities\":{}}}}",
                         w.ground, names[i]);
    reply r = ask(w.s, "POST", "/mcp",
                  "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n"
                  "Mcp-Name: folders_watch\r\n",
                  body);
    assert_int_equal(strstr(r.body, "PermissionDenied") != NULL, i > 0);
    assert_int_equal(strstr(r.body, "\"created\":true") != NULL, i == 0);
    reply_done(&r);
    free(body);
  }
  tear_down(&w);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(folders__an_agent_with_a_token_watches_below_a_root),
    cmocka_unit_test(folders__what_is_not_below_a_root_is_refused_in_one_way),
    cmocka_unit_test(folders__without_roots_an_agent_names_no_folder),
    cmocka_unit_test(folders__a_root_that_is_a_link_or_gone_has_nothing_below_it),
    cmocka_unit_test(folders__the_home_below_a_root_is_refused_like_the_rest),
    cmocka_unit_test(folders__a_folder_that_became_a_link_is_not_looked_at),
    cmocka_unit_test(folders__a_link_inside_does_not_tell_whether_its_target_has_the_file),
    cmocka_unit_test(folders__other_roots_hold_from_the_next_look_on),
    cmocka_unit_test(folders__the_operator_is_not_bound_to_the_roots),
    cmocka_unit_test(folders__narrowed_tokens_and_auditors_are_bound_to_both),
    cmocka_unit_test(folders__without_tokens_agents_are_bound_to_the_roots),
    cmocka_unit_test(folders__agents_of_the_unix_socket_are_bound_to_the_roots),
    cmocka_unit_test(folders__agents_of_mcp_are_bound_to_the_roots),
  };
  if (argc < 2) return 2;
  served_binary = argv[1];
  return cmocka_run_group_tests(tests, NULL, NULL);
}
