/* mailbox_letter.c: a letter's two values, its fixed part and its state, and its place. Invariant M1 is in mailbox.h. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "thread/mailbox.h"

#include <stdio.h>

static const char *const status_names[PD_MAIL_STATUS_COUNT] = {
  [PD_MAIL_QUEUED] = "queued",         [PD_MAIL_CLAIMED] = "claimed",     [PD_MAIL_ACCEPTED] = "accepted",
  [PD_MAIL_SUPERSEDED] = "superseded", [PD_MAIL_CANCELLED] = "cancelled", [PD_MAIL_DEAD] = "dead_letter",
};

const char *pd_mail_status_name(pd_mail_status status)
{
  return status > 0 && status < PD_MAIL_STATUS_COUNT ? status_names[status] : "unknown";
}

bool pd_mail_status_parse(const char *name, pd_mail_status *out)
{
  for (int i = 1; i < PD_MAIL_STATUS_COUNT; i++) {
    if (strcmp(status_names[i], name) != 0) continue;
    *out = (pd_mail_status)i;
    return true;
  }
  return false;
}

/* ---- decoding ---- */

void pd_mail_item_done(pd_mail_item *item)
{
  pd_buf_done(&item->fixed);
  pd_buf_done(&item->state);
  pd_buf_done(&item->text);
}

static bool take_time(pd_json object, const char *name, int64_t *out)
{
  pd_json value = pd_json_member(object, name);
  if (value.kind == PD_JSON_NONE) return true;
  return pd_json_i64(value, out) && *out >= 0;
}

static bool take_u32(pd_json object, const char *name, uint32_t *out)
{
  uint64_t number;
  if (!pd_json_u64(pd_json_member(object, name), &number) || number > UINT32_MAX) return false;
  *out = (uint32_t)number;
  return true;
}

/* A member as a C string in item->text, which has room for all of them from the beginning; "" if it is absent. */
static bool take_text(pd_mail_item *item, pd_json object, const char *name, const char **out)
{
  pd_json value = pd_json_member(object, name);
  *out = "";
  if (value.kind == PD_JSON_NONE) return true;
  size_t start = item->text.size;
  if (pd_json_decode(value, &item->text, NULL) || pd_buf_byte(&item->text, 0, NULL)) return false;
  *out = (const char *)item->text.data + start;
  return true;
}

static bool decode_fixed(pd_mail_item *item)
{
  pd_letter *l = &item->letter;
  pd_json fixed, body;
  int64_t priority;
  if (pd_json_parse(pd_buf_bytes(&item->fixed), &fixed, NULL)) return false;
  body = pd_json_member(fixed, "body");
  l->body = body.raw;
  if (body.kind == PD_JSON_NONE || !pd_json_i64(pd_json_member(fixed, "priority"), &priority)) return false;
  if (priority < -PD_MAIL_PRIORITY_MAX || priority > PD_MAIL_PRIORITY_MAX) return false;
  l->priority = (int32_t)priority;
  return take_text(item, fixed, "kind", &l->kind) && take_text(item, fixed, "sender", &l->sender) &&
         take_text(item, fixed, "dedupe_key", &l->dedupe_key) && take_time(fixed, "created_at", &l->created_ms) &&
         take_u32(fixed, "attempts_max", &l->attempts_max) && pd_json_u64(pd_json_member(fixed, "generation"), &l->generation);
}

static bool decode_state(pd_mail_item *item)
{
  pd_letter *l = &item->letter;
  const char *status;
  pd_json state;
  if (pd_json_parse(pd_buf_bytes(&item->state), &state, NULL)) return false;
  pd_json by = pd_json_member(state, "superseded_by");
  if (by.kind != PD_JSON_NONE && !pd_json_u64(by, &l->superseded_by)) return false;
  return take_text(item, state, "status", &status) && pd_mail_status_parse(status, &l->status) &&
         take_u32(state, "attempts", &l->attempts) && take_time(state, "updated_at", &l->updated_ms) &&
         take_time(state, "retry_at", &l->retry_ms) && take_text(item, state, "claimed_by", &l->claimed_by) &&
         take_text(item, state, "token", &l->token) && take_time(state, "lease_until", &l->lease_until_ms) &&
         take_text(item, state, "error", &l->error);
}

pd_code pd_mail_decode(uint64_t number, pd_mail_item *item, pd_error *err)
{
  char key[PD_MAIL_KEY_SIZE];
  item->letter = (pd_letter){.number = number};
  pd_buf_clear(&item->text);
  TRY(pd_buf_reserve(&item->text, item->fixed.size + item->state.size, err)); /* no text is longer decoded, with its NUL, than it was */
  if (!decode_fixed(item)) return pd_leased_corrupt(pd_mail_key("mail", number, key), "", err);
  if (!decode_state(item)) return pd_leased_corrupt(pd_mail_key("letter", number, key), "", err);
  return PD_OK;
}

pd_code pd_mail_read(pd_mail_tx *tx, uint64_t number, pd_mail_item *out, pd_error *err)
{
  char key[PD_MAIL_KEY_SIZE];
  pd_code code = pd_edit_get(tx->l.edit, pd_text(pd_mail_key("letter", number, key)), &out->state, NULL, err);
  if (code == PD_NOT_FOUND)
    return pd_error_named(err, PD_NOT_FOUND, "LetterNotFound", "there is no letter %llu on ref '%s'", (unsigned long long)number,
                          tx->box->ref);
  TRY(code);
  TRY(pd_edit_get(tx->l.edit, pd_text(pd_mail_key("mail", number, key)), &out->fixed, NULL, err));
  return pd_mail_decode(number, out, err);
}

/* ---- encoding ---- */

static void put_time_if(pd_json_writer *w, const char *key, int64_t time_ms)
{
  if (time_ms) pd_json_put_number(w, key, (uint64_t)time_ms);
}

pd_code pd_mail_put_fixed(pd_mail_tx *tx, const pd_letter *letter, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char key[PD_MAIL_KEY_SIZE], priority[16];
  pd_json body;
  TRY(pd_json_parse(letter->body, &body, err));
  pd_json_writer w = {.out = &text, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_number(&w, "attempts_max", letter->attempts_max);
  pd_json_key(&w, "body");
  pd_json_value(&w, body);
  put_time_if(&w, "created_at", letter->created_ms);
  pd_json_put_said(&w, "dedupe_key", letter->dedupe_key);
  pd_json_put_number(&w, "generation", letter->generation);
  pd_json_put_said(&w, "kind", letter->kind);
  snprintf(priority, sizeof priority, "%d", (int)letter->priority);
  pd_json_key(&w, "priority");
  pd_json_raw(&w, pd_text(priority));
  pd_json_put_said(&w, "sender", letter->sender);
  pd_json_close(&w, '}');
  TRY(w.code);
  return pd_edit_put(tx->l.edit, pd_text(pd_mail_key("mail", letter->number, key)), pd_buf_bytes(&text), PD_ANY_VERSION, err);
}

static pd_code put_state(pd_mail_tx *tx, const pd_letter *letter, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char key[PD_MAIL_KEY_SIZE];
  pd_json_writer w = {.out = &text, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_number(&w, "attempts", letter->attempts);
  pd_json_put_said(&w, "claimed_by", letter->claimed_by);
  pd_json_put_said(&w, "error", letter->error);
  put_time_if(&w, "lease_until", letter->lease_until_ms);
  put_time_if(&w, "retry_at", letter->retry_ms);
  pd_json_put_text(&w, "status", pd_mail_status_name(letter->status));
  if (letter->superseded_by) pd_json_put_number(&w, "superseded_by", letter->superseded_by);
  pd_json_put_said(&w, "token", letter->token);
  put_time_if(&w, "updated_at", letter->updated_ms);
  pd_json_close(&w, '}');
  TRY(w.code);
  return pd_edit_put(tx->l.edit, pd_text(pd_mail_key("letter", letter->number, key)), pd_buf_bytes(&text), PD_ANY_VERSION, err);
}

/* ---- places ---- */

/* The key of a letter's place, and what is written there. */
static void place_of(const pd_letter *letter, char key[PD_MAIL_KEY_SIZE], int64_t *out_time_ms)
{
  char noun[64];
  *out_time_ms = letter->updated_ms;
  switch (letter->status) {
  case PD_MAIL_QUEUED:
    snprintf(noun, sizeof noun, "queued/%04d", PD_MAIL_PRIORITY_MAX - (int)letter->priority);
    *out_time_ms = letter->retry_ms;
    break;
  case PD_MAIL_CLAIMED:
    snprintf(noun, sizeof noun, "claimed");
    *out_time_ms = letter->lease_until_ms;
    break;
  default: snprintf(noun, sizeof noun, "%s/%020lld", letter->status == PD_MAIL_DEAD ? "dead" : "done", (long long)letter->updated_ms);
  }
  pd_mail_key(noun, letter->number, key);
}

static void count(pd_mail_tx *tx, pd_mail_status status, int by)
{
  if (status == PD_MAIL_QUEUED) tx->queued += (uint64_t)by;
  if (status == PD_MAIL_CLAIMED) tx->claimed += (uint64_t)by;
}

pd_code pd_mail_move(pd_mail_tx *tx, pd_letter *letter, const pd_letter *was, pd_error *err)
{
  char key[PD_MAIL_KEY_SIZE], text[32];
  int64_t time_ms;
  if (was) {
    place_of(was, key, &time_ms);
    TRY(pd_edit_delete(tx->l.edit, pd_text(key), PD_ANY_VERSION, err));
    count(tx, was->status, -1);
  }
  letter->updated_ms = tx->l.now_ms < 0 ? 0 : tx->l.now_ms;
  place_of(letter, key, &time_ms);
  snprintf(text, sizeof text, "%lld", (long long)time_ms);
  TRY(pd_edit_put(tx->l.edit, pd_text(key), pd_text(text), PD_ANY_VERSION, err));
  count(tx, letter->status, 1);
  return put_state(tx, letter, err);
}

char *pd_mail_dedupe_key(const char *dedupe_key, char out[PD_MAIL_KEY_SIZE])
{
  char hex[PD_ID_HEX_SIZE];
  pd_id id = pd_sha256(pd_text(dedupe_key));
  snprintf(out, PD_MAIL_KEY_SIZE, "dedupe/%s", pd_id_hex(&id, hex));
  return out;
}

pd_code pd_mail_forget(pd_mail_tx *tx, const pd_letter *letter, pd_error *err)
{
  char key[PD_MAIL_KEY_SIZE];
  int64_t time_ms;
  place_of(letter, key, &time_ms);
  TRY(pd_edit_delete(tx->l.edit, pd_text(key), PD_ANY_VERSION, err));
  if (*letter->dedupe_key) TRY(pd_edit_delete(tx->l.edit, pd_text(pd_mail_dedupe_key(letter->dedupe_key, key)), PD_ANY_VERSION, err));
  TRY(pd_edit_delete(tx->l.edit, pd_text(pd_mail_key("letter", letter->number, key)), PD_ANY_VERSION, err));
  return pd_edit_delete(tx->l.edit, pd_text(pd_mail_key("mail", letter->number, key)), PD_ANY_VERSION, err);
}
