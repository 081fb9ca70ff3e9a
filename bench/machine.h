/* machine.h: on what the numbers were made. */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include <perdure/perdure.h>

typedef struct bench_machine {
  char date[32]; /* 2026-11-15 21:40 UTC */
  char cpu[128];
  long core_count;
  char kernel[128];
  char file_system[128]; /* of the folder that the files are in: "ext4 (/dev/vda)" */
  char versions[256];    /* perdure and its peers */
  bool is_memory;        /* the folder is no real disk: durable rows mean nothing there */
} bench_machine;

/* What cannot be found out is "unknown". */
void bench_machine_read(const char *dir, bench_machine *out);

#endif
