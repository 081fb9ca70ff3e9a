/* bad_disk.h: a server whose syncs fail or are slow (bad_sync.c). */
#ifndef TESTS_WIRE_BAD_DISK_H
#define TESTS_WIRE_BAD_DISK_H

#include "wire/server_world.h"

/* The module: argv[2] of the test program. */
extern const char *bad_disk_module;

/* As served_start_in, in a folder of its own, with this perdure.toml and --no-auth; its syncs can be told what to do. */
served *bad_disk_start(const char *settings);
/* "fail", a number of milliseconds, or NULL: as they are. From now on, also for servers that are started again. */
void bad_disk_set(const served *s, const char *how);

#endif
