/* retention.h: gc and erasure. Included by perdure.h; errors, lifetimes and `at` are explained there. */
#ifndef PERDURE_RETENTION_H
#define PERDURE_RETENTION_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
