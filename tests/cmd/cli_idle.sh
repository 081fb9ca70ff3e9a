#!/bin/sh
# cli_idle.sh PERDURE: servers that stop when they are idle (serve --exit-idle).
. "$(dirname "$0")/tap.sh"

server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; wait; chmod -R u+rwx "$tmp" 2>/dev/null; rm -rf "$tmp"' EXIT

# serve ARGS…: a server of ./home on ./sock
serve() {
  rm -f told
  "$perdure" --store home serve --socket "$PWD/sock" "$@" >told 2>log &
  server=$!
  until_true is_up_or_gone
}
is_up_or_gone() { [ -s told ] || ! kill -0 "$server"; }
is_gone() { ! kill -0 "$server"; }
away() { "$perdure" --server "unix:$PWD/sock" "$@"; }

# wanted: it ends by itself, and well
want_end() {
  until_true is_gone
  wait "$server"
  code=$?
  want_code 0
  want_true [ ! -e sock ]
  server=
}
stop() {
  kill "$server"
  wait "$server"
  server=
}

t idle__a_server_without_anything_to_keep_stops_by_itself
serve --exit-idle 1s
want_true test -S sock
want_end
want_true grep -q stopping log

t idle__a_session_keeps_it_until_it_ends
serve --exit-idle 1s
session=$(away session begin)
sleep 2.5
want_true kill -0 "$server"
want_true [ "$(away session sessions | wc -l)" = 1 ]
away session end "$session" >/dev/null
want_end

t idle__an_unlocked_vault_keeps_it_until_it_is_locked
(umask 077 && echo 'correct horse battery' >pass)
run --store home init
run --store home vault init --passphrase-file pass
serve --exit-idle 1s
away vault unlock --passphrase-file pass >"$out"
want_out_like '^unlocked'
sleep 2.5
want_true kill -0 "$server"
away vault lock >"$out"
want_out_like '^locked'
want_end

t idle__a_vault_that_idles_out_keeps_it_no_longer
(umask 077 && echo 'correct horse battery' >pass)
run --store home init
run --store home vault init --passphrase-file pass
printf '[vault]\nidle = "2s"\n' >home/perdure.toml
serve --exit-idle 1s
away vault unlock --passphrase-file pass >"$out"
want_out_like '^unlocked'
want_end

t idle__a_watcher_keeps_it_until_it_leaves
serve --exit-idle 1s
away persistent set k 0 >/dev/null
"$perdure" --server "unix:$PWD/sock" watch --json >seen 2>watch.err &
watcher=$!
sleep 2.5
want_true kill -0 "$server"
away persistent set k 1 >/dev/null
until_true test -s seen
kill $watcher
wait $watcher 2>/dev/null
want_end

t idle__another_server_takes_over_from_an_idle_one
serve --exit-idle 1h
first=$server
"$perdure" --store home serve --listen 127.0.0.1:0 >told2 2>log2 &
second=$!
until_true grep -q ' on http' told2
want_true grep -q ' on http' told2
server=$first
want_end
server=$second
kill -USR1 "$server" # nobody asks a server without --exit-idle: it goes on
sleep 1.5
want_true kill -0 "$server"
stop

t idle__a_server_that_keeps_a_session_is_not_pushed_out_and_the_error_names_it
serve --exit-idle 1h
session=$(away session begin)
run --store home serve --listen 127.0.0.1:0
want_failure 3 "served already, by process $server, which keeps a session"
want_err_like '^hint: '
want_true [ "$(away session sessions)" != "" ]
stop

t idle__a_time_that_is_none_is_refused
for time in 0 -1 soon 400d; do
  run --store home serve --listen 127.0.0.1:0 --exit-idle "$time"
  want_code 2
  want_err_like 'exit-idle is a time'
done

finish
