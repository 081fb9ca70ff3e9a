/*
 * redis_conn.h: a connection to a Redis server that comes back by itself.
 *
 * hiredis connects, encodes and decodes; the bytes are moved here, so that TLS works with every hiredis and a server that went away
 * raises no SIGPIPE in somebody else's program.
 *
 *  N1  PD_OK means that the server has answered.
 *  N2  A command that had no answer is sent again over a new connection, as long as `retry_ms` lasts, with growing pauses. So only
 *      commands that may run twice are to be sent.
 *  N3  The new connection first kills the old one on the server (CLIENT KILL): a command that still waits there never runs after the
 *      one that was sent again.
 */
#ifndef PD_STORAGE_REDIS_CONN_H
#define PD_STORAGE_REDIS_CONN_H

#include "storage/redis_uri.h"

#include <hiredis/hiredis.h>

typedef struct pd_redis pd_redis;

/* Connects. `address` is copied. */
PD_MUST_USE pd_code pd_redis_open(const pd_redis_address *address, pd_redis **out, pd_error *err);
void pd_redis_close(pd_redis *redis); /* takes NULL */
const pd_redis_address *pd_redis_where(const pd_redis *redis);

/* Send a command and wait for its answer, which is no error; free it with pd_redis_reply_done. What the server says: PD_FULL (out of
 * memory), PD_READ_ONLY (a replica), PD_DENIED (password, rights), PD_CORRUPT (a key of another type), PD_STORAGE (all else, and no
 * answer). */
PD_MUST_USE pd_code pd_redis_command(pd_redis *redis, const pd_bytes *words, size_t count, redisReply **out, pd_error *err);
void pd_redis_reply_done(redisReply **reply);

#endif
