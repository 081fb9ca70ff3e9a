/*
 * options.c: how the server is run: as it was told to, and for what it was not told, as [server] in the home's perdure.toml says. A reload
 * makes them anew beside the old ones, which others may be reading: those stay until the server is closed.
 */
#include "base/base.h"
#include "base/error.h"
#include "wire/http.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXTS_MAX 16

struct pd_own_options {
  pd_serve_options o;
  char *texts[TEXTS_MAX]; /* what `o` points to, as far as it was not given */
  size_t count;
  pd_own_options *before;
};

/* ---- texts of their own ---- */

/* Which of the given options take a setting's place: those that belong together do so together. */
static bool has_address(const pd_serve_options *given)
{
  return given->listen || given->socket || given->is_local || pd_serve_is_activated();
}

static bool has_tls(const pd_serve_options *given)
{
  return given->tls_cert || given->tls_key || given->is_local;
}

static bool has_tools(const pd_serve_options *given)
{
  return given->mcp_tools != NULL;
}

static const struct {
  const char *name;
  size_t offset; /* in pd_serve_options */
  bool (*is_given)(const pd_serve_options *given);
  bool is_fixed; /* a reload does not change it */
} places[] = {
  {"server.listen", offsetof(pd_serve_options, listen), has_address, true},
  {"server.socket", offsetof(pd_serve_options, socket), has_address, true},
  {"server.tls_cert", offsetof(pd_serve_options, tls_cert), has_tls, false},
  {"server.tls_key", offsetof(pd_serve_options, tls_key), has_tls, false},
  {"server.mcp_tools", offsetof(pd_serve_options, mcp_tools), has_tools, true},
};

static const char **text_at(pd_serve_options *o, size_t i)
{
  return (const char **)((char *)o + places[i].offset);
}

typedef struct taking {
  const pd_serve_options *given;
  pd_own_options *own;
  bool is_out_of_memory;
} taking;

static char *keep(taking *t, const char *text)
{
  char *copy = t->own->count < TEXTS_MAX ? strdup(text) : NULL;
  if (copy)
    t->own->texts[t->own->count++] = copy;
  else
    t->is_out_of_memory = true;
  return copy;
}

static void take_names(taking *t, const char *const *given, const char **out, const char *list)
{
  if (given[0] || !*list) return;
  char *rest = keep(t, list);
  for (size_t i = 0; rest && i < PD_SERVE_NAMES_MAX - 1; i++) out[i] = strsep(&rest, ",");
}

/* ---- one setting ---- */

static void take_log(taking *t, const pd_config_info *info)
{
  if (strcmp(info->name, "server.log_level") == 0 && *info->value && !t->given->is_level_given)
    (void)pd_log_level_parse(info->value, &t->own->o.log.level);
}

static void take_flags(taking *t, const pd_config_info *info)
{
  pd_serve_options *o = &t->own->o;
  if (strcmp(info->name, "server.insecure_listen") == 0 && info->number) o->insecure_listen = true;
  if (strcmp(info->name, "mcp.approvals") == 0 && info->number) o->mcp_approvals = true;
}

static void take(void *ctx, const pd_config_info *info)
{
  taking *t = ctx;
  for (size_t i = 0; i < COUNT_OF(places); i++)
    if (strcmp(places[i].name, info->name) == 0 && *info->value && !places[i].is_given(t->given))
      *text_at(&t->own->o, i) = keep(t, info->value);
  if (strcmp(info->name, "server.allow_host") == 0) take_names(t, t->given->hosts, t->own->o.hosts, info->value);
  if (strcmp(info->name, "server.allow_origin") == 0) take_names(t, t->given->origins, t->own->o.origins, info->value);
  take_flags(t, info);
  take_log(t, info);
}

/* ---- all of them ---- */

static void free_own(pd_own_options *own)
{
  if (!own) return;
  for (size_t i = 0; i < own->count; i++) free(own->texts[i]);
  free(own);
}

static bool is_same(const char *a, const char *b)
{
  return a && b ? strcmp(a, b) == 0 : a == b;
}

/* What a reload cannot change is said, so that nobody waits for it. */
static void tell_fixed(const pd_server *server, pd_serve_options *was, pd_serve_options *is)
{
  static const char later[] = "%s has changed: that takes effect when the server is started again";
  for (size_t i = 0; i < COUNT_OF(places); i++)
    if (places[i].is_fixed && !is_same(*text_at(was, i), *text_at(is, i)))
      pd_log_say(&server->options->log, PD_LOG_WARN, later, places[i].name);
  if (!was->tls_cert != !is->tls_cert) pd_log_say(&server->options->log, PD_LOG_WARN, later, "server.tls_cert");
}

pd_code pd_wire_options_load(pd_server *server, pd_error *err)
{
  taking t = {.given = server->given, .own = calloc(1, sizeof *t.own)};
  if (!t.own) return pd_error_memory(err, "the server's options");
  t.own->o = *server->given;
  pd_code code = pd_config_each_now(server->home, take, &t, err);
  if (!code && t.is_out_of_memory) code = pd_error_memory(err, "the server's options");
  if (code) {
    free_own(t.own);
    return code;
  }
  pd_serve_options *o = &t.own->o;
  if (!has_address(o)) o->listen = PD_SERVE_LISTEN;
  if (server->own) tell_fixed(server, &server->own->o, o);
  t.own->before = server->own;
  server->own = t.own;
  server->options = o;
  return PD_OK;
}

void pd_wire_options_free(pd_server *server)
{
  for (pd_own_options *own = server->own, *before; own; own = before) {
    before = own->before;
    free_own(own);
  }
  server->own = NULL;
  server->options = server->given;
}
