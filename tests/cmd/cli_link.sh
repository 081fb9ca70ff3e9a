#!/bin/sh
# cli_link.sh PERDURE: `serve --link`: the link, its token, and what becomes of it.
. "$(dirname "$0")/tap.sh"

server=
# start ARGS…: serve ./home on a free port; what it printed is in $told, its log in $log
start() {
  told=$tmp/told log=$tmp/log
  : >"$told" : >"$log"
  "$perdure" serve --home home --listen 127.0.0.1:0 "$@" >"$told" 2>"$log" &
  server=$!
  until_true is_up_or_gone && grep -q http: "$told"
}
is_up_or_gone() { grep -q http: "$told" || ! kill -0 "$server"; }
stop() {
  kill -"${1:-TERM}" "$server"
  wait "$server"
  code=$?
  server=
}
trap '[ -z "$server" ] || kill -9 "$server"; rm -rf "$tmp"' EXIT
member() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" "$told"; }
# the status of a call with a token
status_of() { curl -s -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $1" --json '{}' "$2/v1/call/tokens.list"; }
want_status() { [ "$3" = "$(status_of "$1" "$2")" ] || bad "not $3 but $(status_of "$1" "$2")"; }

t serve__link_opens_the_page_with_a_token_that_is_the_operators
start --link --log-level debug || bad "it did not start"
link=$(sed -n 's/^open //p' "$told")
url=${link%%#*}
token=${link#*#token=}
case $link in http://127.0.0.1:*/'#token='pd_*) ;; *) bad "no link: $link" ;; esac
want_true [ "$(curl -s -o "$out" -w '%{http_code}' "$link")" = 200 ]
want_out_has '<!doctype html>'
want_status "$token" "${url%/}" 200
run --store home token list
want_count 1
want_out_like '^[0-9a-f]{16} operator .*perdure serve --link, process [0-9]+$'
cp "$log" "$out"
want_out_has '"path":"/"'
want_out_unlike 'pd_'
stop
want_code 0
run --store home token list
want_no_out

t serve__link_as_json_for_programs
start --link --json
want_true [ "$(wc -l <"$told")" = 1 ]
case $(member link) in "$(sed -n 's/.*"addresses":\["\([^"]*\)"\].*/\1/p' "$told")/#token=$(member token)") ;; *) bad "not the link of the address" ;; esac
want_status "$(member token)" "$(sed -n 's/.*"addresses":\["\([^"]*\)"\].*/\1/p' "$told")" 200
case $(member token) in pd_"$(member token_id)"_*) ;; *) bad "not the id of the token" ;; esac
want_true [ -n "$(member expires_at)" ]
stop INT
want_code 0

t serve__without_link_there_is_no_token
start
cp "$told" "$out"
want_count 1
run --store home token list
want_no_out
stop

t serve__link_without_authentication_has_no_token
start --link --no-auth
cp "$told" "$out"
want_out_like '^open http://127.0.0.1:[0-9]+/$'
want_out_unlike token
run --store home token list
want_no_out
stop
want_code 0

t serve__the_link_of_a_server_that_was_killed_is_worthless_after_the_next_start
start --link --json
old=$(member token)
run --store home token create --role operator --label 'the other operator'
kept=$(cat "$out")
stop KILL 2>/dev/null
run --store home token list
want_count 2
start --link --json
url=$(sed -n 's/.*"addresses":\["\([^"]*\)"\].*/\1/p' "$told")
want_status "$old" "$url" 401
want_status "$kept" "$url" 200
want_status "$(member token)" "$url" 200
run --store home token list
want_count 2
stop
run --store home token list
want_count 1
want_out_has 'the other operator'

t serve__the_link_of_a_server_that_was_killed_is_found_among_many_tokens
begins_late() { case $(member token_id) in [89a-f]*) ;; *) false ;; esac; }
start --link --json
while ! begins_late; do stop; start --link --json; done
old=$(member token)
url=$(sed -n 's/.*"addresses":\["\([^"]*\)"\].*/\1/p' "$told")
for _ in $(seq 400); do # of which more than a page sort before the link's
  printf 'next\nurl = "%s/v1/call/tokens.create"\nheader = "Authorization: Bearer %s"\njson = "{\\"role\\":\\"agent\\",\\"agent\\":\\"a\\"}"\noutput = /dev/null\n' "$url" "$old"
done | sed 1d >many # no "next" before the first
curl -s -K many || bad "curl $?"
stop KILL 2>/dev/null
run --store home token list
want_true [ "$(awk -v id="${old#pd_}" 'substr($1, 1, 16) < substr(id, 1, 16)' "$out" | wc -l)" -gt 100 ]
start --link --json
url=$(sed -n 's/.*"addresses":\["\([^"]*\)"\].*/\1/p' "$told")
want_status "$old" "$url" 401
stop

t serve__a_link_lasts_as_long_as_was_asked_for
start --link --link-ttl 1s --json
url=$(sed -n 's/.*"addresses":\["\([^"]*\)"\].*/\1/p' "$told")
is_refused() { [ "$(status_of "$(member token)" "$url")" = 401 ]; }
until_true is_refused
stop
want_code 0

t serve__link_refuses_what_it_cannot_do
run serve --link --socket s --home home
want_failure 2 'a link needs a TCP address'
run serve --link-ttl 1h --home home
want_failure 2 'link-ttl goes with --link'
for ttl in 0 '' 1y 31d -1h; do
  run serve --link --link-ttl "$ttl" --home home --listen 127.0.0.1:0
  want_failure 2 'link-ttl is a time'
done

finish
