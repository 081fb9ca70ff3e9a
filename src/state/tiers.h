/* tiers.h: what a home makes when it opens and frees when it closes, one pair a tier. All _free take NULL. */
#ifndef PD_STATE_TIERS_H
#define PD_STATE_TIERS_H

#include "state/home.h"

/* session.c */
PD_MUST_USE pd_code pd_sessions_new(pd_home *home, pd_sessions **out, pd_error *err);
void pd_sessions_free(pd_sessions *sessions);
/* audit.c */
PD_MUST_USE pd_code pd_audit_new(pd_home *home, pd_audit **out, pd_error *err);
void pd_audit_free(pd_audit *audit); /* flushes */
/* policy.c */
PD_MUST_USE pd_code pd_policy_new(pd_home *home, pd_policy **out, pd_error *err);
void pd_policy_free(pd_policy *policy);
/* vault.c */
PD_MUST_USE pd_code pd_vault_new(pd_home *home, pd_vault **out, pd_error *err);
void pd_vault_free(pd_vault *vault); /* wipes */
/* activity.c */
PD_MUST_USE pd_code pd_activity_new(pd_home *home, pd_activity **out, pd_error *err);
void pd_activity_free(pd_activity *activity); /* flushes */
/* owners.c */
PD_MUST_USE pd_code pd_owners_new(pd_owners **out, pd_error *err);
void pd_owners_free(pd_owners *owners);
/* subscription.c; made after the sessions */
PD_MUST_USE pd_code pd_subscriptions_new(pd_home *home, pd_subscriptions **out, pd_error *err);
void pd_subscriptions_close(pd_subscriptions *subscriptions); /* suspends them; before the sessions end, which is no end for them then */
void pd_subscriptions_free(pd_subscriptions *subscriptions);  /* after that */
/* follow.c */
PD_MUST_USE pd_code pd_follows_new(pd_home *home, pd_follows **out, pd_error *err);
void pd_follows_free(pd_follows *follows); /* waits for its threads; before the stores close */

#endif
