/* story.h: tags, pins, blame, message links. Included by perdure.h; errors, lifetimes and `at` are explained there. */
#ifndef PERDURE_STORY_H
#define PERDURE_STORY_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
