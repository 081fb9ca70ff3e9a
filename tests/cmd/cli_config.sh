#!/bin/sh
# cli_config.sh PERDURE: config.
. "$(dirname "$0")/tap.sh"

t cli__config_shows_all_settings_and_their_origin
run init
printf '[session]\nquota = "10 MB"\n' >.perdure/perdure.toml
export PERDURE_VAULT_IDLE=2m
run config
unset PERDURE_VAULT_IDLE
want_code 0
want_out_like '^session\.quota +10 MB +\./\.perdure/perdure\.toml:2$'
want_out_like '^vault\.idle +2m +PERDURE_VAULT_IDLE$'
want_out_like '^persistent\.versions +100 +default$'
want_no_err

t cli__config_shows_one_setting
run init
run config shared.quota
want_code 0
want_line '500 MiB'
want_err_like 'shared state of all agents; from: default'
run config shared.quota --json
want_code 0
want_out_like '^\{"name":"shared\.quota","value":"500 MiB","number":524288000,"unit":"bytes","default":524288000,"origin":"default",'
run config --json
want_out_like '^\{"settings":\[\{"name":"session\.quota",'
run config shared.qouta
want_failure 1 "there is no setting 'shared.qouta'"
want_err_like "did you mean 'shared.quota'"

t cli__config_shows_texts_lists_and_flags
run init
printf '[server]\ntls_cert = "tls/cert.pem"\ntls_key = "/etc/key.pem"\nallow_host = ["a.example", "b.example"]\n' >.perdure/perdure.toml
run config server.tls_cert
want_line './.perdure/tls/cert.pem'
run config server.allow_host --json
want_out_like '^\{"name":"server\.allow_host","value":"a\.example,b\.example","unit":"list","default":"","origin":"\./\.perdure/perdure\.toml:4","about":"'
run config mcp.approvals
want_line 'false'
run config server.listen
want_line ''
run config --check .perdure/perdure.toml
want_line '.perdure/perdure.toml: fine, 3 settings'
printf '[server]\ntls_cert = "cert.pem"\n' >half.toml
run config --check half.toml
want_failure 2 "half\.toml:2: 'server\.tls_cert' and 'server\.tls_key' belong together"

t cli__config_reads_the_former_name_of_a_setting_and_refuses_both
run init
printf '[server]\nmcp_approvals = true\n' >.perdure/perdure.toml
run config mcp.approvals
want_line 'true'
run config server.mcp_approvals
want_line 'true'
printf '[mcp]\napprovals = false\n[server]\nmcp_approvals = true\n' >.perdure/perdure.toml
run config mcp.approvals
want_failure 2 "perdure\.toml:4: 'mcp\.approvals' is given a second time: 'server\.mcp_approvals' is its former name, and line 2 sets it"
rm .perdure/perdure.toml
PERDURE_SERVER_MCP_APPROVALS=true run config mcp.approvals
want_line 'true'
PERDURE_MCP_APPROVALS=false PERDURE_SERVER_MCP_APPROVALS=true run config mcp.approvals
want_line 'false'

t cli__config_says_when_to_change_a_setting
run init
run config server.body_max
want_line '16 MiB'
want_err_like '^change it when clients send larger values'
run config server.body_max --json
want_out_like '"when":"clients send larger values'

t cli__config_ignores_what_is_no_longer_a_setting_and_says_so
run init
printf '[server]\nheartbeat = "1s"\n[activity]\nflush = "soon"\n[session]\nquota = "10 MB"\n' >.perdure/perdure.toml
run config
want_code 0
want_out_like '^session\.quota +10 MB '
want_err_like "^warning: .*perdure\.toml:2: 'server\.heartbeat' is no longer a setting and is ignored; it is now 15s"
want_err_like "^warning: .*perdure\.toml:4: 'activity\.flush' is no longer a setting"
run config --json
want_out_like '"notices":\[".*perdure\.toml:4: .activity\.flush. is no longer a setting'
run config --check .perdure/perdure.toml
want_code 0
want_line '.perdure/perdure.toml: fine, 1 setting'
want_err_like "perdure\.toml:2: 'server\.heartbeat' is no longer a setting"
run config server.heartbeat
want_failure 1 "'server\.heartbeat' is no longer a setting; it is now 15s"
run doctor
want_code 1
want_out_like "^warning .*perdure\.toml:2: 'server\.heartbeat' is no longer a setting and is ignored; it is now 15s"
rm .perdure/perdure.toml
PERDURE_WORK_KEEP=7 run doctor
want_out_like "^warning PERDURE_WORK_KEEP: 'work\.keep' is no longer a setting and is ignored; it is now 1000"
printf '[server]\nhartbeat = 1\n' >.perdure/perdure.toml
run doctor
want_code 4
want_out_like "^error .*perdure\.toml:2: there is no setting 'server\.hartbeat'"
rm .perdure/perdure.toml

t cli__config_without_a_home_shows_what_would_be
run config session.idle
want_code 0
want_line '1h'
want_err_like 'no home at sqlite:\./\.perdure'
want_true test ! -e .perdure

t cli__config_refuses_a_wrong_file_with_its_line
run init
printf '# limits\n[session]\nqouta = 1\n' >.perdure/perdure.toml
run config
want_failure 2 "perdure\.toml:3: there is no setting 'session\.qouta'; the nearest is 'session\.quota'"

t cli__config_check_reads_a_file_alone
printf '[session]\nquota = "1 GiB"\nidle = "1h"\n' >good.toml
printf '[session]\nidle = "soon"\n' >bad.toml
run config --check good.toml
want_code 0
want_line 'good.toml: fine, 2 settings'
run config --check good.toml --json
want_line '{"file":"good.toml","is_fine":true,"count":2}'
run config --check bad.toml
want_failure 2 "bad\.toml:2: 'session\.idle' is 'soon'"
run config --check nothing.toml
want_failure 4 'nothing\.toml'
run config --check good.toml session.idle
want_failure 2 'no NAME'

finish
