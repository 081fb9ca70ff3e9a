/*
 * beneath.h: opening paths without following symbolic links anywhere in them (openat2, Linux 5.6). What is opened is what the path says,
 * whoever may put links on the way meanwhile. -1 with errno ELOOP if there is a link, ENOSYS on an older kernel.
 */
#ifndef PD_BASE_BENEATH_H
#define PD_BASE_BENEATH_H

/* An absolute path. `flags` as for open; O_CLOEXEC is added. */
int pd_open_straight(const char *path, int flags);
/* A relative path that does not leave `folder`; EXDEV if `..` would. */
int pd_open_beneath(int folder, const char *path, int flags);

#endif
