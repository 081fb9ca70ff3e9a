/* merge.h: merge, cherry-pick, revert, and the store's settings. Included by perdure.h; errors, lifetimes and `at` are explained there. */
#ifndef PERDURE_MERGE_H
#define PERDURE_MERGE_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
