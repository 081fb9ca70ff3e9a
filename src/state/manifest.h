/*
 * manifest.h: the files of a watched folder as they were when it was last looked at, kept in the system store.
 *
 * Keys: manifest/AGENT/FOLDER/<40 hex digits of the path's SHA-256>, one a file. A file is known by the SHA-256 of its bytes, so a change
 * is found whatever its size and times say; a symbolic link by the text it holds. Each entry says when the file was made, last changed and
 * deleted, as far as that can be known: so changes can be told for any time, and told again.
 *
 * M1  Symbolic links are not followed, on the way to the folder or below it, whatever has become of it since; and only files and links
 *     count: no devices, sockets or pipes.
 * M2  A file that was not looked at (a limit, a folder that cannot be read) is not taken for deleted.
 * M3  Content is read again unless size, times and inode are all as before, and older than RACY_MS when it was read: a later write
 *     would have changed them.
 * M4  Files larger than PD_MANIFEST_HASH_MAX are known by size, time, and their first and last MiB.
 */
#ifndef PD_STATE_MANIFEST_H
#define PD_STATE_MANIFEST_H

#include "state/call.h"
#include "state/home.h"

#define PD_MANIFEST_DEPTH_MAX 64
#define PD_MANIFEST_HASH_MAX ((int64_t)64 * 1024 * 1024)
#define PD_MANIFEST_GONE_KEEP_MS ((int64_t)30 * 86400 * 1000) /* deleted files are remembered so long */
#define PD_FOLDER_ID_SIZE 17

/* One file. `path` is relative to the folder, owned by the manifest. Times are the home's, in ms; 0: it has not happened since it is
 * watched. */
typedef struct pd_file {
  char name[41]; /* the end of its key */
  char *path;
  pd_id hash;
  uint64_t size, inode;
  int64_t mtime_ns, ctime_ns; /* as the file system tells them */
  int64_t read_ms;            /* when its content was read, by the system's clock */
  int64_t created_ms, changed_ms, deleted_ms;
  uint64_t version; /* of the key; 0: it is not there yet */
  bool is_seen, is_dirty;
} pd_file;

typedef struct pd_manifest {
  pd_file *files; /* those that were there before by name, then new ones */
  size_t count, capacity, known;
  int64_t last_ms; /* when it was looked at before; 0: never */
} pd_manifest;

typedef struct pd_manifest_scan {
  const char *agent, *folder_id, *path;
  bool is_rooted;     /* only while it is below folders.roots (folder_roots.h) */
  bool has_hidden;    /* look at names that begin with a dot, too */
  uint64_t files_max; /* no more than these */
  int64_t last_ms;    /* when it was looked at before; 0: this is the first time, and all that is there was there before */
  int64_t now_ms;
  /* out: */
  uint64_t file_count;
  bool is_cut;         /* a limit of files or depth was reached */
  uint64_t unreadable; /* folders and files that could not be read */
  char why[256];       /* the folder itself could not be looked at; "": it was */
} pd_manifest_scan;

/* Look at the folder, compare, and write what changed. `out` (files with their times) is to be finished with pd_manifest_done, also after
 * a failure. PD_OK with scan->why set if the folder itself cannot be looked at: then nothing changes. */
PD_MUST_USE pd_code pd_manifest_update(pd_home *home, pd_manifest_scan *scan, pd_manifest *out, pd_error *err);
void pd_manifest_done(pd_manifest *manifest);
/* Forget a folder's files. */
PD_MUST_USE pd_code pd_manifest_forget(pd_home *home, const char *agent, const char *folder_id, pd_error *err);

/* manifest_walk.c: find files; those whose content must be read are hashed. */
PD_MUST_USE pd_code pd_manifest_walk(pd_home *home, pd_manifest_scan *scan, pd_manifest *manifest, pd_error *err);
/* The file of this path among the known ones, or a new one. */
PD_MUST_USE pd_code pd_manifest_file(pd_manifest *manifest, const char *path, pd_file **out, bool *out_is_new, pd_error *err);

#endif
