/* mailbox_letter.c: a letter's two values, its fixed part and its state, and its place. Invariant M1 is in mailbox.h. */
#include "base/base.h"
#include "base/bind.h"
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

/* A letter's two values are made of these, sorted by name. */
typedef struct written {
  pd_letter l;
  pd_json body, priority;
  const char *status;
} written;

#define LETTER(name, kind_, member)                                                                                                        \
  {                                                                                                                                        \
    name, kind_, PD_BIND_AT(written, l.member)                                                                                             \
  }
#define LETTER_OR_NONE(name, kind_, member)                                                                                                \
  {                                                                                                                                        \
    name, kind_, PD_BIND_AT(written, l.member), .is_optional = true                                                                        \
  }

static const pd_bind fixed_members[] = {
  LETTER("attempts_max", PD_BIND_NUMBER, attempts_max),
  {"body", PD_BIND_JSON, PD_BIND_AT(written, body)},
  LETTER_OR_NONE("created_at", PD_BIND_MS, created_ms),
  LETTER_OR_NONE("dedupe_key", PD_BIND_KEPT, dedupe_key),
  LETTER("generation", PD_BIND_NUMBER, generation),
  LETTER_OR_NONE("kind", PD_BIND_KEPT, kind),
  {"priority", PD_BIND_JSON, PD_BIND_AT(written, priority)}, /* may be negative */
  LETTER_OR_NONE("sender", PD_BIND_KEPT, sender),
};

static const pd_bind state_members[] = {
  LETTER("attempts", PD_BIND_NUMBER, attempts),
  LETTER_OR_NONE("claimed_by", PD_BIND_KEPT, claimed_by),
  LETTER_OR_NONE("error", PD_BIND_KEPT, error),
  LETTER_OR_NONE("lease_until", PD_BIND_MS, lease_until_ms),
  LETTER_OR_NONE("retry_at", PD_BIND_MS, retry_ms),
  {"status", PD_BIND_KEPT, PD_BIND_AT(written, status)},
  LETTER_OR_NONE("superseded_by", PD_BIND_NUMBER, superseded_by),
  LETTER_OR_NONE("token", PD_BIND_KEPT, token),
  LETTER_OR_NONE("updated_at", PD_BIND_MS, updated_ms),
};

static bool read_members(pd_bytes text, const pd_bind *table, size_t count, written *out, pd_buf *texts)
{
  pd_json object;
  return !pd_json_parse(text, &object, NULL) && !pd_bind_keep(object, table, count, PD_BIND_LOOSE, out, texts, NULL);
}

static bool decode_fixed(pd_mail_item *item, written *w)
{
  int64_t priority;
  if (!read_members(pd_buf_bytes(&item->fixed), fixed_members, COUNT_OF(fixed_members), w, &item->text)) return false;
  if (!pd_json_i64(w->priority, &priority) || priority < -PD_MAIL_PRIORITY_MAX || priority > PD_MAIL_PRIORITY_MAX) return false;
  w->l.priority = (int32_t)priority;
  w->l.body = w->body.raw;
  return true;
}

static bool decode_state(pd_mail_item *item, written *w)
{
  return read_members(pd_buf_bytes(&item->state), state_members, COUNT_OF(state_members), w, &item->text) &&
         pd_mail_status_parse(w->status, &w->l.status);
}

pd_code pd_mail_decode(uint64_t number, pd_mail_item *item, pd_error *err)
{
  char key[PD_MAIL_KEY_SIZE];
  written w = {.l = {.number = number, .kind = "", .sender = "", .dedupe_key = "", .claimed_by = "", .token = "", .error = ""}};
  pd_buf_clear(&item->text);
  TRY(pd_buf_reserve(&item->text, item->fixed.size + item->state.size, err)); /* for both: what the first one kept does not move */
  if (!decode_fixed(item, &w)) return pd_leased_corrupt(pd_mail_key("mail", number, key), "", err);
  if (!decode_state(item, &w)) return pd_leased_corrupt(pd_mail_key("letter", number, key), "", err);
  item->letter = w.l;
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

static pd_code put_members(pd_mail_tx *tx, const char *noun, const pd_bind *table, size_t count, const written *from, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char key[PD_MAIL_KEY_SIZE];
  pd_json_writer w = {.out = &text, .err = err};
  pd_bind_object(&w, table, count, from);
  TRY(w.code);
  return pd_edit_put(tx->l.edit, pd_text(pd_mail_key(noun, from->l.number, key)), pd_buf_bytes(&text), PD_ANY_VERSION, err);
}

pd_code pd_mail_put_fixed(pd_mail_tx *tx, const pd_letter *letter, pd_error *err)
{
  char priority[16];
  written w = {.l = *letter};
  TRY(pd_json_parse(letter->body, &w.body, err));
  snprintf(priority, sizeof priority, "%d", (int)letter->priority);
  w.priority = (pd_json){pd_text(priority), PD_JSON_NUMBER};
  return put_members(tx, "mail", fixed_members, COUNT_OF(fixed_members), &w, err);
}

static pd_code put_state(pd_mail_tx *tx, const pd_letter *letter, pd_error *err)
{
  written w = {.l = *letter, .status = pd_mail_status_name(letter->status)};
  return put_members(tx, "letter", state_members, COUNT_OF(state_members), &w, err);
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
