/*
 * folder_roots.h: the folders of the setting folders.roots, below which agents that call through a server may name folders.
 *
 * R1  A folder counts as below a root only while no symbolic link and no `..` is on the way: neither in the root's own path nor below it.
 *     That is asked by opening it (openat2), each time it is looked at; a root that is gone, or has become a link, has nothing below it.
 * R2  What is not below a root is refused in one way, whether or not it is there.
 */
#ifndef PD_STATE_FOLDER_ROOTS_H
#define PD_STATE_FOLDER_ROOTS_H

#include "state/home.h"

#include <limits.h>

/* As the home's configuration has them; freed by _free, which takes NULL. */
PD_MUST_USE pd_code pd_folder_roots_new(pd_home *home, pd_folder_roots **out, pd_error *err);
void pd_folder_roots_free(pd_folder_roots *roots);

/* An absolute path without empty parts, `.` and a slash at its end. False if it is not absolute, too long, or has `..` in it. */
bool pd_path_clean(const char *given, char out[PATH_MAX]);
/* Is it the folder, or in it? Both are clean. */
bool pd_path_is_within(const char *path, const char *folder);
/* Open a folder (a clean path) below a root, for reading. -1 with errno: EPERM if it is not below one (R2), ENOSYS if the kernel cannot do
 * R1, else why it cannot be opened. */
int pd_folder_roots_open(pd_home *home, const char *path);

#endif
