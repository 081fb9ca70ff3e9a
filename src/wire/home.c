/*
 * home.c: what is done to a home as a whole and is not a capability: /v1/home/agents, config, doctor, key, sign, vault. The operator's; an
 * auditor may look at agents, config, doctor and the public key (pd_authorise_operator). Capabilities they are not, since a passphrase and
 * a key's file have no place in an input, which approvals keep and audits hash.
 *
 * The home's key never leaves the server: it signs here. A passphrase is taken only where nobody can listen, and wiped.
 */
#include "base/base.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "wire/child.h"
#include "wire/http.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>

#define DOCTOR_SIZE_MAX ((size_t)16 << 20)

/* ---- looking ---- */

static void put_setting(void *ctx, const pd_config_info *info)
{
  CLEANUP(pd_buf_done) pd_buf setting = {0};
  pd_json_writer *w = ctx;
  if (!w->code) w->code = pd_config_json(info, &setting, w->err);
  pd_json_raw(w, pd_buf_bytes(&setting));
}

static void put_notice(void *ctx, const char *text)
{
  pd_json_text(ctx, pd_text(text));
}

static pd_code show_config(pd_request *request, pd_error *err)
{
  pd_json_writer w = {.out = &request->out, .err = err};
  pd_json_open(&w, '{');
  pd_json_key(&w, "settings");
  pd_json_open(&w, '[');
  TRY(pd_config_each(request->server->home, put_setting, &w, err));
  pd_json_close(&w, ']');
  pd_json_key(&w, "notices");
  pd_json_open(&w, '[');
  TRY(pd_config_each_notice(request->server->home, NULL, put_notice, &w, err));
  pd_json_close(&w, ']');
  pd_json_close(&w, '}');
  return w.code;
}

static void put_name(void *ctx, const char *agent)
{
  pd_json_text(ctx, pd_text(agent));
}

/* The names alone, found without opening anything. */
static pd_code show_agents(pd_request *request, pd_error *err)
{
  pd_json_writer w = {.out = &request->out, .err = err};
  pd_json_open(&w, '{');
  pd_json_key(&w, "agents");
  pd_json_open(&w, '[');
  TRY(pd_home_agents(request->server->options->uri, put_name, &w, err));
  pd_json_close(&w, ']');
  pd_json_close(&w, '}');
  return w.code;
}

/* In a process of its own: it opens the databases' files by other means than SQLite, and closing them would drop the locks that this
 * process has on them (src/backend/README.md). */
static pd_code show_doctor(pd_request *request, pd_error *err)
{
  const pd_serve_options *options = request->server->options;
  const char *words[] = {"perdure", "--json", "--store", options->uri, "doctor", NULL};
  pd_json answer;
  request->out.size_max = DOCTOR_SIZE_MAX;
  if (!options->program) return pd_error_set(err, PD_UNSUPPORTED, "this server has no doctor");
  TRY(pd_child_read(options->program, words, &request->out, err));
  if (pd_json_parse(pd_buf_bytes(&request->out), &answer, NULL) || pd_json_member(answer, "findings").kind != PD_JSON_ARRAY)
    return pd_error_set(err, PD_STORAGE, "the doctor said nothing that makes sense");
  return PD_OK;
}

/* ---- the key ---- */

static pd_code show_key(pd_request *request, pd_error *err)
{
  pd_sign_key *key = NULL;
  char text[PD_PUBLIC_KEY_TEXT_SIZE];
  TRY(pd_sign_key_open(request->server->options->uri, &key, err));
  pd_public_key public_key = pd_sign_key_public(key);
  pd_sign_key_free(key);
  pd_json_writer w = {.out = &request->out, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "public_key", pd_public_key_text(&public_key, text));
  pd_json_close(&w, '}');
  return w.code;
}

static void audit(const pd_request *request, const char *deed, const char *text, pd_code code, const pd_error *err)
{
  const pd_caller *caller = &request->caller;
  char subject[PD_NAME_SIZE_MAX + 160];
  snprintf(subject, sizeof subject, "home: %s, by %s%s", text, caller->has_token ? "token " : "the operator",
           caller->has_token ? caller->token->id : "");
  pd_deed done = {.name = deed, .subject = pd_text(subject), .outcome = code ? pd_error_name(err) : "ok"};
  pd_audit_tell(request->server->home, &done);
}

static pd_code make_key(pd_request *request, pd_error *err)
{
  pd_code code = pd_sign_key_make(request->server->options->uri, err);
  audit(request, "home.key", "made", code, err);
  return code ? code : show_key(request, err);
}

static void free_key(pd_sign_key **key)
{
  pd_sign_key_free(*key);
}

/* {"agent":NAME,"at":X,"keep":true}: the signed head itself is the answer. */
static pd_code sign_head(pd_request *request, pd_error *err)
{
  CLEANUP(free_key) pd_sign_key *key = NULL;
  CLEANUP(pd_buf_done) pd_buf at = {0};
  CLEANUP(pd_buf_done) pd_buf agent = {0};
  pd_json_field fields[] = {{.name = "agent"}, {.name = "at"}, {.name = "keep"}};
  pd_json input;
  pd_store *store = NULL;
  TRY(pd_json_parse(pd_buf_bytes(&request->body), &input, err));
  TRY(pd_json_fields(input, fields, COUNT_OF(fields), err));
  TRY(pd_json_decode(fields[0].value, &agent, err));
  TRY(pd_buf_byte(&agent, 0, err));
  bool has_at = fields[1].value.kind == PD_JSON_STRING;
  if (has_at) TRY(pd_json_decode(fields[1].value, &at, err));
  TRY(pd_buf_byte(&at, 0, err));
  TRY(pd_sign_key_open(request->server->options->uri, &key, err));
  TRY(pd_read_store(request, (const char *)agent.data, false, &store, err));
  bool keeps = fields[2].value.kind == PD_JSON_BOOL && pd_json_true(fields[2].value);
  pd_code code = pd_sign_head(store, key, has_at ? (const char *)at.data : NULL, keeps, &request->out, err);
  pd_home_return(request->server->home, store);
  audit(request, "home.sign", (const char *)agent.data, code, err);
  return code;
}

/* ---- the vault ---- */

static bool is_private(const pd_request *request)
{
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  const pd_listener *listener = request->conn ? request->conn->listener : NULL;
  const struct sockaddr *peer = info ? info->client_addr : NULL;
  char text[INET6_ADDRSTRLEN] = "";
  if (listener && (listener->is_unix || listener->is_tls)) return true;
  if (peer && peer->sa_family == AF_INET)
    inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)peer)->sin_addr, text, sizeof text);
  if (peer && peer->sa_family == AF_INET6)
    inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr, text, sizeof text);
  return pd_is_loopback(text);
}

typedef struct vault_input {
  pd_json_field fields[5];
  pd_buf pass, fresh, path;
} vault_input;

static void wipe(pd_buf *buf)
{
  if (buf->data) explicit_bzero(buf->data, buf->capacity);
  pd_buf_done(buf);
}

static void vault_input_done(vault_input *in)
{
  wipe(&in->pass);
  wipe(&in->fresh);
  pd_buf_done(&in->path);
}

static pd_code take_secret(pd_json value, const char *name, pd_buf *out, pd_error *err)
{
  if (value.kind == PD_JSON_NONE) return PD_OK;
  TRY(pd_buf_reserve(out, PD_PASSPHRASE_SIZE_MAX + 8, err)); /* it must not move: an old place would not be wiped */
  out->size_max = PD_PASSPHRASE_SIZE_MAX + 8;
  if (value.kind != PD_JSON_STRING ||
      pd_base64_decode((pd_bytes){(const char *)value.raw.data + 1, value.raw.size - 2}, out, NULL) != PD_OK)
    return pd_error_set(err, PD_INVALID, "%s has to be a passphrase in base64", name);
  return PD_OK;
}

static pd_code read_vault_input(const pd_request *request, vault_input *out, pd_error *err)
{
  pd_json input;
  pd_error why = {0};
  *out = (vault_input){
    .fields = {{.name = "passphrase"}, {.name = "new_passphrase"}, {.name = "new_key"}, {.name = "path"}, {.name = "keep_key"}}};
  if (pd_json_parse(pd_buf_bytes(&request->body), &input, NULL)) return pd_error_set(err, PD_INVALID, "the body is no JSON");
  if (pd_json_fields(input, out->fields, COUNT_OF(out->fields), &why)) return pd_error_set(err, PD_INVALID, "%s", why.message);
  TRY(take_secret(out->fields[0].value, "passphrase", &out->pass, err));
  TRY(take_secret(out->fields[1].value, "new_passphrase", &out->fresh, err));
  if (out->fields[3].value.kind != PD_JSON_NONE) TRY(pd_json_decode(out->fields[3].value, &out->path, err));
  return pd_buf_byte(&out->path, 0, err);
}

static pd_code do_vault(pd_home *home, const char *verb, const vault_input *in, pd_error *err)
{
  pd_bytes pass = pd_buf_bytes(&in->pass);
  pd_vault_rotation rotation = {.new_passphrase = pd_buf_bytes(&in->fresh),
                                .makes_new_key = in->fields[2].value.kind == PD_JSON_BOOL && pd_json_true(in->fields[2].value),
                                .keeps_key = in->fields[4].value.kind == PD_JSON_BOOL && pd_json_true(in->fields[4].value)};
  if (strcmp(verb, "init") == 0) return pd_vault_init(home, pass, NULL, err);
  if (strcmp(verb, "unlock") == 0) return pd_vault_unlock(home, pass, err);
  if (strcmp(verb, "rotate") == 0) return pd_vault_rotate(home, pass, &rotation, err);
  if (strcmp(verb, "learn") == 0) return pd_vault_learn(home, (const char *)in->path.data, pass, err);
  if (strcmp(verb, "lock") != 0) return pd_error_set(err, PD_NOT_FOUND, "a vault has no '%.40s'", verb);
  pd_vault_lock(home);
  return PD_OK;
}

static pd_code use_vault(pd_request *request, pd_error *err)
{
  CLEANUP(vault_input_done) vault_input in;
  pd_code code = is_private(request)
                   ? read_vault_input(request, &in, err)
                   : (in = (vault_input){0}, pd_error_named(err, PD_DENIED, "PermissionDenied",
                                                            "a passphrase is taken over TLS, a Unix socket or loopback alone"));
  if (!code) code = do_vault(request->server->home, request->rest + strlen("vault/"), &in, err);
  if (request->body.data) explicit_bzero(request->body.data, request->body.capacity);
  TRY(code);
  return pd_buf_printf(&request->out, err, "{}");
}

/* ---- the table ---- */

static const struct verb {
  const char *method, *path; /* after /v1/home/ */
  const char *name;          /* that tokens' scopes are compared with */
  pd_code (*run)(pd_request *request, pd_error *err);
  bool writes;
} verbs[] = {
  {"GET", "agents", "home.agents", show_agents, false}, {"GET", "config", "home.config", show_config, false},
  {"GET", "doctor", "home.doctor", show_doctor, false}, {"GET", "key", "home.key", show_key, false},
  {"POST", "key", "home.key", make_key, true},          {"POST", "sign", "home.sign", sign_head, true},
  {"POST", "vault/", "home.vault", use_vault, true},
};

bool pd_home_verb_at(size_t index, const char **out_method, const char **out_path)
{
  if (index >= COUNT_OF(verbs)) return false;
  *out_method = verbs[index].method;
  *out_path = verbs[index].path;
  return true;
}

static const struct verb *find_verb(const pd_request *request)
{
  for (size_t i = 0; i < COUNT_OF(verbs); i++) {
    size_t size = strlen(verbs[i].path);
    bool has_rest = verbs[i].path[size - 1] == '/';
    bool fits = has_rest ? strncmp(request->rest, verbs[i].path, size) == 0 : strcmp(request->rest, verbs[i].path) == 0;
    if (fits && strcmp(verbs[i].method, request->method) == 0) return &verbs[i];
  }
  return NULL;
}

pd_lane pd_route_home_lane(pd_request *request)
{
  (void)request;
  return PD_LANE_SLOW;
}

/* What was written is told by its own line of the audit. */
static pd_code permit(pd_request *request, const struct verb *verb, pd_error *err)
{
  pd_ctx who = pd_caller_ctx(&request->caller);
  pd_code code = pd_authorise_operator(&who, verb->name, verb->writes, &request->grant, err);
  if (code || !verb->writes) pd_caller_audit(&request->caller, verb->name, (pd_bytes){0}, code, err);
  return code;
}

void pd_route_home(pd_request *request)
{
  pd_error err = {0};
  const struct verb *verb = find_verb(request);
  pd_code code = verb ? permit(request, verb, &err)
                      : pd_error_set(&err, PD_NOT_FOUND, "there is nothing at %.256s for %s", request->path, request->method);
  if (!code) code = verb->run(request, &err);
  if (!code) return pd_reply(request, MHD_HTTP_OK);
  pd_buf_clear(&request->out);
  pd_reply_error(request, &err);
}
