/* temp_folder.h: a folder for one test, and its removal. */
#ifndef SUPPORT_TEMP_FOLDER_H
#define SUPPORT_TEMP_FOLDER_H

/* A new empty folder under $TMPDIR or /tmp; freed by the caller. Aborts the program if there is none to be had. */
char *temp_folder_new(void);
/* Remove it with all that is in it, and free the name. Takes NULL. */
void temp_folder_free(char *path);
/* printf into a new string; freed by the caller. */
char *text_of(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
