/*
 * spool.h: bundles on their way. What is too large for memory lies in a file without a name in the home's folder, for its owner alone
 * (0600): the body of an import until it was taken in, the answer of an export until it was sent. Nobody else can open it, and nothing of
 * it is left when the request ends, the client leaves or the server is killed.
 *
 * SP-1  One request, one file: whoever leaves in the middle has given back its place by the time that the connection is closed.
 * SP-2  All bytes of all spools together are at most server.bundles_max; a token has half of it, and half of the spools.
 * SP-3  An I/O thread writes no file: a block of the body is collected in memory, the connection sleeps, and a worker writes it.
 */
#ifndef PD_WIRE_SPOOL_H
#define PD_WIRE_SPOOL_H

#include <perdure/perdure.h>

typedef struct pd_request pd_request;
typedef struct pd_server pd_server;

typedef struct pd_spool {
  pd_server *server;
  int fd;
  uint64_t size;  /* bytes in it */
  uint64_t held;  /* SP-2: counted */
  bool is_answer; /* of the request, once it is whole */
  char owner[PD_NAME_SIZE_MAX + 1];
} pd_spool;

/* The most that one spool of the caller may hold. */
uint64_t pd_spool_share(const pd_server *server);
/* Make request->spool, with room for `size` bytes. May wait for the disk. PD_LIMIT: there is no room, or too many are on their way; names
 * the setting. PD_FULL: the disk has none. */
PD_MUST_USE pd_code pd_spool_open(pd_request *request, uint64_t size, pd_error *err);
/* More of it. May wait for the disk. PD_LIMIT, PD_FULL, PD_STORAGE. */
PD_MUST_USE pd_code pd_spool_write(pd_spool *spool, const void *data, size_t size, pd_error *err);
/* All of it from `at` on, or an error: PD_STORAGE. */
PD_MUST_USE pd_code pd_spool_read(pd_spool *spool, uint64_t at, void *data, size_t size, pd_error *err);
/* What sends it, and closes it then. NULL: no memory. */
struct MHD_Response *pd_spool_response(pd_spool *spool);
/* It is over; takes NULL. */
void pd_spool_free(pd_spool *spool);

#endif
