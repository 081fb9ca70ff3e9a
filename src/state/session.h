/*
 * session.h: sessions, as the other files of the room see them. A session lives in the memory of this home (a pd_home) and belongs to one
 * agent; to every other agent it does not exist.
 *
 * S1  A session ends once: by session.end, by session.idle without a call, or when the home closes. After that nothing finds it.
 * S2  When it ends its memory is given back, also if a call that found it before is still on its way: that call answers SessionNotFound.
 * S3  used bytes = the sum of key sizes and value sizes (the value's JSON text on one line), exactly, and never above session.quota. Those
 *     of all sessions of one agent together are never above its limit.
 * S4  Locks: a shard's lock is held to find, add and unlink; a session's lock while its keys are used. A thread that holds one of a
 *     kind takes no other of that kind, and a shard's lock is never asked for while a session's is held.
 */
#ifndef PD_STATE_SESSION_H
#define PD_STATE_SESSION_H

#include "state/home.h"
#include "state/session_map.h"
#include "state/session_share.h"

#include <stdatomic.h>

typedef struct pd_session pd_session;
struct pd_session {
  char id[PD_SESSION_ID_SIZE];
  char agent[PD_NAME_SIZE_MAX + 1];
  pd_session *next; /* of those that a sweep ends */
  atomic_uint refs; /* the table's, and one for each call that is inside */
  _Atomic int64_t used_ms;
  int64_t begun_ms;
  int64_t before_ms;    /* the agent's last activity before this session; 0: none known */
  pthread_mutex_t lock; /* of what follows */
  bool is_ended;
  pd_session_map map;
  pd_session_share *share; /* of its agent; NULL once it has ended. It has counted the map's bytes: S3 */
};

/* ---- for every file of the room ---- */

/* When the agent was last active before its session `id` began; false if there is no such session. For activity.c. */
bool pd_session_before(pd_home *home, const char *agent, const char *id, int64_t *out_ms);

/* Call `ended` after a session has ended, whatever ended it, also at pd_home_close (the stores are open still). No lock is held; it may
 * be called by several threads at once. To be set while the home is opened; at most PD_SESSION_LISTENERS_MAX. */
#define PD_SESSION_LISTENERS_MAX 4
void pd_session_on_end(pd_home *home, void (*ended)(void *ctx, const char *agent, const char *id), void *ctx);

/* Is it time to look for sessions that have idled out? Whoever does ends them, and what their ends have to tell is written to the disk. */
bool pd_sessions_are_due(pd_home *home, int64_t now_ms);

/* A session as others see it. Texts are borrowed until the visitor returns. */
typedef struct pd_session_info {
  const char *id, *agent;
  int64_t begun_ms, used_ms;
  size_t bytes, key_count;
} pd_session_info;

/* Visit the sessions of `agent` (NULL: of all), the oldest first. The visitor may use sessions. */
PD_MUST_USE pd_code pd_session_each(pd_home *home, const char *agent, void (*visit)(void *ctx, const pd_session_info *info), void *ctx,
                                    pd_error *err);

/* ---- for the capabilities ---- */

/* Find the session, note that it is used, and lock it. `agent` NULL: anybody's. PD_SESSION. To be left again. */
PD_MUST_USE pd_code pd_session_enter(pd_home *home, const char *agent, const char *id, pd_session **out, pd_error *err);
/* Unlock it and let it go. Takes NULL. */
void pd_session_leave(pd_session *session);
/* End it; what it held goes to the two numbers, which may be NULL. `agent` NULL: anybody's. PD_SESSION. */
PD_MUST_USE pd_code pd_session_stop(pd_home *home, const char *agent, const char *id, size_t *out_count, size_t *out_bytes, pd_error *err);
/* So many bytes of values were freed: when it is much, the process gives memory back to the system. No lock is held. */
void pd_session_freed(pd_home *home, size_t bytes);

#endif
