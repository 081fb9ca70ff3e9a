/*
 * resolutions.h: how conflicts are to be settled, from the command line (--resolve KEY=VALUE) and from a file (--resolutions FILE).
 *
 * The file is a JSON array of objects: key, path? (a JSON Pointer), and one of value (any JSON), text, base64, or take ("ours", "theirs",
 * "base", "delete"). A field that does not belong there, or is there twice, is refused.
 */
#ifndef PD_CMD_RESOLUTIONS_H
#define PD_CMD_RESOLUTIONS_H

#include "args.h"

#include <perdure/perdure.h>

typedef struct resolutions_list {
  pd_resolution *items;
  size_t count, capacity;
  pd_buf *owned; /* keys, paths and values that are no slices of the file or the command line */
  size_t owned_count, owned_capacity;
  pd_buf file;
} resolutions_list;

void resolutions_done(resolutions_list *list);
/* From the options --resolve and --resolutions of a command. */
PD_MUST_USE pd_code resolutions_read(const args_parsed *args, resolutions_list *out, pd_error *err);

#endif
