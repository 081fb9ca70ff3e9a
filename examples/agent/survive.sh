#!/bin/sh
# survive.sh [-k KILLS] [-n TASKS] [-l LIFE_MS] [-s STORAGE] COMMAND…: run one of the agents here under `perdure run`, kill it (kill -9)
# KILLS times at random moments, let it finish, and look: is each effect done once, is each reply sent once, is all of it in the state?
# An agent that is through with its TASKS before it was killed so often gets as many again.
# `perdure` is the one on the PATH. Everything happens in a temporary folder, which is kept if something is wrong.
#
#     examples/agent/survive.sh examples/agent/agent.sh
#     examples/agent/survive.sh -k 50 -n 200 -s redis://localhost/0 build/examples/agent/agent
set -u
kills=10 tasks=30 life_ms=300 storage= bad=0
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
limit=none # an agent that fails by itself is given up
[ "$kills" -gt 900 ] || limit=$((kills + 20))/1d
[ -z "$storage" ] || export PERDURE_STORAGE="$storage"
supervisor=
trap '[ -z "$supervisor" ] || kill -TERM "$supervisor" 2>/dev/null; [ "$bad" != 0 ] || rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

random() { echo $(($(od -An -N4 -tu4 /dev/urandom) % $1)); } # 0 to $1 - 1
lines() { if [ -e "$work/$1" ]; then wc -l <"$work/$1"; else echo 0; fi; }
status_of() { perdure --store "$work/home" --agent counter --json agent status 2>/dev/null | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }
wrong() { bad=1; echo "WRONG: $*"; }

total=0
add_tasks() {
  wanted=$((total + tasks))
  while [ $total -lt $wanted ]; do
    total=$((total + 1))
    echo "water plant number $total" >>"$work/tasks"
    printf 'task-%s\twater plant number %s\n' $total $total >>"$work/effects.want"
    printf 'task-%s\tnumber %s is done\n' $total $total >>"$work/replies.want"
  done
}

# shellcheck disable=SC2016
start() {
  perdure --store "$work/home" --quiet run --agent counter --max-restarts $limit --backoff 1ms..10ms -- \
    sh -c 'echo $$ >"$0.new" && mv "$0.new" "$0" && exec "$@"' "$work/pid" "$@" "$work/tasks" "$work" >"$work/out" 2>"$work/err" &
  supervisor=$!
}

is_agent() { [ "$(cut -d ' ' -f 4 "/proc/$1/stat" 2>/dev/null)" = $supervisor ]; }
kill_once() {
  if ! pid=$(cat "$work/pid" 2>/dev/null); then
    sleep 0.01 # it is not up yet
    return
  fi
  ms=$(random "$life_ms")
  sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))"
  rm -f "$work/pid"
  is_agent "$pid" && kill -9 "$pid" 2>/dev/null && killed=$((killed + 1))
  acknowledged=$(lines replies) # first these, then the state, which only grows
  [ "$acknowledged" -gt 0 ] || return
  tick=$(status_of tick_index)
  [ "${tick:-0}" -ge "$acknowledged" ] || wrong "after kill $killed there were $acknowledged replies, and the state is at tick ${tick:-none}"
}

killed=0
code=0
while [ $code = 0 ] && { [ $total = 0 ] || [ $killed -lt "$kills" ]; }; do
  add_tasks
  start "$@"
  while [ $killed -lt "$kills" ] && kill -0 $supervisor 2>/dev/null; do kill_once; done
  wait $supervisor
  code=$?
  supervisor=
done

[ $code = 0 ] || wrong "the agent ended with $code: $(tail -n 3 "$work/err")"
cmp -s "$work/effects" "$work/effects.want" || wrong "the effects are not each done once, in order: $work/effects"
cmp -s "$work/replies" "$work/replies.want" || wrong "the replies are not each sent once, in order: $work/replies"
[ "$(status_of tick_index)" = "$total" ] || wrong "the state is at tick $(status_of tick_index), not $total"
[ "$(status_of history)" = "$total" ] || wrong "the history has $(status_of history) messages, not $total"
[ "$(status_of unknown_effects)" = 0 ] || wrong "$(status_of unknown_effects) effects are unknown"
echo "$killed kills; $total tasks, $(lines effects) effects, $(lines replies) replies, tick $(status_of tick_index)"
exit $bad
