/*
 * joint.h: changes to several stores of a home that become visible at one moment, or never. Restores are made of this.
 *
 *   pd_joint_begin(uri, names, 3, "restore", &joint, &err);      // from now on others wait to write to these three
 *   pd_options options = {.must_exist = true, .joint = joint};
 *   pd_store_open(uri, names[0], &options, &store, &err);        // what this handle commits nobody else sees yet
 *   ...                                                          // close every handle
 *   pd_joint_commit(joint, &err);                                // now all of it is there, in all three stores
 *
 * Others read on meanwhile and see the old state. Whatever happens before the commit (an error, a full disk, kill -9, a loss of power),
 * the state is the old one in all stores: what was appended is not there, and the next process that opens or writes one of them removes it.
 * A writer that waits longer than a minute for a joint commit is refused with PD_STORAGE.
 *
 * Keep it short: prepare before pd_joint_begin what can be prepared. Do not write to one of the stores through another handle of the same
 * thread in between: it would wait for itself. No gc or erasure may run on a handle of a joint commit; gc by itself does not.
 */
#ifndef PERDURE_JOINT_H
#define PERDURE_JOINT_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

/* `stores` exist, each once. `purpose` is one line of at most 63 bytes, for messages to those who wait. PD_NOT_FOUND; PD_UNSUPPORTED for a
 * backend without joint commits (memory:, a server's stores); PD_STORAGE if another joint commit there takes longer than a minute, or if
 * another process keeps a store locked so long (one that is stopped, or has buffered writes and does not flush them): the error names
 * it. */
PD_API PD_MUST_USE pd_code pd_joint_begin(const char *uri, const char *const *stores, size_t count, const char *purpose, pd_joint **out,
                                          pd_error *err);
/* All handles of `joint` are closed. Frees it. On an error nothing was committed, but for PD_OUTCOME_UNKNOWN: the disk failed in the moment
 * of the decision. Then all stores have the old state until one of them is written or opened, and are all old or all new from there. */
PD_API PD_MUST_USE pd_code pd_joint_commit(pd_joint *joint, pd_error *err);
/* The same without a change. Takes NULL. */
PD_API void pd_joint_abort(pd_joint *joint);

#ifdef __cplusplus
}
#endif
#endif
