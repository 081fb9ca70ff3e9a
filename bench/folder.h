/* folder.h: folders of a benchmark: made, measured, removed. */
#ifndef BENCH_FOLDER_H
#define BENCH_FOLDER_H

#include <perdure/perdure.h>

#define BENCH_PATH_SIZE 4096

/* Write "parent/name" to `out`. PD_LIMIT if it does not fit. */
PD_MUST_USE pd_code bench_path(const char *parent, const char *name, char out[BENCH_PATH_SIZE], pd_error *err);
/* The same, and make it an empty folder, whatever was there. */
PD_MUST_USE pd_code bench_folder_new(const char *parent, const char *name, char out[BENCH_PATH_SIZE], pd_error *err);
/* A new folder with a name of its own in `parent`; `parent` is made if it is not there (its own parent must be). */
PD_MUST_USE pd_code bench_folder_temp(const char *parent, char out[BENCH_PATH_SIZE], pd_error *err);
/* Bytes of all files under it, as their sizes say. */
PD_MUST_USE pd_code bench_folder_size(const char *path, uint64_t *out_bytes, pd_error *err);
/* Remove it and everything in it; one that is not there is no error. */
PD_MUST_USE pd_code bench_folder_remove(const char *path, pd_error *err);

#endif
