/*
 * self_approve_test.c: can an agent approve its own calls? By HTTP with its token, over standard input and output, and through the bridge,
 * in both eras of MCP: not unless the operator said that the client's form counts (mcp.approvals).
 */
#include "base/base.h"
#include "base/json.h"
#include "support/temp_folder.h"
#include "wire/server_world.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define FORMS "{\"elicitation\":{}}"
#define META                                                                                                                               \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":" FORMS "}"
#define APPROVE "{\"action\":\"accept\",\"content\":{\"decision\":\"approve\"}}"

typedef enum way { BY_HTTP, BY_STDIO, BY_BRIDGE, WAYS } way;
static const char *const way_names[] = {"HTTP", "stdio", "the bridge"};

typedef struct world {
  served *s;
  char *token, *token_file;
  char snapshot[128];
} world;

/* ---- a client ---- */

typedef struct client {
  const world *w;
  way way;
  bool is_modern;
  pid_t pid; /* stdio, bridge */
  int in, out;
  char session[128]; /* HTTP, legacy */
  int stream;        /* HTTP: a connection whose answer is not complete; -1 */
  char text[131072]; /* what was read and not used yet */
  size_t size;
  char message[65536];
} client;

/* The end of the JSON text at `from`; NULL: it is not complete. */
static const char *end_of(const char *from)
{
  int depth = 0;
  bool is_in_text = false;
  for (const char *at = from; *at; at++) {
    if (is_in_text && *at == '\\' && at[1]) {
      at++;
    } else if (*at == '"') {
      is_in_text = !is_in_text;
    } else if (!is_in_text) {
      depth += (*at == '{') - (*at == '}');
      if (!depth) return at + 1;
    }
  }
  return NULL;
}

/* The next JSON-RPC message that arrives on `fd`, whatever is around it. */
static const char *next(client *c, int fd)
{
  for (;;) {
    c->text[c->size] = 0;
    char *from = strstr(c->text, "{\"jsonrpc\"");
    const char *end = from ? end_of(from) : NULL;
    if (end) {
      snprintf(c->message, sizeof c->message, "%.*s", (int)(end - from), from);
      c->size = strlen(end);
      memmove(c->text, end, c->size);
      return c->message;
    }
    ssize_t got = read(fd, c->text + c->size, sizeof c->text - 1 - c->size);
    if (got <= 0) fail_msg("%s: nothing comes any more; there is: %s", way_names[c->way], c->text);
    c->size += (size_t)got;
  }
}

static void hang_up(client *c)
{
  if (c->stream >= 0) close(c->stream);
  c->stream = -1;
}

/* POST; the connection stays open as c->stream. */
static int post(client *c, const char *name, const char *line)
{
  char *own = c->is_modern ? text_of("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: %s\r\n", name)
                           : text_of("%s%s%s", *c->session ? "Mcp-Session-Id: " : "", c->session, *c->session ? "\r\n" : "");
  char *head = text_of("POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
                       "Accept: application/json, text/event-stream\r\n%sContent-Length: %zu\r\n\r\n%s",
                       c->w->token, own, strlen(line), line);
  int fd = served_connect(c->w->s);
  assert_true(send_bytes(fd, head, strlen(head)));
  free(head);
  free(own);
  return fd;
}

/* Say a line; no answer is waited for. */
static void say(client *c, const char *name, const char *line)
{
  if (c->way == BY_HTTP) {
    hang_up(c);
    c->size = 0;
    c->stream = post(c, name, line);
  } else {
    char *text = text_of("%s\n", line);
    assert_int_equal(write(c->in, text, strlen(text)), strlen(text));
    free(text);
  }
}

static const char *hear(client *c)
{
  return next(c, c->way == BY_HTTP ? c->stream : c->out);
}

/* What answers a question of the server: over HTTP on a connection of its own. */
static void respond(client *c, const char *line)
{
  if (c->way != BY_HTTP) {
    say(c, "", line);
    return;
  }
  int fd = post(c, "", line);
  reply r = read_reply(fd, false);
  if (r.status != 202) fail_msg("%d %s", r.status, r.body);
  reply_done(&r);
  close(fd);
}

static void start_program(client *c, bool is_allowed)
{
  int in[2], out[2];
  char *store = text_of("sqlite:%s/home", c->w->s->folder), *url = text_of("http://127.0.0.1:%d", c->w->s->port);
  assert_int_equal(pipe(in), 0);
  assert_int_equal(pipe(out), 0);
  c->pid = fork();
  if (c->pid == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    for (int i = 3; i < 64; i++) close(i);
    if (c->way == BY_BRIDGE) execl(served_binary, served_binary, "--server", url, "--token-file", c->w->token_file, "mcp", (char *)NULL);
    execl(served_binary, served_binary, "--store", store, "--agent", "ada", "mcp", is_allowed ? "--approvals" : (char *)NULL, (char *)NULL);
    _exit(99);
  }
  close(in[0]);
  close(out[1]);
  c->in = in[1];
  c->out = out[0];
  free(store);
  free(url);
}

static void begin(client *c, const world *w, way by, bool is_modern, bool is_allowed)
{
  *c = (client){.w = w, .way = by, .is_modern = is_modern, .stream = -1};
  if (by != BY_HTTP) start_program(c, is_allowed);
  if (is_modern) return;
  say(c, "",
      "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":" FORMS
      ",\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}");
  if (by == BY_HTTP) {
    reply r = read_reply(c->stream, false);
    reply_header(&r, "Mcp-Session-Id", c->session, sizeof c->session);
    assert_true(*c->session);
    reply_done(&r);
  } else {
    hear(c);
  }
}

static void end(client *c)
{
  int status = 0;
  hang_up(c);
  if (!c->pid) return;
  close(c->in);
  char rest[4096];
  while (read(c->out, rest, sizeof rest) > 0) continue;
  close(c->out);
  assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
}

/* ---- calls ---- */

/* Call a tool; what comes back first. `more`: further params, with a comma before them. */
static const char *call(client *c, const char *tool, const char *arguments, const char *more)
{
  char *line = text_of("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{%s\"name\":\"%s\",\"arguments\":%s%s}}",
                       c->is_modern ? META "," : "", tool, arguments, more);
  say(c, tool, line);
  free(line);
  return hear(c);
}

static pd_json parsed(const char *message)
{
  pd_json json;
  if (pd_json_parse(pd_text(message), &json, NULL)) fail_msg("not JSON: %s", message);
  return json;
}

static bool is_asked(const char *message)
{
  return strstr(message, "elicitation/create") != NULL;
}

/* Approve by the form that `question` is; the answer of the call. */
static const char *approve(client *c, const char *tool, const char *arguments, const char *question)
{
  pd_json json = parsed(question);
  char *text;
  if (c->is_modern) {
    pd_bytes sealed = pd_json_member(pd_json_member(json, "result"), "requestState").raw;
    text = text_of(",\"requestState\":%.*s,\"inputResponses\":{\"approval\":" APPROVE "}", (int)sealed.size, (const char *)sealed.data);
    const char *answer = call(c, tool, arguments, text);
    free(text);
    return answer;
  }
  pd_bytes id = pd_json_member(json, "id").raw;
  text = text_of("{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"result\":" APPROVE "}", (int)id.size, (const char *)id.data);
  respond(c, text);
  free(text);
  return hear(c);
}

/* How often `perdure ARGS` says it. */
static unsigned count_in(const world *w, const char *args, const char *what)
{
  char *command = text_of("%s --store %s/home %s 2>&1", served_binary, w->s->folder, args), line[65536];
  unsigned count = 0;
  FILE *f = popen(command, "r");
  assert_non_null(f);
  while (fgets(line, sizeof line, f))
    for (const char *at = line; (at = strstr(at, what)); at += strlen(what)) count++;
  pclose(f);
  free(command);
  return count;
}

/* ---- the world ---- */

static void write_file(const char *path, const char *text)
{
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  assert_int_equal(fclose(f), 0);
}

static void put(const world *w, const char *capability, const char *input)
{
  char *path = text_of("/v1/call/%s", capability), *headers = text_of("Authorization: Bearer %s\r\n", w->token);
  reply r = ask(w->s, "POST", path, headers, input);
  if (r.status != 200) fail_msg("%s: %s", capability, r.body);
  pd_json id = pd_json_member(parsed(r.body), "snapshot_id");
  if (id.raw.size > 2) snprintf(((world *)(uintptr_t)w)->snapshot, sizeof w->snapshot, "%.*s", (int)id.raw.size, (const char *)id.raw.data);
  reply_done(&r);
  free(headers);
  free(path);
}

/* A server with the agent ada, who has two commits and a snapshot; shared state is written with approval alone. */
static void set_up(world *w, const char *settings, const char *const *args)
{
  char *folder = temp_folder_new(), *path = text_of("%s/home", folder), *made = text_of("mkdir %s", path);
  assert_int_equal(system(made), 0);
  char *policy = text_of("%s/policy.toml", path), *config = text_of("%s/perdure.toml", path);
  write_file(policy, "[[rule]]\ncapability = \"state.shared.set\"\npermission = \"approval\"\n");
  write_file(config, settings);
  *w = (world){.s = served_start_in(folder, args)};
  w->token = served_token(w->s, "create --agent ada");
  w->token_file = text_of("%s/token", folder);
  write_file(w->token_file, w->token);
  assert_int_equal(chmod(w->token_file, 0600), 0);
  put(w, "state.persistent.set", "{\"key\":\"plan\",\"value\":1}");
  put(w, "state.persistent.set", "{\"key\":\"plan\",\"value\":2}");
  put(w, "state.snapshot.create", "{}");
  free(config);
  free(policy);
  free(made);
  free(path);
}

static void tear_down(world *w)
{
  served_free(w->s);
  free(w->token);
  free(w->token_file);
}

/* The calls that are tried: by the capability's own permission, and by policy. */
typedef struct attempt {
  const char *tool;
  char *arguments;
} attempt;

#define ATTEMPTS 3

static attempt attempt_at(const world *w, size_t index, int number)
{
  switch (index) {
  case 0: return (attempt){"state_snapshot_restore", text_of("{\"snapshot_id\":%s}", w->snapshot)};
  case 1: return (attempt){"history_reset", text_of("{\"to\":\"main~1\",\"reason\":\"%d\"}", number)};
  default: return (attempt){"state_shared_set", text_of("{\"key\":\"news-%d\",\"value\":\"HACKED\",\"expected_version\":0}", number)};
  }
}

static void try_refused(client *c, const attempt *a)
{
  const char *answer = call(c, a->tool, a->arguments, "");
  if (is_asked(answer) || !strstr(answer, "ApprovalRequired") || !strstr(answer, "perdure approvals approve apr-"))
    fail_msg("%s, %s, %s: %s", way_names[c->way], c->is_modern ? "modern" : "legacy", a->tool, answer);
  if (c->is_modern) { /* answers to a question that nobody asked */
    answer = call(c, a->tool, a->arguments, ",\"inputResponses\":{\"approval\":" APPROVE "}");
    assert_non_null(strstr(answer, "ApprovalRequired"));
    answer = call(c, a->tool, a->arguments, ",\"requestState\":\"AAAA\",\"inputResponses\":{\"approval\":" APPROVE "}");
    assert_non_null(strstr(answer, "-32602"));
  } else {
    respond(c, "{\"jsonrpc\":\"2.0\",\"id\":\"q-00000000000000000000000000000000\",\"result\":" APPROVE "}");
  }
  answer = call(c, a->tool, a->arguments, "");
  assert_non_null(strstr(answer, "ApprovalRequired"));
}

static void self_approve__by_default_no_form_approves_over_any_way_in_any_era(void **state)
{
  (void)state;
  static const char *const none[] = {NULL};
  world w;
  client c;
  set_up(&w, "", none);
  for (int i = 0; i < WAYS * 2; i++) {
    begin(&c, &w, (way)(i / 2), i % 2, false);
    for (size_t k = 0; k < ATTEMPTS; k++) {
      attempt a = attempt_at(&w, k, i);
      try_refused(&c, &a);
      free(a.arguments);
    }
    end(&c);
  }
  assert_int_equal(count_in(&w, "approvals list --status approved --json", "apr-"), 0);
  assert_true(count_in(&w, "approvals list --json", "apr-") > 0);
  assert_int_equal(count_in(&w, "--agent ada persistent get plan", "2"), 1);
  assert_int_equal(count_in(&w, "shared list", "news"), 0);
  tear_down(&w);
}

static void try_allowed(client *c, const attempt *a)
{
  const char *answer = call(c, a->tool, a->arguments, "");
  if (!is_asked(answer)) fail_msg("%s, %s, %s: %s", way_names[c->way], c->is_modern ? "modern" : "legacy", a->tool, answer);
  char *question = strdup(answer);
  answer = approve(c, a->tool, a->arguments, question);
  if (!strstr(answer, "\"isError\":false"))
    fail_msg("%s, %s, %s: %s", way_names[c->way], c->is_modern ? "modern" : "legacy", a->tool, answer);
  free(question);
}

static void self_approve__where_the_operator_allowed_it_the_form_approves(void **state)
{
  (void)state;
  static const char *const allowed[] = {"--mcp-approvals", NULL};
  world w;
  client c;
  set_up(&w, "", allowed);
  for (int i = 0; i < WAYS * 2; i++) {
    begin(&c, &w, (way)(i / 2), i % 2, true);
    put(&w, "state.persistent.set", "{\"key\":\"plan\",\"value\":3}"); /* something to go back from */
    for (size_t k = 0; k < ATTEMPTS; k++) {
      attempt a = attempt_at(&w, ATTEMPTS - 1 - k, i);
      try_allowed(&c, &a);
      free(a.arguments);
    }
    end(&c);
  }
  assert_int_equal(count_in(&w, "approvals list --status approved --json", "\"the MCP client of ada\""), WAYS * 2 * ATTEMPTS);
  tear_down(&w);
}

static void self_approve__the_setting_allows_it_and_taking_it_back_holds_for_questions_that_are_open(void **state)
{
  (void)state;
  static const char *const none[] = {NULL};
  world w;
  client c;
  set_up(&w, "[mcp]\napprovals = true\n", none);
  for (int is_modern = 0; is_modern < 2; is_modern++) {
    char *config = text_of("%s/home/perdure.toml", w.s->folder);
    attempt first = attempt_at(&w, 2, is_modern * 2), second = attempt_at(&w, 2, is_modern * 2 + 1);
    write_file(config, "[server]\nmcp_approvals = true\n"); /* its former name */
    unsigned reloads = served_log_count(w.s, "reloaded");
    kill(w.s->pid, SIGHUP);
    while (served_log_count(w.s, "reloaded") == reloads) usleep(10000);
    begin(&c, &w, BY_HTTP, is_modern, false);
    try_allowed(&c, &first);
    char *question = strdup(call(&c, second.tool, second.arguments, ""));
    assert_true(is_asked(question));
    write_file(config, "[mcp]\napprovals = false\n");
    reloads = served_log_count(w.s, "reloaded");
    kill(w.s->pid, SIGHUP);
    while (served_log_count(w.s, "reloaded") == reloads) usleep(10000);
    const char *answer = approve(&c, second.tool, second.arguments, question);
    if (!strstr(answer, "ApprovalRequired")) fail_msg("%s", answer);
    end(&c);
    free(question);
    free(first.arguments);
    free(second.arguments);
    free(config);
  }
  assert_int_equal(count_in(&w, "approvals list --status approved --json", "\"the MCP client of ada\""), 2);
  tear_down(&w);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(self_approve__by_default_no_form_approves_over_any_way_in_any_era),
    cmocka_unit_test(self_approve__where_the_operator_allowed_it_the_form_approves),
    cmocka_unit_test(self_approve__the_setting_allows_it_and_taking_it_back_holds_for_questions_that_are_open),
  };
  if (argc < 2) return 2;
  served_binary = argv[1];
  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests_name("self_approve", tests, NULL, NULL);
}
