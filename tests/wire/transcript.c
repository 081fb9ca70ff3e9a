/*
 * transcript.c: runs the transcripts beside it: what is sent, and what has to come back.
 *
 *   serve ARG…                 start a server with these arguments; the home is new
 *   file NAME TEXT             write a file into the home before (\n is a newline)
 *   == name_of_the_test        begins a test; several exchanges may follow, over one connection
 *   new                        over a new connection from here on
 *   > METHOD PATH              a request; then its headers, an empty line, its body. Host, Content-Length and HTTP/1.1 are added
 *   < STATUS                   the answer; then headers that it must have, an empty line, its body. * and ? are wildcards
 *   <! NAME                    a header that it must not have
 *   = VARIABLE MEMBER          keep a text member of the answer's JSON; ${VARIABLE} stands for it from here on
 *   raw TEXT                   send these bytes (\r \n \t \0 \xHH) instead of a request
 *   close                      the server must have closed the connection
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/glob.h"
#include "base/json.h"
#include "support/temp_folder.h"
#include "wire/server_world.h"
#include "wire/tls_world.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VARIABLES_MAX 32
#define TEXT_MAX 65536

typedef struct variable {
  char name[32];
  char *value;
} variable;

typedef struct player {
  served *s;
  char *folder; /* of the server that is not started yet */
  int fd;
  variable variables[VARIABLES_MAX];
  size_t variable_count;
  char request[TEXT_MAX], answer[TEXT_MAX];
  bool has_request, has_answer, is_raw;
  char name[256];
  unsigned count, failures;
  bool is_bad;
  reply last;
  char *args[SERVED_ARGS_MAX];
} player;

static void bad(player *p, const char *what, const char *text)
{
  p->is_bad = true;
  printf("# %s: %s: %.300s\n", p->name, what, text);
}

static void judge(player *p)
{
  if (!*p->name) return;
  printf("%sok %u - %s\n", p->is_bad ? "not " : "", p->count, p->name);
  p->failures += p->is_bad;
  fflush(stdout);
}

/* ---- text ---- */

/* ${NAME} by its value. */
static char *with_variables(const player *p, const char *text)
{
  pd_buf out = {0};
  for (const char *at = text; *at; at++) {
    const variable *found = NULL;
    for (size_t i = 0; i < p->variable_count && strncmp(at, "${", 2) == 0; i++)
      if (strncmp(at + 2, p->variables[i].name, strlen(p->variables[i].name)) == 0 && at[2 + strlen(p->variables[i].name)] == '}')
        found = &p->variables[i];
    const char *piece = found ? found->value : at;
    if (pd_buf_append(&out, piece, found ? strlen(found->value) : 1, NULL)) abort();
    if (found) at = strchr(at, '}');
  }
  if (pd_buf_byte(&out, 0, NULL)) abort();
  return (char *)out.data;
}

/* \r \n \t \0 \xHH; the size is told, as a NUL may be in it. */
static size_t unescape(char *text)
{
  char *to = text;
  for (const char *at = text; *at; at++) {
    if (*at != '\\') {
      *to++ = *at;
      continue;
    }
    at++;
    if (*at == 'x') {
      char digits[3] = {at[1], at[2], 0};
      *to++ = (char)strtol(digits, NULL, 16);
      at += 2;
    } else {
      *to++ = *at == 'r' ? '\r' : *at == 'n' ? '\n' : *at == 't' ? '\t' : *at == '0' ? 0 : *at;
    }
  }
  *to = 0;
  return (size_t)(to - text);
}

static void add_line(char *text, const char *line)
{
  size_t size = strlen(text);
  snprintf(text + size, TEXT_MAX - size, "%s\n", line);
}

/* ---- sending ---- */

static void connect_now(player *p)
{
  if (p->fd < 0) p->fd = served_connect(p->s);
  if (p->fd < 0) bad(p, "cannot connect", "");
}

static bool has_header(const char *head, const char *name)
{
  return strcasestr(head, name) != NULL;
}

/* The lines of the request as HTTP. */
static void send_request(player *p)
{
  char *text = with_variables(p, p->request), *body = strstr(text, "\n\n");
  pd_buf out = {0};
  if (body) {
    *body = 0;
    body += 2;
    body[strlen(body) ? strlen(body) - 1 : 0] = 0; /* the last line's end is not sent */
  } else {
    text[strlen(text) - 1] = 0;
  }
  bool is_first = true;
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
    bool needs_version = is_first && !strstr(line, " HTTP/");
    if (pd_buf_printf(&out, NULL, "%s%s\r\n", line, needs_version ? " HTTP/1.1" : "")) abort();
    is_first = false;
  }
  if (pd_buf_byte(&out, 0, NULL)) abort();
  out.size--;
  bool has_host = has_header((char *)out.data, "\nHost:"), has_size = has_header((char *)out.data, "\nContent-Length:");
  if (!has_host && pd_buf_printf(&out, NULL, "Host: localhost\r\n")) abort();
  if (body && !has_size && pd_buf_printf(&out, NULL, "Content-Length: %zu\r\n", strlen(body))) abort();
  if (pd_buf_printf(&out, NULL, "\r\n%s", body ? body : "")) abort();
  connect_now(p);
  if (p->fd >= 0) send_bytes(p->fd, out.data, out.size);
  pd_buf_done(&out);
  free(text);
}

/* ---- comparing ---- */

static void compare_header(player *p, const char *line)
{
  char name[128], value[4096];
  const char *colon = strchr(line, ':');
  if (!colon) {
    bad(p, "no header", line);
    return;
  }
  snprintf(name, sizeof name, "%.*s", (int)(colon - line), line);
  const char *wanted = colon + 1 + (colon[1] == ' ');
  reply_header(&p->last, name, value, sizeof value);
  if (pd_glob_match(pd_text(wanted), pd_text(value))) return;
  bad(p, "wanted header", line);
  bad(p, "got", value);
}

static void compare(player *p)
{
  char *text = with_variables(p, p->answer), *body = strstr(text, "\n\n");
  reply_done(&p->last);
  if (p->fd >= 0) p->last = read_reply(p->fd, strncmp(p->request, "HEAD", 4) == 0);
  if (p->last.status != atoi(text)) {
    bad(p, "wanted status", text);
    bad(p, "got", p->last.head ? p->last.head : "(nothing)");
    bad(p, "with body", p->last.body ? p->last.body : "");
  }
  if (body) *body = 0, body += 2;
  strtok(text, "\n");
  for (char *line = strtok(NULL, "\n"); line; line = strtok(NULL, "\n")) compare_header(p, line);
  size_t size = body ? strlen(body) : 0;
  if (body && size && body[size - 1] == '\n') body[--size] = 0;
  if (body && !pd_glob_match((pd_bytes){body, size}, (pd_bytes){p->last.body, p->last.body_size})) {
    bad(p, "wanted body", body);
    bad(p, "got", p->last.body);
  }
  free(text);
  if (p->last.is_closed || !p->last.status) {
    if (p->fd >= 0) close(p->fd);
    p->fd = -1;
  }
}

/* Send what was collected, and compare. */
static void play(player *p)
{
  if (p->has_request && !p->is_raw) send_request(p);
  if (p->has_answer) compare(p);
  p->request[0] = p->answer[0] = 0;
  p->has_request = p->has_answer = p->is_raw = false;
}

/* ---- lines ---- */

/* With PERDURE_TEST_TLS the same transcript goes through TLS. */
static const char *const tls_args[] = {"--tls-cert", "@cert.pem", "--tls-key", "@key.pem"};

static void start_server(player *p, char *line)
{
  const char *args[SERVED_ARGS_MAX] = {0};
  size_t count = 0;
  for (char *word = strtok(line, " "); word && count < SERVED_ARGS_MAX - 1 - COUNT_OF(tls_args); word = strtok(NULL, " "))
    args[count] = p->args[count] = strdup(word), count++;
  bool is_tls = getenv("PERDURE_TEST_TLS") != NULL;
  if (!p->folder) p->folder = temp_folder_new();
  for (size_t i = 0; is_tls && i < COUNT_OF(tls_args); i++) args[count++] = tls_args[i];
  if (is_tls) certificate_write(p->folder, "cert.pem", "key.pem", &(certificate){.serial = 1});
  p->s = served_start_in(p->folder, args);
  if (is_tls) p->s->port = tls_proxy(p->folder, p->s->port);
}

static void write_home_file(player *p, char *line)
{
  char *text = strchr(line, ' ');
  if (!p->folder) p->folder = temp_folder_new();
  if (!text) abort();
  *text++ = 0;
  char *home = text_of("%s/home", p->folder), *path = text_of("%s/%s", home, line);
  mkdir(home, 0700);
  FILE *f = fopen(path, "w");
  if (!f) abort();
  size_t size = unescape(text);
  fwrite(text, 1, size, f);
  fclose(f);
  free(home);
  free(path);
}

static void keep_variable(player *p, const char *line)
{
  char member[64];
  pd_json json;
  pd_buf value = {0};
  variable *v = &p->variables[p->variable_count];
  if (p->variable_count == VARIABLES_MAX || sscanf(line, "%31s %63s", v->name, member) != 2) abort();
  if (pd_json_parse((pd_bytes){p->last.body, p->last.body_size}, &json, NULL) ||
      pd_json_decode(pd_json_member(json, member), &value, NULL) || pd_buf_byte(&value, 0, NULL)) {
    bad(p, "the answer has no text", member);
    pd_buf_done(&value);
    return;
  }
  v->value = (char *)value.data;
  p->variable_count++;
}

static void send_raw(player *p, const char *line)
{
  char *text = with_variables(p, line);
  size_t size = unescape(text);
  connect_now(p);
  if (p->fd >= 0) send_bytes(p->fd, text, size);
  p->is_raw = p->has_request = true;
  free(text);
}

static void drop_connection(player *p)
{
  if (p->fd >= 0) close(p->fd);
  p->fd = -1;
}

static void want_closed(player *p)
{
  reply more = p->fd >= 0 ? read_reply(p->fd, false) : (reply){0};
  if (more.status) bad(p, "the connection is open, and says", more.head);
  reply_done(&more);
  drop_connection(p);
}

static void begin_test(player *p, const char *name)
{
  judge(p);
  drop_connection(p);
  snprintf(p->name, sizeof p->name, "%s", name);
  p->is_bad = false;
  p->count++;
}

static void take_line(player *p, char *line)
{
  bool is_request = line[0] == '>', is_answer = line[0] == '<' && line[1] != '!';
  if ((is_request && (p->has_answer || !p->has_request)) || !(is_request || is_answer)) play(p);
  if (is_request) {
    p->has_request = true;
    add_line(p->request, line[1] ? line + 2 : "");
  } else if (is_answer) {
    p->has_answer = true;
    add_line(p->answer, line[1] ? line + 2 : "");
  } else if (strncmp(line, "<! ", 3) == 0) {
    char value[512];
    if (*reply_header(&p->last, line + 3, value, sizeof value)) bad(p, "there is a header that must not be there", line + 3);
  } else if (strncmp(line, "== ", 3) == 0) {
    begin_test(p, line + 3);
  } else if (strncmp(line, "serve", 5) == 0) {
    start_server(p, line + 5);
  } else if (strncmp(line, "file ", 5) == 0) {
    write_home_file(p, line + 5);
  } else if (strncmp(line, "= ", 2) == 0) {
    keep_variable(p, line + 2);
  } else if (strncmp(line, "raw ", 4) == 0) {
    send_raw(p, line + 4);
  } else if (strcmp(line, "new") == 0) {
    drop_connection(p);
  } else if (strcmp(line, "close") == 0) {
    want_closed(p);
  } else if (*line && *line != '#') {
    bad(p, "the transcript has a line that says nothing", line);
  }
}

int main(int argc, char **argv)
{
  static player p = {.fd = -1};
  char *line = NULL;
  size_t capacity = 0;
  FILE *f = argc == 3 ? fopen(argv[2], "r") : NULL;
  if (!f) return 2;
  served_binary = argv[1];
  for (ssize_t size; (size = getline(&line, &capacity, f)) > 0;) {
    if (line[size - 1] == '\n') line[size - 1] = 0;
    take_line(&p, line);
  }
  play(&p);
  judge(&p);
  printf("1..%u\n", p.count);
  free(line);
  fclose(f);
  drop_connection(&p);
  reply_done(&p.last);
  for (size_t i = 0; i < p.variable_count; i++) free(p.variables[i].value);
  served_free(p.s);
  for (size_t i = 0; i < SERVED_ARGS_MAX; i++) free(p.args[i]);
  return p.failures != 0;
}
