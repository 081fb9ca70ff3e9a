#!/bin/sh
# subagents_test.sh SUBAGENTS PERDURE: five sub-agents, merged back: nothing is lost, nothing counts twice. TAP.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo 1..2
status=0
if out=$("$1" "sqlite:$work/store" 2>&1) && [ "$out" = "conflict  title: 'The Report' or 'Final Report'
spent     135
questions []
findings  [\"agent 1: answered q1\",\"agent 2: answered q2\",\"agent 3: answered q3\",\"agent 4: answered q4\",\"agent 5: answered q5\"]
plan      {\"goal\":\"report\",\"steps\":{\"q1\":\"done\",\"q2\":\"done\",\"q3\":\"done\",\"q4\":\"done\",\"q5\":\"done\"}}
title     Final Report" ]; then
  echo "ok 1 - subagents__come_together_without_loss"
else
  status=1
  echo "not ok 1 - subagents__come_together_without_loss"
  echo "$out" | sed 's/^/# /'
fi
if "$2" --store "sqlite:$work/store" verify >"$work/out" 2>&1; then
  echo "ok 2 - subagents__leave_a_sound_store"
else
  status=1
  echo "not ok 2 - subagents__leave_a_sound_store"
  sed 's/^/# /' "$work/out"
fi
exit $status
