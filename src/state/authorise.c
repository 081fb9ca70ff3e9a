/* authorise.c: see authorise.h. */
#include "state/authorise.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/glob.h"
#include "state/approval.h"
#include "state/policy.h"

#include <perdure/token.h>
#include <stdio.h>

/* ---- grants ---- */

static const char here; /* AU4: nobody else has its address */

static pd_grant grant_of(pd_home *home, const char *capability, const char *store, bool writes)
{
  pd_grant grant = {.granted_by = &here, .home = home, .capability = capability, .writes = writes};
  snprintf(grant.store, sizeof grant.store, "%s", store);
  return grant;
}

static pd_grant grant_of_all(pd_home *home, const char *capability, bool writes)
{
  pd_grant grant = grant_of(home, capability, "", writes);
  grant.is_of_all = true;
  return grant;
}

static bool is_granted(const pd_grant *grant)
{
  return grant && grant->granted_by == &here;
}

pd_code pd_grant_check(const pd_grant *grant, const char *store, bool writes, pd_error *err)
{
  bool fits = is_granted(grant) && (grant->writes || !writes) &&
              (grant->is_of_all || strcmp(store, grant->store) == 0 || strcmp(store, PD_STORE_SHARED) == 0);
  if (fits) return PD_OK;
  return pd_error_named(err, PD_DENIED, "PermissionDenied", "%s has no permission to %s the store '%.128s'",
                        is_granted(grant) ? grant->capability : "an operation without a decision", writes ? "write to" : "read", store);
}

pd_code pd_grant_check_call(const pd_frame *frame, pd_error *err)
{
  const pd_grant *grant = &frame->grant;
  if (is_granted(grant) && grant->home == frame->home && grant->capability == frame->capability->name) return PD_OK;
  return pd_error_named(err, PD_DENIED, "PermissionDenied", "%s was to run without a decision that it may", frame->capability->name);
}

/* What a home does for itself. src/LAYERS names the files that may ask for it. */
static const struct {
  const char *name;
  bool writes;
} works[] = {
  {"follow", false}, /* one thread a store reads its log for all who were permitted to follow it */
  {"wait", false},   /* a call that waits for a message is woken; it reads nothing before it is decided on again */
  {"queue", true},   /* an agent's messages are in its own store, and others send to it; queue.* was decided on */
  {"whole", true},   /* health, snapshots and restores look at all stores of a home */
  {"backup", true},  /* and so do backups */
};

pd_code pd_authorise_work(pd_home *home, const char *work, pd_grant *out, pd_error *err)
{
  for (size_t i = 0; i < COUNT_OF(works); i++) {
    if (strcmp(works[i].name, work) != 0) continue;
    *out = grant_of_all(home, works[i].name, works[i].writes);
    return PD_OK;
  }
  return pd_error_named(err, PD_DENIED, "PermissionDenied", "'%.64s' is not work of the home's own", work);
}

static void count(pd_home *home)
{
  atomic_fetch_add_explicit(&home->decision_count, 1, memory_order_relaxed);
}

uint64_t pd_authorise_count(pd_home *home)
{
  return atomic_load_explicit(&home->decision_count, memory_order_relaxed);
}

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
static pd_code check_token(const pd_token_info *token, const char *name, bool writes, pd_error *err)
{
  if (!token) return PD_OK;
  if (!fits_name(token, name))
    return pd_error_named(err, PD_DENIED, "PermissionDenied", "%.128s is not among the capabilities of this token", name);
  if (token->role == PD_ROLE_AUDITOR && writes)
    return pd_error_named(err, PD_DENIED, "PermissionDenied", "%s changes something, and an auditor only looks", name);
  return PD_OK;
}

static bool has_effects(const pd_capability *capability)
{
  return capability && capability->handling.has_effects;
}

static bool is_narrow(const pd_token_info *token)
{
  return token && token->prefixes[0][0];
}

pd_code pd_authorise_name(const pd_ctx *who, const char *capability, pd_error *err)
{
  count(who->home);
  TRY(check_token(who->token, capability, false, err));
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
  count(frame->home);
  pd_code code = check_token(token, frame->capability->name, has_effects(frame->capability), err);
  bool fits = !is_narrow(token) || (!is_malformed && fits_input(token, frame->input));
  if (!code && !fits) code = refuse_keys(token, frame->capability->name, err);
  frame->is_out_of_scope = code != PD_OK;
  return code;
}

static pd_code judge(pd_frame *frame, pd_error *err)
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

pd_code pd_authorise_call(pd_frame *frame, pd_error *err)
{
  const pd_capability *capability = frame->capability;
  bool writes = capability->handling.has_effects;
  frame->grant = capability->permission == PD_PERMIT_OPERATOR ? grant_of_all(frame->home, capability->name, writes)
                                                              : grant_of(frame->home, capability->name, frame->agent, writes);
  pd_code code = judge(frame, err); /* an approval is asked for with what the call would do: it is run up to there */
  if (code) frame->grant = (pd_grant){0};
  return code;
}

/* ---- by other ways ---- */

static pd_code check_key(const pd_token_info *token, const char *name, const pd_capability *capability, pd_bytes key, pd_error *err)
{
  TRY(check_token(token, name, has_effects(capability), err));
  if (!is_narrow(token) || (capability && capability->handling.is_keyless)) return PD_OK;
  bool has_keys = capability && capability->handling.keys[0];
  return has_keys && fits_key(token, key) ? PD_OK : refuse_keys(token, name, err);
}

static bool is_free(const pd_ctx *who, pd_permission permission)
{
  return who->is_operator ? permission < PD_PERMIT_BLOCKED : permission <= PD_PERMIT_NOTIFY; /* AU3 */
}

static bool is_auditor(const pd_ctx *who)
{
  return who->is_onlooker || (who->token && who->token->role == PD_ROLE_AUDITOR);
}

pd_code pd_authorise_read(const pd_ctx *who, const char *capability, const char *owner, pd_bytes key, pd_grant *out, pd_error *err)
{
  count(who->home);
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
  if (is_free(who, permission)) {
    if (out) *out = grant_of(who->home, capability, owner ? owner : agent, !is_foreign && !is_auditor(who));
    return PD_OK;
  }
  return pd_error_named(err, PD_DENIED, "PermissionDenied", "policy does not let %s%s read this: %s is not free for it",
                        *agent ? "agent " : "the operator", agent, capability);
}

pd_code pd_authorise_operator(const pd_ctx *who, const char *name, bool writes, pd_grant *out, pd_error *err)
{
  count(who->home);
  TRY(check_token(who->token, name, writes, err));
  if (is_narrow(who->token)) return refuse_keys(who->token, name, err);
  if (!who->is_operator) return pd_error_named(err, PD_DENIED, "PermissionDenied", "%s is the operator's alone", name);
  if (writes && is_auditor(who))
    return pd_error_named(err, PD_DENIED, "PermissionDenied", "%s changes something, and an auditor only looks", name);
  if (out) *out = grant_of_all(who->home, name, writes);
  return PD_OK;
}

bool pd_authorise_any(const pd_ctx *who, const char *capability, bool may_ask)
{
  count(who->home);
  const pd_capability *found = pd_capability_get(capability);
  if (!found || check_token(who->token, capability, has_effects(found), NULL)) return false;
  if (is_narrow(who->token) && !found->handling.is_keyless && !found->handling.keys[0]) return false;
  pd_permission best = pd_policy_at_best(who->home, who->agent ? who->agent : "", capability);
  return is_free(who, best) || (may_ask && best == PD_PERMIT_APPROVAL);
}
