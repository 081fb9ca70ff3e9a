/* storage_clauses.h: between the files of the storage contract. */
#ifndef CONTRACT_STORAGE_CLAUSES_H
#define CONTRACT_STORAGE_CLAUSES_H

#include "contract/storage_contract.h"

const storage_contract_target *storage_contract_current(void);
/* The agents that are listed, with blanks between. */
void expect_names(pd_storage *storage, const char *want);
/* The snapshot of snapshot_new, saved or loaded. */
void save_tick(pd_storage *storage, const char *agent, uint64_t tick, size_t messages);
void expect_tick(pd_storage *storage, const char *agent, uint64_t tick, size_t messages);

void S9_each_claim_gets_a_larger_epoch(void **state);
void S9_epochs_follow_the_clock(void **state);
void S9_a_claim_makes_no_snapshot_and_changes_none(void **state);
void S10_only_the_last_claim_may_save(void **state);
void S10_who_was_removed_does_not_come_back(void **state);
void S10_processes_that_take_over_never_interleave(void **state);
void S11_the_mark_comes_back_with_its_snapshot(void **state);
void S12_a_save_that_follows_another_one_than_is_stored_changes_nothing(void **state);
void S12_a_save_that_arrives_twice_is_one_save(void **state);
void S12_processes_of_one_epoch_lose_no_save(void **state);

#endif
