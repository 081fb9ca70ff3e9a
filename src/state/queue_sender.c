/*
 * queue_sender.c: how much one agent may have in the queues of all others (four times queue.bytes_max), though each queue is in a store
 * of its own and a commit is in one store.
 *
 * `from/TO/FROM` in the queue of TO has the bytes that FROM may send there (`granted`), that came in, and that went out; they only grow.
 * `sent/FROM/TO` in the queue of FROM has what was reserved for TO, and of that what is known to be back. To send beyond what is granted,
 * FROM reserves first, and TO's queue adds that to `granted` in the commit that takes the message.
 *
 *   SND-1  in - out is what FROM has in the queue of TO; in <= granted; granted <= reserved. Messages of older versions are not
 *          counted.
 *   SND-2  The sum of reserved - back over all TO is at most the limit. `back` is `out` as it once was, so it never says too much.
 *   SND-3  Nobody is refused by a stale number: before that all queues are asked, and what was granted and not used is taken back there,
 *          as if it had come and gone.
 *   SND-4  Killed between the two commits, what was reserved stays reserved; it is given up when FROM reserved nothing for TO for an hour.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/close.h"
#include "base/error.h"
#include "state/queue.h"

#include <stdio.h>
#include <stdlib.h>

#define RESERVE_BYTES ((uint64_t)256 * 1024) /* ahead, so that not every message needs two commits */
#define RESERVE_PART 64                      /* of the limit, at most */
#define FORGOTTEN_MS ((int64_t)3600 * 1000)
#define PAIR_KEY_SIZE (2 * PD_NAME_SIZE_MAX + 16)

/* ---- in the receiver's queue ---- */

typedef struct account {
  char key[PAIR_KEY_SIZE];
  uint64_t granted, in, out;
  uint64_t before; /* bytes of messages from before this was counted */
} account;

static const pd_bind account_members[] = {
  {"granted", PD_BIND_NUMBER, PD_BIND_AT(account, granted)},
  {"in", PD_BIND_NUMBER, PD_BIND_AT(account, in)},
  {"out", PD_BIND_NUMBER, PD_BIND_AT(account, out)},
  {"before", PD_BIND_NUMBER, PD_BIND_AT(account, before)},
};

static pd_code read_account(pd_queue_tx *tx, const char *from, account *out, pd_error *err)
{
  *out = (account){.granted = 0};
  snprintf(out->key, sizeof out->key, "from/%s/%s", tx->agent, from);
  pd_code code = pd_leased_get(&tx->l, out->key, account_members, COUNT_OF(account_members), out, err);
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static pd_code put_account(pd_queue_tx *tx, const account *a, pd_error *err)
{
  return pd_leased_put(&tx->l, a->key, account_members, COUNT_OF(account_members), a, err);
}

pd_code pd_queue_sender_in(pd_queue_tx *tx, const char *from, uint64_t size, pd_error *err)
{
  account a;
  TRY(read_account(tx, from, &a, err));
  a.granted += tx->grant;
  if (a.in + size > a.granted) {
    tx->short_bytes = size;
    return pd_error_named(err, PD_QUOTA, "QuotaExceeded", "agent '%s' has not reserved room in the queue of '%s'", from, tx->agent);
  }
  a.in += size;
  return put_account(tx, &a, err);
}

pd_code pd_queue_sender_out(pd_queue_tx *tx, const char *from, uint64_t size, pd_error *err)
{
  account a;
  TRY(read_account(tx, from, &a, err));
  uint64_t old = size < a.before ? size : a.before; /* whichever message it is: what was not counted goes first */
  a.before -= old;
  a.out += size - old;
  if (a.out > a.in) a.out = a.in;
  return put_account(tx, &a, err);
}

pd_code pd_queue_sender_brought(pd_queue_tx *tx, pd_store *system, const char *at, pd_bytes message, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf known = {0};
  pd_queue_message m;
  account a;
  TRY(pd_queue_message_parse("queue", message, &m, err));
  if (!*m.from) return PD_OK;
  TRY(read_account(tx, m.from, &a, err));
  pd_code code = pd_get(system, at, pd_text(a.key), &known, NULL, err);
  if (code != PD_NOT_FOUND) return code; /* it was counted there: the account is brought over, too */
  a.before += message.size;
  return put_account(tx, &a, err);
}

/* ---- in the sender's ---- */

typedef struct debt {
  char to[PD_NAME_SIZE_MAX + 1];
  uint64_t reserved, back;
  int64_t updated_ms;
} debt;

typedef struct debts {
  debt *items;
  size_t count, capacity;
  uint64_t total; /* reserved and not back */
} debts;

static void debts_done(debts *list)
{
  free(list->items);
}

static const pd_bind debt_members[] = {
  {"reserved", PD_BIND_NUMBER, PD_BIND_AT(debt, reserved)},
  {"back", PD_BIND_NUMBER, PD_BIND_AT(debt, back)},
};

static pd_code read_debts(pd_queue_tx *tx, debts *out, pd_error *err)
{
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  char prefix[PD_QUEUE_KEY_SIZE];
  pd_entry entry;
  pd_bytes text;
  pd_code code;
  snprintf(prefix, sizeof prefix, "sent/%s/", tx->agent);
  out->count = 0;
  out->total = 0;
  TRY(pd_edit_iter(tx->l.edit, &(pd_scan){.prefix = pd_text(prefix)}, &iter, err));
  while ((code = pd_iter_next(iter, &entry, &text, err)) == PD_OK) {
    TRY(pd_array_grow(&out->items, out->count, &out->capacity, sizeof out->items[0], "receivers", err));
    debt *d = &out->items[out->count++];
    *d = (debt){.updated_ms = entry.updated_ms};
    snprintf(d->to, sizeof d->to, "%.*s", (int)(entry.key.size - strlen(prefix)), (const char *)entry.key.data + strlen(prefix));
    TRY(pd_leased_parse(prefix, text, debt_members, COUNT_OF(debt_members), d, err));
    out->total += d->reserved - d->back;
  }
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static pd_code put_debt(pd_queue_tx *tx, const debt *d, pd_error *err)
{
  char key[PAIR_KEY_SIZE];
  snprintf(key, sizeof key, "sent/%s/%s", tx->agent, d->to);
  return pd_leased_put(&tx->l, key, debt_members, COUNT_OF(debt_members), d, err);
}

/* ---- asking the receivers ---- */

typedef struct answer {
  const char *from;
  account is;
} answer;

/* SND-3 */
static pd_code stage_take_back(void *ctx, pd_queue_tx *tx, pd_error *err)
{
  answer *a = ctx;
  TRY(read_account(tx, a->from, &a->is, err));
  uint64_t unused = a->is.granted > a->is.in ? a->is.granted - a->is.in : 0;
  if (!unused) return PD_OK;
  a->is.in += unused;
  a->is.out += unused;
  TRY(put_account(tx, &a->is, err));
  return pd_queue_stage_head(tx, err);
}

/* What the others said is taken over where it says more than is known now. */
static pd_code stage_back(void *ctx, pd_queue_tx *tx, pd_error *err)
{
  const debts *known = ctx; /* with what the receivers said */
  CLEANUP(debts_done) debts now = {0};
  bool is_changed = false;
  TRY(read_debts(tx, &now, err));
  for (size_t i = 0, k = 0; i < now.count; i++) {
    while (k < known->count && strcmp(known->items[k].to, now.items[i].to) < 0) k++;
    if (k == known->count || strcmp(known->items[k].to, now.items[i].to) != 0) continue;
    const debt *said = &known->items[k];
    debt *d = &now.items[i];
    bool is_forgotten = said->reserved < d->reserved && d->updated_ms == said->updated_ms && tx->l.now_ms - d->updated_ms > FORGOTTEN_MS;
    if (said->back <= d->back && !is_forgotten) continue;
    if (is_forgotten) d->reserved = said->reserved;
    d->back = said->back < d->reserved ? said->back : d->reserved;
    TRY(put_debt(tx, d, err));
    is_changed = true;
  }
  return is_changed ? pd_queue_stage_head(tx, err) : PD_OK;
}

static pd_code stage_read(void *ctx, pd_queue_tx *tx, pd_error *err)
{
  return read_debts(tx, ctx, err);
}

static pd_code ask_all(pd_home *home, const char *from, pd_error *err)
{
  CLEANUP(debts_done) debts known = {0};
  pd_note note = {.author = "perdure", .reason = "queue.send"};
  TRY(pd_queue_update_any(home, from, &note, stage_read, &known, NULL, err));
  for (size_t i = 0; i < known.count; i++) {
    debt *d = &known.items[i];
    answer a = {.from = from};
    if (d->reserved == d->back) continue;
    TRY(pd_queue_update_any(home, d->to, &note, stage_take_back, &a, NULL, err));
    d->back = a.is.out;
    d->reserved = a.is.granted;
  }
  return pd_queue_update_any(home, from, &note, stage_back, &known, NULL, err);
}

/* ---- reserving ---- */

typedef struct reserving {
  const char *to;
  uint64_t size, limit;
  uint64_t used;  /* out, if it is too much */
  uint64_t grant; /* out; 0: too much */
} reserving;

static pd_code stage_reserve(void *ctx, pd_queue_tx *tx, pd_error *err)
{
  reserving *job = ctx;
  CLEANUP(debts_done) debts list = {0};
  debt d = {0};
  TRY(read_debts(tx, &list, err));
  job->grant = 0;
  job->used = list.total;
  if (list.total + job->size > job->limit) return PD_OK;
  uint64_t ahead = job->limit / RESERVE_PART < RESERVE_BYTES ? job->limit / RESERVE_PART : RESERVE_BYTES;
  uint64_t want = list.total + job->size + ahead > job->limit ? job->size : job->size + ahead;
  snprintf(d.to, sizeof d.to, "%s", job->to);
  for (size_t i = 0; i < list.count; i++)
    if (strcmp(list.items[i].to, job->to) == 0) d = list.items[i];
  d.reserved += want;
  TRY(put_debt(tx, &d, err));
  job->grant = want;
  return pd_queue_stage_head(tx, err);
}

pd_code pd_queue_sender_reserve(pd_home *home, const char *from, const char *to, uint64_t size, uint64_t *out_grant, pd_error *err)
{
  reserving job = {.to = to, .size = size, .limit = home->config.queue_sender_bytes_max};
  pd_note note = {.author = from, .reason = "queue.send"};
  TRY(pd_queue_update(home, from, &note, stage_reserve, &job, NULL, err));
  if (!job.grant) {
    TRY(ask_all(home, from, err));
    TRY(pd_queue_update(home, from, &note, stage_reserve, &job, NULL, err));
  }
  *out_grant += job.grant;
  if (job.grant) return PD_OK;
  pd_error_named(err, PD_QUOTA, "QuotaExceeded",
                 "agent '%s' has sent %llu bytes that nobody has acknowledged, and %llu more exceed its limit of %llu"
                 " (four times queue.bytes_max): wait until they are acknowledged",
                 from, (unsigned long long)job.used, (unsigned long long)size, (unsigned long long)job.limit);
  if (err) err->expected = job.limit, err->actual = job.used;
  return PD_QUOTA;
}
