/* token_call.c: tokens.create, tokens.list, tokens.revoke, tokens.rotate: the operator's. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/random.h"
#include "base/sha256.h"
#include "state/call.h"
#include "state/quota.h"
#include "state/run.h"
#include "state/token.h"

#include <errno.h>
#include <stdio.h>

/* ---- making texts ---- */

/* A new text for the token's id, and its hash. */
static pd_code make_text(pd_token *token, char out[PD_TOKEN_TEXT_SIZE], pd_error *err)
{
  char secret[65];
  TRY(pd_random_hex(secret, sizeof secret, err));
  snprintf(out, PD_TOKEN_TEXT_SIZE, "pd_%s_%s", token->info.id, secret);
  token->hash = pd_sha256(pd_text(out));
  explicit_bzero(secret, sizeof secret);
  return PD_OK;
}

static pd_code store_token(pd_frame *frame, const pd_token *token, uint64_t version, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char key[PD_TOKEN_KEY_SIZE];
  pd_store *store;
  pd_ack ack;
  pd_note note = pd_frame_note(frame);
  note.ref = PD_STATE_REF;
  snprintf(key, sizeof key, "token/%s", token->info.id);
  TRY(pd_token_encode(token, &text, err));
  TRY(pd_home_store(frame->home, PD_STORE_SYSTEM, true, &store, err));
  TRY(pd_put_if(store, pd_text(key), pd_buf_bytes(&text), version, &note, &ack, err));
  pd_frame_commit(frame, &ack);
  return PD_OK;
}

/* ---- create ---- */

/* Texts of 1 to 128 bytes without control characters. */
static pd_code take_scopes(const pd_frame *frame, const char *field, char (*out)[PD_TOKEN_SCOPE_SIZE], pd_error *err)
{
  pd_json item;
  size_t count = 0;
  pd_json_walk walk = pd_json_walk_begin(pd_in(frame, field));
  while (pd_json_walk_next(&walk, NULL, &item)) {
    CLEANUP(pd_buf_done) pd_buf text = {0};
    bool is_good =
      pd_json_decode(item, &text, NULL) == PD_OK && text.size && text.size < PD_TOKEN_SCOPE_SIZE && count < PD_TOKEN_SCOPES_MAX;
    for (size_t i = 0; i < text.size && is_good; i++) is_good = text.data[i] >= 0x20 && text.data[i] != 0x7f;
    if (!is_good)
      return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: field '%s' must hold texts of 1 to %d bytes", frame->capability->name,
                            field, PD_TOKEN_SCOPE_SIZE - 1);
    memcpy(out[count], text.data, text.size);
    out[count++][text.size] = 0;
  }
  return PD_OK;
}

static pd_code take_owner(const pd_frame *frame, pd_token *token, pd_error *err)
{
  pd_json role = pd_in(frame, "role");
  token->info.role = pd_json_is(role, "operator") ? PD_ROLE_OPERATOR : pd_json_is(role, "auditor") ? PD_ROLE_AUDITOR : PD_ROLE_AGENT;
  bool has_agent = pd_in_string(frame, "agent", token->info.agent, sizeof token->info.agent);
  if (token->info.role == PD_ROLE_AGENT && !has_agent)
    return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: whose token? Role agent needs 'agent'", frame->capability->name);
  if (token->info.role != PD_ROLE_AGENT && has_agent)
    return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: 'agent' goes with role agent only", frame->capability->name);
  if (has_agent && (strcmp(token->info.agent, PD_STORE_SHARED) == 0 || strcmp(token->info.agent, PD_STORE_SYSTEM) == 0))
    return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: '%s' is the name of a store that is no agent's", frame->capability->name,
                          token->info.agent);
  return PD_OK;
}

pd_code pd_cap_tokens_create(pd_frame *frame, pd_error *err)
{
  pd_token token = {.created_ms = frame->now_ms};
  char text[PD_TOKEN_TEXT_SIZE];
  TRY(take_owner(frame, &token, err));
  TRY(take_scopes(frame, "capabilities", token.info.capabilities, err));
  TRY(take_scopes(frame, "prefixes", token.info.prefixes, err));
  (void)!pd_in_string(frame, "label", token.label, sizeof token.label);
  token.info.rate = (uint32_t)pd_in_int(frame, "rate", 0);
  int64_t seconds = pd_in_int(frame, "expires_in", 0);
  if (seconds) token.info.expires_ms = frame->now_ms + seconds * 1000;
  TRY(pd_random_hex(token.info.id, sizeof token.info.id, err));
  TRY(make_text(&token, text, err));
  TRY(store_token(frame, &token, 0, err));
  pd_json_put_text(&frame->out, "token_id", token.info.id);
  pd_json_put_text(&frame->out, "token", text);
  pd_json_put_text(&frame->out, "role", pd_role_name(token.info.role));
  pd_json_put_or_null(&frame->out, "agent", pd_text(token.info.agent));
  pd_out_time(frame, "expires_at", token.info.expires_ms);
  explicit_bzero(text, sizeof text);
  return frame->out.code;
}

/* ---- list ---- */

static void put_token(pd_frame *frame, const pd_token *token)
{
  pd_json_writer *w = &frame->out;
  pd_json_open(w, '{');
  pd_json_put_text(w, "token_id", token->info.id);
  pd_json_put_text(w, "role", pd_role_name(token->info.role));
  if (*token->info.agent) pd_json_put_text(w, "agent", token->info.agent);
  if (*token->label) pd_json_put_text(w, "label", token->label);
  pd_token_put_list(w, "capabilities", token->info.capabilities);
  pd_token_put_list(w, "prefixes", token->info.prefixes);
  if (token->info.rate) pd_json_put_number(w, "rate", token->info.rate);
  pd_out_time(frame, "created_at", token->created_ms);
  if (token->rotated_ms) pd_out_time(frame, "rotated_at", token->rotated_ms);
  if (token->info.expires_ms) pd_out_time(frame, "expires_at", token->info.expires_ms);
  pd_json_put_bool(w, "expired", token->info.expires_ms && frame->now_ms >= token->info.expires_ms);
  pd_json_close(w, '}');
}

typedef struct token_page {
  char agent[PD_NAME_SIZE_MAX + 1]; /* "": anybody's */
  uint64_t count, limit;
  char last[PD_TOKEN_ID_SIZE];
  bool has_more;
} token_page;

static pd_code list_tokens(pd_frame *frame, pd_iter *iter, token_page *page, pd_error *err)
{
  pd_entry entry;
  pd_bytes text;
  pd_token token;
  pd_code code;
  while (!(code = pd_iter_next(iter, &entry, &text, err))) {
    char id[PD_TOKEN_ID_SIZE];
    snprintf(id, sizeof id, "%.*s", (int)(entry.key.size - 6), (const char *)entry.key.data + 6);
    TRY(pd_token_decode(id, text, &token, err));
    if (*page->agent && strcmp(page->agent, token.info.agent) != 0) continue;
    page->has_more = page->count == page->limit;
    if (page->has_more) return PD_OK;
    put_token(frame, &token);
    page->count++;
    memcpy(page->last, id, sizeof id);
  }
  return code == PD_NOT_FOUND ? PD_OK : code;
}

pd_code pd_cap_tokens_list(pd_frame *frame, pd_error *err)
{
  token_page page = {.limit = (uint64_t)pd_in_int(frame, "limit", 1000)};
  char after[PD_TOKEN_KEY_SIZE];
  pd_scan scan = {.prefix = pd_text("token/")};
  pd_bytes cursor = pd_in_text(frame, "cursor");
  pd_iter *iter;
  pd_store *store;
  (void)!pd_in_string(frame, "agent", page.agent, sizeof page.agent);
  if (cursor.size && !pd_token_key(cursor, after))
    return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: field 'cursor' is not what the page before said", frame->capability->name);
  if (cursor.size) scan.after = pd_text(after);
  TRY(pd_home_store(frame->home, PD_STORE_SYSTEM, true, &store, err));
  TRY(pd_iter_open(store, PD_STATE_REF, &scan, &iter, err));
  pd_json_key(&frame->out, "tokens");
  pd_json_open(&frame->out, '[');
  pd_code code = list_tokens(frame, iter, &page, err);
  pd_iter_close(iter);
  TRY(code);
  pd_json_close(&frame->out, ']');
  pd_json_put_number(&frame->out, "count", page.count);
  pd_json_put_or_null(&frame->out, "next_cursor", pd_text(page.has_more ? page.last : ""));
  return frame->out.code;
}

/* ---- revoke, rotate ---- */

pd_code pd_cap_tokens_revoke(pd_frame *frame, pd_error *err)
{
  pd_bytes id = pd_in_text(frame, "token_id");
  char key[PD_TOKEN_KEY_SIZE];
  pd_token token;
  pd_store *store;
  pd_ack ack;
  pd_note note = pd_frame_note(frame);
  note.ref = PD_STATE_REF;
  TRY(pd_token_load(frame->home, id, &token, NULL, err));
  (void)!pd_token_key(id, key);
  TRY(pd_home_store(frame->home, PD_STORE_SYSTEM, true, &store, err));
  TRY(pd_delete(store, pd_text(key), PD_ANY_VERSION, &note, &ack, err));
  pd_frame_commit(frame, &ack);
  pd_json_put_bool(&frame->out, "revoked", true);
  return frame->out.code;
}

pd_code pd_cap_tokens_rotate(pd_frame *frame, pd_error *err)
{
  pd_token token;
  char text[PD_TOKEN_TEXT_SIZE];
  uint64_t version;
  int64_t grace_s = pd_in_int(frame, "grace", 0);
  TRY(pd_token_load(frame->home, pd_in_text(frame, "token_id"), &token, &version, err));
  token.old_hash = token.hash;
  token.old_until_ms = grace_s ? frame->now_ms + grace_s * 1000 : 0;
  token.rotated_ms = frame->now_ms;
  TRY(make_text(&token, text, err));
  TRY(store_token(frame, &token, version, err));
  pd_json_put_text(&frame->out, "token_id", token.info.id);
  pd_json_put_text(&frame->out, "token", text);
  pd_out_time(frame, "old_good_until", token.old_until_ms);
  explicit_bzero(text, sizeof text);
  return frame->out.code;
}
