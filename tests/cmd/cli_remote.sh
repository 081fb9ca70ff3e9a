#!/bin/sh
# cli_remote.sh PERDURE MAIN.C: the command line against a server. Every command of main.c's table is run twice, on a home and on a server
# of a home like it, and both have to say the same: standard output, standard error, exit code. What cannot be the same is made so: the
# home's name, times, random ids, and what files take on disk.
. "$(dirname "$0")/tap.sh"
main_c=$(realpath "$2")
umask 077
unset PERDURE_SERVER PERDURE_TOKEN PERDURE_REMOTE_TOKEN PERDURE_CA PERDURE_SESSION http_proxy https_proxy
export XDG_RUNTIME_DIR="$tmp/run"
mkdir -p "$XDG_RUNTIME_DIR"

pids=
stop_all() {
  for pid in $pids; do kill "$pid" 2>/dev/null; done
  for pid in $pids; do wait "$pid" 2>/dev/null; done
  pids=
}
trap 'stop_all; chmod -R u+rwx "$tmp" 2>/dev/null; rm -rf "$tmp"' EXIT

is_up_or_gone() { grep -q http "$folder/serve.out" || ! kill -0 "$pid"; }
# serve FOLDER ARGS…: a server of FOLDER/home, as `perdure --store sqlite:home` there; $url, $pid
serve() {
  folder=$1
  shift
  mkdir -p "$folder"
  (cd "$folder" && exec "$perdure" --store sqlite:home serve --listen 127.0.0.1:0 "$@" >serve.out 2>serve.err) &
  pid=$!
  pids="$pids $pid"
  until_true is_up_or_gone
  url=$(sed -n 's/.* on \(http.*\)/\1/p' "$folder/serve.out")
}

# what differs by nature, made the same; $1 is the file, $2 the home's name in it
plain() {
  sed -E -e "s|$2|HOME|g" \
    -e 's/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]+)?Z/TIME/g' -e 's/[0-9]{8}T[0-9]{6}Z/TIME/g' \
    -e 's/"(time_ms|made_ms|last_activity|uptime_ms|pid)":[0-9]+/"\1":N/g' \
    -e 's/"audit":"[0-9a-f]{64}"/"audit":"ID"/g' -e 's/apr-TIME-[0-9a-f]{16}/APPROVAL/g' -e 's/s-[0-9a-f]{32}/SESSION/g' -e 's/pd_[0-9a-f]{16}_[0-9a-f]{64}/TOKEN/g' \
    "$1"
}

# the command among the arguments
note_command() {
  while :; do
    case $1 in
    --agent) shift 2 ;;
    -*) shift ;;
    *) break ;;
    esac
  done
  covered="$covered $1 "
}

# each FOLDER ARGS…: @@ in an argument is what FOLDER/id holds (keep)
each() {
  folder=$1
  shift
  [ -f "$folder/id" ] || : >"$folder/id"
  for word; do
    shift
    case $word in *@@*) word=${word%%@@*}$(cat "$folder/id")${word#*@@} ;; esac
    set -- "$@" "$word"
  done
  cd "$folder" && if [ "$folder" = local ]; then
    "$perdure" --store sqlite:home "$@"
  else
    "$perdure" --server "$url" --token-file "$token" "$@"
  fi
}

# same ARGS…: on the home in local/, and on the server of the one in far/
same() {
  note_command "$@"
  (each local "$@") >"$tmp/l.out" 2>"$tmp/l.err" <"$input"
  l=$?
  (each far "$@") >"$out" 2>"$err" <"$input"
  code=$?
  plain "$tmp/l.out" sqlite:home >"$tmp/l.out.plain"
  plain "$tmp/l.err" sqlite:home >"$tmp/l.err.plain"
  plain "$out" "$url" | sed 's|sqlite:home|HOME|g' | eval "${filter:-cat}" >"$tmp/r.out.plain"
  plain "$err" "$url" | sed 's|sqlite:home|HOME|g' | eval "${filter:-cat}" >"$tmp/r.err.plain"
  eval "${filter:-cat}" <"$tmp/l.out.plain" >"$tmp/l.out.fit"
  eval "${filter:-cat}" <"$tmp/l.err.plain" >"$tmp/l.err.fit"
  [ "$l" = "$code" ] || bad "$*: exit code $code against the server, $l without"
  cmp -s "$tmp/l.out.fit" "$tmp/r.out.plain" || { bad "$*: another standard output"; diff "$tmp/l.out.fit" "$tmp/r.out.plain" | head -8 | sed 's/^/#   /'; }
  cmp -s "$tmp/l.err.fit" "$tmp/r.err.plain" || { bad "$*: another standard error"; diff "$tmp/l.err.fit" "$tmp/r.err.plain" | head -8 | sed 's/^/#   /'; }
}
# keep PATTERN: what the last command printed like it, on each side, is @@ from now on
keep() {
  grep -Eo -- "$1" "$tmp/l.out" | head -n 1 >local/id
  grep -Eo -- "$1" "$out" | head -n 1 >far/id
  [ -s local/id ] && [ -s far/id ] || bad "nothing like $1"
}
same_code() {
  want=$1
  shift
  same "$@"
  want_code "$want"
}
# with what the first argument prints on standard input
same_with() {
  printf '%s' "$1" >"$tmp/input"
  shift
  input=$tmp/input same "$@"
}

# both FOLDERs with a home each, and a server
begin() {
  t "$1"
  stop_all
  mkdir local far
  for side in local far; do # a store that a server makes has settings of the home in its log
    (cd $side && for agent in seed main; do "$perdure" --store sqlite:home --agent $agent init -q; done)
  done
  serve "$PWD/far" --socket "$tmp/$count.sock" --log-level debug
  token=$PWD/token
  (cd far && "$perdure" --store sqlite:home token create --role operator 2>/dev/null) >"$token"
  (cd local && "$perdure" --store sqlite:home token create --role operator >/dev/null 2>&1)
  who=
}
input=/dev/null
filter=
who=
covered=

begin remote__state_and_history_are_the_same
same_code 4 --agent nobody get a
same_code 4 --agent nobody log
same_code 4 --agent nobody del a
same --agent new init
same --agent new init
same --agent new --json init
same --json put a 1
same put b '{"x":[1,2]}'
same put a 2 --reason why
same_with 'three' put c -
same_code 3 put a 9 --expect 1
same_code 1 get nope
for c in "get a" "get b --json" "get a --at main~1" "has a" "has nope" "ls" "--json ls" "log" "--json log" "log --graph" "history a" "show" \
  "--json show main~1" "diff main~2 main" "undo" "redo" "reset main~1" "undo" "refs" "fork side" "switch side" "put s 1" "switch main" \
  "--json refs" "merge side" "del c" "del nope" "blame b" "--json blame b"; do
  same $c
done
same_with '{"op":"put","key":"n","value":1}
{"op":"get","key":"n"}
{"op":"commit","ops":[{"op":"put","key":"x","value":1},{"op":"delete","key":"n"}]}
no json
{"op":"get","key":"gone"}
{"op":"call","capability":"state.persistent.get","input":{"key":"x"}}
' batch

begin remote__a_command_is_one_request
requests() { grep -c '"message":"request"' far/serve.err; }
until_logged() { [ "$(requests)" -gt "$before" ]; }
for c in "put a 1" "put a 2 --expect 1" "get a" "--json get a" "has a" "ls" "--json ls" "log" "--json log" "log a" "log --graph" "history a" "show -p" "diff main~1" "blame a" \
  "fork side" "refs" "switch side" "put s 1" "switch main" "merge side" "undo" "redo" "reset main~1" "cherry-pick side" "revert main" "tag t" "tag" "pin main" "pin" "del a" \
  "stats" "init" "verify" "--json verify --since main~1" "settings" "settings merge.rule.n/ counter" "settings merge.rule.n/" "link m-1" "resolve m-1" "messages" "messages --before m-1" \
  "prove s -o s.proof" "du" "repair --dry-run" "gc --dry-run" "gc --auto" "erase s --everywhere --dry-run" "export --all all.bundle" "import all.bundle --as theirs" "watch --from 1 --timeout 0" \
  "agents --names"; do
  before=$(requests)
  (each far $c) >/dev/null 2>"$err" || [ "${c%% *}" = diff ] || bad "$c: $(cat "$err")"
  until_true until_logged
  want_true [ "$(requests)" = "$((before + 1))" ]
done

begin remote__capabilities_are_the_same
same_code 4 --agent nobody stats
for c in "persistent set k 1" "persistent get k" "--json persistent get k" "persistent get nope" "persistent list" "persistent history k" \
  "shared set m 2 --expected-version 0" "shared get m" "--json shared list" "call state.persistent.get --key k" "call nope" "capabilities" \
  "--json capabilities state.persistent.get" "queue send main hello" "queue receive" "alerts list" "--agent fresh briefing" \
  "thread list" "mailbox list main" "work list" "approvals list" "policy list" "agents" "agents --names"; do
  same $c
done

sizes='sed -E "s/[0-9]+(\.[0-9]+)? (B|KiB|MiB)/SIZE/g; s/ +/ /g; s/\"(disk|overhead|disk_before|disk_after|[a-z]+_bytes)\":[0-9]+/\"\1\":N/g"'

begin remote__names_links_and_settings_are_the_same
for c in "put plan 1" "put plan 2" "put other x" "tag first main~1" "tag" "--json tag" "get plan --at first" "tag -d first" "tag -d first" \
  "pin main~1 --reason case" "pin" "--json pin" "pin -d main~1" "link msg-1 --session ses-1" "put plan 3" "link msg-2 --session ses-1 --parent msg-1" \
  "resolve msg-1" "--json resolve msg-1 --values" "resolve nope" "messages" "--json messages --session ses-1" "get plan --at message:msg-1" \
  "settings" "settings merge.rule.counters/ counter" "--json settings" "settings merge.rule.counters/ --unset" "settings nope 1" \
  "fork side" "put s 1 --ref side" "cherry-pick side" "revert main~1" "revert main~1 --dry-run" "merge side" "log --oneline" \
  "bisect plan --good root --bad main -- grep -q 1" "switch nope" "reset nope" "diff nope main" "show nope"; do
  same $c
done
filter=$sizes
same stats
same --json stats
same du
same --json du

begin remote__care_is_the_same
for c in "put a 1" "put a 2" "put big @big" "put a 3" "put secret 42" "del secret"; do
  [ -f local/big ] || { head -c 300000 /dev/zero | tr '\0' 'x' >local/big; cp local/big far/big; }
  same $c
done
filter=$sizes
for c in "verify" "--json verify" "repair --dry-run" "repair" "gc --dry-run" "--json gc --dry-run" "erase secret --everywhere --dry-run" \
  "erase secret --everywhere" "get secret --at main~1" "gc --keep-last 1" "--json gc --keep-last 1" "log" "get a --at main~2" "verify" "repair --dry-run" "get big"; do
  same $c
done
filter='sed -E "s/(system|main|seed).*(gc|journal|write-ahead|lock).*/\1/; s/, [0-9]+ MiB free.*//; s/(there is space: )[0-9]+/\1N/"'
same doctor
same --json doctor

begin remote__proofs_and_signatures_are_the_same
filter='sed -E "s#[A-Za-z0-9+/]{40,}=*#KEY#g; s/\"(signature|key|audit)\":\"[^\"]*\"/\"\1\":X/g; s/[0-9a-f]{64}/ID/g"'
same_code 4 keygen --public
same_code 4 sign
for c in "put plan 1" "prove plan -o plan.proof" "check-proof plan.proof --key plan" "prove nope -o no.proof" "check-proof no.proof" "keygen" "keygen" \
  "keygen --public" "--json keygen --public" "keygen --public --pem" "sign -o head.json" "sign --no-keep" "sign main" "sign nope"; do
  same $c
done
for side in local far; do (each $side keygen --public) >$side/home.pub; done
same verify --key home.pub --head head.json
same --json verify --key home.pub

begin remote__bundles_are_the_same
filter='sed -E "s/ in [0-9]+ bytes/ in N bytes/; s/[0-9a-f]{64}/ID/g; s/\"(audit)\":\"[^\"]*\"/\"\1\":X/g; s/^(Record: #)[0-9]+/\1N/"' # what is compressed has ids and times in it, and a store that a server makes has the home'"'"'s rules in its log
for c in "put a 1" "fork side" "put b 2 --ref side" "export --all all.bundle" "--agent twin import all.bundle" "--agent twin log" \
  "--agent twin import all.bundle" "--agent copy clone sqlite:home --remote-agent main" "--agent copy get a" "--agent copy put c 3" \
  "--agent copy push" "log" "put d 4" "--agent copy pull" "--agent copy log" "--agent copy push --remote sqlite:elsewhere" "import nope.bundle"; do
  same $c
done
t remote__stores_of_a_server_are_pushed_to_and_cloned_from
PERDURE_TOKEN=$(cat "$token")
export PERDURE_TOKEN
run --store sqlite:here clone "$url"
want_code 0
run --store sqlite:here get a
want_out 1
run --store sqlite:here put e 5
run --store sqlite:here push # the remembered place is not named here: PERDURE_TOKEN is not sent to it
want_failure 6 'no token'
want_err_like "^hint: no token was sent to $url: .*--remote-token-file"
PERDURE_SERVER=$url run --store sqlite:here push
want_code 0
run --server "$url" get e
want_out 5
run --store sqlite:here put f 6
unset PERDURE_TOKEN
PERDURE_REMOTE_TOKEN=$(cat "$token") run --store sqlite:here push
want_code 0
run --server "$url" --token-file "$token" get f
want_out 6

t remote__a_token_goes_to_its_own_server_alone
one=$url
one_token=$token
two_token=$tmp/two.token
copy=$tmp/copy-of-two
serve "$tmp/second"
two=$url
(cd "$tmp/second" && "$perdure" --store sqlite:home token create --role operator 2>/dev/null) >"$two_token"
"$perdure" --server "$two" --token-file "$two_token" put there 1 >/dev/null 2>&1
for c in push pull; do
  PERDURE_TOKEN=$(cat "$one_token") run --server "$one" $c --remote "$two"
  want_failure 6 'no token' # one that came would be wrong, not missing
  want_err_like "^hint: no token was sent to $two: .*--remote-token-file"
  run --server "$one" --token-file "$one_token" $c --remote "$two"
  want_failure 6 'no token'
done
run --server "$one" --token-file "$one_token" --agent new clone "$two" --remote-agent main
want_failure 6 'no token'
PERDURE_SERVER=$one PERDURE_TOKEN=$(cat "$one_token") run --server "$two" get there
want_failure 6 'no token'
want_err_like "^hint: no token was sent to $two: PERDURE_TOKEN is for PERDURE_SERVER"
run --store sqlite:own put a 1
PERDURE_SERVER=$one PERDURE_TOKEN=$(cat "$one_token") run --store sqlite:own push --remote "$two"
want_failure 6 'no token'
run --server "$two" --token-file "$one_token" get there # so it would have said, had the token come
want_failure 6 'token'
want_true [ "$(grep -c 'no token' "$err")" = 0 ]

t remote__the_other_server_has_a_token_of_its_own
run --server "$one" --token-file "$one_token" --agent new clone "$two" --remote-agent main --remote-token-file "$two_token"
want_code 0
run --server "$one" --token-file "$one_token" --agent new get there
want_out 1
PERDURE_REMOTE_TOKEN=$(cat "$two_token") run --server "$one" --token-file "$one_token" --agent new push
want_code 0
run --server "$one" --token-file "$one_token" --agent new push --remote "$one" --remote-token-file "$two_token"
want_failure 2 'which has one token'
run --token-file "$two_token" clone "$two" "$copy"
want_code 0
run --store "sqlite:$copy" --token-file "$two_token" --agent fresh clone "sqlite:$copy" "$two" --remote-agent main
want_code 0

t remote__a_token_is_not_sent_where_others_can_listen
for u in http://192.0.2.1:7373 http://host.example; do
  run --server "$u" --token-file "$two_token" get a
  want_failure 6 "a token is not sent to $u.*--insecure-http"
  run --store "sqlite:$copy" --token-file "$two_token" push --remote "$u"
  want_failure 6 "a token is not sent to $u"
done
run --server http://no-such-host.invalid --token-file "$two_token" --insecure-http get a
want_failure 4 'does not answer'

begin remote__a_watch_tells_the_same
for c in "put a 1" "put b 2" "del a" "watch --from start --count 3" "--json watch --from start --count 3 --values" "watch --from start --timeout 1 zz" \
  "watch --from nonsense"; do
  same $c
done
t remote__a_watch_hears_of_what_others_write
(sleep 0.5; "$perdure" --server "$url" --token-file "$token" put later 1 >/dev/null 2>&1) &
run --server "$url" --token-file "$token" --json watch --count 1 --timeout 20
want_code 0
want_out_has '"key":"later"'

begin remote__agents_and_statestores_are_the_same
filter='sed -E "s/[0-9a-f]{64}/ID/g; s/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/UUID/g; s/\b[0-9]{13}\b/MS/g"'
for c in "statestore set a 1" "statestore get a" "statestore has a" "statestore list" "statestore delete a" "statestore get a" "--json statestore stats" \
  "statestore set x 1 --path file.json" "statestore list --path file.json" "statestore flush" "statestore clear a" \
  "agent open" "agent status" "agent show"; do
  same $c
done
same agent open
keep '[0-9]{13}'
for c in "agent push {\"id\":\"7\"} --epoch @@" "agent next --epoch @@" "agent ticks" "agent next --epoch 9" "agent next" \
  "agents" "agents --names" "--json agents" "work create title" "work list" "--json work list all" "work list nope"; do
  same $c
done

begin remote__threads_letters_snapshots_and_sessions_are_the_same
filter='sed -E "s/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/UUID/g; s/\"[a-z_]*_?(bytes|ms|size|hash|id)\":(\"[^\"]*\"|[0-9]+)/X/g; s/[0-9a-f]{16,64}/ID/g; s/^(snap.*\t)[0-9]+$/\1N/"'
for c in "--json thread list" "thread get nope" "mailbox send main hello" "mailbox list" "mailbox list main" "snapshot create" "snapshot list" "--json snapshot list" "snapshot load nope" \
  "folders watch /tmp/none-such" "folders list" "folders unwatch /tmp/none-such" "alerts list" "queue send other hello" "--agent other queue receive" \
  "session get k" "session begin"; do
  same $c
done
keep 's-[0-9a-f]{32}'
for c in "session set draft 1 --session @@" "session get draft --session @@" "session list --session @@" "session end --session @@" "session get draft --session @@"; do
  same $c
done

# How many lines and batches the audit has is a matter of moments: calls that are alike share a line, and what comes within 100 ms a batch.
begin remote__the_operators_commands_are_the_same
for side in local far; do printf '[server]\nheartbeat = "1s"\n' >$side/home/perdure.toml; done # a warning of `config`
for c in "shared set m 1 --expected-version 0" "backup create" "backup list" "backup create --operator" "approvals list" "--json approvals list" "policy" "policy list" \
  "policy check main state.shared.set billing" "audit -c state.shared.set" "audit --verify" "config" "--json config" "config session.quota" "config sesion.quota" \
  "token create --agent writer" "token create" "token list --agent writer" "capabilities state.shared.set"; do
  filter='sed -E "s/^[0-9a-f]{16}/TOKENID/; s/^anchor.*//; s/^(lines|batches|last) +[0-9]+/\1 N/"'
  same $c
done
filter='sed -E "s/[0-9a-f]{16}/TOKENID/"'
same --json token create --agent second
keep '"token_id":"[0-9a-f]{16}'
for side in local far; do sed -i 's/.*"//' $side/id; done
filter='sed -E "s/[0-9a-f]{16}/TOKENID/"'
same token rotate @@
same token revoke @@
same token revoke 0123456789abcdef
filter='sed -E "s/[0-9]+(\.[0-9]+)?( ?(B|KiB|MiB|GiB))?/N/g; s/ +/ /g"'
same health
same --json health

begin remote__the_vault_and_backups_are_the_same
for side in local far; do
  echo 'correct horse battery' >$side/pass
  echo 'another horse battery' >$side/new
done
filter='sed -E "s/[0-9]+ (bytes|B|KiB)/SIZE/g; s/TIME-[0-9a-f]{8}/TIME/g; s#/[^ ]*/(local|far)/##; s/bkp-TIME(-[0-9a-f]+)?/BACKUP/g; s/\"[a-z_]*(size|bytes)\":[0-9]+/X/g; s/(size|bytes): .*/X/; s/[0-9a-f]{64}/ID/g"'
for c in "vault status" "vault unlock --passphrase-file pass" "vault init --passphrase-file pass" "vault init --passphrase-file pass" "vault status" \
  "persistent set k 1" "backup create --operator" "vault unlock --passphrase-file new" "vault unlock --passphrase-file pass" "--json vault status"; do
  same $c
done
same --json backup create --operator
keep 'bkp-[0-9]{8}T[0-9]{6}Z(-[0-9a-f]+)?'
for c in "backup list" "backup verify @@" "persistent set k 2" "backup restore @@" "backup restore @@ --operator" "persistent get k" "backup verify nope" \
  "backup export @@ here.backup --operator" "vault lock" "vault status" "backup verify @@" "backup verify @@ --passphrase-file pass" "vault status" \
  "backup verify @@ --passphrase-file new" "vault rotate --passphrase-file pass --new-passphrase-file new" "vault unlock --passphrase-file pass" "vault nope"; do
  same $c
done
(each local vault lock) >/dev/null 2>&1

begin remote__what_needs_no_home_works_as_ever
for c in "version" "--json version" "help" "help put" "help at" "man put" "config --check nope.toml" "complete"; do
  same $c
done

t remote__every_command_of_the_table_is_compared_or_refused
refused=" serve run "
covered="$covered mcp " # cli_bridge.sh
for command in $(sed -n 's/^  &cmd_\([a-z_]*\),$/\1/p' "$main_c" | tr _ -); do
  case "$covered$refused" in *" $command "*) ;; *) bad "$command is neither compared with a server nor refused with one" ;; esac
done
for command in $refused; do
  run --server "$url" $command
  want_failure 2 "$command does not work against a server: "
done

t remote__a_server_and_a_store_do_not_go_together
run --server "$url" --store sqlite:home get a
want_failure 2 'do not go together'
run --server ftp://x get a
want_failure 2 'no server'
run --server http://x/path get a
want_failure 2 'more than the server'

t remote__the_environment_names_the_server_and_an_option_wins
PERDURE_SERVER=$url PERDURE_TOKEN=$(cat "$token") run put from-env 1
want_code 0
PERDURE_SERVER=$url run --token-file "$token" get from-env
want_out 1
PERDURE_SERVER=$url run --store sqlite:home get from-env
want_failure 4 'no store'

t remote__a_wrong_token_is_refused_and_a_missing_one_too
echo pd_0123456789abcdef_0000000000000000000000000000000000000000000000000000000000000000 >wrong
run --server "$url" --token-file wrong get a
want_failure 6 'token'
run --server "$url" --token-file wrong persistent get a
want_failure 6 'token'
run --server "$url" get a
want_failure 6 'no token'
chmod 644 wrong
run --server "$url" --token-file wrong get a
want_failure 2 'others may read the token'
run --server "$url" --token-file nope get a
want_failure 4 'nope'
: >empty
run --server "$url" --token-file empty get a
want_failure 2 'no token in'

t remote__an_agents_token_calls_capabilities_as_that_agent_and_nothing_else
(cd ../ && "$perdure" --server "$url" --token-file "$token" --agent writer token create 2>/dev/null) >writer
run --server "$url" --token-file writer persistent set mine 1
want_code 0
run --server "$url" --token-file writer persistent get mine
want_line 1
run --server "$url" --token-file writer --agent other persistent get mine
want_failure 6 'another agent'
run --server "$url" --token-file writer get mine
want_failure 6 "the operator's alone"
run --server "$url" --token-file writer persistent get mine --operator
want_failure 6 'another role'

t remote__an_auditors_token_reads_and_does_not_write
"$perdure" --server "$url" --token-file "$token" put seen 1 >/dev/null
"$perdure" --server "$url" --token-file "$token" token create --role auditor 2>/dev/null >auditor
run --server "$url" --token-file auditor get seen
want_out 1
run --server "$url" --token-file auditor verify
want_code 0
run --server "$url" --token-file auditor put seen 2
want_failure 6 'an auditor only looks'

t remote__a_socket_needs_no_token_of_its_own_user
run --server "unix:$(ls -t "$tmp"/*.sock | head -n 1)" get seen
want_out 1

t remote__a_server_that_is_gone_is_a_storage_error_that_names_it
stop_all
run --server "$url" --token-file "$token" get seen
want_failure 4 "the server at $url does not answer"
want_err_like '^hint: is the server running'
run --server "$url" --token-file "$token" persistent get seen
want_failure 4 "the server at $url does not answer"
run --json --server "$url" --token-file "$token" get seen
want_code 4
want_err_like '"code":"StorageError"'

t remote__a_passphrase_is_not_sent_where_others_can_listen
echo 'correct horse battery' >pass
run --server http://192.0.2.1:7373 vault init --passphrase-file pass
want_failure 6 'a passphrase is not sent to http://192.0.2.1:7373'

t remote__a_server_that_cannot_be_verified_is_not_spoken_to
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=test \
  -addext subjectAltName=IP:127.0.0.1 >/dev/null 2>&1
openssl s_server -accept 127.0.0.1:0 -key key.pem -cert cert.pem -www >tls.out 2>&1 </dev/null &
pids="$pids $!"
until_true grep -q '^ACCEPT' tls.out
port=$(sed -n 's/^ACCEPT .*://p' tls.out)
run --server "https://127.0.0.1:$port" get a
want_failure 4 "the server at https://127.0.0.1:$port does not answer: .*certificate"
run --server "https://127.0.0.1:$port" --ca cert.pem config # it answers to GET alone
want_failure 4 'is it a perdure'
PERDURE_CA=cert.pem run --server "https://127.0.0.1:$port" doctor
want_failure 4 'is it a perdure'
run --server "https://localhost:$port" --ca cert.pem get a
want_failure 4 'certificate'
run --server "https://127.0.0.1:$port" --ca nope.pem get a
want_failure 4 'nope.pem'

finish
