/* key.h: keys that end in a number, of 20 digits so that they sort by it: "noun/00000000000000000007". */
#ifndef PD_BASE_KEY_H
#define PD_BASE_KEY_H

#include <perdure/perdure.h>

/* The number that the last 20 bytes are; 0 if they are none. */
uint64_t pd_key_number(pd_bytes key);

#endif
