# shellcheck shell=bash
# Completion of paddlerun for bash, to be sourced.  Printed by `paddlerun docs bash`; edit the tables in the code.

# COMMAND FLAG: what may follow it
_paddlerun_table() {
    flags='' switches='' commands='' values=''
    case $1 in
    '')
        flags='--help' switches='--help' commands='launch torchrun exec local info check ckpt top cluster_train pserver train mpi docs version help'
        ;;
    'launch' | fleetrun)
        flags='--help --auto_cluster_config --auto_parallel_config --backend --compat --cpu_affinity --devices --gpus --npus --xpus --selected_gpus --selected_xpus --dry_run --dry-run --elastic_level --elastic_server --elastic_timeout --gloo_port --heter_devices --heter_worker_num --heter_workers --host --node_ip --http_port --ips --cluster_node_ips --job_id --join_timeout --legacy --log_dir --log_level --log_max_size --log_overwrite --master --max_restart --nnodes --np --nproc_per_node --rank --require_token --run_mode --server_num --servers --silent_timeout --sort_ip --start_port --started_port --stop_timeout --termination_log --trainer_num --trainers --with_gloo --worker_num --workers' switches='--help --dry_run --dry-run --require_token' commands=''
        case $2 in
        --backend) values='auto nccl gloo bkcl heter xccl flagcx' ;;
        --compat) values='3 3.x 2.3 2.0 legacy' ;;
        --cpu_affinity) values='none spread' ;;
        --log_level) values='DEBUG INFO WARNING WARN ERROR CRITICAL FATAL' ;;
        --run_mode) values='collective ps ps-heter rpc ps-gpu' ;;
        esac
        ;;
    'torchrun')
        flags='--help --nnodes --nproc-per-node --node-rank --rdzv-backend --rdzv-endpoint --rdzv-id --standalone --master-addr --master-port --local-addr --max-restarts --module --no-python --run-path --log-dir --redirects --tee --shutdown-timeout --role --monitor-interval --start-method --signals-to-handle --dry-run' switches='--help --standalone --module --no-python --run-path --dry-run' commands=''
        ;;
    'exec')
        flags='--help --grace --termination-log' switches='--help' commands=''
        ;;
    'local')
        flags='--help --image --grace --server-grace --color' switches='--help' commands=''
        case $2 in
        --color) values='auto always never' ;;
        esac
        ;;
    'info')
        flags='--help --timeout --collectives' switches='--help --collectives' commands=''
        ;;
    'check')
        flags='--help --dir --timeout --json' switches='--help --json' commands=''
        ;;
    'ckpt')
        flags='--help' switches='--help' commands='ls show verify diff export merge'
        ;;
    'ckpt ls')
        flags='--help --table --key --state --count --memory' switches='--help --state --count' commands=''
        ;;
    'ckpt show')
        flags='--help --table --key --state --count --memory' switches='--help --state --count' commands=''
        ;;
    'ckpt verify')
        flags='--help --table --key --state --count --memory' switches='--help --state --count' commands=''
        ;;
    'ckpt diff')
        flags='--help --table --key --state --count --memory' switches='--help --state --count' commands=''
        ;;
    'ckpt export')
        flags='--help --table --key --state --count --memory' switches='--help --state --count' commands=''
        ;;
    'ckpt merge')
        flags='--help --table --key --state --count --memory' switches='--help --state --count' commands=''
        ;;
    'top')
        flags='--help --n --interval --count --timeout' switches='--help' commands=''
        ;;
    'cluster_train')
        flags='--help --job_workspace --job_dispatch_package --conf --ssh --paddle --connect --server-ready --server-grace --grace' switches='--help' commands=''
        ;;
    'pserver')
        flags='--help' switches='--help' commands=''
        ;;
    'train')
        flags='--help' switches='--help' commands=''
        ;;
    'mpi' | k8s)
        flags='--help --machines --size --hostname --port --ports_num --ports_num_for_sparse --log_dir --grace --server-grace' switches='--help' commands=''
        ;;
    'docs')
        flags='--help' switches='--help' commands=''
        ;;
    'version')
        flags='--help --v' switches='--help --v' commands=''
        ;;
    'help')
        flags='--help' switches='--help' commands=''
        ;;
    esac
}
_paddlerun() {
    local flags switches commands values command='' flag='' plain='' word current
    local -a words
    read -ra words <<<"${COMP_LINE:0:COMP_POINT}x"
    current=${words[${#words[@]} - 1]%x}
    COMPREPLY=()
    [[ ${words[0]##*/} != fleetrun ]] || command=fleetrun
    local table=_paddlerun_table
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
complete -o default -F _paddlerun paddlerun fleetrun
