#!/bin/sh
# cli_backup.sh PERDURE: vault and backup, with passphrases from files, descriptors and credentials, and with the server of the home.
. "$(dirname "$0")/tap.sh"

secret() { # NAME TEXT
  (umask 077 && printf '%s\n' "$2" >"$1")
}

# A home with a vault and one key.
begin() {
  secret pass 'correct horse battery'
  run put plan one
  run vault init --passphrase-file pass
  want_code 0
}

t cli__a_vault_is_made_once_and_is_locked
begin
run vault status
want_out_like '^locked, 1 master key$'
run vault init --passphrase-file pass
want_failure 3 'there is a vault already'
run --json vault status
want_out_like '^\{"exists":true,"unlocked":false,"locks_at":null,"keys":1\}$'

t cli__status_of_no_vault_is_a_negative_answer
run init
run vault status
want_code 1
want_out_like '^no vault$'

t cli__a_passphrase_file_that_others_may_read_is_refused
secret pass 'correct horse battery'
chmod 644 pass
run init
run vault init --passphrase-file pass
want_failure 2 'others may read pass'

t cli__a_passphrase_comes_from_a_descriptor_or_a_credential_never_from_an_argument
secret pass 'correct horse battery'
run init
"$perdure" vault init --passphrase-fd 3 3<pass >"$out" 2>"$err"
code=$?
want_code 0
mkdir cred && (umask 077 && cp pass cred/perdure-vault)
CREDENTIALS_DIRECTORY=$PWD/cred "$perdure" backup create --operator >"$out" 2>"$err"
code=$?
want_code 0
want_out_like '^bkp-[0-9]{8}T[0-9]{6}Z$'
run vault unlock --passphrase 'correct horse battery'
want_code 2
run vault unlock
want_failure 2 'no terminal'

t cli__a_wrong_passphrase_and_a_damaged_vault_are_told_apart
begin
secret wrong 'not this one'
run backup create --operator --passphrase-file wrong
want_failure 4 'the passphrase is wrong'
sed 's/"passes":4/"passes":3/' .perdure/vault.json >damaged && cp damaged .perdure/vault.json
run backup create --operator --passphrase-file pass
want_failure 4 'damaged'

t cli__a_backup_brings_the_state_back
begin
run backup create --operator --passphrase-file pass
want_code 0
id=$(cat "$out")
run put plan two
run backup verify "$id" --passphrase-file pass
want_out_like '^true$'
run backup restore "$id" --operator --passphrase-file pass
want_code 0
former=$(cat "$out")
run get plan
want_out one
run get plan --at "$former/main"
want_out two
run verify
want_code 0

t cli__without_the_passphrase_nothing_is_made
begin
run backup create --operator
want_code 6
run --json backup list
want_out_like '^\{"backups":\[\],"count":0,'

t cli__an_unlocked_vault_is_held_for_the_commands_that_follow
begin
XDG_RUNTIME_DIR=$PWD/run
export XDG_RUNTIME_DIR
mkdir -m 700 run
secret wrong 'not this one'
run vault unlock --passphrase-file wrong
want_failure 4 'the passphrase is wrong'
run vault unlock --passphrase-file pass
want_out_like '^unlocked, 1 master key$'
run backup create --operator
want_code 0
run vault lock
want_out_like '^locked, 1 master key$'
run backup create --operator
want_code 6
unset XDG_RUNTIME_DIR

t cli__the_server_stays_as_long_as_the_vault_is_unlocked
begin
XDG_RUNTIME_DIR=$PWD/run
export XDG_RUNTIME_DIR
mkdir -m 700 run
run vault unlock --passphrase-file pass
want_code 0
sleep 7 # it would leave after 5
want_true test -S run/perdure/*.sock
run vault status
want_out_like '^unlocked'
run vault lock
no_socket() { ! ls run/perdure/*.sock; }
until_true no_socket
unset XDG_RUNTIME_DIR

t cli__an_agents_backup_runs_once_after_an_approval_where_the_vault_is_unlocked
begin
XDG_RUNTIME_DIR=$PWD/run
export XDG_RUNTIME_DIR
mkdir -m 700 run
run vault unlock --passphrase-file pass
want_code 0
run backup create
want_failure 6 'needs approval'
ask=$(sed -n 's/^hint: perdure approvals approve \([^,]*\),.*/\1/p' "$err")
want_true [ -n "$ask" ]
run approvals approve "$ask"
want_code 0
run backup create
want_code 0
id=$(cat "$out")
run backup create
want_code 6
run backup list
want_out_like "^$id	"
want_count 1
run backup verify "$id"
want_line true
mkdir away
run backup export "$id" away --operator
want_code 0
run put plan two
run backup restore "$id" --operator
want_code 0
run get plan
want_out one
secret pass2 'of the other home'
run --store other init
run --store other vault init --passphrase-file pass2
run --store other vault unlock --passphrase-file pass2
run --store other backup import "away/$id.pdb" --operator --from-passphrase-file pass
want_line "$id"
run --store other backup restore "$id" --operator
want_code 0
run --store other get plan
want_out one
run --store other vault lock
run vault lock
want_code 0
run --json backup create --operator
want_code 6
want_err_like '"code":"VaultLocked"'
run --json backup verify "$id"
want_code 6
run audit -c state.backup.create
want_out_like 'VaultLocked'
unset XDG_RUNTIME_DIR

t cli__a_backup_travels_to_another_home
begin
secret pass2 'of the other home'
id=$("$perdure" backup create --operator --passphrase-file pass 2>/dev/null)
mkdir away
run backup export "$id" away --operator
want_out_like "^$PWD/away/$id.pdb$"
run backup export "$id" missing/x --operator
want_failure 4 'missing/x'
run --store other init
run --store other vault init --passphrase-file pass2
run --store other backup import "away/$id.pdb" --operator --passphrase-file pass2
want_failure 4 'wrong key'
run --store other backup import "away/$id.pdb" --operator --passphrase-file pass2 --from-passphrase-file pass
want_out_like "^$id$"
run --store other backup restore "$id" --operator --passphrase-file pass2
want_code 0
run --store other get plan
want_out one

t cli__a_damaged_backup_is_refused_and_changes_nothing
begin
id=$("$perdure" backup create --operator --passphrase-file pass 2>/dev/null)
run put plan two
file=.perdure/backups/$id.pdb
size=$(stat -c %s "$file")
head -c $((size - 40)) "$file" >cut && cp cut "$file"
run backup restore "$id" --operator --passphrase-file pass
want_failure 4 'damaged'
run get plan
want_out two

t cli__a_rotated_vault_reads_what_was_made_before
begin
id=$("$perdure" backup create --operator --passphrase-file pass 2>/dev/null)
secret new 'a new passphrase'
run vault rotate --passphrase-file pass --new-passphrase-file new --new-key
want_out_like '^locked, 2 master keys$'
run backup verify "$id" --passphrase-file pass
want_failure 4 'the passphrase is wrong'
run backup verify "$id" --passphrase-file new
want_out_like '^true$'

# The thief has the old passphrase, a backup from before the change and one from after it.
t cli__the_old_passphrase_opens_no_backup_that_is_made_after_it_was_changed
begin
old=$("$perdure" backup create --operator --passphrase-file pass 2>/dev/null)
secret new 'a new passphrase'
run vault rotate --passphrase-file pass --new-passphrase-file new
want_out_like '^locked, 2 master keys$'
late=$("$perdure" backup create --operator --passphrase-file new 2>/dev/null)
run backup verify "$late" --passphrase-file new
want_out_like '^true$'
cp ".perdure/backups/$old.pdb" ".perdure/backups/$late.pdb" .
secret thief 'the thief has one, too'
run --store their init
run --store their vault init --passphrase-file thief
run --store their backup import "$PWD/$old.pdb" --operator --passphrase-file thief --from-passphrase-file pass
want_code 0
run --store their backup import "$PWD/$late.pdb" --operator --passphrase-file thief --from-passphrase-file pass
want_code 4
run --store their backup import "$PWD/$late.pdb" --operator --passphrase-file thief
want_code 4

t cli__an_unknown_verb_and_an_unknown_backup_are_told
begin
run backup burn
want_failure 2 "'burn' is none of"
run vault open
want_failure 2 "'open' is none of"
run backup restore bkp-19990101T000000Z --operator --passphrase-file pass
want_code 1

t cli__hints_about_the_vault_fit
run put plan one
secret pass 'correct horse battery'
for line in 'vault unlock --passphrase-file pass' 'backup create --operator'; do
  # shellcheck disable=SC2086 # the words of a command
  run $line
  want_err_like '^hint: make one with: perdure vault init$'
done

t cli__backup_restore_of_one_agent_by_its_option_restores_that_one
begin
run --agent bob put plan bob-1
run backup create --operator --passphrase-file pass
id=$(cat "$out")
run put plan two
run --agent bob put plan bob-2
run backup restore "$id" --agent bob --operator --passphrase-file pass
want_code 0
run get plan
want_out two
run --agent bob get plan
want_out bob-1

finish
