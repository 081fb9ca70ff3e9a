/*
 * token.h: who may call over a wire. A token stands for an agent, for the operator, or for an auditor, who may look at everything and
 * change nothing. Tokens are made, listed, revoked and rotated by the operator: capabilities tokens.create, .list, .revoke, .rotate.
 *
 *     pd_token_info who;
 *     if (pd_token_check(home, text, &who, &err)) …                        // 401
 *     pd_ctx ctx = {.home = home, .agent = who.agent, .is_operator = who.role != PD_ROLE_AGENT, .token = &who};
 *
 * Only hashes are stored, in the store `system`; the text is shown once, when the token is made. A token that was revoked, anywhere, is
 * refused from then on: what was looked up is kept no longer than the store `system` is as it was.
 */
#ifndef PERDURE_TOKEN_H
#define PERDURE_TOKEN_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pd_role { PD_ROLE_AGENT = 0, PD_ROLE_OPERATOR = 1, PD_ROLE_AUDITOR = 2 } pd_role;

/* "agent", "operator", "auditor". Static storage. */
PD_API const char *pd_role_name(pd_role role);

#define PD_TOKEN_ID_SIZE 17   /* 16 hex digits and a NUL */
#define PD_TOKEN_TEXT_SIZE 85 /* pd_ID_SECRET and a NUL: 3 + 16 + 1 + 64 */
#define PD_TOKEN_SCOPES_MAX 16
#define PD_TOKEN_SCOPE_SIZE 129

/* Which token, and which text of it: it may be rotated. */
typedef struct pd_token_mark {
  char id[PD_TOKEN_ID_SIZE];
  pd_id hash; /* SHA-256 of the text */
} pd_token_mark;

/* What a token says. As pd_ctx.token it limits calls: to its capabilities; to its prefixes, which every key and prefix of the input has to
 * begin with (a token with prefixes calls nothing that names neither, but session.*); and, of an auditor, to what changes nothing. */
typedef struct pd_token_info {
  char id[PD_TOKEN_ID_SIZE];
  pd_id hash; /* of the text that was shown */
  pd_role role;
  char agent[PD_NAME_SIZE_MAX + 1];                            /* of PD_ROLE_AGENT; else "" */
  int64_t expires_ms;                                          /* 0: never */
  uint32_t rate;                                               /* requests a second; 0: no limit of its own */
  char capabilities[PD_TOKEN_SCOPES_MAX][PD_TOKEN_SCOPE_SIZE]; /* globs; the first one "": all */
  char prefixes[PD_TOKEN_SCOPES_MAX][PD_TOKEN_SCOPE_SIZE];     /* of keys; the first one "": all */
} pd_token_info;

/* Is `text` a token that is good now? PD_DENIED named Unauthorized if not, whatever the reason. Compares in constant time. */
PD_API PD_MUST_USE pd_code pd_token_check(pd_home *home, const char *text, pd_token_info *out, pd_error *err);

/* The same without a copy, for whoever asks often: to be released before the home closes. It does not change. */
PD_API PD_MUST_USE pd_code pd_token_find(pd_home *home, const char *text, const pd_token_info **out, pd_error *err);
/* What one client gave last, for whoever it asks again and again over one connection. Zeros at first. For one thread at a time; to be
 * forgotten before the home closes. */
typedef struct pd_token_memory {
  char text[PD_TOKEN_TEXT_SIZE];
  const pd_token_info *token; /* held; NULL: nothing is remembered */
  pd_store_mark mark;         /* of the store `system`, when the token was looked up */
} pd_token_memory;
/* pd_token_find; the same text is not looked up again while nobody wrote to the store `system`. */
PD_API PD_MUST_USE pd_code pd_token_find_again(pd_home *home, const char *text, pd_token_memory *memory, const pd_token_info **out,
                                               pd_error *err);
PD_API void pd_token_forget(pd_token_memory *memory);
/* One more release is owed. Of a token that pd_token_find answered. */
PD_API const pd_token_info *pd_token_hold(const pd_token_info *token);
PD_API void pd_token_release(const pd_token_info *token); /* takes NULL */

/* The id that `text` claims to be, if there is such a token, be it expired or the secret wrong: for the audit of what was refused. */
PD_API bool pd_token_claimed(pd_home *home, const char *text, char out_id[PD_TOKEN_ID_SIZE]);

/* pd_token_check for a token that was good before, without its text: for answers that last, which have to end with their token. */
PD_API PD_MUST_USE pd_code pd_token_recheck(pd_home *home, const pd_token_mark *mark, pd_error *err);

#ifdef __cplusplus
}
#endif
#endif
