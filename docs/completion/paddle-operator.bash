# shellcheck shell=bash
# Completion of paddle-operator for bash, to be sourced.  Printed by `paddle-operator docs bash`; edit the tables in the code.

# COMMAND FLAG: what may follow it
_paddle_operator_table() {
    flags='' switches='' commands='' values=''
    case $1 in
    '')
        flags='--help --namespace --initImage --gate-resources --leader-elect --selector --shard --leader-elect-namespace --metrics-bind-address --metrics-secure --metrics-cert-path --health-probe-bind-address --gate-bind-address --gate-address --services --prefer-family --server-grace --restart-backoff --give-back-after --watch-idle --memory --kubeconfig --context --kube-api-content-type --log-level --log-format --scheduling --etcd-server --zap-devel --zap-encoder --zap-log-level --zap-stacktrace-level --zap-time-encoding' switches='--help --leader-elect --metrics-secure --zap-devel' commands='run render validate convert version'
        case $2 in
        --log-level) values='error warn info debug' ;;
        --log-format) values='logfmt json' ;;
        esac
        ;;
    'run')
        flags='--help --namespace --initImage --gate-resources --leader-elect --selector --shard --leader-elect-namespace --metrics-bind-address --metrics-secure --metrics-cert-path --health-probe-bind-address --gate-bind-address --gate-address --services --prefer-family --server-grace --restart-backoff --give-back-after --watch-idle --memory --kubeconfig --context --kube-api-content-type --log-level --log-format --scheduling --etcd-server --zap-devel --zap-encoder --zap-log-level --zap-stacktrace-level --zap-time-encoding' switches='--help --leader-elect --metrics-secure --zap-devel' commands=''
        case $2 in
        --log-level) values='error warn info debug' ;;
        --log-format) values='logfmt json' ;;
        esac
        ;;
    'render')
        flags='--help' switches='--help' commands=''
        ;;
    'validate')
        flags='--help' switches='--help' commands=''
        ;;
    'convert')
        flags='--help' switches='--help' commands=''
        ;;
    'version')
        flags='--help' switches='--help' commands=''
        ;;
    esac
}
_paddle_operator() {
    local flags switches commands values command='' flag='' plain='' word current
    local -a words
    read -ra words <<<"${COMP_LINE:0:COMP_POINT}x"
    current=${words[${#words[@]} - 1]%x}
    COMPREPLY=()
    local table=_paddle_operator_table
    $table "$command" ''
    for word in "${words[@]:1:${#words[@]}-2}"; do
        if [[ $flag ]]; then
            flag=''
        elif [[ $word == -- ]]; then
            plain=1
        elif [[ ! $plain && $word == -* ]]; then
            [[ $word == *=* || " $switches " == *" $word "* ]] || flag=$word
        elif [[ ! $plain && " $commands " == *" $word "* ]]; then
            command=${command:+$command }$word
            $table "$command" ''
        else
            plain=1
        fi
    done
    [[ ! $plain ]] || return 0      # a program's own words, or files
    if [[ ! $flag && $current == --*=* ]]; then
        $table "$command" "${current%%=*}"
        word=''
        [[ $COMP_WORDBREAKS == *=* ]] || word=${current%%=*}=
        mapfile -t COMPREPLY < <(compgen -P "$word" -W "$values" -- "${current#*=}")
    elif [[ $flag ]]; then
        $table "$command" "$flag"
        mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current")
    elif [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$current")
    else
        mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
    fi
}
complete -o default -F _paddle_operator paddle-operator
