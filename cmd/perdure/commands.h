/* commands.h: every command of the binary; main.c has the table in the order of `help`. */
#ifndef PD_CMD_COMMANDS_H
#define PD_CMD_COMMANDS_H

#include "cli.h"

extern const cli_command cmd_init, cmd_stats, cmd_verify;                       /* init.c, stats.c, verify.c */
extern const cli_command cmd_put, cmd_del, cmd_get, cmd_has, cmd_ls, cmd_batch; /* put.c, get.c, ls.c, batch.c */
extern const cli_command cmd_log, cmd_history, cmd_show, cmd_diff;              /* log.c, history.c, show.c, diff.c */
extern const cli_command cmd_undo, cmd_redo, cmd_reset;                         /* undo.c */
extern const cli_command cmd_fork, cmd_refs, cmd_switch;                        /* refs.c */

/* One line a room of powers, below. */
extern const cli_command cmd_run, cmd_agents;                                   /* run.c, agents.c */
extern const cli_command cmd_gc, cmd_erase;                                     /* gc.c, erase.c */
extern const cli_command cmd_export, cmd_import, cmd_clone, cmd_push, cmd_pull; /* bundle.c, clone.c */
extern const cli_command cmd_prove, cmd_check_proof;                            /* prove.c */
extern const cli_command cmd_keygen, cmd_sign;                                  /* sign.c */
extern const cli_command cmd_tag, cmd_pin;                                      /* tag.c */
extern const cli_command cmd_link, cmd_resolve, cmd_messages;                   /* link.c */
extern const cli_command cmd_blame, cmd_bisect;                                 /* blame.c, bisect.c */

extern const cli_command cmd_du, cmd_doctor, cmd_repair;                       /* du.c, doctor.c, repair.c */
extern const cli_command cmd_vault;                                            /* vault.c */
extern const cli_command cmd_backup, cmd_vault;                                /* backup.c, vault.c */
extern const cli_command cmd_watch;                                            /* watch.c */
extern const cli_command cmd_merge, cmd_cherry_pick, cmd_revert, cmd_settings; /* merge.c, settings.c */

extern const cli_command cmd_call, cmd_capabilities; /* call.c */
extern const cli_command cmd_session, cmd_persistent, cmd_shared, cmd_snapshot, cmd_briefing, cmd_queue, cmd_alerts, cmd_folders,
  cmd_health;                                                  /* tier.c */
extern const cli_command cmd_mailbox;                          /* tier.c */
extern const cli_command cmd_thread;                           /* thread.c */
extern const cli_command cmd_audit;                            /* audit.c: the operator's */
extern const cli_command cmd_approvals, cmd_audit, cmd_policy; /* approvals.c, audit.c, policy.c: the operator's */

extern const cli_command cmd_agent; /* agent.c */

extern const cli_command cmd_config; /* config.c */
extern const cli_command cmd_token;  /* token.c */
extern const cli_command cmd_serve;  /* serve.c */

extern const cli_command cmd_mcp;                  /* mcp.c */
extern const cli_command cmd_work, cmd_statestore; /* tier.c, statestore.c */

extern const cli_command cmd_man, cmd_complete; /* man.c, complete.c: for machines */

#endif
