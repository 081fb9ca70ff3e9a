/* far_home.c: see far_home.h. */
#include "far_home.h"

#include "base/array.h"
#include "base/base.h"
#include "base/base64.h"
#include "base/bind.h"
#include "base/buf.h"
#include "base/error.h"
#include "far.h"
#include "remote/remote.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- texts of an answer ---- */

/* A member as a text with a NUL, appended to `texts`; its place there. */
static pd_code add_text(pd_json object, const char *name, pd_buf *texts, size_t *out_at, pd_error *err)
{
  *out_at = texts->size;
  if (pd_json_decode(pd_json_member(object, name), texts, NULL))
    return pd_error_set(err, PD_STORAGE, "the server's answer has no text '%s'; is it a perdure of this version?", name);
  return pd_buf_byte(texts, 0, err);
}

static uint64_t number_of(pd_json object, const char *name)
{
  uint64_t number = 0;
  return pd_json_u64(pd_json_member(object, name), &number) ? number : 0;
}

/* ---- doctor ---- */

static pd_severity severity_of(const char *name)
{
  pd_severity severity = PD_SEVERITY_ERROR;
  while (severity > PD_SEVERITY_OK && strcmp(pd_severity_name(severity), name) != 0) severity--;
  return severity;
}

static pd_code visit_finding(pd_json item, pd_buf *texts, void (*visit)(void *ctx, const pd_diagnosis *diagnosis), void *ctx,
                             pd_severity *worst, pd_error *err)
{
  size_t severity, agent, what, action;
  pd_buf_clear(texts);
  TRY(add_text(item, "severity", texts, &severity, err));
  TRY(add_text(item, "agent", texts, &agent, err));
  TRY(add_text(item, "what", texts, &what, err));
  TRY(add_text(item, "action", texts, &action, err));
  const char *text = (const char *)texts->data;
  pd_diagnosis d = {severity_of(text + severity), text + agent, text + what, text + action};
  if (d.severity > *worst) *worst = d.severity;
  visit(ctx, &d);
  return PD_OK;
}

pd_code far_doctor(const cli_session *cli, void (*visit)(void *ctx, const pd_diagnosis *diagnosis), void *ctx, pd_severity *out_worst,
                   pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf out = {0};
  CLEANUP(pd_buf_done) pd_buf texts = {0};
  pd_json answer, item;
  TRY(far_ask(cli, "GET", "/v1/home/doctor", (pd_bytes){0}, &out, err));
  TRY(pd_json_parse(pd_buf_bytes(&out), &answer, err));
  for (pd_json_walk walk = pd_json_walk_begin(pd_json_member(answer, "findings")); pd_json_walk_next(&walk, NULL, &item);)
    TRY(visit_finding(item, &texts, visit, ctx, out_worst, err));
  return PD_OK;
}

/* ---- configuration ---- */

void far_config_done(far_config *config)
{
  free(config->infos);
  pd_buf_done(&config->texts);
  pd_buf_done(&config->notices);
}

/* Places first: the texts move while they grow. */
static pd_code add_setting(far_config *config, pd_json item, pd_error *err)
{
  static const char *const names[] = {"name", "value", "unit", "origin", "about", "when"};
  size_t at[COUNT_OF(names)];
  for (size_t i = 0; i < COUNT_OF(names); i++) TRY(add_text(item, names[i], &config->texts, &at[i], err));
  TRY(pd_array_grow(&config->infos, config->count, &config->capacity, sizeof *config->infos, "the settings", err));
  config->infos[config->count++] = (pd_config_info){
    .name = (const char *)at[0],
    .value = (const char *)at[1],
    .unit = (const char *)at[2],
    .origin = (const char *)at[3],
    .about = (const char *)at[4],
    .when = (const char *)at[5],
    .number = number_of(item, "number"),
    .is_text = pd_json_member(item, "number").kind == PD_JSON_NONE,
    .number_default = number_of(item, "default"),
  };
  return PD_OK;
}

pd_code far_config_load(const cli_session *cli, far_config *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf body = {0};
  pd_json answer, item;
  TRY(far_ask(cli, "GET", "/v1/home/config", (pd_bytes){0}, &body, err));
  TRY(pd_json_parse(pd_buf_bytes(&body), &answer, err));
  for (pd_json_walk walk = pd_json_walk_begin(pd_json_member(answer, "settings")); pd_json_walk_next(&walk, NULL, &item);)
    TRY(add_setting(out, item, err));
  for (pd_json_walk walk = pd_json_walk_begin(pd_json_member(answer, "notices")); pd_json_walk_next(&walk, NULL, &item);) {
    TRY(pd_json_decode(item, &out->notices, err));
    TRY(pd_buf_byte(&out->notices, 0, err));
  }
  const char *base = (const char *)out->texts.data;
  for (size_t i = 0; i < out->count; i++) {
    pd_config_info *info = &out->infos[i];
    info->name = base + (uintptr_t)info->name;
    info->value = base + (uintptr_t)info->value;
    info->unit = base + (uintptr_t)info->unit;
    info->origin = base + (uintptr_t)info->origin;
    info->about = base + (uintptr_t)info->about;
    info->when = base + (uintptr_t)info->when;
  }
  return PD_OK;
}

/* ---- the key ---- */

pd_code far_key(const cli_session *cli, bool makes, pd_public_key *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf body = {0};
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json answer;
  size_t at;
  TRY(far_ask(cli, makes ? "POST" : "GET", "/v1/home/key", (pd_bytes){0}, &body, err));
  TRY(pd_json_parse(pd_buf_bytes(&body), &answer, err));
  TRY(add_text(answer, "public_key", &text, &at, err));
  return pd_public_key_parse(pd_text((const char *)text.data), out, err);
}

pd_code far_sign(const cli_session *cli, const char *at, bool keep, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  pd_json_writer w = {.out = &input, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "agent", cli->agent);
  if (at) pd_json_put_text(&w, "at", at);
  pd_json_put_bool(&w, "keep", keep);
  pd_json_close(&w, '}');
  TRY(w.code);
  return far_ask(cli, "POST", "/v1/home/sign", pd_buf_bytes(&input), out, err);
}

/* ---- the vault ---- */

static pd_code put_secret(pd_json_writer *w, const char *name, const passphrase *pass, pd_error *err)
{
  pd_buf text = {0};
  if (!pass || !pass->text.size) return PD_OK;
  TRY(pd_buf_reserve(&text, 2 * PD_PASSPHRASE_SIZE_MAX, err)); /* it must not move: an old place would not be wiped */
  pd_code code = pd_base64_encode(pass->text, &text, err);
  if (!code) pd_json_put_bytes(w, name, pd_buf_bytes(&text));
  explicit_bzero(text.data, text.capacity);
  pd_buf_done(&text);
  return code;
}

static pd_code write_vault_input(const passphrase *pass, const passphrase *fresh, const char *flag, const char *path, pd_buf *out,
                                 pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  TRY(pd_buf_reserve(out, 8 * PD_PASSPHRASE_SIZE_MAX + 16384, err)); /* for the same reason */
  pd_json_open(&w, '{');
  TRY(put_secret(&w, "passphrase", pass, err));
  TRY(put_secret(&w, "new_passphrase", fresh, err));
  if (flag) pd_json_put_bool(&w, flag, true);
  if (path) pd_json_put_text(&w, "path", path);
  pd_json_close(&w, '}');
  return w.code;
}

pd_code far_vault(const cli_session *cli, const char *verb, const passphrase *pass, const passphrase *fresh, const char *flag,
                  const char *path, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  CLEANUP(pd_buf_done) pd_buf out = {0};
  char where[64];
  if (!pd_remote_is_private(cli->uri))
    return pd_error_set(err, PD_DENIED, "a passphrase is not sent to %s: use https, a Unix socket, or the server's own machine", cli->uri);
  snprintf(where, sizeof where, "/v1/home/vault/%s", verb);
  pd_code code = write_vault_input(pass, fresh, flag, path, &input, err);
  if (!code) code = far_ask(cli, "POST", where, pd_buf_bytes(&input), &out, err);
  if (input.data) explicit_bzero(input.data, input.capacity);
  return code;
}

/* ---- who is there ---- */

/* The names came over a wire: what is not a name is not passed on. */
pd_code far_agents(const cli_session *cli, void (*visit)(void *ctx, const char *agent), void *ctx, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_json answer, item;
  char name[PD_NAME_SIZE_MAX + 1];
  TRY(far_ask(cli, "GET", "/v1/home/agents", (pd_bytes){0}, &out, err));
  TRY(pd_json_parse(pd_buf_bytes(&out), &answer, err));
  for (pd_json_walk walk = pd_json_walk_begin(pd_json_member(answer, "agents")); pd_json_walk_next(&walk, NULL, &item);) {
    if (!pd_json_copy_text(item, name, sizeof name))
      return pd_error_set(err, PD_STORAGE, "the server's answer has a name that is too long");
    TRY(pd_agent_check(name, err));
    visit(ctx, name);
  }
  return PD_OK;
}
