/* doc_prelude.h: the names that the C blocks of the guide use and do not declare: what the reader's program has already, and the reader's
 * own functions. doc_pages.sh compiles each block with it. */
#pragma once

#include <stdio.h>

#include <perdure/agent.h>
#include <perdure/backend.h>
#include <perdure/bundle.h>
#include <perdure/care.h>
#include <perdure/error.h>
#include <perdure/joint.h>
#include <perdure/mailbox.h>
#include <perdure/merge.h>
#include <perdure/perdure.h>
#include <perdure/proof.h>
#include <perdure/retention.h>
#include <perdure/run.h>
#include <perdure/state.h>
#include <perdure/statestore.h>
#include <perdure/storage.h>
#include <perdure/storage_plugin.h>
#include <perdure/story.h>
#include <perdure/stream.h>
#include <perdure/supervise.h>
#include <perdure/thread.h>
#include <perdure/token.h>
#include <perdure/vault.h>
#include <perdure/watch.h>
#include <perdure/work.h>

extern pd_store *store;
extern pd_home *home;
extern pd_statestore *statestore;
extern pd_error err;
extern pd_code code;
extern pd_ack ack;
extern pd_buf out;
extern pd_buf value;
extern pd_id trusted;
extern FILE *file;
extern void *ctx;
extern const char *passphrase, *their_passphrase, *input, *json;

extern pd_mailbox *box;
extern pd_mail_sent sent;
extern struct doc_letter {
  uint64_t number;
  const char *token;
} mine;
extern pd_watch_cursor saved;

bool take(void *ctx, const pd_letter *letter);
bool on_line(void *ctx, const pd_blame_line *line);
void tell(void *ctx, const pd_run_event *event);
void tell_me(void *ctx, pd_code code, const char *message);
bool was_mail_sent(const char *id);
void send_mail(const char *id);
void send_reply(void);
void answer(const char *text);
void settle(pd_store *store, const pd_conflict *conflicts, size_t count);
void handle(const pd_watch_event *event);
void keep(pd_watch_cursor place);

/* of a plugin, as in examples/simple_storage_plugin.c */
pd_code save(void *handle, const char *key, pd_bytes value, pd_error *err);
pd_code load(void *handle, const char *key, pd_storage_take take, void *ctx, pd_error *err);
pd_code remove_key(void *handle, const char *key, pd_error *err);
