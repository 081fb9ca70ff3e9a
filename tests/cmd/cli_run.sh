#!/bin/sh
# cli_run.sh PERDURE: run and agents: starting, crashing, restarting, giving up, signals, the lock, agent.toml.
. "$(dirname "$0")/tap.sh"
unset PERDURE_STORAGE PERDURE_TOKEN

events() { "$perdure" call process.list --operator 2>/dev/null | tr '{' '\n' | sed -n 's/.*"event":"\([a-z_]*\)".*/\1/p' | tac | tr '\n' ' '; }
want_events() { [ "$(events)" = "$1${1:+ }" ] || bad "the events are '$(events)', not '$1 '"; }
last_event() { "$perdure" call process.list --operator --limit 1 2>/dev/null; }
gone() { ! kill -0 "$1" 2>/dev/null; }
# run it in the background: its pid is in $supervisor
run_behind() {
  "$perdure" run "$@" >"$out" 2>"$err" </dev/null &
  supervisor=$!
}
end_behind() {
  wait $supervisor
  code=$?
}

t run__a_process_finds_its_store_agent_storage_and_token
# shellcheck disable=SC2016
run --agent w run -- sh -c 'echo "$PERDURE_STORE $PERDURE_AGENT $PERDURE_STORAGE"; printf %s "$PERDURE_TOKEN" >token; cd / && echo "$PERDURE_STORE"'
want_code 0
here=$(pwd -P)
want_out "sqlite:$here/.perdure w perdure:sqlite:$here/.perdure
sqlite:$here/.perdure
"
want_true test "$(wc -c <token)" = 64
want_events 'started exited'
hash=$(sha256sum <token | cut -d' ' -f1)
run call process.list --operator
want_out_has "\"token_sha256\":\"$hash\""
want_out_unlike "$(cat token)"

t run__a_process_does_not_get_the_epoch_or_session_of_its_starter
PERDURE_EPOCH=1 PERDURE_SESSION=s-1 PERDURE_SESSION_QUOTA=7 "$perdure" run --agent w -- env >"$out" 2>"$err"
want_out_unlike '^PERDURE_EPOCH='
want_out_unlike '^PERDURE_SESSION='
want_out_like '^PERDURE_SESSION_QUOTA=7$'

t run__the_exit_code_is_the_commands
run run --agent w --restart never -- sh -c 'exit 42'
want_code 42
want_events 'started crashed'
run run --agent w --restart never -- sh -c 'kill -9 $$'
want_code 137
last_event >"$out"
want_out_has '"signal":"SIGKILL"'
want_out_has '"exit_code":137'

t run__a_command_that_is_not_there_is_not_tried_again
run run --agent w -- ./nothing-here
want_failure 127 "cannot run './nothing-here'"
: >plain
run run --agent w -- ./plain
want_failure 126 "cannot run './plain': Permission denied"
want_events ''

t run__a_crash_is_started_again_until_it_succeeds
# shellcheck disable=SC2016
run run --agent w --backoff 1ms..5ms -- sh -c 'echo x >>tries; [ $(wc -l <tries) -ge 4 ]'
want_code 0
want_events 'started crashed restarted crashed restarted crashed restarted exited'
run --json agents
want_out_has '"restarts":3,"process":"ended","supervised":false'

t run__always_starts_again_after_success_and_never_never_does
# shellcheck disable=SC2016
run run --agent w --restart always --backoff 1ms..1ms --max-restarts 2/1m -- true
want_code 0
want_events 'started exited restarted exited restarted exited gave_up'
run run --agent w --restart never -- false
want_code 1

t run__it_gives_up_after_so_many_restarts_in_that_time
run run --agent w --backoff 1ms..2ms --max-restarts 3/1m -- sh -c 'exit 7'
want_code 7
want_err_like "agent 'w' failed too often \(3 restarts\); giving up"
want_events 'started crashed restarted crashed restarted crashed restarted crashed gave_up'
run agents
want_out_like '^w +- +tick - +active - +gave_up  restarts 3$'
run --agent w briefing
want_out_like 'gave_up'

t run__waiting_grows_from_min_to_max_with_jitter
run run --agent w --backoff 16ms..64ms --max-restarts 4/1m -- false
grep -o 'in [0-9]* ms' "$err" | tr -dc '0-9\n' >delays
# shellcheck disable=SC2046
set -- $(cat delays)
want_true test $# = 4
want_true test "$1" -ge 8 -a "$1" -le 16 -a "$2" -ge 16 -a "$2" -le 32 -a "$3" -ge 32 -a "$3" -le 64 -a "$4" -ge 32 -a "$4" -le 64

t run__a_healthy_time_begins_the_waiting_anew
# shellcheck disable=SC2016
run run --agent w --backoff 2ms..4000ms --healthy 8s --max-restarts 12/1m -- \
  sh -c 'echo x >>tries; case $(wc -l <tries) in 7) sleep 8.2; exit 1;; 9) exit 0;; *) exit 1;; esac'
want_code 0
grep -o 'in [0-9]* ms' "$err" | tr -dc '0-9\n' >delays
want_true test "$(sed -n 6p delays)" -ge 32
want_true test "$(sed -n 7p delays)" -le 2

t run__standard_error_is_passed_on_and_its_end_is_kept
run run --agent w --restart never -- sh -c 'i=0; while [ $i -lt 2000 ]; do echo "line $i ä" >&2; i=$((i + 1)); done; exit 1'
want_true test "$(wc -l <"$err")" = 2000
last_event >"$out"
want_out_has 'line 1999 ä\n"'
want_out_unlike 'line 1000'
want_true test "$(wc -c <"$out")" -ge 4096
run run --agent w --restart never -- sh -c 'printf "a\\377\\000b" >&2; exit 1'
last_event >"$out"
want_out_has '"stderr_tail":"a��b"'

t run__term_is_passed_on_and_ends_it_all
run_behind --agent w --restart always -- sh -c 'trap "echo bye; exit 5" TERM; : >up; while :; do sleep 0.05; done'
until_true test -e up
kill -TERM $supervisor
end_behind
want_code 5
want_out 'bye
'
want_events 'started stopped'
run --json agents
want_out_has '"process":"stopped"'

t run__a_second_term_kills
run_behind --agent w -- sh -c 'trap "echo again >>asked" TERM; : >up; while :; do sleep 0.05; done'
until_true test -e up
kill -TERM $supervisor
until_true test -e asked
kill -INT $supervisor
end_behind
want_code 137
want_events 'started killed'

t run__the_end_of_the_grace_kills
run_behind --agent w --grace 100ms -- sh -c 'trap "" TERM; : >up; while :; do sleep 0.05; done'
until_true test -e up
kill -TERM $supervisor
end_behind
want_code 137
want_events 'started killed'

t run__hup_usr1_usr2_and_winch_are_passed_on
run_behind --agent w -- sh -c 'for s in HUP USR1 USR2 WINCH; do trap "echo $s >>got" $s; done; trap "exit 0" TERM; : >up; while :; do sleep 0.02; done'
until_true test -e up
for s in HUP USR1 USR2 WINCH; do
  kill -$s $supervisor
  until_true grep -q "^$s$" got
done
kill -TERM $supervisor
end_behind
want_code 0
want_true test "$(sort got | tr '\n' ' ')" = 'HUP USR1 USR2 WINCH '

t run__a_hup_that_ends_it_is_no_crash
run_behind --agent w -- sh -c ': >up; while :; do sleep 0.02; done'
until_true test -e up
kill -HUP $supervisor
end_behind
want_code 129
want_events 'started stopped'

t run__term_while_it_waits_ends_it
run_behind --agent w --backoff 1m..1m -- sh -c 'exit 9'
until_true grep -q 'starts again' "$err"
kill -TERM $supervisor
end_behind
want_code 9
run --json agents
want_out_has '"process":"stopped"'

t run__a_dead_supervisor_takes_its_whole_group_with_it
run_behind --agent w -- sh -c 'sleep 1000 & echo $! >grandchild; echo $$ >child; wait'
until_true test -s child
until_true sh -c "'$perdure' call process.list --operator | grep -q started"
kill -9 $supervisor
wait $supervisor 2>/dev/null
until_true gone "$(cat child)"
until_true gone "$(cat grandchild)"
run --json agents
want_out_has '"process":"lost","supervised":false'
until_true "$perdure" run --agent w -- true
want_events 'started killed started exited'

t run__the_lock_is_held_until_the_whole_group_has_gone
# C is in the group; its parent X is not, and waits for C only when it is told to: until then C, killed, is still there
cat >slow.py <<'END'
import os, signal, time
def note(name): open(name + ".part", "w").write(str(os.getpid())); os.rename(name + ".part", name)
if os.fork() == 0:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    if os.fork() == 0:
        note("c.pid")
        while True: time.sleep(60)
    os.setsid()
    note("x.pid")
    signal.sigtimedwait([signal.SIGUSR1], 60)
    os.wait()
    os._exit(0)
while True: time.sleep(60)
END
run_behind --agent w -- python3 slow.py
until_true test -s x.pid
until_true test -s c.pid
kill -9 $supervisor
wait $supervisor 2>/dev/null
until_true grep -q '^State:.*Z' "/proc/$(cat c.pid)/status"
run run --agent w -- true
want_code 3
kill -USR1 "$(cat x.pid)"
until_true "$perdure" run --agent w -- true

t run__what_a_process_leaves_behind_is_ended
# shellcheck disable=SC2016
run run --agent w -- sh -c 'sleep 1000 >/dev/null 2>&1 & echo $! >left; exit 0'
want_code 0
until_true gone "$(cat left)"

t run__a_second_supervisor_is_refused
run_behind --agent w -- sh -c 'trap "exit 0" TERM; : >up; while :; do sleep 0.02; done'
until_true test -e up
"$perdure" run --agent w -- true >two 2>&1
code=$?
want_code 3
want_true grep -q "agent 'w' is supervised already (process $supervisor)" two
"$perdure" run --agent other -- true
code=$?
want_code 0
kill -TERM $supervisor
end_behind
run run --agent w -- true
want_code 0

t run__a_running_agent_is_listed_with_its_process
run_behind --agent w -- sh -c 'trap "exit 0" TERM; echo $$ >up; while :; do sleep 0.02; done'
until_true test -s up
is_listed() { "$perdure" agents --json | grep -q "\"process\":\"running\",\"supervised\":true,\"pid\":$(cat up),\"supervisor_pid\":$supervisor"; }
until_true is_listed
kill -TERM $supervisor
end_behind

t run__an_agent_toml_says_it_all
mkdir conf watched && echo hello >watched/file
cat >conf/agent.toml <<'EOF'
name = "worker"
object_storage = "file:snapshots"
command = ["sh", "-c", 'echo "$PERDURE_AGENT $PERDURE_STORAGE $PERDURE_PERSISTENT_QUOTA $(ulimit -n)"; exit 3']
[folders]
watch = ["../watched"]
[quotas]
persistent = "1 MB"
files = 128
[restart]
policy = "never"
EOF
run run --config conf/agent.toml --check
want_code 0
want_out_like ': fine$'
want_err_like "write 'snapshot_storage' for snapshots"
sed -i 's/^object_storage/snapshot_storage/' conf/agent.toml
run run --config conf/agent.toml --check
want_no_err
run run --config conf/agent.toml
want_code 3
want_out "worker file:$(pwd -P)/conf/snapshots 1000000 128
"
run --agent worker folders list
want_out_has "$(pwd -P)/watched"
run run --config conf/agent.toml --agent other
want_failure 2 "--agent is 'other', and .*agent.toml is for 'worker'"
run run --config conf/agent.toml -- true
want_code 0

t run__object_storage_places_the_agents_store
cat >agent.toml <<'EOF'
name = "worker"
object_storage = "sqlite:own-state"
[restart]
policy = "never"
EOF
printf '#!/bin/sh\n"$1" put k from-inside && "$1" persistent set p 1 && "$1" shared set s 1 0\n' >agent.sh
chmod +x agent.sh
run run --config agent.toml -- ./agent.sh "$perdure"
want_code 0
run --store own-state --agent worker get k
want_out from-inside
run --agent worker get k # the home leads there, too
want_out from-inside
run --agent worker persistent get p
want_line 1
run shared get s # what is shared stays in the home
want_line 1
want_true test -s own-state/worker.db
want_true test ! -e .perdure/worker.db
want_true test ! -e own-state/shared.db
run run --config agent.toml -- ./agent.sh "$perdure" # a second start finds it
run --store own-state --agent worker history k
want_count 2
run agents --names
want_out_has worker
run doctor
want_out_has "its store is in sqlite:$(pwd -P)/own-state"
want_out_unlike 'is no file of perdure'
run --agent worker gc
want_code 0
(umask 077 && echo 'correct horse battery' >pass)
run vault init --passphrase-file pass
run --json backup create --operator --passphrase-file pass
want_code 0
want_out_like '"outside":\["worker"\]'
run backup create worker --operator --passphrase-file pass
want_failure 2 "the store of 'worker' is placed outside of this home"
run agents
want_out_like "worker .* in sqlite:.*/own-state$"
run put k main-1
run --json snapshot create --operator
id=$(sed 's/.*"snapshot_id":"\([^"]*\)".*/\1/' "$out")
run put k main-2
run --agent worker put k later
run --json snapshot restore "$id" --operator
want_code 0
want_out_like '"outside":\["worker"\]'
run get k
want_out main-1
run --agent worker get k # outside: it is left alone
want_out later
run snapshot restore "$id" worker --operator
want_err_like "the store of 'worker' is placed outside of this home"
sed -i 's/own-state/other-state/' agent.toml
run run --config agent.toml -- true
want_failure 3 'is placed in sqlite:.*own-state, not in sqlite:.*other-state'
printf 'name = "main"\nobject_storage = "sqlite:own-state"\n' >agent.toml
run run --config agent.toml -- true
want_failure 3 "agent 'main' has a store in its home already"

t run__what_is_wrong_in_an_agent_toml_is_named_with_its_line
bad_toml() {
  printf '%b' "$1" >agent.toml
  run run --config agent.toml --check
  want_failure 2 "$2"
}
bad_toml 'name = "w"\nnmae = "x"\n' "agent.toml:2: there is no setting 'nmae' of an agent; the nearest is 'name'"
bad_toml 'name = "../w"\n' 'agent.toml:1: .*name'
bad_toml 'command = "ls"\n' "agent.toml:1: 'command' is a string; it must be an array of strings"
bad_toml 'command = []\n' "agent.toml:1: 'command' is empty"
bad_toml 'command = ["ls", 3]\n' "agent.toml:1: item 2 of 'command' is an integer"
bad_toml '[restart]\npolicy = "sometimes"\n' "agent.toml:2: 'restart.policy' is 'sometimes'; it must be always, on-failure or never"
bad_toml '[restart]\nbackoff = "5s"\n' "agent.toml:2: 'restart.backoff' is '5s'; it must be MIN..MAX"
bad_toml '[restart]\nbackoff = "5s..1s"\n' 'its first time is longer'
bad_toml '[restart]\nmax = "5000/1m"\n' "agent.toml:2: 'restart.max' is 5000; it must be from 0 to 1000"
bad_toml '[quotas]\nmemory = "lots"\n' "agent.toml:2: 'quotas.memory' is 'lots'; it must be a size"
bad_toml '[quota]\n' "agent.toml:1: there is no setting 'quota'"
bad_toml 'object_storage = "here"\n' "agent.toml:1: 'object_storage' is no storage"
bad_toml 'name = "w"\nobject_storage = "s3://bucket/x"\n' "agent.toml:2: 'object_storage' is no storage: write sqlite:DIR"
bad_toml 'snapshot_storage = "sqlite:./y"\n' "agent.toml:1: 'snapshot_storage' is no storage of snapshots"
bad_toml 'name = "a"\nname = "b"\n' 'agent.toml:2'
run run --config missing.toml
want_failure 4 'missing.toml'
run run
want_failure 2 'which command'
run run --backoff 1s -- true
want_failure 2 "--backoff: 'restart.backoff' is '1s'"
want_true test ! -e .perdure

t run__a_folder_that_is_not_there_is_named
printf 'command = ["true"]\n[folders]\nwatch = ["nowhere"]\n' >agent.toml
run run --config agent.toml
want_failure 1 'nowhere'

t agents__status_and_tick_are_those_of_the_snapshot
mkdir snaps
run --agent two put k 1
cat >snaps/one.json <<'EOF'
{"agent_id":"one","tick_index":42,"timestamp":1706582400000,"status":"WAITING_FOR_EVENT","memory":{"short_term_history":[],"working_variables":{}},"event_queue_backup":[]}
EOF
run run --agent one --storage file:snaps -- true
run agents
want_out_like '^one  WAITING_FOR_EVENT +tick 42 +active 2024-01-30T02:40:00.000Z  ended  restarts 0$'
want_out_like '^two  - +tick - '
run agents --names
want_out_has two
echo '{' >snaps/one.json
run --json agents
want_code 0
want_out_like '"agent":"one","problem":"[^"]+","status":null,"tick":null'

t agents__a_password_is_never_noted
run run --agent w --storage redis://user:secret@127.0.0.1:1/0 --restart never -- true
want_code 0
want_true test -s .perdure/supervise/w.json
want_true sh -c '! grep -rq secret .perdure/supervise'
run doctor
want_out_unlike 'supervise'

finish
