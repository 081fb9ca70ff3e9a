/* cutter.h: a proxy between a client and a server on this machine that cuts connections where a test wants them cut. */
#ifndef TESTS_REMOTE_CUTTER_H
#define TESTS_REMOTE_CUTTER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cutter cutter;

/* In a thread of its own; aborts the program if it cannot be had. */
cutter *cutter_start(int server_port);
void cutter_free(cutter *c);
int cutter_port(const cutter *c);
/* Where new connections go from now on; 0: nowhere, they are closed. */
void cutter_aim(cutter *c, int server_port);
/* Every connection that is there, now. */
void cutter_cut(cutter *c);
/* The connection on which the server says `text` next: in the middle of it. */
void cutter_cut_in(cutter *c, const char *text);
/* Has that happened? */
bool cutter_has_cut(cutter *c);
/* How often did clients say this, and servers? */
size_t cutter_asked(cutter *c, const char *text);
size_t cutter_answered(cutter *c, const char *text);

#endif
