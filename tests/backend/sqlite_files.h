/* sqlite_files.h: what the tests of the sqlite backend share: a folder, its files from outside, opening and appending. */
#ifndef TESTS_BACKEND_SQLITE_FILES_H
#define TESTS_BACKEND_SQLITE_FILES_H

#include <perdure/backend.h>

/* Open store "main" in `folder`; fails the test unless the answer is `want`. NULL if it is not PD_OK. `err` may be NULL. */
pd_backend *open_main(const char *folder, unsigned flags, pd_code want, pd_error *err);
/* Append `count` records of one small text each after the tail. */
pd_code append_some(pd_backend *b, size_t count, pd_error *err);
/* A store "main" with `count` records, closed again. */
void make_store(const char *folder, size_t count);
uint64_t tail_of(pd_backend *b);
pd_code read_all(pd_backend *b, pd_error *err);

/* FOLDER/NAME; freed by the caller. */
char *file_in(const char *folder, const char *name);
void write_file(const char *path, const void *data, size_t size);
/* The whole file, with its size; freed by the caller. */
uint8_t *read_file(const char *path, size_t *out_size);
void copy_file(const char *from, const char *to);
bool is_file(const char *path);
size_t count_files(const char *folder);
/* Run SQL on FOLDER/main.db with a connection of our own. */
void run_sql(const char *folder, const char *sql);

#endif
