/* stream.h: large values as streams. Included by perdure.h; errors, lifetimes and `at` are explained there. */
#ifndef PERDURE_STREAM_H
#define PERDURE_STREAM_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
