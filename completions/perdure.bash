# bash completion for perdure: commands and options from the binary's own table, keys, refs and tags from the store.

_perdure() {
  local rest=${COMP_LINE:0:COMP_POINT} word i last=
  local -a words=()
  # bash splits words at : and =, perdure does not: what stands together is one word. The last one ends at the cursor
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if ((i > 0)) && [[ -n $rest && $rest != [[:space:]]* ]]; then
      ((i < COMP_CWORD)) || word=$rest
      words[${#words[@]} - 1]+=$word
    else
      rest=${rest#"${rest%%[![:space:]]*}"}
      ((i < COMP_CWORD)) || word=$rest
      words+=("$word")
    fi
    rest=${rest#"$word"}
    last=$word
  done
  local cur=${words[${#words[@]} - 1]}
  [[ $last == [:=]* ]] && last=
  local before=${cur%"$last"} candidate is_open=1 quoted
  # what was typed may be quoted
  local -a plain=()
  for word in "${words[@]}"; do
    word=${word//\\/}
    word=${word#[\"\']}
    plain+=("${word%[\"\']}")
  done
  COMPREPLY=()
  while IFS= read -r candidate; do
    case $candidate in
    :files) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "${last#@}") && compopt -o filenames 2>/dev/null ;;
    :folders) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -d -- "$last") && compopt -o filenames 2>/dev/null ;;
    *)
      candidate=${candidate%%$'\t'*}
      [[ $candidate == */ ]] || is_open=0
      candidate=${candidate#"$before"}
      printf -v quoted %q "$candidate"
      COMPREPLY+=("$quoted")
      ;;
    esac
  done < <("${plain[0]}" __complete -- "${plain[@]}" 2>/dev/null)
  if ((is_open && ${#COMPREPLY[@]})); then compopt -o nospace 2>/dev/null; fi
  return 0
}

complete -F _perdure perdure
