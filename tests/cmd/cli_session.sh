#!/bin/sh
# cli_session.sh PERDURE: the server of a home that commands share: it is started when a session needs it, found by those that follow, and leaves.
. "$(dirname "$0")/tap.sh"

unset PERDURE_SESSION PERDURE_SERVER
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; end_servers; rm -rf "$tmp"' EXIT

# A home and a runtime folder of each test's own
begin() {
  export XDG_RUNTIME_DIR="$PWD/run"
  mkdir -m 700 run
  run put plan one
}
server_pid() { sed 's/ .*//' .perdure/.server.lock; }
count() { find run/perdure -name '*.sock' | wc -l; }
is_ended() { ! kill -0 "$1"; }
# How many of them were started for this home, as their command lines name it
servers() { pgrep -fc -- "--store sqlite:$PWD/.perdure serve"; }

t session__socket_and_folder_are_its_users_alone
begin
(umask 0 && "$perdure" session begin >id)
want_true [ "$(stat -c %a run/perdure)" = 700 ]
want_true [ "$(stat -c %a run/perdure/*.sock)" = 600 ]
want_true [ "$(stat -c %a .perdure/.server.lock)" = 600 ]
run session end "$(cat id)"
want_code 0

t session__two_that_start_at_once_get_one_server
begin
for i in 1 2 3 4; do "$perdure" session begin >"id$i" 2>"err$i" & done
wait
want_true [ "$(cat id1 id2 id3 id4 | sort -u | grep -c '^s-')" = 4 ]
want_true [ "$(servers)" = 1 ]
want_true [ "$(count)" = 1 ]
run session sessions
want_count 4

t session__the_server_leaves_when_the_last_session_has_ended
begin
run session begin
id=$(cat "$out")
pid=$(server_pid)
want_true kill -0 "$pid"
run session end "$id"
until_true is_ended "$pid"
want_true [ "$(count)" = 0 ]

t session__a_server_that_was_killed_is_told_of_once_and_replaced
begin
run session begin
id=$(cat "$out")
run session set draft 1 --session "$id"
run persistent set kept 1
want_code 0
kill -9 "$(server_pid)"
until_true is_ended "$(server_pid)"
want_true [ "$(count)" = 1 ]
run session get draft --session "$id"
want_code 1
want_err_like '^perdure: the server of this home was killed: the sessions that it kept are lost'
want_err_like "no session '$id'"
want_true [ "$(count)" = 0 ]
run persistent get kept
want_line 1
want_no_err
run session begin
want_out_like '^s-'
want_true [ "$(count)" = 1 ]

t session__a_socket_of_a_dead_process_is_replaced_by_the_next_start
begin
run session begin
kill -9 "$(server_pid)"
until_true is_ended "$(server_pid)"
run --quiet session begin
want_code 0
want_no_err
want_out_like '^s-'
run session sessions
want_count 1

# in_its_place: a server that takes one request and ends before it answers. Looking whether it is there is not a request.
in_its_place() {
  rm "$sock"
  python3 -c '
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
taken = s.accept()[0]
while not taken.recv(1): taken = s.accept()[0]
os.unlink(sys.argv[1])' "$sock" &
  until_true test -S "$sock"
}

t session__a_call_that_its_server_did_not_answer_is_not_made_twice
begin
run session begin
sock=$(find run/perdure -name '*.sock')
kill -9 "$(server_pid)"
until_true is_ended "$(server_pid)"
in_its_place
run persistent set k 1
want_failure 4 'ended before it answered: state.persistent.set may have been done'
wait
run persistent get k
want_code 1
touch "$sock"
in_its_place
run persistent list # what changes nothing is
want_code 0
want_no_err
wait

t session__serve_takes_over_from_an_idle_server_and_keeps_sessions_then
begin
run session begin
run session end "$(cat "$out")"
first=$(server_pid)
"$perdure" serve --listen 127.0.0.1:0 >told 2>log &
server=$!
until_true grep -q ' on http' told
until_true is_ended "$first"
run session begin
want_out_like '^s-'
want_true [ "$(server_pid)" = "$server" ]
want_true [ "$(servers)" = 0 ] # none was started besides
run session set k 1 --session "$(cat "$out")"
want_code 0
kill "$server"
wait "$server"
server=
want_true [ "$(count)" = 0 ]

t session__serve_is_refused_while_a_session_is_kept_and_the_error_names_the_process
begin
run session begin
run serve --listen 127.0.0.1:0
want_failure 3 "served already, by process $(server_pid), which keeps a session"
run session sessions
want_count 1

t session__another_runtime_folder_names_the_process_that_has_the_home
begin
run session begin
mkdir -m 700 other
XDG_RUNTIME_DIR=$PWD/other run session begin
want_failure 4 "served already, by process $(server_pid)"

t session__settings_of_a_server_do_not_make_it_listen
begin
printf '[server]\nlisten = "127.0.0.1:1"\nsocket = "%s/public.sock"\ntls_cert = "no.pem"\ntls_key = "no.pem"\n' "$PWD" >.perdure/perdure.toml
run session begin
want_out_like '^s-'
want_true [ ! -e public.sock ]

t session__a_home_that_cannot_be_opened_says_why
begin
printf 'what is this\n' >.perdure/perdure.toml
run session begin
want_failure 4 'the server of this home did not start: .*perdure\.toml:1'
want_true [ "$(count)" = 0 ]

t session__a_passphrase_is_in_no_command_line_and_no_environment
begin
(umask 077 && echo 'correct horse battery' >pass)
run vault init --passphrase-file pass
CREDENTIALS_DIRECTORY=$PWD/none PERDURE_TOKEN=pd_secret run vault unlock --passphrase-file pass
want_out_like '^unlocked'
pid=$(server_pid)
for secret in horse PERDURE_TOKEN CREDENTIALS_DIRECTORY; do
  want_true [ "$(cat "/proc/$pid/cmdline" "/proc/$pid/environ" | tr '\0' '\n' | grep -c "$secret")" = 0 ]
done
run vault lock

t session__a_server_keeps_no_file_of_the_command_that_started_it
begin
"$perdure" session begin 8>other >"$out"
want_true [ "$(find "/proc/$(server_pid)/fd" -lname "$PWD/other" | wc -l)" = 0 ]

t session__a_local_server_has_no_other_address
begin
run serve --local --listen 127.0.0.1:0
want_failure 2 'local does not go with'
run --store memory: serve --local
want_code 2

finish
