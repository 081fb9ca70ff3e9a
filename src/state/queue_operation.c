/*
 * queue_operation.c: messages that can be sent again. `operation/TO/FROM/ID` has the number of the message that was sent as that operation,
 * and a hash of the call, in the commit that sent it; `operation-at/TO/N` has FROM/ID, so that the oldest are found. Those of the last
 * OPERATIONS_KEPT messages of a queue are remembered, acknowledged or not.
 */
#include "base/base.h"
#include "base/close.h"
#include "base/error.h"
#include "base/key.h"
#include "state/queue.h"

#include <stdio.h>

#define OPERATIONS_KEPT 1000
#define FORGET_AT_ONCE 4
#define KEY_SIZE (PD_QUEUE_KEY_SIZE + PD_NAME_SIZE_MAX + PD_QUEUE_OPERATION_SIZE_MAX + 2)
#define LONG_KEY_SIZE (KEY_SIZE + PD_QUEUE_KEY_SIZE)

static void key_of(const pd_queue_tx *tx, const char *from_and_id, char out[LONG_KEY_SIZE])
{
  snprintf(out, LONG_KEY_SIZE, "operation/%.*s/%.*s", PD_NAME_SIZE_MAX, tx->agent, KEY_SIZE - 1, from_and_id);
}

static void name_of(const char *from, const char *id, char out[KEY_SIZE])
{
  snprintf(out, KEY_SIZE, "%s/%s", from ? from : "", id);
}

typedef struct operation {
  uint64_t number;
  char mark[PD_ID_HEX_SIZE];
} operation;

static const pd_bind members[] = {
  {"number", PD_BIND_NUMBER, PD_BIND_AT(operation, number)},
  {"mark", PD_BIND_TEXT, PD_BIND_AT(operation, mark)},
};

pd_code pd_queue_operation_find(pd_queue_tx *tx, const char *from, const char *id, const char *mark, uint64_t *out_number, pd_error *err)
{
  char name[KEY_SIZE], key[LONG_KEY_SIZE];
  operation known;
  *out_number = 0;
  name_of(from, id, name);
  key_of(tx, name, key);
  pd_code code = pd_leased_get(&tx->l, key, members, COUNT_OF(members), &known, err);
  if (code == PD_NOT_FOUND) return PD_OK;
  TRY(code);
  *out_number = known.number;
  if (strcmp(known.mark, mark) == 0) return PD_OK;
  return pd_error_named(err, PD_CONFLICT, "OperationUsed",
                        "operation '%.64s' sent another message to agent '%s': an id stands for one message", id, tx->agent);
}

/* The oldest ones that are out of the window; read before anything is staged, for an iterator ends with the next edit. */
static pd_code find_old(pd_queue_tx *tx, char at[FORGET_AT_ONCE][KEY_SIZE], char names[FORGET_AT_ONCE][KEY_SIZE], size_t *out_count,
                        pd_error *err)
{
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  char prefix[PD_QUEUE_KEY_SIZE];
  pd_entry entry;
  pd_bytes name;
  pd_code code = PD_OK;
  *out_count = 0;
  snprintf(prefix, sizeof prefix, "operation-at/%s/", tx->agent);
  TRY(pd_edit_iter(tx->l.edit, &(pd_scan){.prefix = pd_text(prefix)}, &iter, err));
  while (*out_count < FORGET_AT_ONCE && (code = pd_iter_next(iter, &entry, &name, err)) == PD_OK) {
    if (pd_key_number(entry.key) + OPERATIONS_KEPT > tx->next) break;
    snprintf(at[*out_count], KEY_SIZE, "%.*s", (int)entry.key.size, (const char *)entry.key.data);
    snprintf(names[(*out_count)++], KEY_SIZE, "%.*s", (int)name.size, (const char *)name.data);
  }
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static pd_code forget(pd_queue_tx *tx, pd_error *err)
{
  char at[FORGET_AT_ONCE][KEY_SIZE], names[FORGET_AT_ONCE][KEY_SIZE], key[LONG_KEY_SIZE];
  size_t count;
  TRY(find_old(tx, at, names, &count, err));
  for (size_t i = 0; i < count; i++) {
    key_of(tx, names[i], key);
    TRY(pd_edit_delete(tx->l.edit, pd_text(key), PD_ANY_VERSION, err));
    TRY(pd_edit_delete(tx->l.edit, pd_text(at[i]), PD_ANY_VERSION, err));
  }
  return PD_OK;
}

pd_code pd_queue_operation_stage(pd_queue_tx *tx, const char *from, const char *id, const char *mark, uint64_t number, pd_error *err)
{
  char name[KEY_SIZE], key[LONG_KEY_SIZE], at[PD_QUEUE_KEY_SIZE];
  operation made = {.number = number};
  TRY(forget(tx, err));
  name_of(from, id, name);
  key_of(tx, name, key);
  snprintf(made.mark, sizeof made.mark, "%s", mark);
  TRY(pd_leased_put(&tx->l, key, members, COUNT_OF(members), &made, err));
  return pd_edit_put(tx->l.edit, pd_text(pd_queue_key("operation-at", tx->agent, number, at)), pd_text(name), PD_ANY_VERSION, err);
}
