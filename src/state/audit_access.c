/*
 * audit_access.c: lines of what was asked for past the door: reads by other ways, and refusals before it.
 *
 * Nothing here waits for the disk: those who refuse are threads that serve connections. What may be joined, and what finds no room in the
 * batch, is counted in a small table, a row for all that are alike. A row tells at once, and then at most once a minute how many came
 * since; so whoever has no token, however often they ask, adds two lines a minute. What is still owed is told when the audit is read or the
 * home is closed.
 */
#include "base/base.h"
#include "base/error.h"
#include "base/sha256.h"
#include "state/audit.h"
#include "state/policy.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS 64
#define TEXT_SIZE 129
#define MINUTE_MS 60000

typedef struct row {
  char capability[TEXT_SIZE], agent[TEXT_SIZE], token[TEXT_SIZE], subject[TEXT_SIZE];
  const char *outcome;
  pd_permission permission;
  bool is_operator, is_used;
  uint64_t count;            /* owed */
  int64_t first_ms, last_ms; /* of those */
  int64_t told_ms;           /* when it told last; 0: never */
} row;

struct pd_audit_joined {
  pthread_mutex_t lock; /* taken before the audit's own */
  row rows[ROWS];
};

pd_code pd_audit_joined_new(pd_audit_joined **out, pd_error *err)
{
  pd_audit_joined *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "the audit");
  pthread_mutex_init(&made->lock, NULL);
  *out = made;
  return PD_OK;
}

void pd_audit_joined_free(pd_audit_joined *joined)
{
  if (!joined) return;
  pthread_mutex_destroy(&joined->lock);
  free(joined);
}

/* ---- entries ---- */

static pd_audit_entry entry_of(pd_home *home, const pd_access *access)
{
  const pd_capability *known = pd_capability_get(access->capability);
  return (pd_audit_entry){
    .time_ms = pd_home_now(home),
    .agent = access->agent ? access->agent : "",
    .session = access->session ? access->session : "",
    .token = access->token,
    .capability = known ? known->name : access->capability,
    .outcome = access->outcome,
    .approval = "",
    .is_operator = access->is_operator,
    .is_known = known != NULL,
    .permission = known ? pd_policy_permission(home, access->agent ? access->agent : "", known->name, access->subject) : PD_PERMIT_OPERATOR,
    .subject = access->subject,
    .input_hash = pd_sha256(access->subject),
    .is_hasty = true,
  };
}

/* Under the lock. False: there was no room, and it is still owed. */
static bool tell_row(pd_home *home, row *r, int64_t now_ms)
{
  const pd_capability *known = pd_capability_get(r->capability);
  pd_audit_entry entry = {
    .time_ms = r->last_ms,
    .first_ms = r->first_ms,
    .count = r->count,
    .agent = r->agent,
    .session = "",
    .token = r->token,
    .capability = known ? known->name : r->capability,
    .outcome = r->outcome,
    .approval = "",
    .is_operator = r->is_operator,
    .is_known = known != NULL,
    .permission = r->permission,
    .subject = pd_text(r->subject),
    .input_hash = pd_sha256(pd_text(r->subject)),
    .is_hasty = true,
  };
  if (!pd_audit_add_hasty(home, &entry)) return false;
  r->count = 0;
  r->told_ms = now_ms;
  return true;
}

/* ---- rows ---- */

static void row_init(row *r, const pd_audit_entry *entry)
{
  *r = (row){.outcome = entry->outcome, .permission = entry->permission, .is_operator = entry->is_operator, .is_used = true};
  snprintf(r->capability, sizeof r->capability, "%s", entry->capability);
  snprintf(r->agent, sizeof r->agent, "%s", entry->agent);
  snprintf(r->token, sizeof r->token, "%s", entry->token ? entry->token : "");
  snprintf(r->subject, sizeof r->subject, "%.*s", (int)entry->subject.size, entry->subject.size ? (const char *)entry->subject.data : "");
}

static bool is_alike(const row *a, const row *b)
{
  return a->is_used && a->outcome == b->outcome && a->permission == b->permission && a->is_operator == b->is_operator &&
         strcmp(a->capability, b->capability) == 0 && strcmp(a->agent, b->agent) == 0 && strcmp(a->token, b->token) == 0 &&
         strcmp(a->subject, b->subject) == 0;
}

/* The row of `wanted`; if all are others', the one that told longest ago becomes it, and tells what it owes. Under the lock. NULL: not even
 * that could be told. */
static row *row_for(pd_home *home, pd_audit_joined *joined, const row *wanted, int64_t now_ms)
{
  row *oldest = &joined->rows[0];
  for (size_t i = 0; i < ROWS; i++) {
    row *r = &joined->rows[i];
    if (is_alike(r, wanted)) return r;
    if (!r->is_used || (oldest->is_used && r->told_ms < oldest->told_ms)) oldest = r;
  }
  if (oldest->is_used && oldest->count && !tell_row(home, oldest, now_ms)) return NULL;
  *oldest = *wanted;
  return oldest;
}

static void join(pd_home *home, const pd_audit_entry *entry)
{
  pd_audit_joined *joined = pd_audit_joined_of(home);
  row wanted;
  row_init(&wanted, entry);
  pthread_mutex_lock(&joined->lock);
  row *r = row_for(home, joined, &wanted, entry->time_ms);
  if (r) {
    if (!r->count++) r->first_ms = entry->time_ms;
    r->last_ms = entry->time_ms;
    bool is_due = !r->told_ms || entry->time_ms - r->told_ms >= MINUTE_MS || entry->time_ms < r->told_ms;
    if (is_due && !tell_row(home, r, entry->time_ms)) {
      /* there is no room now: it stays owed */
    }
  }
  pthread_mutex_unlock(&joined->lock);
  if (!r) pd_audit_lose(home);
}

void pd_audit_joined_tell(pd_home *home)
{
  pd_audit_joined *joined = pd_audit_joined_of(home);
  pthread_mutex_lock(&joined->lock);
  for (size_t i = 0; i < ROWS; i++) {
    row *r = &joined->rows[i];
    if (r->is_used && r->count && !tell_row(home, r, r->last_ms)) break;
  }
  pthread_mutex_unlock(&joined->lock);
}

void pd_audit_access(pd_home *home, const pd_access *access)
{
  pd_audit_entry entry = entry_of(home, access);
  if (access->is_joined_by_minute || !pd_audit_add_hasty(home, &entry)) join(home, &entry);
}
