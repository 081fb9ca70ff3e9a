/* watch.h: following changes. Included by perdure.h; errors, lifetimes and `at` are explained there. */
#ifndef PERDURE_WATCH_H
#define PERDURE_WATCH_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
