/* bundle.h: bundles, clone, push, pull. Included by perdure.h; errors, lifetimes and `at` are explained there. */
#ifndef PERDURE_BUNDLE_H
#define PERDURE_BUNDLE_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
