#!/bin/sh
# survive.sh [-k KILLS] [-n TASKS] [-l LIFE_MS] [-s STORAGE] COMMAND…: run one of the agents here under `perdure run`, kill it (kill -9)
# KILLS times at random moments, let it finish, and look: is each effect done once, is each reply sent once, is all of it in the state?
# `perdure` is the one on the PATH. Everything happens in a temporary folder, which is kept if something is wrong.
#
#     examples/agent/survive.sh examples/agent/agent.sh
#     examples/agent/survive.sh -k 50 -n 200 -s redis://localhost/0 build/examples/agent/agent
set -u
kills=10 tasks=30 life_ms=300 storage=
while getopts k:n:l:s: option; do
  case $option in
  k) kills=$OPTARG ;;
  n) tasks=$OPTARG ;;
  l) life_ms=$OPTARG ;;
  s) storage=$OPTARG ;;
  *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
work=$(mktemp -d "${TMPDIR:-/tmp}/perdure-survive.XXXXXX") || exit 1
unset PERDURE_STORE PERDURE_AGENT PERDURE_STORAGE PERDURE_EPOCH
[ -z "$storage" ] || export PERDURE_STORAGE="$storage"
supervisor=
trap '[ -z "$supervisor" ] || kill -TERM "$supervisor" 2>/dev/null; [ "$bad" != 0 ] || rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
bad=0

random() { echo $(($(od -An -N4 -tu4 /dev/urandom) % $1)); } # 0 to $1 - 1
lines() { if [ -e "$work/$1" ]; then wc -l <"$work/$1"; else echo 0; fi; }
status_of() { perdure --store "$work/home" --agent counter --json agent status 2>/dev/null | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }
wrong() { bad=1; echo "WRONG: $*"; }

i=0
while [ $i -lt "$tasks" ]; do i=$((i + 1)); echo "water plant number $i"; done >"$work/tasks"

# shellcheck disable=SC2016
perdure --store "$work/home" --quiet run --agent counter --max-restarts none --backoff 1ms..10ms -- \
  sh -c 'echo $$ >"$0.new" && mv "$0.new" "$0" && exec "$@"' "$work/pid" "$@" "$work/tasks" "$work" >"$work/out" 2>"$work/err" &
supervisor=$!

is_agent() { [ "$(cut -d ' ' -f 4 "/proc/$1/stat" 2>/dev/null)" = $supervisor ]; }
killed=0
while [ $killed -lt "$kills" ] && kill -0 $supervisor 2>/dev/null; do
  if ! pid=$(cat "$work/pid" 2>/dev/null); then
    sleep 0.01 # it is not up yet
    continue
  fi
  ms=$(random "$life_ms")
  sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))"
  rm -f "$work/pid"
  is_agent "$pid" && kill -9 "$pid" 2>/dev/null && killed=$((killed + 1))
  acknowledged=$(lines replies) # first these, then the state, which only grows
  if [ "$acknowledged" -gt 0 ]; then
    tick=$(status_of tick_index)
    [ "${tick:-0}" -ge "$acknowledged" ] || wrong "after kill $killed there were $acknowledged replies, and the state is at tick ${tick:-none}"
  fi
done
wait $supervisor
code=$?
supervisor=

[ $code = 0 ] || wrong "the agent ended with $code: $(tail -n 3 "$work/err")"
i=0
while [ $i -lt "$tasks" ]; do i=$((i + 1)); printf 'task-%s\twater plant number %s\n' $i $i; done >"$work/effects.want"
i=0
while [ $i -lt "$tasks" ]; do i=$((i + 1)); printf 'task-%s\tnumber %s is done\n' $i $i; done >"$work/replies.want"
cmp -s "$work/effects" "$work/effects.want" || wrong "the effects are not each done once, in order: $work/effects"
cmp -s "$work/replies" "$work/replies.want" || wrong "the replies are not each sent once, in order: $work/replies"
[ "$(status_of tick_index)" = "$tasks" ] || wrong "the state is at tick $(status_of tick_index), not $tasks"
[ "$(status_of history)" = "$tasks" ] || wrong "the history has $(status_of history) messages, not $tasks"
[ "$(status_of unknown_effects)" = 0 ] || wrong "$(status_of unknown_effects) effects are unknown"
echo "$killed kills; $tasks tasks, $(lines effects) effects, $(lines replies) replies, tick $(status_of tick_index)"
exit $bad
