/* call.c: the one door: find, check, permit, run, audit. Invariants C1 to C3 are in call.h. */
#include "state/call.h"

#include "base/base.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/disk_wait.h"
#include "base/error.h"
#include "base/json_error.h"
#include "base/sha256.h"
#include "state/activity.h"
#include "state/approval.h"
#include "state/audit.h"
#include "state/authorise.h"
#include "state/foresee.h"
#include "state/home.h"
#include "state/session.h"
#include "state/threads.h"
#include "state/vault.h"

#include <stdlib.h>

/* ---- what a capability's function uses ---- */

static size_t slot_of(const pd_frame *frame, const char *name)
{
  for (size_t i = 0; i < frame->capability->field_count; i++)
    if (strcmp(frame->capability->fields[i].name, name) == 0) return i;
  abort(); /* the function and its capability's file disagree: no call may go on */
}

pd_json pd_in(const pd_frame *frame, const char *name)
{
  return frame->input->fields[slot_of(frame, name)];
}

pd_bytes pd_in_text(const pd_frame *frame, const char *name)
{
  size_t slot = slot_of(frame, name);
  return frame->input->fields[slot].kind == PD_JSON_NONE ? (pd_bytes){0} : frame->input->texts[slot];
}

bool pd_in_string(const pd_frame *frame, const char *name, char *out, size_t size)
{
  pd_bytes text = pd_in_text(frame, name);
  if (!text.data || text.size >= size) return false;
  memcpy(out, text.data, text.size);
  out[text.size] = 0;
  return true;
}

int64_t pd_in_int(const pd_frame *frame, const char *name, int64_t otherwise)
{
  int64_t number;
  return pd_json_i64(pd_in(frame, name), &number) ? number : otherwise;
}

bool pd_in_bool(const pd_frame *frame, const char *name, bool otherwise)
{
  pd_json value = pd_in(frame, name);
  return value.kind == PD_JSON_NONE ? otherwise : pd_json_true(value);
}

pd_code pd_in_value(const pd_frame *frame, const char *name, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_json value = pd_in(frame, name);
  TRY(pd_buf_reserve(out, value.raw.size, err));
  if (frame->input->facts.has_space)
    pd_json_value(&w, value);
  else
    pd_json_raw(&w, value.raw);
  return w.code;
}

static pd_json_writer detail_writer(pd_frame *frame)
{
  return (pd_json_writer){.out = &frame->details, .needs_comma = frame->details.size > 0};
}

void pd_frame_detail_number(pd_frame *frame, const char *key, uint64_t number)
{
  pd_json_writer w = detail_writer(frame);
  pd_json_put_number(&w, key, number);
}

void pd_frame_detail_text(pd_frame *frame, const char *key, const char *text)
{
  pd_json_writer w = detail_writer(frame);
  pd_json_put_text(&w, key, text);
}

pd_note pd_frame_note(const pd_frame *frame)
{
  const char *author = *frame->agent ? frame->agent : "operator";
  return (pd_note){.author = author, .run = frame->ctx->session, .reason = frame->capability->name};
}

pd_code pd_frame_progress(const pd_frame *frame, uint64_t done, uint64_t total, pd_error *err)
{
  const pd_ctx *ctx = frame->ctx;
  if (!ctx->progress || ctx->progress(ctx->progress_ctx, done, total)) return PD_OK;
  return pd_error_named(err, PD_INVALID, "Cancelled", "%s was cancelled by its caller; nothing was changed", frame->capability->name);
}

void pd_frame_commit(pd_frame *frame, const pd_ack *ack)
{
  frame->commit = ack->commit;
  frame->has_commit = true;
}

/* Instead of what it held; the same store most often, so it is let go last. */
static void hold(pd_frame *frame, pd_held *held)
{
  pd_home_let(frame->home, frame->held);
  frame->held = held;
}

static void free_parts(pd_frame *frame)
{
  pd_threads_let(frame, false);
  hold(frame, NULL);
  pd_buf_done(&frame->details);
  pd_buf_done(&frame->facts);
  pd_foresee_unbind(frame);
}

pd_code pd_frame_own(pd_frame *frame, bool create, pd_store **out, pd_error *err)
{
  pd_held *held;
  TRY(pd_home_hold(&frame->grant, frame->agent, create, &held, err));
  hold(frame, held);
  *out = held->store;
  return PD_OK;
}

pd_code pd_frame_own_or_none(pd_frame *frame, pd_store **out, pd_error *err)
{
  pd_error why;
  pd_code code = pd_frame_own(frame, false, out, &why);
  if (code == PD_NOT_FOUND) {
    *out = NULL;
    return PD_OK;
  }
  if (code) *err = why;
  return code;
}

void pd_out_time(pd_frame *frame, const char *key, int64_t time_ms)
{
  pd_json_put_time(&frame->out, key, time_ms);
}

void pd_out_stored(pd_json_writer *out, pd_bytes value)
{
  pd_json json;
  pd_json_facts facts;
  if (pd_json_parse_facts(value, &json, &facts, NULL) == PD_OK) {
    if (facts.has_space)
      pd_json_value(out, json);
    else
      pd_json_raw(out, json.raw); /* as our own capabilities store it */
  } else if (pd_utf8_check(value)) {
    pd_json_text(out, value);
  } else {
    CLEANUP(pd_buf_done) pd_buf text = {0};
    if (pd_base64_encode(value, &text, out->err)) {
      out->code = PD_NO_MEMORY;
      return;
    }
    pd_json_open(out, '{');
    pd_json_put_bytes(out, "base64", pd_buf_bytes(&text));
    pd_json_close(out, '}');
  }
}

/* ---- failures ---- */

static bool is_storage(pd_code code)
{
  return code == PD_STORAGE || code == PD_CORRUPT || code == PD_FULL || code == PD_READ_ONLY || code == PD_FORMAT;
}

/* The name that the capability's file has for a failure that came from below. */
static const char *name_of(const pd_capability *capability, const pd_error *err)
{
  if (err->name) return err->name;
  if (err->code == PD_INVALID) return "InvalidInput";
  if (err->code == PD_FULL) return pd_code_name(PD_FULL); /* unlike other storage errors it is somebody's to mend */
  if (!is_storage(err->code) || !capability) return pd_code_name(err->code);
  for (const pd_cap_error *e = capability->errors; e->code; e++)
    if (strcmp(e->code, "IoError") == 0) return e->code;
  return "DatabaseError";
}

static void answer_failure(const pd_capability *capability, const pd_frame *frame, const pd_error *err, pd_buf *out)
{
  const pd_cap_error *known = pd_capability_error(capability, err->name);
  pd_json_writer w = {.out = out};
  pd_buf_clear(out);
  pd_json_open(&w, '{');
  pd_json_error_begin(&w, err);
  if (capability) pd_json_put_text(&w, "capability", capability->name);
  if (err->code == PD_LOCKED && err->actual == PD_VAULT_MISSING) pd_json_put_text(&w, "vault", "missing");
  if (frame && frame->details.size && w.code == PD_OK) {
    w.code = pd_buf_byte(out, ',', NULL);
    if (w.code == PD_OK) w.code = pd_buf_append(out, frame->details.data, frame->details.size, NULL);
  }
  pd_json_error_end(&w, err, known ? known->recovery : NULL);
  pd_json_close(&w, '}');
  if (w.code) pd_buf_clear(out); /* no memory even for that: err says it */
}

/* ---- the door ---- */

static pd_code check_caller(const pd_ctx *ctx, const pd_capability *capability, pd_error *err)
{
  pd_error why = {0};
  if (!ctx->agent || !*ctx->agent) {
    if (ctx->is_operator && !capability->needs_agent) return PD_OK;
    return pd_error_named(err, PD_INVALID, "InvalidInput",
                          "%s: missing agent: an operator's call of this capability names the agent that it is made for", capability->name);
  }
  if (pd_agent_check(ctx->agent, &why)) return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: %s", capability->name, why.message);
  if (strcmp(ctx->agent, PD_STORE_SHARED) == 0 || strcmp(ctx->agent, PD_STORE_SYSTEM) == 0)
    return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: '%s' is the name of a store that is no agent's", capability->name,
                          ctx->agent);
  return PD_OK;
}

/* What the call was about, for the audit: never a value. */
static pd_bytes subject_of(const pd_input *input)
{
  for (const char *const *name = input->capability->handling.subject; *name; name++)
    for (size_t i = 0; i < input->capability->field_count; i++)
      if (input->fields[i].kind == PD_JSON_STRING && strcmp(input->capability->fields[i].name, *name) == 0) return input->texts[i];
  return (pd_bytes){0};
}

static const char *token_of(const pd_ctx *ctx)
{
  return ctx->token ? ctx->token->id : NULL;
}

/* What the token does not reach: alike ones share a line, so that nobody fills the audit with refusals. */
static void audit_refusal(const pd_ctx *ctx, const char *capability, pd_bytes subject, const pd_error *err)
{
  pd_access access = {
    .capability = capability,
    .agent = ctx->agent,
    .session = ctx->session,
    .token = token_of(ctx),
    .subject = subject,
    .outcome = err->name,
    .is_operator = ctx->is_operator,
  };
  pd_audit_access(ctx->home, &access);
}

static void audit(const pd_frame *frame, const pd_error *err, pd_code code)
{
  if (frame->is_out_of_scope) {
    audit_refusal(frame->ctx, frame->capability->name, subject_of(frame->input), err);
    return;
  }
  pd_audit_entry entry = {
    .time_ms = frame->now_ms,
    .agent = frame->ctx->agent ? frame->ctx->agent : "",
    .session = frame->ctx->session && code != PD_SESSION ? frame->ctx->session : "", /* what was refused was none */
    .token = token_of(frame->ctx),
    .capability = frame->capability->name,
    .outcome = code ? err->name : "ok",
    .approval = frame->approval,
    .is_operator = frame->ctx->is_operator,
    .is_known = true,
    .permission = frame->permission,
    .subject = subject_of(frame->input),
    .commit = frame->has_commit ? &frame->commit : NULL,
  };
  if (pd_input_hash(frame->input, &entry.input_hash, NULL)) entry.input_hash = (pd_id){0};
  pd_audit_add(frame->home, &entry);
}

/* A call of nothing is a call too: whoever tries names is seen. */
static void audit_unknown(const pd_ctx *ctx, const char *capability, pd_bytes input, const pd_error *err)
{
  pd_audit_entry entry = {
    .time_ms = pd_home_now(ctx->home),
    .agent = ctx->agent ? ctx->agent : "",
    .session = ctx->session ? ctx->session : "",
    .token = token_of(ctx),
    .capability = capability,
    .outcome = err->name,
    .approval = "",
    .is_operator = ctx->is_operator,
    .input_hash = pd_sha256(input),
  };
  pd_audit_add(ctx->home, &entry);
}

void pd_audit_tell(pd_home *home, const pd_deed *deed)
{
  pd_audit_entry entry = {
    .time_ms = pd_home_now(home),
    .agent = deed->agent ? deed->agent : "",
    .session = "",
    .capability = deed->name,
    .outcome = deed->outcome,
    .approval = "",
    .is_operator = true,
    .permission = PD_PERMIT_OPERATOR,
    .subject = deed->subject,
    .input_hash = pd_sha256(deed->subject),
    .commit = deed->commit,
  };
  pd_audit_add(home, &entry);
}

/* `parsed`: what reading its input came to. */
static pd_code run(pd_frame *frame, pd_code parsed, pd_error *err)
{
  TRY(pd_authorise_token(frame, parsed != PD_OK, err));
  TRY(parsed);
  TRY(check_caller(frame->ctx, frame->capability, err));
  frame->agent = frame->ctx->agent ? frame->ctx->agent : "";
  TRY(pd_authorise_call(frame, err));
  pd_json_open(&frame->out, '{');
  pd_code code = pd_capability_run(frame, err);
  if (code == PD_LOCKED && frame->permission == PD_PERMIT_APPROVAL && *frame->approval) pd_approval_give_back(frame);
  TRY(code);
  pd_json_close(&frame->out, '}');
  return frame->out.code;
}

static void prepare(pd_frame *frame, const pd_ctx *ctx, const pd_input *input, pd_buf *out, pd_error *err)
{
  *frame = (pd_frame){
    .ctx = ctx,
    .home = ctx->home,
    .agent = "",
    .capability = input->capability,
    .input = input,
    .permission = input->capability->permission,
    .now_ms = pd_home_now(ctx->home),
    .out = {.out = out, .err = err},
  };
  pd_buf_clear(out);
}

/* What came of it, to caller and audit. The frame's parts are still to be freed. */
static pd_code conclude(pd_frame *frame, pd_code code, pd_buf *out, pd_error *err)
{
  if (code) {
    err->code = code;
    err->name = name_of(frame->capability, err);
    answer_failure(frame->capability, frame, err, out);
  }
  audit(frame, err, code);
  bool is_active = *frame->agent && !frame->ctx->is_operator && !frame->ctx->is_onlooker && frame->capability->handling.is_activity;
  if (is_active) pd_activity_note(frame->home, frame->agent, frame->now_ms);
  pd_threads_let(frame, code == PD_OK); /* before its store */
  return code;
}

/* It is made again later, and judged anew then: nothing has come of it so far. */
static pd_code put_off(pd_frame *frame, pd_buf *out)
{
  if (frame->permission == PD_PERMIT_APPROVAL && *frame->approval) pd_approval_give_back(frame);
  pd_buf_clear(out);
  pd_buf_done(&frame->details);
  pd_threads_let(frame, true);
  hold(frame, NULL);
  return PD_OK;
}

/* The call, its input parsed or refused (`parsed` is that answer). */
static pd_code call_with(const pd_ctx *ctx, const pd_input *input, pd_code parsed, pd_buf *out, pd_error *err)
{
  pd_frame frame;
  if (ctx->wait) ctx->wait->is_waiting = false;
  prepare(&frame, ctx, input, out, err);
  pd_code code = run(&frame, parsed, err);
  if (!code && ctx->wait && ctx->wait->is_waiting) return put_off(&frame, out);
  code = conclude(&frame, code, out, err);
  free_parts(&frame);
  return code;
}

pd_code pd_call_input(const pd_ctx *ctx, const pd_input *input, pd_buf *out, pd_error *err)
{
  pd_error own;
  return call_with(ctx, input, PD_OK, out, err ? err : &own);
}

static pd_code call_unknown(const pd_ctx *ctx, const char *capability, pd_bytes input, pd_buf *out, pd_error *err)
{
  pd_capability_info info;
  pd_code denied = pd_authorise_name(ctx, capability, err);
  pd_code code = denied ? denied : pd_capability_find(capability, &info, err);
  answer_failure(NULL, NULL, err, out);
  if (denied)
    audit_refusal(ctx, capability, (pd_bytes){0}, err);
  else
    audit_unknown(ctx, capability, input, err);
  return code;
}

/* `out` is to be finished in any case. */
static pd_code parse(const pd_capability *capability, pd_bytes input, pd_input *out, pd_error *err)
{
  pd_code code = pd_input_parse(capability, input, out, err);
  if (code) out->hash = pd_sha256(input), out->has_hash = true; /* the audit names what was refused */
  return code;
}

pd_code pd_call(const pd_ctx *ctx, const char *capability, pd_bytes input, pd_buf *out, pd_error *err)
{
  pd_error own;
  if (!err) err = &own;
  const pd_capability *found = pd_capability_get(capability);
  if (!found) return call_unknown(ctx, capability, input, out, err);
  CLEANUP(pd_input_done) pd_input parsed;
  pd_code code = parse(found, input, &parsed, err);
  return call_with(ctx, &parsed, code, out, err);
}

/* ---- in two steps ---- */

struct pd_begun {
  pd_ctx ctx;
  pd_input input;
  pd_frame frame;
  pd_code code; /* of what came after the commit was staged; if it must wait: of parsing */
  pd_error why; /* of parsing */
};

/* Would the call wait for the disk, whatever it is: to conclude it, or because it finds sessions that have idled out? */
static bool is_slow(const pd_ctx *ctx, int64_t now_ms)
{
  bool is_noted = ctx->agent && *ctx->agent && !ctx->is_operator && !ctx->is_onlooker;
  if (is_noted && pd_activity_must_wait(ctx->home, ctx->agent, now_ms)) return true;
  return pd_sessions_are_due(ctx->home, now_ms) || pd_audit_must_wait(ctx->home);
}

bool pd_frame_is_hurried(const pd_frame *frame)
{
  return frame->is_begun && !*frame->approval; /* an approval is used up once: such a call cannot be run anew */
}

pd_code pd_frame_must_wait(pd_frame *frame, pd_error *err)
{
  frame->must_wait = true;
  return pd_error_set(err, PD_LIMIT, "%s has to wait", frame->capability->name); /* for nobody's eyes */
}

pd_later **pd_frame_later(pd_frame *frame)
{
  return pd_frame_is_hurried(frame) ? &frame->later : NULL;
}

pd_note pd_frame_last_note(pd_frame *frame)
{
  pd_note note = pd_frame_note(frame);
  note.later = pd_frame_later(frame);
  return note;
}

void pd_frame_keep(pd_frame *frame, pd_held *held)
{
  hold(frame, held);
}

static void free_begun(pd_begun *begun)
{
  free_parts(&begun->frame);
  pd_input_done(&begun->input);
  free(begun);
}

static bool is_common(const pd_frame *frame, const char *name, const pd_store *store)
{
  pd_store *common = NULL;
  return pd_home_is_open(frame->home, name) && !pd_home_store(frame->home, name, false, &common, NULL) && common == store;
}

/* Else it might be closed before the commit is waited for. */
static void check_held(const pd_frame *frame)
{
  const pd_store *is = frame->later ? pd_later_store(frame->later) : NULL;
  if (!is || !pd_disk_wait_is_asserted() || (frame->held && frame->held->store == is)) return;
  if (is_common(frame, PD_STORE_SHARED, is) || is_common(frame, PD_STORE_SYSTEM, is)) return;
  abort(); /* a function staged its last commit in a store that the frame does not keep */
}

/* What cannot be had without the disk is refused, and then all of it is done again by one who may wait. */
static pd_code try_run(pd_frame *frame, pd_code parsed, pd_error *err)
{
  pd_disk_refuse();
  pd_code code = run(frame, parsed, err);
  if (pd_disk_allow() && !frame->later) frame->must_wait = true;
  check_held(frame);
  return code;
}

pd_code pd_call_begin(const pd_ctx *ctx, const char *capability, pd_bytes input, pd_begun **out, pd_buf *answer, pd_error *err)
{
  *out = NULL;
  const pd_capability *found = pd_capability_get(capability);
  if (!found) return call_unknown(ctx, capability, input, answer, err);
  pd_begun *begun = malloc(sizeof *begun);
  if (!begun) return pd_error_memory(err, "a call");
  begun->ctx = *ctx;
  pd_code code = parse(found, input, &begun->input, err);
  prepare(&begun->frame, &begun->ctx, &begun->input, answer, err);
  begun->frame.is_begun = true;
  begun->frame.must_wait = is_slow(ctx, begun->frame.now_ms);
  begun->code = code;
  if (code) begun->why = *err;
  if (!begun->frame.must_wait) code = try_run(&begun->frame, code, err);
  if (begun->frame.must_wait || begun->frame.later) {
    if (begun->frame.later) begun->code = code;
    *out = begun;
    return PD_OK;
  }
  code = conclude(&begun->frame, code, answer, err);
  free_begun(begun);
  return code;
}

const void *pd_begun_group(const pd_begun *begun)
{
  return begun->frame.later ? pd_later_store(begun->frame.later) : NULL;
}

void pd_call_drop(pd_begun *begun)
{
  free_begun(begun);
}

pd_code pd_call_finish(pd_begun *begun, pd_buf *answer, pd_error *err)
{
  bool again = begun->frame.must_wait;
  pd_wait over = {.is_over = true};
  pd_code code = again ? PD_OK : pd_later_wait(begun->frame.later, &again, err);
  /* What was overtaken is done again by the thread that others' commits wait for: it answers with what there is, and never sleeps. */
  if (begun->frame.later && again && !begun->ctx.wait) begun->ctx.wait = &over;
  if (code) begun->frame.has_commit = false; /* it was not made */
  if (!code && !again && begun->code)
    code = pd_error_set(err, begun->code, "%s was done, but its answer could not be written", begun->frame.capability->name);
  bool is_refused = begun->frame.must_wait && begun->code;
  if (is_refused) *err = begun->why;
  if (begun->frame.must_wait) pd_sessions_sweep(begun->ctx.home); /* it may be for this that it has to wait */
  if (again)                                                      /* nothing was written: what it says now holds */
    code = call_with(&begun->ctx, &begun->input, is_refused ? begun->code : PD_OK, answer, err);
  else
    code = conclude(&begun->frame, code, answer, err);
  free_begun(begun);
  return code;
}
