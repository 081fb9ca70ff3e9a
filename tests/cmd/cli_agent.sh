#!/bin/sh
# cli_agent.sh PERDURE: a shell script as an agent that survives.
. "$(dirname "$0")/tap.sh"
unset PERDURE_STORAGE PERDURE_EPOCH
XDG_RUNTIME_DIR=$tmp
export XDG_RUNTIME_DIR

open() {
  PERDURE_EPOCH=$("$perdure" agent open 2>"$err")
  export PERDURE_EPOCH
}
tab=$(printf '\t')

t cli__agent_a_step_from_push_to_reply
open
want_true [ "$PERDURE_EPOCH" -gt 1000000000000 ]
want_err_like 'agent main is fresh'
run agent push '{"id":"7","type":"task"}'
want_code 0
want_line "queued${tab}7"
run agent push '{"type":"task","id":7}' --json
want_line '{"events":[{"event":"waiting","event_id":"7"}]}'
run agent next
want_code 0
want_line "new${tab}7${tab}"'{"id":"7","type":"task"}'
run agent commit --event 7 --set 'count=[ 1 ]' --set-text 'name=a=b' --say 'user=hi there' --message '{"role":"x"}' --status WORKING --reply-text done
want_code 0
want_line done
run agent next
want_code 1
want_no_out
run agent next --json
want_code 1
want_line '{"step":"none"}'
run agent show
want_out_has '"short_term_history":[{"role":"x"},{"role":"user","content":"hi there"}]'
want_out_has '"working_variables":{"count":[1],"name":"a=b"}'
want_out_has '"status":"WORKING"'
want_out_has '"event_queue_backup":[]'

t cli__agent_a_finished_event_is_not_worked_on_again
open
run agent commit --event '{"id":"1","payload":"x"}' --set count=1 --reply '{"n": 1}'
want_line '{"n":1}'
run agent commit --event 1 --set count=2 --reply '{"n":2}' --json
want_code 0
want_line '{"step":"seen","event_id":"1","tick_index":1,"reply":{"n":1}}'
run agent push '{"id":"1"}'
want_line "seen${tab}1"
run agent show
want_out_has '"working_variables":{"count":1}'

t cli__agent_a_reply_that_may_not_have_left_comes_first
open
run agent push '{"id":"1"}' '{"id":"2"}'
want_count 2
run agent commit --event 1 --reply-text one
open
want_err_like 'restored at tick 1, with 1 event waiting'
run agent next
want_line "seen${tab}1${tab}\"one\""
run agent next --json
want_line '{"step":"seen","event_id":"1","tick_index":1,"reply":"one"}'
run agent sent 1
want_code 0
want_no_out
run agent sent 1
want_failure 1 "no reply to event '1'"
run agent next
want_line "new${tab}2${tab}"'{"id":"2"}'

t cli__agent_effects_are_intended_done_or_unknown
open
run agent push '{"id":"7"}'
run agent effect intend mail-7 '{"to":"anna"}' --event 7
want_line intended
run agent effect intend mail-7 --event 7
want_line unknown
open
want_err_like '1 effects may have happened'
run agent effect intend mail-7 --event 7 --json
want_out_like '^\{"id":"mail-7","state":"unknown","event_id":"7","epoch":[0-9]+,"what":\{"to":"anna"\}\}$'
run agent effect list
want_line "mail-7${tab}unknown${tab}7${tab}"'{"to":"anna"}'
run agent effect retract mail-7
want_code 0
run agent effect get mail-7
want_failure 1 "intended no effect 'mail-7'"
run agent effect intend mail-7 --event 7
want_line intended
run agent effect done mail-7 '"sent"'
want_line "done${tab}\"sent\""
run agent effect intend mail-7 --event 7
want_line "done${tab}\"sent\""
run agent commit --event 7
want_code 0
want_no_out
run agent effect intend other --event 7
want_failure 3 "the step of event '7' is finished"
run agent effect list --json
want_out_has '"effects":[{"id":"mail-7","state":"done"'

t cli__agent_who_was_taken_over_is_refused
open
run agent push '{"id":"1"}'
old=$PERDURE_EPOCH
open
new=$PERDURE_EPOCH
PERDURE_EPOCH=$old
run agent commit --event 1 --set count=1
want_failure 3 "held by epoch $new now, not by $old"
want_err_like 'this one should end'
run agent next --json
want_code 3
want_err_like '"code":"AgentFenced"'
want_err_like '"recovery":\[\{"action":"stop"'
run agent push --epoch "$new" '{"id":"2"}'
want_code 0
run agent show
want_out_has '"working_variables":{}'

t cli__agent_calls_of_one_life_wait_for_each_other
open
for i in 1 2 3 4; do
  (for k in 1 2 3 4 5; do "$perdure" agent push "{\"id\":\"$i.$k\"}" >/dev/null || echo "$i.$k" >>lost; done) &
done
wait
want_true [ ! -e lost ]
run agent status --json
want_out_has '"events":20,'

t cli__agent_lives_in_any_storage
for storage in file:snapshots sqlite-snapshots:snapshots.db perdure:sqlite:home; do
  PERDURE_STORAGE=$storage
  export PERDURE_STORAGE
  open
  run --agent worker agent push '{}' --epoch 1
  want_failure 3 'nobody has opened'
  PERDURE_EPOCH=$("$perdure" --agent worker agent open 2>"$err")
  run --agent worker agent push '{"id":"1"}'
  want_code 0
  run --agent worker agent commit --event 1 --reply 5
  want_line 5
  run --agent worker agent status
  want_code 0
  want_out_like '^tick +1, saved 20'
  want_out_like '^durability power: '
done
unset PERDURE_STORAGE
want_true [ -f snapshots/worker.json ]
run --agent worker agent ticks --storage perdure:sqlite:home
want_count 2
want_out_like "^1${tab}20.*Z${tab}[0-9a-f]{64}\$"
run --agent worker agent show --storage perdure:sqlite:home --tick 0
want_out_has '"event_queue_backup":[{"id":"1"}]'
run --agent worker agent ticks --storage file:snapshots
want_failure 2 'keeps only the latest'
run --agent worker agent show --storage perdure:sqlite:home --tick 9
want_failure 1 'no snapshot of tick 9'

t cli__agent_a_snapshot_of_another_program_is_processed_once
for storage in file:lit sqlite-snapshots:lit.db; do
  PERDURE_STORAGE=$storage
  export PERDURE_STORAGE
  mkdir -p lit
  literal='{"agent_id":"worker_008","tick_index":42,"timestamp":1706582400000,"status":"WAITING_FOR_EVENT","memory":{"short_term_history":[],"working_variables":{}},"event_queue_backup":[{"source":"mcp","type":"task","payload":"pay invoice 17"}]}'
  PERDURE_EPOCH=$("$perdure" --agent worker_008 agent open 2>"$err")
  if [ $storage = file:lit ]; then
    printf '%s\n' "$literal" >lit/worker_008.json
  else
    python3 -c 'import sqlite3, sys; db = sqlite3.connect("lit.db"); db.execute("INSERT INTO agent_snapshots VALUES(?,42,1,?,?)", ("worker_008", "s", sys.argv[1])); db.commit()' "$literal"
  fi
  run --agent worker_008 agent next
  want_code 0
  want_out_has 'pay invoice 17'
  id=$(cut -f 2 "$out")
  run --agent worker_008 agent commit --event "$id" --reply '"paid"'
  want_line paid
  run --agent worker_008 agent next
  want_code 1
  run --agent worker_008 agent status --json
  want_out_has '"tick_index":43,'
  want_out_has '"events":0,'
done
unset PERDURE_STORAGE

t cli__agent_a_look_makes_nothing
for storage in file:none/there sqlite-snapshots:none/there.db perdure:sqlite:none; do
  run agent status --storage $storage
  want_code 1
  run agent show --storage $storage
  want_code 1
  run agent effect list --storage $storage
  want_code 0
  want_true [ ! -e none ]
done

t cli__agent_delete_says_what_goes_and_ends_the_life
open
run agent commit --event 1
run agent delete --dry-run
want_code 0
want_out_like '^would delete the snapshot of agent main: tick 1'
run agent status
want_code 0
run agent delete --json
want_line '{"agent":"main","deleted":true,"tick_index":1}'
run agent status
want_code 1
want_line 'agent main: nothing is stored'
run agent delete
want_failure 1 "no snapshot of agent 'main'"
run agent push '{}'
want_failure 3 "now, not by $PERDURE_EPOCH"
open
run agent commit --event 1
want_code 0

t cli__agent_what_is_wrong_is_named
unset PERDURE_EPOCH
run agent push '{}'
want_failure 2 'under which epoch'
want_err_like 'perdure agent open'
open
run agent
want_code 2
run agent dance
want_failure 2 "'dance' is none of"
run agent push
want_failure 2 'which event'
run agent push '[]'
want_failure 2 'of type array'
run agent push '{"id":""}'
want_failure 2 "'id' is none"
run agent commit
want_failure 2 'of which event'
run agent commit --event 1 --set count
want_failure 2 "has no '='"
run agent commit --event 1 --set 'count={'
want_failure 2 'no sound JSON'
run agent commit --event 1 --reply 1 --reply-text 1
want_failure 2 'not both'
run agent commit --event 1 --tick 3
want_failure 2 '\-\-tick does not go with it'
run agent next --epoch none
want_code 2
run agent effect intend
want_failure 2 'which one'
run agent effect dance x
want_failure 2 "'dance' is none of"
run agent show --storage nowhere:x
want_failure 2 "unknown storage scheme 'nowhere'"
run agent show
want_failure 1 "no snapshot of agent 'main'"

t cli__agent_a_foreign_snapshot_is_left_alone
mkdir data && echo '{"name":"package"}' >data/main.json
run agent open --storage file:data
want_failure 4 'data/main.json'
want_true [ "$(cat data/main.json)" = '{"name":"package"}' ]
run agent delete --storage file:data
want_code 0
want_out_has 'which is not sound'
want_true [ ! -e data/main.json ]

t cli__agent_values_come_from_files_and_standard_input
open
echo '{"id":"1"}' >event.json
run agent push @event.json
want_line "queued${tab}1"
run_with '{"big":[1,2]}' agent commit --event 1 --reply -
want_line '{"big":[1,2]}'

# The agent of the guide: killed at every call in turn, it ends with every event counted once and every reply sent.
t cli__agent_a_script_that_is_killed_again_and_again_finishes
cat >agent.sh <<'END'
PERDURE_EPOCH=$("$1" agent open --quiet) || exit 1
export PERDURE_EPOCH
calls=0
call() {
  calls=$((calls + 1))
  "$perdure" agent "$@"
  code=$?
  [ "$calls" != "$dies_at" ] || kill -9 $$
  return $code
}
perdure=$1 dies_at=$2
while call next >step; do
  IFS="$(printf '\t')" read -r kind id rest <step
  case $kind in
  new)
    n=$("$perdure" agent show | sed -n 's/.*"count":\([0-9]*\).*/\1/p')
    call commit --event "$id" --set count=$((${n:-0} + 1)) --reply "\"$id\"" >reply || exit 1
    cat reply >>replies
    ;;
  seen)
    echo "$rest" | tr -d '"' >>replies
    call sent "$id" || exit 1
    ;;
  esac
done
END
open
run agent push '{"id":"1"}' '{"id":"2"}' '{"id":"3"}'
for dies_at in 1 2 3 1 2 2 5 0; do sh agent.sh "$perdure" $dies_at 2>/dev/null; done
run agent show
want_out_has '"count":3'
want_true [ "$(sort -u replies | tr '\n' ' ')" = "1 2 3 " ]

finish
