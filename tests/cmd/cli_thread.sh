#!/bin/sh
# cli_thread.sh PERDURE: threads on the command line.
. "$(dirname "$0")/tap.sh"

rome='[{"op":"set","path":"/to","value":"Rome"}]'
trip() {
  run thread create trip --owner ada
  run thread append trip --expected-version 0 --run-id r1 --reason UserMessage --messages '[{"id":"m1","content":"To Rome!"}]' --patches "$rome"
}

t cli__thread_a_conversation_is_made_appended_to_and_read
run thread create trip --owner ada
want_code 0
want_line trip
run thread append trip --expected-version 0 --run-id r1 --reason UserMessage --messages '[{"id":"m1","content":"To Rome!"}]' --patches "$rome"
want_code 0
want_line 1
run thread state trip /to
want_line '"Rome"' # JSON in a pipe, as `get` prints it
run thread state trip
want_line '{"to":"Rome"}'
run log thread/trip
want_code 0
want_out_has 'UserMessage'
want_err_like "'thread/trip' is a ref"
cp "$out" by-word
run log --at thread/trip
want_true cmp -s "$out" by-word
run put thread/trip 'a key of that name'
run log thread/trip
want_out_unlike UserMessage
want_no_err
run --json thread state trip
want_line '{"state":{"to":"Rome"},"version":1}'
run --json thread state trip --version 0
want_line '{"state":{},"version":0}'
run thread messages trip
want_out_like '^m1'
run thread show trip
want_out_like '^  owner: ada$'
want_out_like '^  to: Rome$'
run --json thread log trip
want_out_has '"reason":"UserMessage"'
run thread list
want_out_like '^trip'

t cli__thread_the_slower_writer_is_told
trip
run thread append trip --expected-version 0 --run-id r2 --reason UserMessage
want_code 3
want_err_like "thread 'trip' is at version 1, expected 0"
run thread append trip --run-id r2 --reason UserMessage --patches '[{"op":"increment","path":"/to"}]'
want_failure 2 'patch'
run thread state trip
want_out_has 'Rome'
run thread show nothing
want_code 1
want_err_like "'nothing'"
run thread create ../x
want_code 2
run thread
want_failure 2 'needs a verb'

t cli__thread_forks_rewinds_and_blames
trip
run thread fork trip 0 other
want_line other
run --json thread state other
want_line '{"state":{},"version":0}'
run thread diff trip 0
want_out_like '^/to'
run --json thread blame trip /to
want_out_has '"run_id":"r1"'
want_out_has '"message_ids":["m1"]'
run thread rewind trip 0
want_code 0
run --json thread state trip
want_line '{"state":{},"version":0}'
run thread delete other
want_code 0
run thread show other
want_code 1

t cli__thread_a_run_waits_for_a_decision_and_finishes
trip
run thread begin trip --run-id r2 --messages '[{"id":"m2"}]'
want_line r2
run thread begin trip
want_code 3
run thread tool-begin trip c1 book --arguments '{"to":"Rome"}'
want_code 0
run thread tool-suspend trip c1 '"Pay?"'
want_code 0
run --json thread status trip
want_out_has '"status":"waiting"'
run thread tool-resume trip c1 d1
want_line 5
run thread tool-resume trip c1 d1
want_line 5
run thread tool-begin trip c1 book
run thread tool-end trip c1 --patches '[{"op":"set","path":"/booked","value":true}]'
want_code 0
run thread finish trip
want_line 8
run thread finish trip --run-id r2
want_line 8
run thread checkpoint trip UserMessage --run-id r2 --messages '[{"id":"m3"}]'
want_code 3
run thread state trip /booked
want_line true

t cli__mailbox_a_letter_is_claimed_and_accepted_once
run mailbox send trip '{"text":"hello"}' --dedupe-key web-1
want_line 1
run mailbox send trip '{"text":"hello"}' --dedupe-key web-1
want_line 1
run --json mailbox claim trip w1
want_out_has '"number":1'
token=$(sed -n 's/.*"token":"\([0-9a-f]*\)".*/\1/p' "$out")
run --json mailbox claim trip w2
want_out_has '"letters":[]'
run mailbox accept trip 1 00000000000000000000000000000000
want_code 3
run mailbox accept trip 1 "$token"
want_code 0
run mailbox list trip --status accepted
want_out_like '^1'
run mailbox cancel trip 1
want_code 3

t cli__thread_an_export_replays_elsewhere_to_the_same_commit
trip
run thread export trip
want_code 0
cp "$out" trip.ndjson
commit=$(sed -n 's/.*"kind":"end".*"commit":"\([0-9a-f]*\)".*/\1/p' trip.ndjson)
run --agent bob thread import trip.ndjson --dry-run
want_code 4
run --agent bob thread import trip.ndjson
want_code 0
want_line "$commit"
run --agent bob --json thread replay trip
want_out_has '"is_same":true'
want_out_has "\"commit\":\"$commit\""
run --agent bob thread import trip.ndjson
want_code 3
sed 's/Rome/Oslo/' trip.ndjson >forged.ndjson
run --agent eve thread import forged.ndjson
want_code 4
run --agent eve thread list
want_no_out
head -n 2 trip.ndjson | "$perdure" --agent eve thread import - 2>"$err"
want_true [ $? = 2 ]

finish
