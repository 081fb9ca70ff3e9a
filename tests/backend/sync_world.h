/* sync_world.h: a store on the power-cut VFS, whose syncs can fail as on Linux (support/power_vfs.h), for the tests of failed syncs. */
#ifndef TESTS_BACKEND_SYNC_WORLD_H
#define TESTS_BACKEND_SYNC_WORLD_H

#include "backend/sqlite_files.h"
#include "support/power_vfs.h"
#include "support/temp_folder.h"

#include <stdlib.h>

typedef struct world {
  char *folder, *uri;
  pd_backend *b;
} world;

static inline void open_world(world *w)
{
  w->b = open_main(w->uri, PD_BACKEND_CREATE, PD_OK, NULL);
}

static inline void make_world(world *w)
{
  power_vfs_install();
  w->folder = temp_folder_new();
  w->uri = text_of("%s?vfs=powercut", w->folder);
  open_world(w);
}

static inline void close_world(world *w)
{
  if (w->b) w->b->ops->close(w->b);
  w->b = NULL;
}

static inline void world_done(world *w)
{
  close_world(w);
  power_vfs_restore();
  temp_folder_free(w->folder);
  free(w->uri);
}

/* Lose power, close what is open, and come back. */
static inline void lose_power(world *w, uint64_t seed)
{
  power_vfs_cut(seed);
  close_world(w);
  power_vfs_restore();
  open_world(w);
}

#endif
