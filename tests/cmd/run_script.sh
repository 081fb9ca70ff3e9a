#!/bin/sh
# run_script.sh PERDURE RUN: what `make run` starts: it serves, tells how, stays until Ctrl-C, and the state is there the next time.
. "$(dirname "$0")/tap.sh"
script=$(realpath "$2")

pid=
trap '[ -z "$pid" ] || kill "$pid"; wait; rm -rf "$tmp"' EXIT
# start NAME=VALUE…: the script with these variables, as a terminal would: SIGINT is not ignored
start() {
  : >"$out"
  env --default-signal=INT HOME_DIR=home PORT=0 "$@" "$script" "$perdure" >"$out" 2>"$err" </dev/null &
  pid=$!
  until_true grep -q 'Ctrl-C ends it' "$out"
}
stop() {
  kill -"$1" "$pid"
  wait "$pid"
  code=$?
  pid=
}
link() { sed -n 's/^In a browser *//p' "$out"; }
get() { curl -s -w ' %{http_code}' -H "Authorization: Bearer $1" "$2v1/agents/writer/state/$3"; }

t run__serves_until_ctrl_c_and_keeps_the_state
start
url=$(link)
token=${url#*#token=}
url=${url%%#*}
want_out_has "perdure serves $PWD/home on ${url%/}"
want_true [ "$(curl -s -o /dev/null -w '%{http_code}' "$(link)")" = 200 ]
sed -n 's/^In a shell *//p' "$out" >lines # the lines that are to be typed
sed -n 's/^ \{16\}\(curl .*\)/\1/p' "$out" >curls
want_true [ "$(wc -l <curls)" -ge 7 ]
cat lines curls >typed
sh ./typed >answers 2>/dev/null
want_true grep -q '"version":2,"previous_version":1}' answers
want_true grep -q VersionConflict answers
want_true grep -q 'event: put' answers
want_true [ "$(get "$token" "$url" plan)" = '{"step":2} 200' ]
stop INT
want_code 0
want_err_like 'stopped$'
run --store home token list
want_no_out
start
old=$token
url=$(link)
token=${url#*#token=}
url=${url%%#*}
want_true [ "$(get "$token" "$url" plan)" = '{"step":2} 200' ]
case $(get "$old" "$url" plan) in *401) ;; *) bad "the old link is good still" ;; esac
stop TERM
want_code 0

t run__takes_another_port_if_one_is_taken_and_says_so
"$perdure" serve --no-auth --home other --listen 127.0.0.1:0 >told 2>/dev/null &
other=$!
until_true grep -q http told
port=$(sed 's/.*://' told)
start PORT="$port"
want_err_like "port $port is taken"
case $(link) in http://127.0.0.1:"$port"/*) bad "the port of another" ;; http://127.0.0.1:*/'#token=pd_'*) ;; *) bad "no link" ;; esac
stop INT
want_code 0
kill "$other"
wait "$other"

t run__fails_as_the_server_does
"$perdure" serve --no-auth --home home --listen 127.0.0.1:0 >told 2>/dev/null &
other=$!
until_true grep -q http told
HOME_DIR=home PORT=0 "$script" "$perdure" >"$out" 2>"$err" </dev/null
code=$?
want_true [ "$code" != 0 ]
want_err_like 'is served already, by process'
want_no_out
kill "$other"
wait "$other"
PORT=http "$script" "$perdure" >"$out" 2>"$err" </dev/null
code=$?
want_code 2
want_err_like 'PORT is a number'

t run__under_make_ctrl_c_is_no_error
if ! command -v script >/dev/null || ! command -v make >/dev/null; then
  skip "no script or make here"
else
  printf 'run:\n\t@HOME_DIR=home PORT=0 %s %s\n' "$script" "$perdure" >Makefile
  mkfifo keys
  env --default-signal=INT script -qefc 'make run' typescript <keys >/dev/null 2>&1 &
  pid=$!
  exec 9>keys
  until_true grep -q 'Ctrl-C ends it' typescript
  printf '\003' >&9
  wait "$pid"
  code=$?
  pid=
  exec 9>&-
  want_code 0
  cp typescript "$out"
  want_out_like 'stopped'
  want_out_unlike 'make: |Error|Interrupt'
fi

finish
