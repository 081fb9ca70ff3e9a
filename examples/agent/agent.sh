#!/bin/sh
# agent.sh TASKS OUT: agent.c as a shell script, over the command line (`perdure agent …`). Start it with `perdure run`, or set
# PERDURE_AGENT and PERDURE_STORAGE (or PERDURE_STORE). It may be killed at any moment.
set -u
tasks=$1 out=$2 batch=5
tab=$(printf '\t')

trap 'exit 1' TERM
# One call; a failure ends this life (3: another process has taken the agent over). 1 is an answer: there is nothing.
call() {
  perdure --quiet agent "$@"
  answer=$?
  [ $answer -le 1 ] || kill -TERM $$ # from within $(…), too
  return $answer
}

# The outside world: lines `ID <tab> TEXT` in a file. A line that a crash left unfinished is cut off: it has not happened.
mend() { [ ! -s "$out/$1" ] || [ -z "$(tail -c 1 "$out/$1")" ] || sed -i '$d' "$out/$1"; }
has() { mend "$1" && [ -e "$out/$1" ] && grep -q "^$2$tab" "$out/$1"; }
append() {
  mend "$1"
  printf '%s\t%s\n' "$2" "$3" >>"$out/$1"
  sync "$out/$1"
}

# Do it once, whatever became of those who tried before.
do_effect() {
  state=$(call effect intend "$1" --event "$1")
  case $state in
  done*) return ;;
  unknown) has effects "$1" || append effects "$1" "$2" ;;
  intended) append effects "$1" "$2" ;;
  esac
  call effect 'done' "$1" true >/dev/null
}

# Put the next tasks into the queue; fails if there are none. The queue is empty: what was taken before is finished.
take_tasks() {
  set --
  number=$count
  while [ $# -lt $batch ] && task=$(sed -n "$((number + 1))p" "$tasks") && [ -n "$task" ]; do
    number=$((number + 1))
    set -- "$@" "{\"id\":\"task-$number\",\"source\":\"list\",\"type\":\"task\",\"task\":\"$task\"}"
  done
  [ $# -gt 0 ] && call push "$@" >/dev/null
}

PERDURE_EPOCH=$(call open) || exit 1
export PERDURE_EPOCH
count=$(call status --json | sed -n 's/.*"tick_index":\([0-9]*\).*/\1/p')
while :; do
  if ! line=$(call next); then
    take_tasks || break
    continue
  fi
  step=${line%%"$tab"*} rest=${line#*"$tab"}
  id=${rest%%"$tab"*} json=${rest#*"$tab"}
  if [ "$step" = new ]; then
    task=$(printf '%s\n' "$json" | sed 's/.*"task":"\([^"]*\)".*/\1/')
    do_effect "$id" "$task"
    count=$((count + 1))
    reply=$(call commit --event "$id" --say "user=$task" --set "count=$count" --reply-text "number $count is done")
    append replies "$id" "$reply" # only now: it is saved
  else
    reply=${json#\"}
    has replies "$id" || append replies "$id" "${reply%\"}" # it may have left before the crash
  fi
  call sent "$id"
done
echo "$count tasks are done"
