/* ledger.c: see ledger.h. */
#include "agent/ledger.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

pd_json pd_ledger_find(pd_json list, const char *name, const char *text)
{
  pd_json entry;
  pd_json_walk walk = pd_json_walk_begin(list);
  while (pd_json_walk_next(&walk, NULL, &entry))
    if (pd_json_is(pd_json_member(entry, name), text)) return entry;
  return (pd_json){{NULL, 0}, PD_JSON_NONE};
}

bool pd_ledger_id(pd_json entry, const char *name, pd_agent_id *out)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (pd_json_decode(pd_json_member(entry, name), &text, NULL)) return false;
  if (!text.size || text.size > PD_AGENT_ID_MAX || memchr(text.data, 0, text.size)) return false;
  memcpy(out->text, text.data, text.size);
  out->text[text.size] = '\0';
  return true;
}

uint64_t pd_ledger_number(pd_json entry, const char *name)
{
  uint64_t number = 0;
  return pd_json_u64(pd_json_member(entry, name), &number) ? number : 0;
}

/* ---- checking ------------------------------------------------------------------------------------------------------ */

static bool has_number(pd_json entry, const char *name)
{
  uint64_t number;
  return pd_json_u64(pd_json_member(entry, name), &number) && number <= PD_SNAPSHOT_NUMBER_MAX;
}

static bool is_reply(pd_json entry)
{
  pd_agent_id id;
  return pd_ledger_id(entry, "event", &id) && has_number(entry, "tick") && pd_json_member(entry, "reply").kind != PD_JSON_NONE;
}

static bool is_unsent(pd_json entry)
{
  pd_agent_id id;
  return pd_ledger_id(entry, "event", &id) && has_number(entry, "epoch");
}

static bool is_effect(pd_json entry)
{
  pd_agent_id id;
  pd_json event = pd_json_member(entry, "event"), state = pd_json_member(entry, "state");
  bool is_done = pd_json_is(state, "done");
  return pd_ledger_id(entry, "id", &id) && has_number(entry, "epoch") && (is_done || pd_json_is(state, "intended")) &&
         (pd_json_is(event, "") || pd_ledger_id(entry, "event", &id)) && pd_json_member(entry, "what").kind != PD_JSON_NONE &&
         (pd_json_member(entry, "result").kind != PD_JSON_NONE) == is_done;
}

static pd_code check_list(pd_json list, const char *name, bool (*is_sound)(pd_json), pd_error *err)
{
  pd_json entry;
  size_t index = 0;
  if (list.kind != PD_JSON_ARRAY) return pd_error_set(err, PD_CORRUPT, "the snapshot's 'perdure.%s' is no array", name);
  pd_json_walk walk = pd_json_walk_begin(list);
  for (; pd_json_walk_next(&walk, NULL, &entry); index++) {
    if (entry.kind != PD_JSON_OBJECT || !is_sound(entry)) {
      return pd_error_set(err, PD_CORRUPT, "the snapshot's 'perdure.%s' has an entry (number %zu) that is none", name, index);
    }
  }
  return PD_OK;
}

static pd_code check_version(pd_json member, pd_error *err)
{
  uint64_t version = 0;
  if (member.kind != PD_JSON_OBJECT || !pd_json_u64(pd_json_member(member, "version"), &version) || !version) {
    return pd_error_set(err, PD_CORRUPT, "the snapshot's member '" PD_LEDGER_MEMBER "' is not what perdure writes there");
  }
  if (version == PD_LEDGER_VERSION) return PD_OK;
  return pd_error_set(err, PD_FORMAT, "the snapshot's member '" PD_LEDGER_MEMBER "' has version %llu; this perdure knows %d",
                      (unsigned long long)version, PD_LEDGER_VERSION);
}

pd_code pd_ledger_parse(pd_json snapshot, pd_ledger *out, pd_error *err)
{
  enum { VERSION, EPOCH, SAVE, COUNT, BYTES, UNSENT, EFFECTS, REPLIES };
  pd_json_field f[] = {{.name = "version"},         {.name = "epoch"},  {.name = "save"},    {.name = "reply_count_max"},
                       {.name = "reply_bytes_max"}, {.name = "unsent"}, {.name = "effects"}, {.name = "replies"}};
  pd_json member = pd_json_member(snapshot, PD_LEDGER_MEMBER);
  pd_ledger ledger = {0};
  pd_error why = {0};
  if (member.kind == PD_JSON_NONE) {
    *out = ledger;
    return PD_OK;
  }
  TRY(check_version(member, err));
  if (pd_json_fields(member, f, COUNT_OF(f), &why)) {
    return pd_error_set(err, PD_CORRUPT, "the snapshot's member '" PD_LEDGER_MEMBER "': %.400s", why.message);
  }
  uint64_t *const numbers[] = {
    [EPOCH] = &ledger.epoch, [SAVE] = &ledger.save, [COUNT] = &ledger.reply_count_max, [BYTES] = &ledger.bytes_max};
  for (size_t i = EPOCH; i <= BYTES; i++) {
    if (!pd_json_u64(f[i].value, numbers[i])) return pd_error_set(err, PD_CORRUPT, "the snapshot's 'perdure.%s' is no number", f[i].name);
  }
  TRY(check_list(f[UNSENT].value, "unsent", is_unsent, err));
  TRY(check_list(f[EFFECTS].value, "effects", is_effect, err));
  TRY(check_list(f[REPLIES].value, "replies", is_reply, err));
  ledger.unsent = f[UNSENT].value;
  ledger.effects = f[EFFECTS].value;
  ledger.replies = f[REPLIES].value;
  *out = ledger;
  return PD_OK;
}
