/* folder_storage.h: what the tests of storages that live in files share: a URI in a new folder, files, a full disk. */
#ifndef STORAGE_FOLDER_STORAGE_H
#define STORAGE_FOLDER_STORAGE_H

#include "contract/storage_contract.h"

/* `scheme`, a new folder, `/name`; and the removal of that folder. */
char *folder_uri_new(const char *scheme, const char *name);
void folder_uri_destroy(const char *uri, const char *scheme);
/* For cmocka: *state is a new folder. */
int folder_set_up(void **state);
int folder_tear_down(void **state);

void write_text(const char *path, const char *text, size_t size);
/* The whole file, with a NUL behind; freed by the caller. */
char *read_text(const char *path, size_t *out_size);

/* `live` in a process of its own, with a folder on a disk of 3 MB; it has to give 0, else the number of the step that went wrong. Skips the
 * test where no such disk is to be had. */
void run_on_small_disk(int (*live)(const char *folder, const void *ctx), const void *ctx);
/* On a disk of 3 MB: a snapshot that does not fit is PD_FULL, the one before is still there, and the next one that fits is saved. */
void expect_full_disk_is_survived(const char *scheme, const char *name);

#endif
