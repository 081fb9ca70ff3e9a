/*
 * base.h: the two habits that every file shares: TRY passes a failure up, CLEANUP runs a destructor at the end of scope.
 * Knows nothing of perdure beyond its error shape.
 */
#ifndef PD_BASE_BASE_H
#define PD_BASE_BASE_H

#include <perdure/error.h>

/* The one control-flow macro of the house: return what failed. */
#define TRY(call)                                                                                                                          \
  do {                                                                                                                                     \
    pd_code try_code_ = (call);                                                                                                            \
    if (try_code_ != PD_OK) return try_code_;                                                                                              \
  } while (0)

/* CLEANUP(pd_buf_done) pd_buf b = {0};  calls pd_buf_done(&b) when b goes out of scope. */
#define CLEANUP(done) __attribute__((cleanup(done)))

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
