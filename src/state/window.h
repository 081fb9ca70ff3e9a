/* window.h: how many versions of each key the stores of agents keep: the setting persistent.versions, as gc of the engine knows it. */
#ifndef PD_STATE_WINDOW_H
#define PD_STATE_WINDOW_H

#include <perdure/state.h>

/*
 * Have gc keep `versions` of each key in this agent's store (0: all), if the store is new or another number was in force before. A store
 * that had commits before a home first wrote to it is left alone: its history was not made under this setting, and
 * `perdure setting gc.auto on` says when it may go. Settings of gc that were changed by hand stay until the number changes.
 */
PD_MUST_USE pd_code pd_window_keep(pd_store *store, uint64_t versions, pd_error *err);
/*
 * Have gc run by itself in `shared` or `system`, once, whenever they were made. What is there now is always kept (queues, alerts,
 * approvals, tokens, the audit are keys of the head); of the past only so much that subscriptions find their place. If gc.auto was set by
 * hand, that stays.
 */
PD_MUST_USE pd_code pd_window_keep_common(pd_store *store, bool is_shared, pd_error *err);

#endif
