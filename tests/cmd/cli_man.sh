#!/bin/sh
# cli_man.sh PERDURE: the manual that tools/man makes: a page for every command and every C function, and none that scdoc or man complains of.
. "$(dirname "$0")/tap.sh"
root=$(realpath "$(dirname "$0")/../..")
pages=$tmp/pages

# what help prints between its heading and its options, one space between words
about_of() { "$perdure" help "$1" | awk 'NR > 4 && /^(Options|Examples?)$/ { exit } NR > 4' | tr -s ' \n' '  '; }
# a page as one line of plain words
page_of() { LC_ALL=C.UTF-8 MANWIDTH=2000 man -l "$1" 2>/dev/null | sed 's/.\x08//g' | tr -s ' \n' '  '; }

t man__is_made_without_a_complaint
if ! command -v scdoc >/dev/null; then
  skip "scdoc is not installed"
  finish
fi
"$root/tools/man" "$perdure" "$root/include/perdure" "$root/docs/man/perdure.1.scd" "$pages" >"$out" 2>"$err" || bad "tools/man failed"
want_no_out
want_no_err
want_true [ -s "$pages/perdure.1" ]
want_true [ -s "$pages/perdure.3" ]

t man__every_command_has_a_page_and_stands_in_the_overview
"$perdure" help | sed -n 's/^  \([a-z][a-z-]*\)  *[A-Z].*/\1/p' >commands
want_true [ "$(wc -l <commands)" -gt 20 ]
while read -r command; do
  [ -s "$pages/perdure-$command.1" ] || bad "no page for $command"
  grep -q "perdure-$command" "$pages/perdure.1.scd" || bad "$command is not in the overview"
done <commands
want_true [ "$(ls "$pages"/perdure-*.1 | wc -l)" = "$(wc -l <commands)" ]

t man__every_exit_code_is_in_the_help_and_on_the_page
run help
sed -n 's/^#define CLI_EXIT_[A-Z]* \([0-9]*\).*/\1/p' "$root/cmd/perdure/cli.h" >codes
want_true [ "$(wc -l <codes)" -ge 7 ]
tr '\n' ' ' <"$out" | sed 's/.*Exit codes: //; s/More: .*//' >told
while read -r code; do
  grep -Eq "(^|[ ,])$code [a-z]" told || bad "help does not name exit code $code"
  sed -n '/^# EXIT STATUS/,/^# ENV/p' "$pages/perdure.1.scd" | grep -Fxq "*$code*" || bad "the man page does not name exit code $code"
done <codes

t man__hidden_commands_have_no_page
want_true [ ! -e "$pages/perdure-__man.1" ]
run help
want_out_unlike __

t man__every_public_function_has_a_page
cat "$root"/include/perdure/*.h | grep -o '^PD_API[^(]*' | sed 's/.*[ *]//' >functions
want_true [ "$(wc -l <functions)" -gt 50 ]
while read -r function; do
  [ -s "$pages/$function.3" ] || bad "no page for $function"
  page=$(sed -n 's|^\.so man3/||p' "$pages/$function.3")
  grep -q "$function(" "$pages/$page" || bad "$function is not on $page"
done <functions

t man__pages_say_what_help_says
if ! command -v man >/dev/null; then
  skip "man is not installed"
else
  while read -r command; do
    about=$(about_of "$command")
    case "$(page_of "$pages/perdure-$command.1")" in
    *"${about% }"*) ;;
    *) bad "the page of $command does not say: $about" ;;
    esac
    "$perdure" help "$command" | sed -n 's/^  .*\(--[a-z-]*\).*/\1/p' | while read -r option; do
      page_of "$pages/perdure-$command.1" | grep -q -- "$option" || echo "$command $option"
    done >missing
    [ ! -s missing ] || bad "options are missing: $(cat missing)"
  done <"$tmp/2/commands"
fi

t man__renders_without_a_warning
if ! command -v man >/dev/null; then
  skip "man is not installed"
else
  for page in "$pages"/perdure*.[13]; do
    LC_ALL=C.UTF-8 man --warnings -l "$page" >/dev/null 2>warnings
    [ ! -s warnings ] || bad "$page: $(head -n 1 warnings)"
  done
fi

t man__a_page_that_does_not_exist_is_refused
run __man command nosuch
want_failure 2 nosuch

finish
