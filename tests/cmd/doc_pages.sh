#!/bin/sh
# doc_pages.sh SOURCE PAGE...: every block of README and the guide that shows commands is run by a test (PAGE: those that doc_session.sh
# runs), or says by its name, ```text, that it is not. Prints how many there are.
set -u
export LC_ALL=C
cd "$1" || exit 1
shift
run=" $* "
n=0
failures=0
blocks=0
commands=0
left=0
for page in README.md docs/guide/*.md; do
  n=$((n + 1))
  # blocks and commands that are run, blocks that are not, and blocks of commands without a name
  # shellcheck disable=SC2046 # four words
  set -- $(awk '
    /^```/ { name = in_block ? "" : $0; in_block = !in_block; is_first = in_block; if (name == "```console") blocks++; next }
    in_block && name == "```console" && /^\$ / { commands++ }
    in_block && is_first && /^\$ / && name != "```console" { if (name == "```text") texts++; else unnamed++ }
    { is_first = 0 }
    END { print blocks + 0, commands + 0, texts + 0, unnamed + 0 }' "$page")
  blocks=$((blocks + $1))
  commands=$((commands + $2))
  left=$((left + $3))
  why=
  [ "$4" = 0 ] || why="$4 blocks of commands are neither console nor text"
  case $run in *" $page "*) [ "$1" -gt 0 ] || why="it has no console block" ;; *) [ "$1" = 0 ] || why="its console blocks are not run" ;; esac
  [ "$3" = 0 ] || echo "# $page: $3 blocks are not run (text)"
  if [ -z "$why" ]; then
    echo "ok $n - docs__$(basename "$page" .md)_is_run_as_printed"
  else
    failures=$((failures + 1))
    echo "not ok $n - docs__$(basename "$page" .md)_is_run_as_printed"
    echo "# $page: $why"
  fi
done
echo "# $blocks blocks, $commands commands are run as printed; $left blocks are not"
echo "1..$n"
[ $failures = 0 ]
