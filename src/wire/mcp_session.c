/*
 * mcp_session.c: sessions of the legacy era, and the session of the home that belongs to a client.
 *
 * The id of a session over HTTP is 32 bytes in hex: index of the revision (1) · what the client can do (1) · random (14) · the first 16
 * bytes of their MAC (with the agent's name, and the realm's). So a process that has the same key knows a session that it has never seen:
 * clients do not notice a restart, but for their subscriptions.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/error.h"
#include "wire/mcp_inside.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define ENDED_MAX 4096u
#define AT_RANDOM 2
#define AT_MAC 16

/* ---- one session ---- */

static pd_mcp_session *new_session(pd_mcp *mcp, const char *agent, const char *realm)
{
  pd_mcp_session *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->mcp = mcp;
  s->number = atomic_fetch_add(&mcp->session_number, 1) + 1;
  s->level = PD_MCP_SILENT;
  s->used_ms = mcp->now_ms(mcp->now_ctx);
  atomic_init(&s->refs, 1);
  snprintf(s->agent, sizeof s->agent, "%s", agent);
  snprintf(s->realm, sizeof s->realm, "%s", realm ? realm : "");
  snprintf(s->listener.agent, sizeof s->listener.agent, "%s", agent);
  s->listener.wants = mcp->provider->changes;
  return s;
}

void pd_mcp_session_release(pd_mcp_session *session)
{
  if (!session || atomic_fetch_sub(&session->refs, 1) != 1) return;
  pd_mcp *mcp = session->mcp;
  pd_mcp_listener_remove(mcp, &session->listener);
  if (*session->state_session && mcp->home) (void)!pd_session_end(mcp->home, session->agent, session->state_session, NULL);
  free(session);
}

const char *pd_mcp_session_id(const pd_mcp_session *session)
{
  return session->id;
}

const char *pd_mcp_session_revision(const pd_mcp_session *session)
{
  return session->revision ? session->revision : ""; /* of one with an id, it never changes */
}

const char *pd_mcp_session_agent(const pd_mcp_session *session)
{
  return session->agent;
}

pd_code pd_mcp_session_new(pd_mcp *mcp, const char *agent, const pd_mcp_out *push, pd_mcp_session **out, pd_error *err)
{
  pd_mcp_session *s = new_session(mcp, agent, NULL);
  if (!s) return pd_error_memory(err, "a session");
  pd_code code = pd_mcp_exchange_new(mcp, push, (pd_json){0}, NULL, &s->listener.stream, err);
  if (code) {
    free(s);
    return code;
  }
  pd_mcp_listener_add(mcp, &s->listener);
  *out = s;
  return PD_OK;
}

/* ---- ids ---- */

/* No agent has a newline in its name, so no two have one text. */
static pd_id mac_of(const pd_mcp *mcp, const char *agent, const char *realm, const pd_id *id)
{
  pd_bytes parts[] = {{id->bytes, AT_MAC}, pd_text(agent), pd_text("\n"), pd_text(realm)};
  return pd_mcp_mac(mcp->session_key, parts, *realm ? 4 : 2);
}

static pd_code make_id(pd_mcp *mcp, pd_mcp_session *s, pd_error *err)
{
  pd_id id = {{(uint8_t)pd_mcp_revision_index(s->revision), (uint8_t)s->client}};
  if (getrandom(id.bytes + AT_RANDOM, AT_MAC - AT_RANDOM, 0) != AT_MAC - AT_RANDOM)
    return pd_error_set(err, PD_STORAGE, "no random numbers for a session");
  pd_id mac = mac_of(mcp, s->agent, s->realm, &id);
  memcpy(id.bytes + AT_MAC, mac.bytes, PD_ID_SIZE - AT_MAC);
  pd_id_hex(&id, s->id);
  return PD_OK;
}

static bool check_id(const pd_mcp *mcp, const char *agent, const char *realm, const char *text, pd_id *out)
{
  if (!pd_id_parse(text, out)) return false;
  pd_id mac = mac_of(mcp, agent, realm, out);
  return CRYPTO_memcmp(mac.bytes, out->bytes + AT_MAC, PD_ID_SIZE - AT_MAC) == 0 && pd_mcp_revision_at(out->bytes[0]) != NULL;
}

/* ---- the table; all under the lock ---- */

static bool has_ended(const pd_mcp *mcp, const pd_id *content)
{
  for (size_t i = 0; i < mcp->ended_count; i++)
    if (pd_id_equal(&mcp->ended[i], content)) return true;
  return false;
}

static void note_ended(pd_mcp *mcp, const pd_id *content)
{
  if (mcp->ended_count == ENDED_MAX)
    mcp->ended[mcp->ended_next++ % ENDED_MAX] = *content;
  else if (pd_array_grow(&mcp->ended, mcp->ended_count, &mcp->ended_capacity, sizeof mcp->ended[0], "ended sessions", NULL) == PD_OK)
    mcp->ended[mcp->ended_count++] = *content;
}

/* ---- whose they are; all under the lock ---- */

static void link_newest(pd_mcp_session *s)
{
  pd_mcp_owner *owner = s->owner;
  s->newer = NULL;
  s->older = owner->newest;
  *(s->older ? &s->older->newer : &owner->oldest) = s;
  owner->newest = s;
}

static void unlink_used(pd_mcp_session *s)
{
  *(s->older ? &s->older->newer : &s->owner->oldest) = s->newer;
  *(s->newer ? &s->newer->older : &s->owner->newest) = s->older;
}

static void note_use(pd_mcp *mcp, pd_mcp_session *s)
{
  s->used_ms = mcp->now_ms(mcp->now_ctx);
  unlink_used(s);
  link_newest(s);
}

static pd_mcp_owner *owner_of(pd_mcp *mcp, const char *agent)
{
  return pd_map_find(&mcp->owners, pd_text(agent));
}

/* NULL: no memory. */
static pd_mcp_owner *add_owner(pd_mcp *mcp, const char *agent)
{
  pd_mcp_owner *owner = calloc(1, sizeof *owner);
  if (owner) snprintf(owner->agent, sizeof owner->agent, "%s", agent);
  if (owner && pd_map_put(&mcp->owners, owner, NULL, NULL) == PD_OK) return owner;
  free(owner);
  return NULL;
}

/* Take it out of the table, and from its owner. */
static void take_out(pd_mcp *mcp, pd_mcp_session *s)
{
  pd_mcp_owner *owner = s->owner;
  pd_map_remove(&mcp->sessions, pd_text(s->id));
  unlink_used(s);
  s->owner = NULL;
  if (--owner->count == 0) free(pd_map_remove(&mcp->owners, pd_text(owner->agent)));
}

static pd_mcp_owner *greatest_owner(pd_mcp *mcp)
{
  pd_mcp_owner *found = NULL;
  size_t i = 0;
  for (pd_mcp_owner *at; (at = pd_map_next(&mcp->owners, &i));)
    if (!found || at->count > found->count) found = at;
  return found;
}

/* Room for one more of the agent's: if it has as many as it may, its idlest without a stream goes; if all together have, that of the agent
 * that has most. An id is known again by its MAC, so who comes back goes on, but for its session state. Taken out of the table. */
static pd_code make_room(pd_mcp *mcp, const char *agent, pd_mcp_session **out_gone, pd_error *err)
{
  pd_mcp_owner *owner = owner_of(mcp, agent);
  if ((!owner || owner->count < AGENT_SESSIONS_MAX) && mcp->sessions.count < SESSIONS_MAX) return PD_OK;
  if (!owner || owner->count < AGENT_SESSIONS_MAX) owner = greatest_owner(mcp);
  pd_mcp_session *s = owner ? owner->oldest : NULL;
  while (s && s->listener.stream) s = s->newer;
  if (!s)
    return pd_error_named(err, PD_LIMIT, "TooManySessions", "agent '%s' has %u MCP sessions, which is the limit; end some", agent,
                          AGENT_SESSIONS_MAX);
  take_out(mcp, s);
  *out_gone = s;
  return PD_OK;
}

static pd_code add_locked(pd_mcp *mcp, pd_mcp_session *s, pd_mcp_session **out_gone, pd_error *err)
{
  TRY(make_room(mcp, s->agent, out_gone, err));
  pd_mcp_owner *owner = owner_of(mcp, s->agent);
  if (!owner) owner = add_owner(mcp, s->agent);
  if (!owner) return pd_error_memory(err, "a session");
  pd_code code = pd_map_put(&mcp->sessions, s, NULL, err);
  if (code) {
    if (!owner->count) free(pd_map_remove(&mcp->owners, pd_text(owner->agent)));
    return code;
  }
  s->owner = owner;
  owner->count++;
  link_newest(s);
  atomic_fetch_add(&s->refs, 1);
  return PD_OK;
}

/* One that was taken out of the table. */
static void let_go(pd_mcp *mcp, pd_mcp_session *s)
{
  pd_mcp_listener_remove(mcp, &s->listener);
  pd_mcp_session_release(s);
}

/* Another request may have revived it meanwhile: then *session is that one. On failure it is the caller's. */
static pd_code add(pd_mcp *mcp, pd_mcp_session **session, pd_error *err)
{
  pd_mcp_session *s = *session, *gone = NULL;
  pd_code code = PD_OK;
  pthread_mutex_lock(&mcp->lock);
  pd_mcp_session *there = pd_map_find(&mcp->sessions, pd_text(s->id));
  if (there)
    atomic_fetch_add(&there->refs, 1);
  else
    code = add_locked(mcp, s, &gone, err);
  pthread_mutex_unlock(&mcp->lock);
  if (gone) let_go(mcp, gone);
  TRY(code);
  if (there)
    free(s);
  else
    pd_mcp_listener_add(mcp, &s->listener);
  if (there) *session = there;
  return PD_OK;
}

pd_code pd_mcp_session_make(pd_mcp *mcp, const char *agent, const char *realm, const char *revision, unsigned client, pd_mcp_session **out,
                            pd_error *err)
{
  pd_mcp_session *s = new_session(mcp, agent, realm);
  if (!s) return pd_error_memory(err, "a session");
  s->revision = revision;
  s->client = client;
  pd_code code = make_id(mcp, s, err);
  if (!code) code = add(mcp, &s, err);
  if (code) {
    free(s);
    return code;
  }
  *out = s;
  return PD_OK;
}

/* One that another process made, or that idled here: it goes on. */
static pd_code revive(pd_mcp *mcp, const char *agent, const char *realm, const char *id, const pd_id *content, pd_mcp_session **out,
                      pd_error *err)
{
  pd_mcp_session *s = new_session(mcp, agent, realm);
  if (!s) return pd_error_memory(err, "a session");
  s->revision = pd_mcp_revision_at(content->bytes[0]);
  s->client = content->bytes[1];
  snprintf(s->id, sizeof s->id, "%s", id);
  pd_code code = add(mcp, &s, err);
  if (code) {
    free(s);
    return code;
  }
  *out = s;
  return PD_OK;
}

pd_code pd_mcp_session_find(pd_mcp *mcp, const char *agent, const char *realm, const char *id, pd_mcp_session **out, pd_error *err)
{
  pd_id content;
  if (!realm) realm = "";
  if (!check_id(mcp, agent, realm, id, &content)) return pd_error_set(err, PD_NOT_FOUND, "there is no such session; initialize anew");
  pthread_mutex_lock(&mcp->lock);
  bool is_gone = has_ended(mcp, &content);
  pd_mcp_session *s = is_gone ? NULL : pd_map_find(&mcp->sessions, pd_text(id));
  if (s) {
    note_use(mcp, s);
    atomic_fetch_add(&s->refs, 1);
  }
  pthread_mutex_unlock(&mcp->lock);
  if (is_gone) return pd_error_set(err, PD_NOT_FOUND, "the session has ended; initialize anew");
  if (!s) return revive(mcp, agent, realm, id, &content, out, err);
  *out = s;
  return PD_OK;
}

void pd_mcp_session_end(pd_mcp *mcp, pd_mcp_session *session)
{
  pd_id content;
  if (!check_id(mcp, session->agent, session->realm, session->id, &content)) return;
  pthread_mutex_lock(&mcp->lock);
  bool is_here = pd_map_find(&mcp->sessions, pd_text(session->id)) == session;
  if (is_here) {
    take_out(mcp, session);
    note_ended(mcp, &content);
  }
  pthread_mutex_unlock(&mcp->lock);
  if (is_here) let_go(mcp, session);
}

/* ---- streams ---- */

pd_code pd_mcp_session_stream(pd_mcp *mcp, pd_mcp_session *session, const pd_mcp_out *out, pd_error *err)
{
  pd_mcp_exchange *stream = NULL;
  TRY(pd_mcp_exchange_new(mcp, out, (pd_json){0}, NULL, &stream, err));
  pthread_mutex_lock(&mcp->lock);
  pd_mcp_exchange *before = session->listener.stream;
  session->listener.stream = stream;
  if (!before) mcp->stream_count++;
  pthread_mutex_unlock(&mcp->lock);
  if (before) pd_mcp_exchange_done(before, 200);
  pd_mcp_exchange_release(mcp, before);
  return PD_OK;
}

/* ---- sweeping ---- */

static pd_mcp_session *take_idle(pd_mcp *mcp, int64_t before_ms, bool is_end)
{
  pd_mcp_session *found;
  size_t at = 0;
  pthread_mutex_lock(&mcp->lock);
  while ((found = pd_map_next(&mcp->sessions, &at)) && !is_end && (found->used_ms >= before_ms || found->listener.stream)) continue;
  if (found) take_out(mcp, found);
  pthread_mutex_unlock(&mcp->lock);
  return found;
}

static void free_tables(pd_mcp *mcp)
{
  size_t at = 0;
  for (pd_mcp_agent_session *a; (a = pd_map_next(&mcp->agent_sessions, &at)); free(a))
    if (mcp->home) (void)!pd_session_end(mcp->home, a->agent, a->id, NULL);
  pd_map_done(&mcp->agent_sessions);
  pd_map_done(&mcp->sessions);
  pd_map_done(&mcp->owners);
}

void pd_mcp_sessions_sweep(pd_mcp *mcp, bool is_end)
{
  int64_t before_ms = mcp->now_ms(mcp->now_ctx) - SESSION_IDLE_MS;
  pd_mcp_session *s;
  while ((s = take_idle(mcp, before_ms, is_end))) let_go(mcp, s);
  if (is_end) free_tables(mcp);
}

/* ---- the home's sessions ---- */

/* The stateless era has none of its own: one for each agent then. NULL if there is no memory. */
static char *agent_slot(pd_mcp *mcp, const char *agent)
{
  pd_mcp_agent_session *a = pd_map_find(&mcp->agent_sessions, pd_text(agent));
  if (a) return a->id;
  a = calloc(1, sizeof *a);
  if (a) snprintf(a->agent, sizeof a->agent, "%s", agent);
  if (a && pd_map_put(&mcp->agent_sessions, a, NULL, NULL) == PD_OK) return a->id;
  free(a);
  return NULL;
}

/* The lock is held while a session begins: two calls at once get one. */
pd_code pd_mcp_state_session(pd_mcp_turn *turn, bool is_new, char out[PD_SESSION_ID_SIZE], pd_error *err)
{
  pd_mcp *mcp = turn->mcp;
  pd_code code = PD_OK;
  pthread_mutex_lock(&mcp->lock);
  char *slot = turn->session ? turn->session->state_session : agent_slot(mcp, turn->peer->agent);
  if (!slot)
    code = pd_error_memory(err, "a session");
  else if (!*slot || (is_new && strcmp(slot, out) == 0))
    code = pd_session_begin(mcp->home, turn->peer->agent, slot, err);
  if (!code) memcpy(out, slot, PD_SESSION_ID_SIZE);
  pthread_mutex_unlock(&mcp->lock);
  return code;
}

void pd_mcp_state_session_look(pd_mcp_turn *turn, char out[PD_SESSION_ID_SIZE])
{
  pd_mcp *mcp = turn->mcp;
  pthread_mutex_lock(&mcp->lock);
  const pd_mcp_agent_session *a = turn->session ? NULL : pd_map_find(&mcp->agent_sessions, pd_text(turn->peer->agent));
  const char *slot = turn->session ? turn->session->state_session : a ? a->id : "";
  memcpy(out, slot, strlen(slot) + 1);
  pthread_mutex_unlock(&mcp->lock);
}
