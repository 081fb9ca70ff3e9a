/* file.h: small files as wholes: read with a limit, written so that the old or the new content is there after a crash. */
#ifndef PD_BASE_FILE_H
#define PD_BASE_FILE_H

#include <perdure/perdure.h>

/* "cannot WHAT PATH: why" by errno; PD_FULL, PD_READ_ONLY or PD_STORAGE. */
pd_code pd_file_refused(pd_error *err, const char *what, const char *path);
/* The content replaces what `out` holds. PD_NOT_FOUND; PD_LIMIT over `size_max` bytes; PD_STORAGE, also for what is no regular file. */
PD_MUST_USE pd_code pd_file_read(const char *path, size_t size_max, pd_buf *out, pd_error *err);
/* Behind a file's name, with six letters or digits after it: what pd_file_write writes before it renames, and a crash may leave. */
#define PD_FILE_DRAFT ".draft-"
/* Write it under another name, sync, rename, sync the folder. Mode 0600. With `must_be_new` an existing file is PD_EXISTS. */
PD_MUST_USE pd_code pd_file_write(const char *path, pd_bytes bytes, bool must_be_new, pd_error *err);
/* All of it, whatever write() takes at once. */
PD_MUST_USE pd_code pd_fd_write(int fd, const void *data, size_t size, const char *path, pd_error *err);
/* Sync the folder that `path` lies in: else a rename may be lost though the file survived. */
PD_MUST_USE pd_code pd_folder_sync(const char *path, pd_error *err);
/* Make the folder `path` and those above it, mode 0700, where they are not there, and see to it that their names survive. PD_FORMAT if a
 * part of the path is no folder; PD_FULL, PD_READ_ONLY, PD_STORAGE. */
PD_MUST_USE pd_code pd_folders_make(const char *path, pd_error *err);
/* A file without a name, for its owner alone, in TMPDIR or /tmp. PD_STORAGE. */
PD_MUST_USE pd_code pd_file_temporary(int *out, pd_error *err);
/* CLEANUP(pd_fd_done) int fd = -1; */
void pd_fd_done(int *fd);

#endif
