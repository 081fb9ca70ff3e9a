/* world.c: see world.h. */
#include "state/world.h"

#include "base/buf.h"
#include "base/json.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define BEGINNING_MS 1794736800000 /* 2026-11-15T10:00:00Z */

static int64_t world_now(void *ctx)
{
  return ((world *)ctx)->now_ms;
}

static void open_home(world *w)
{
  pd_home_options options = {.now_ms = world_now, .now_ctx = w, .folder = w->folder};
  if (pd_home_open(w->uri, &options, &w->home, &w->err)) fail_msg("cannot open the home: %s", w->err.message);
}

void world_open(world *w, const char *config)
{
  world_open_at(w, NULL, config);
}

void world_open_at(world *w, const char *uri, const char *config)
{
  memset(w, 0, sizeof *w);
  w->folder = temp_folder_new();
  w->uri = uri ? text_of("%s", uri) : text_of("sqlite:%s", w->folder);
  w->agent = "main";
  w->now_ms = BEGINNING_MS;
  if (config) {
    char *path = text_of("%s/perdure.toml", w->folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(config, f);
    assert_int_equal(fclose(f), 0);
    free(path);
  }
  open_home(w);
}

void world_open_folder(world *w, const char *folder, int64_t now_ms)
{
  memset(w, 0, sizeof *w);
  w->folder = text_of("%s", folder);
  w->uri = text_of("sqlite:%s", folder);
  w->agent = "main";
  w->now_ms = now_ms;
  open_home(w);
}

void world_close(world *w)
{
  assert_int_equal(pd_home_close(w->home, &w->err), PD_OK);
  pd_buf_done(&w->out);
  temp_folder_free(w->folder);
  free(w->uri);
}

void world_restart(world *w)
{
  assert_int_equal(pd_home_close(w->home, &w->err), PD_OK);
  w->session[0] = 0;
  open_home(w);
}

void world_begin_session(world *w)
{
  if (pd_session_begin(w->home, w->agent, w->session, &w->err)) fail_msg("cannot begin a session: %s", w->err.message);
}

pd_code world_call(world *w, const char *capability, const char *input)
{
  pd_ctx ctx = {.home = w->home, .agent = w->agent, .session = w->session[0] ? w->session : NULL, .is_operator = w->is_operator};
  pd_code code = pd_call(&ctx, capability, pd_text(input), &w->out, &w->err);
  assert_int_equal(pd_buf_byte(&w->out, 0, NULL), PD_OK);
  w->out.size--;
  return code;
}

static char *format(const char *fmt, va_list args)
{
  char *input = NULL;
  assert_true(vasprintf(&input, fmt, args) >= 0);
  return input;
}

pd_code world_callf(world *w, const char *capability, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  char *input = format(fmt, args);
  va_end(args);
  pd_code code = world_call(w, capability, input);
  free(input);
  return code;
}

void world_okf(world *w, const char *capability, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  char *input = format(fmt, args);
  va_end(args);
  world_ok(w, capability, input);
  free(input);
}

void world_want(world *w, const char *path, const char *json)
{
  const char *got = world_out(w, path);
  if (strcmp(got, json) != 0) fail_msg("%s is %s, not %s, in %.600s", path, got, json, (const char *)w->out.data);
}

char *world_text(world *w, const char *path)
{
  const char *got = world_out(w, path);
  if (got[0] != '"') fail_msg("%s is %s, and no text", path, got);
  return text_of("%.*s", (int)strlen(got) - 2, got + 1);
}

void world_ok(world *w, const char *capability, const char *input)
{
  if (world_call(w, capability, input)) fail_msg("%s %.200s: %s", capability, input, (const char *)w->out.data);
}

void world_fails(world *w, const char *capability, const char *input, const char *name, const char *action)
{
  if (world_call(w, capability, input) == PD_OK)
    fail_msg("%s %.200s should fail with %s, and answered %.200s", capability, input, name, (const char *)w->out.data);
  assert_string_equal(pd_error_name(&w->err), name);
  char quoted[128];
  snprintf(quoted, sizeof quoted, "\"%s\"", name);
  assert_string_equal(world_out(w, "error.code"), quoted);
  if (!action) return;
  snprintf(quoted, sizeof quoted, "\"action\":\"%s\"", action);
  if (!strstr((const char *)w->out.data, quoted)) fail_msg("no recovery %s in %s", action, (const char *)w->out.data);
}

static pd_json step_into(pd_json value, const char *name)
{
  if (value.kind != PD_JSON_ARRAY) return pd_json_member(value, name);
  size_t index = strtoul(name, NULL, 10);
  pd_json item;
  pd_json_walk walk = pd_json_walk_begin(value);
  while (pd_json_walk_next(&walk, NULL, &item))
    if (!index--) return item;
  return (pd_json){0};
}

const char *world_out(world *w, const char *path)
{
  pd_json value;
  assert_int_equal(pd_json_parse(pd_buf_bytes(&w->out), &value, NULL), PD_OK);
  char step[128];
  while (*path) {
    size_t size = strcspn(path, ".");
    snprintf(step, sizeof step, "%.*s", (int)size, path);
    value = step_into(value, step);
    path += size + (path[size] == '.');
  }
  assert_true(value.raw.size < sizeof w->member);
  snprintf(w->member, sizeof w->member, "%.*s", (int)value.raw.size, value.raw.size ? (const char *)value.raw.data : "");
  return w->member;
}

int world_set_up(void **state)
{
  world *w = calloc(1, sizeof *w);
  if (!w) return -1;
  world_open(w, NULL);
  *state = w;
  return 0;
}

int world_tear_down(void **state)
{
  world_close(*state);
  free(*state);
  return 0;
}

const pd_grant *world_grant(pd_home *home)
{
  static _Thread_local pd_grant grant;
  assert_int_equal(pd_authorise_work(home, "whole", &grant, NULL), PD_OK);
  return &grant;
}

pd_code world_borrow(pd_home *home, const char *name, bool create, pd_store **out, pd_error *err)
{
  return pd_home_borrow(world_grant(home), name, create, out, err);
}
