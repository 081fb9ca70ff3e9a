#!/bin/sh
# survive_test.sh PERDURE AGENT: the three agents are killed at random moments and lose nothing; few times in `make test`, often in
# `make torture`. TAP.
set -u
here=$(dirname "$(realpath "$0")")
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
ln -s "$(realpath "$1")" "$bin/perdure"
export PATH="$bin:$PATH"
agent=$(realpath "$2")
few=4 many=10
[ "${PERDURE_TORTURE:-}" != full ] || few=50 many=50
count=0 failed=0
survives() { # name, options and command
  count=$((count + 1))
  name=$1
  shift
  if said=$("$here/survive.sh" "$@" 2>&1); then echo "ok $count - agent__in_${name}_survives # $said"; else failed=1; echo "not ok $count - agent__in_${name}_survives"; echo "$said" | sed 's/^/# /'; fi
}
survives c -k $many -n $((many * 20)) -l 150 "$agent"
survives shell -k $few -n $((few * 4)) -l 500 "$here/agent.sh"
survives python -k $few -n $((few * 4)) -l 700 python3 "$here/agent.py"
count=$((count + 1))
if perdure run --config "$here/agent.toml" --check >/dev/null; then echo "ok $count - agent__its_configuration_is_fine"; else failed=1; echo "not ok $count - agent__its_configuration_is_fine"; fi
echo 1..$count
exit $failed
