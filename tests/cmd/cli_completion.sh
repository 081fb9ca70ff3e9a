#!/bin/sh
# cli_completion.sh PERDURE: completion as the shells do it: bash's function is called with the variables that bash gives it; zsh and fish, where
# they are installed, complete for real.
. "$(dirname "$0")/tap.sh"
root=$(realpath "$(dirname "$0")/../..")/completions
bin=$(dirname "$perdure")

# bash_completes LINE: what bash offers at the end of LINE, one a line. COMP_WORDS are split as bash does: at blanks, and at : and =
bash_completes() {
  PATH=$bin:$PATH bash -c '
    set -u
    . "$1/perdure.bash"
    COMP_LINE=$2 COMP_POINT=${#2} COMP_TYPE=9 COMP_KEY=9 COMP_WORDS=()
    rest=$2
    while [[ -n $rest ]]; do
      if [[ $rest =~ ^[[:space:]]+ ]]; then rest=${rest#"${BASH_REMATCH[0]}"}; [[ -n $rest ]] || COMP_WORDS+=(""); continue; fi
      [[ $rest =~ ^[:=]+ || $rest =~ ^(\\.|[^:=[:space:]])+ ]]
      COMP_WORDS+=("${BASH_REMATCH[0]}")
      rest=${rest#"${BASH_REMATCH[0]}"}
    done
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _perdure perdure "" ""
    printf "%s\n" "${COMPREPLY[@]+"${COMPREPLY[@]}"}"' _ "$root" "$1" >"$out" 2>"$err"
  code=$?
}

want_offer() { grep -Fxq -- "$1" "$out" || bad "not offered: $1"; }
want_no_offer() { ! grep -Fxq -- "$1" "$out" || bad "offered: $1"; }

make_store() {
  run put user/ada 1
  run put user/bob 1
  run put user/team/x 1
  run put plan 1
  run put 'with space' 1
  run put 'a:b:one' 1
  run put 'a:b:two' 1
  run fork trial
  run put only 1 --agent second
}

t bash__offers_commands
bash_completes 'perdure '
want_code 0
want_no_err
want_offer put
want_offer verify
want_no_offer __complete
bash_completes 'perdure ver'
want_offer verify
want_offer version
want_count 2

t bash__every_command_of_help_is_offered
"$perdure" help | sed -n 's/^  \([a-z][a-z-]*\)  *[A-Z].*/\1/p' >commands
bash_completes 'perdure '
while read -r command; do want_offer "$command"; done <commands

t bash__offers_the_options_of_the_command_and_of_all
bash_completes 'perdure put --re'
want_offer --ref
want_offer --reason
want_count 2
bash_completes 'perdure get --'
want_offer --at
want_offer --json
want_no_offer --reason

t bash__offers_keys_folder_by_folder
make_store
bash_completes 'perdure get '
want_offer user/
want_offer plan
want_offer 'with\ space'
want_no_offer user/ada
bash_completes 'perdure get user/'
want_offer user/ada
want_offer user/team/
want_count 3
bash_completes 'perdure get with'
want_offer 'with\ space'
want_count 1

t bash__completes_keys_with_colons
make_store
bash_completes 'perdure get a:b:'
want_offer one
want_offer two
want_count 2
bash_completes 'perdure get a:b:o'
want_offer one
want_count 1

t bash__offers_refs_where_a_point_is_wanted
make_store
bash_completes 'perdure get plan --at '
want_offer main
want_offer trial
want_offer root
bash_completes 'perdure diff main tr'
want_offer trial
want_count 1
bash_completes 'perdure switch '
want_offer trial
bash_completes 'perdure put plan 2 --ref tr'
want_offer trial
bash_completes 'perdure get plan --at=tr'
want_offer trial
bash_completes 'perdure fork '
want_no_offer main

t bash__offers_tags_where_a_point_is_wanted_and_not_where_a_ref_is
make_store
run tag v1.0 main
run tag v1.1 main
bash_completes 'perdure get plan --at v1'
want_offer v1.0
want_offer v1.1
want_count 2
bash_completes 'perdure diff v1.0 tr'
want_offer trial
want_count 1
bash_completes 'perdure put plan 2 --ref v'
want_no_offer v1.0

t bash__looks_into_the_store_and_agent_of_the_line
make_store
bash_completes 'perdure --agent second get '
want_offer only
want_count 1
bash_completes 'perdure --agent se'
want_offer second
mkdir deep && cd deep
bash_completes 'perdure get '
want_count 1
bash_completes 'perdure --store ../.perdure get pl'
want_offer plan

t bash__offers_files_for_a_file
: >some-file
bash_completes 'perdure put k @some'
want_code 0
bash_completes 'perdure help ver'
want_offer verify

t bash__offers_the_verbs_of_a_shorthand_and_what_they_take
make_store
run shared set billing/rate 1 0
bash_completes 'perdure persistent '
want_offer get
want_offer history
want_count 6
bash_completes 'perdure persistent get pl'
want_offer plan
want_count 1
bash_completes 'perdure shared get '
want_offer billing/
want_no_offer plan
bash_completes 'perdure session e'
want_offer end
want_count 1
bash_completes 'perdure queue send sec'
want_offer second
bash_completes 'perdure approvals '
want_offer approve
want_offer deny
want_count 4
bash_completes 'perdure vault un'
want_offer unlock
bash_completes 'perdure backup '
want_offer restore
bash_completes 'perdure policy check second state.sh'
want_offer state.shared.set

t bash__offers_capabilities_and_their_fields
bash_completes 'perdure call state.session.'
want_offer state.session.get
want_count 5
bash_completes 'perdure capabilities audit.v'
want_offer audit.verify
want_count 1
bash_completes 'perdure call state.shared.set --e'
want_offer --expected-version
want_count 1
bash_completes 'perdure shared set mode 1 --ex'
want_offer --expected-version
bash_completes 'perdure call no.such.thing --e'
want_code 0
want_no_err

t bash__completes_up_to_the_cursor
make_store
PATH=$bin:$PATH bash -c '. "$1/perdure.bash"
  COMP_LINE="perdure get plXX more" COMP_POINT=14 COMP_WORDS=(perdure get plXX more) COMP_CWORD=2
  _perdure perdure "" ""; printf "%s\n" "${COMPREPLY[@]}"' _ "$root" >"$out" 2>"$err"
want_offer plan
want_count 1

t bash__is_silent_without_a_store_or_with_nonsense
bash_completes 'perdure get '
want_code 0
want_no_err
want_true [ ! -e .perdure ]
mkdir -p .perdure && printf 'not a database at all, but long enough to be looked at' >.perdure/main.db
bash_completes 'perdure get '
want_code 0
want_no_err
bash_completes 'perdure nosuchcommand '
want_code 0
want_no_err
bash_completes 'perdure get --nosuch='
want_no_err
run __complete -- perdure get ''
want_code 0
want_no_out
want_no_err

t bash__a_store_with_many_keys_is_answered_at_once
i=0
while [ $i -lt 300 ]; do
  printf '{"op":"put","key":"a/%s","value":1}\n{"op":"put","key":"b%s","value":1}\n' $i $i
  i=$((i + 1))
done | "$perdure" batch >"$out" 2>"$err"
bash_completes 'perdure get a'
want_offer a/
want_count 1
bash_completes 'perdure get b'
want_count 300

t zsh__completes_for_real
if ! command -v zsh >/dev/null; then
  skip "zsh is not installed"
else
  zsh -n "$root/_perdure" 2>"$err" || bad "zsh does not read it"
  make_store
  # completion works only in an interactive shell: one on a terminal of its own, told what to type
  cat >drive.zsh <<'Z'
zmodload zsh/zpty
zpty -b z zsh -f -i
zpty -w z "PS1= PATH=$BIN:\$PATH; fpath=($ROOT \$fpath); autoload -U compinit; compinit -u -d $PWD/zcompdump; setopt no_list_beep; bindkey '^I' list-choices; echo READ''Y"
zpty -r -m z line '*READY*'
zpty -w -n z "perdure $1"$'\t'
typeset all=
repeat 600; do
  sleep 0.1
  while zpty -r -t z line; do all+=$line; done
  [[ $all == *"$2"* ]] && break
done
print -r -- "$all" | sed 's/\x1b\[[0-9;?]*[a-zA-Z]//g'
zpty -d z
Z
  ROOT=$root BIN=$bin zsh -f drive.zsh 'ver' version >"$out" 2>"$err"
  want_out_has verify
  want_out_has version
  ROOT=$root BIN=$bin zsh -f drive.zsh 'get user/' user/team/ >"$out" 2>"$err"
  want_out_has user/ada
  want_out_has user/team/
  ROOT=$root BIN=$bin zsh -f drive.zsh 'get plan --at tr' trial >"$out" 2>"$err"
  want_out_has tr
fi

t fish__completes_for_real
if ! command -v fish >/dev/null; then
  skip "fish is not installed"
else
  fish -n "$root/perdure.fish" 2>"$err" || bad "fish does not read it"
  make_store
  fish_completes() { HOME=$PWD PATH=$bin:$PATH fish -N -c "source $root/perdure.fish; complete -C '$1'" >"$out" 2>"$err"; }
  fish_completes 'perdure ver'
  want_out_like '^verify'
  want_out_like '^version'
  want_count 2
  fish_completes 'perdure get user/'
  want_out_like '^user/ada'
  want_out_like '^user/team/'
  fish_completes 'perdure get plan --at tr'
  want_out_like '^trial'
  fish_completes 'perdure log --on'
  want_out_like '^--oneline'
fi

finish
