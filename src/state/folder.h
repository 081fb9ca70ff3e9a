/*
 * folder.h: the folders that an agent has watched for its briefings. folder/AGENT/<16 hex digits of the path's SHA-256> in the system
 * store: {"path","hidden","rooted","watched_ms","scanned_ms","files"}; what is in them is manifest.h's.
 */
#ifndef PD_STATE_FOLDER_H
#define PD_STATE_FOLDER_H

#include "state/manifest.h"

#define PD_FOLDERS_MAX 32 /* of one agent */

typedef struct pd_folder {
  char id[PD_FOLDER_ID_SIZE];
  char *path; /* absolute, without symbolic links */
  bool has_hidden;
  bool is_rooted; /* an agent named it through a server: it is looked at only while it is below folders.roots */
  int64_t watched_ms, scanned_ms;
  uint64_t files;
  uint64_t version; /* of the key */
} pd_folder;

typedef struct pd_folder_list {
  pd_folder items[PD_FOLDERS_MAX];
  size_t count;
} pd_folder_list;

/* To be finished with pd_folders_done, also after a failure. */
PD_MUST_USE pd_code pd_folders_read(pd_home *home, const char *agent, pd_folder_list *out, pd_error *err);
void pd_folders_done(pd_folder_list *list);
/* Look at a folder now: scan->why says if it could not be looked at. `files_max` is what is left of briefing.files_max. `out` is to be
 * finished with pd_manifest_done, also after a failure. */
PD_MUST_USE pd_code pd_folder_look(pd_home *home, const char *agent, pd_folder *folder, uint64_t files_max, int64_t now_ms,
                                   pd_manifest_scan *scan, pd_manifest *out, pd_error *err);

#endif
