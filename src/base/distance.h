/* distance.h: how unlike two words are, for "did you mean". */
#ifndef PD_BASE_DISTANCE_H
#define PD_BASE_DISTANCE_H

#define PD_DISTANCE_MAX 63 /* the answer for words that are longer than so many bytes */

/* How many letters have to be inserted, removed, replaced or swapped with their neighbour to make `b` from `a`. */
unsigned pd_text_distance(const char *a, const char *b);

#endif
