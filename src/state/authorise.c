/* authorise.c: see authorise.h. */
#include "state/authorise.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/glob.h"
#include "state/approval.h"
#include "state/policy.h"

#include <perdure/token.h>

/* ---- the token ---- */

static bool fits_name(const pd_token_info *token, const char *capability)
{
  if (!token->capabilities[0][0]) return true;
  for (size_t i = 0; i < PD_TOKEN_SCOPES_MAX && token->capabilities[i][0]; i++)
    if (pd_glob_match(pd_text(token->capabilities[i]), pd_text(capability))) return true;
  return false;
}

static bool fits_key(const pd_token_info *token, pd_bytes key)
{
  for (size_t i = 0; i < PD_TOKEN_SCOPES_MAX && token->prefixes[i][0]; i++)
    if (pd_bytes_starts(key, pd_text(token->prefixes[i]))) return true;
  return false;
}

static bool is_key(const pd_handling *handling, const char *name)
{
  for (const char *const *key = handling->keys; *key; key++)
    if (strcmp(name, *key) == 0) return true;
  return false;
}

/* Every key and prefix that the input names; and it has to name one. */
static bool fits_input(const pd_token_info *token, const pd_input *input)
{
  const pd_capability *capability = input->capability;
  bool has_any = capability->handling.is_keyless;
  for (size_t i = 0; i < capability->field_count; i++) {
    if (input->fields[i].kind == PD_JSON_NONE || !is_key(&capability->handling, capability->fields[i].name)) continue;
    if (input->fields[i].kind != PD_JSON_STRING || !fits_key(token, input->texts[i])) return false;
    has_any = true;
  }
  return has_any;
}

static pd_code refuse_keys(const pd_token_info *token, const char *capability, pd_error *err)
{
  return pd_error_named(err, PD_DENIED, "PermissionDenied",
                        "%.128s: this token is for keys that begin with '%s'%s, and the input names others", capability, token->prefixes[0],
                        token->prefixes[1][0] ? " or others" : "");
}

/* Capabilities by name, and whether an auditor may. */
static pd_code check_token(const pd_token_info *token, const char *name, const pd_capability *capability, pd_error *err)
{
  if (!token) return PD_OK;
  if (!fits_name(token, name))
    return pd_error_named(err, PD_DENIED, "PermissionDenied", "%.128s is not among the capabilities of this token", name);
  if (token->role == PD_ROLE_AUDITOR && capability && capability->handling.has_effects)
    return pd_error_named(err, PD_DENIED, "PermissionDenied", "%s changes something, and an auditor only looks", name);
  return PD_OK;
}

static bool is_narrow(const pd_token_info *token)
{
  return token && token->prefixes[0][0];
}

pd_code pd_authorise_name(const pd_ctx *who, const char *capability, pd_error *err)
{
  TRY(check_token(who->token, capability, NULL, err));
  return is_narrow(who->token) ? refuse_keys(who->token, capability, err) : PD_OK;
}

/* ---- calls ---- */

static pd_code refuse(const pd_frame *frame, const pd_verdict *verdict, const char *what, pd_error *err)
{
  return pd_error_named(err, PD_DENIED, "PermissionDenied", "%s %s%s%s", frame->capability->name, what, *verdict->reason ? ": " : "",
                        verdict->reason);
}

pd_code pd_authorise_token(pd_frame *frame, bool is_malformed, pd_error *err)
{
  const pd_token_info *token = frame->ctx->token;
  pd_code code = check_token(token, frame->capability->name, frame->capability, err);
  bool fits = !is_narrow(token) || (!is_malformed && fits_input(token, frame->input));
  if (!code && !fits) code = refuse_keys(token, frame->capability->name, err);
  frame->is_out_of_scope = code != PD_OK;
  return code;
}

pd_code pd_authorise_call(pd_frame *frame, pd_error *err)
{
  pd_verdict verdict;
  pd_policy_judge(frame, &verdict);
  frame->permission = verdict.permission;
  bool is_watched = verdict.permission == PD_PERMIT_OPERATOR || verdict.permission == PD_PERMIT_APPROVAL;
  if (frame->is_begun && is_watched) return pd_frame_must_wait(frame, err); /* approvals and their audit are on disk before the answer */
  switch (verdict.permission) {
  case PD_PERMIT_BLOCKED: return refuse(frame, &verdict, "is blocked by policy", err);
  case PD_PERMIT_OPERATOR: return frame->ctx->is_operator ? PD_OK : refuse(frame, &verdict, "is the operator's alone", err);
  case PD_PERMIT_APPROVAL: return frame->ctx->is_operator ? PD_OK : pd_approval_settle(frame, verdict.ttl_ms, verdict.reason, err);
  case PD_PERMIT_NOTIFY:
  case PD_PERMIT_AUTONOMOUS: break;
  }
  return PD_OK;
}

/* ---- reads by other ways ---- */

static pd_code check_key(const pd_token_info *token, const char *name, const pd_capability *capability, pd_bytes key, pd_error *err)
{
  TRY(check_token(token, name, capability, err));
  if (!is_narrow(token) || (capability && capability->handling.is_keyless)) return PD_OK;
  bool has_keys = capability && capability->handling.keys[0];
  return has_keys && fits_key(token, key) ? PD_OK : refuse_keys(token, name, err);
}

static bool is_free(const pd_ctx *who, pd_permission permission)
{
  return who->is_operator ? permission < PD_PERMIT_BLOCKED : permission <= PD_PERMIT_NOTIFY; /* AU3 */
}

pd_code pd_authorise_read(const pd_ctx *who, const char *capability, const char *owner, pd_bytes key, pd_error *err)
{
  const pd_capability *found = pd_capability_get(capability);
  const char *agent = who->agent ? who->agent : "";
  TRY(check_key(who->token, capability, found, key, err));
  bool is_foreign = owner && strcmp(owner, PD_STORE_SHARED) != 0 && strcmp(owner, agent) != 0;
  if (is_foreign && !who->is_operator)
    return pd_error_named(err, PD_DENIED, "PermissionDenied", "agent %s may read its own state and shared, not that of '%.128s'", agent,
                          owner);
  pd_bytes about = key.size ? key : (pd_bytes){0};
  pd_permission permission = /* as with calls: nobody passes what is blocked for the agent whose state it is */
    found ? pd_policy_permission(who->home, is_foreign ? owner : agent, capability, about) : PD_PERMIT_OPERATOR;
  if (is_free(who, permission)) return PD_OK;
  return pd_error_named(err, PD_DENIED, "PermissionDenied", "policy does not let %s%s read this: %s is not free for it",
                        *agent ? "agent " : "the operator", agent, capability);
}

bool pd_authorise_any(const pd_ctx *who, const char *capability, bool may_ask)
{
  const pd_capability *found = pd_capability_get(capability);
  if (!found || check_token(who->token, capability, found, NULL)) return false;
  if (is_narrow(who->token) && !found->handling.is_keyless && !found->handling.keys[0]) return false;
  pd_permission best = pd_policy_at_best(who->home, who->agent ? who->agent : "", capability);
  return is_free(who, best) || (may_ask && best == PD_PERMIT_APPROVAL);
}
