/* care.h: du, doctor, repair. Included by perdure.h; errors, lifetimes and `at` are explained there. */
#ifndef PERDURE_CARE_H
#define PERDURE_CARE_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
