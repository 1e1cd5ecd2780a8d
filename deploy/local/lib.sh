# shellcheck shell=bash
# shellcheck disable=SC2034
# Shared by the scripts of this folder; sourced, never run.
set -euo pipefail

KUBERNETES_PINNED=v1.35.4
KUBERNETES_VERSION=${KUBERNETES_VERSION:-$KUBERNETES_PINNED}
APISERVER_VERSION=${APISERVER_VERSION:-$KUBERNETES_VERSION}   # an older one, to try what is installed there: make compat
ETCD_VERSION=${ETCD_VERSION:-v3.6.16}
COREDNS_VERSION=${COREDNS_VERSION:-v1.14.7}
HELM_VERSION=${HELM_VERSION:-v3.20.2}
KWOK_VERSION=${KWOK_VERSION:-v0.7.0}
# Gang schedulers.  Volcano and scheduler-plugins are made of parts of kube-scheduler, of the minor version they are released for.
VOLCANO_VERSION=${VOLCANO_VERSION:-v1.14.1}
VOLCANO_APIS_VERSION=${VOLCANO_APIS_VERSION:-v1.14.0}
GANG_KUBERNETES_VERSION=${GANG_KUBERNETES_VERSION:-v1.34.1}
SCHEDULER_PLUGINS_VERSION=${SCHEDULER_PLUGINS_VERSION:-v0.34.7}
KUEUE_VERSION=${KUEUE_VERSION:-v0.16.2}
# Operators that `make bench-operator` runs beside ours.
# Upstream's: its version, and the checksums of that version's module and go.mod, which the public list does not have.
PADDLE_OPERATOR=${PADDLE_OPERATOR:-v0.3.5 h1:s00/ugf95Hq0UjDhGgbBYRbSYRXAw3eFUxEvFJ2o0xo= h1:fT5XI8qFr6IqhUC7Pl3AonzEpyhKLFlri+KxWjgTOCA=}
read -r PADDLE_OPERATOR_VERSION PADDLE_OPERATOR_SUM PADDLE_OPERATOR_MOD_SUM <<<"$PADDLE_OPERATOR"
JOBSET_VERSION=${JOBSET_VERSION:-v0.12.0}
GO_MINIMUM=1.25                                       # what those versions ask for
CACHE=${LOCAL_CLUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/local-cluster}
PAUSE_IMAGE=local-cluster/pause:1

# Addresses of a full cluster.  Every node is a network namespace: its own node
# address, its own pod bridge, its own service rules.
NODE_NET=${LOCAL_CLUSTER_NODE_NET:-10.250.0}          # .1 is the host, .10+i node i
POD_NET=${LOCAL_CLUSTER_POD_NET:-10.244}              # node i has POD_NET.i.0/24
SERVICE_CIDR=${LOCAL_CLUSTER_SERVICE_CIDR:-10.96.0.0/16}
SERVICE_IP=${SERVICE_CIDR%.*}.1                       # of the kubernetes Service
BRIDGE=${LOCAL_CLUSTER_BRIDGE:-lcbr0}

START=${EPOCHREALTIME/,/.}
PROCESSORS=$(nproc)

say() {
  awk -v a="$START" -v b="${EPOCHREALTIME/,/.}" -v m="$*" \
    'BEGIN { printf "%7.2fs  %s\n", b - a, m }' >&2
}

die() { echo "error: $*" >&2; exit 1; }

have() { command -v "$1" >/dev/null 2>&1; }

# usage: the comment at the head of the script.
usage() { sed -n '/^# shellcheck/d; 2,/^[^#]/s/^# \{0,1\}//p' "$0"; }

# --- progress ----------------------------------------------------------------

# busy label log command...: run it with its output in the log, say every few
# seconds that it goes on, and end the script with the log's tail if it fails.
busy() {
  local label=$1 log=$2 pid last status=0 began=$SECONDS next=$((SECONDS + 2)); shift 2
  # A process group of its own, so that an interrupt ends all of it; without the
  # locks of the scripts, which would outlive them.
  set -m
  "$@" >"$log" 2>&1 </dev/null 8>&- 9>&- &
  pid=$!
  set +m
  # shellcheck disable=SC2064
  trap "kill -TERM -- -$pid 2>/dev/null; exit 130" INT TERM
  while kill -0 "$pid" 2>/dev/null; do
    if ((SECONDS >= next)); then
      next=$((SECONDS + 4))
      last=$(tail -n 1 "$log" | sed 's/^ *//; s/  */ /g' | cut -c1-60)
      say "$label: $((SECONDS - began)) s${last:+, line $(wc -l <"$log"): $last}"
    fi
    sleep 0.1
  done
  wait "$pid" || status=$?
  trap - INT TERM
  ((status == 0)) && return 0
  tail -n 20 "$log" >&2
  die "$label failed after $((SECONDS - began)) s; all of its output: $log"
}

# --- what must be installed ----------------------------------------------------

apt_install() {
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120)
  # Nothing that is there may go for it: Debian's containerd would displace Docker's.
  "${apt[@]}" install -y --no-remove --no-install-recommends "$@" ||
    { "${apt[@]}" update && "${apt[@]}" install -y --no-remove --no-install-recommends "$@"; }
}

# need_packages package...: install these Debian packages.
need_packages() {
  (($#)) || return 0
  have apt-get || die "missing: $* (no apt-get here)"
  [[ $(id -u) == 0 ]] || die "missing: $*; run as root: apt-get install --no-install-recommends $*"
  say "installing $*"
  local log
  log=$(mktemp)
  busy "installing packages" "$log" apt_install "$@"
  rm -f "$log"
}

# need_commands command=package...: install the packages of missing commands.
need_commands() {
  local pair missing=()
  PATH=$PATH:/usr/sbin:/sbin
  for pair; do
    have "${pair%%=*}" || missing+=("${pair#*=}")
  done
  need_packages ${missing[@]+"${missing[@]}"}
}

# Go is not taken from Debian 12, whose version is too old.
need_go() {
  local found
  PATH=$PATH:/usr/local/go/bin
  found=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null || true)
  [[ $found ]] && printf '%s\n' "$GO_MINIMUM" "${found#go}" | sort -CV && return 0
  die "building the local cluster needs Go $GO_MINIMUM or later (${found:-none found}):" \
    "unpack one from https://go.dev/dl to /usr/local/go, or put it first in PATH, and run this again"
}

# bin component: the path of a built program.
bin() {
  case $1 in
    kube-apiserver) echo "$CACHE/kubernetes-$APISERVER_VERSION/$1" ;;
    etcd)    echo "$CACHE/etcd-$ETCD_VERSION/etcd" ;;
    coredns) echo "$CACHE/coredns-$COREDNS_VERSION/coredns" ;;
    helm)    echo "$CACHE/helm-$HELM_VERSION/helm" ;;
    kwok)    echo "$CACHE/kwok-$KWOK_VERSION/kwok" ;;
    vc-*)    echo "$CACHE/volcano-$VOLCANO_VERSION/$1" ;;
    kueue)   echo "$CACHE/kueue-$KUEUE_VERSION/kueue" ;;
    coscheduling) echo "$CACHE/scheduler-plugins-$SCHEDULER_PLUGINS_VERSION/coscheduling" ;;
    paddle-operator) echo "$CACHE/paddle-operator-$PADDLE_OPERATOR_VERSION/paddle-operator" ;;
    jobset)  echo "$CACHE/jobset-$JOBSET_VERSION/jobset" ;;
    *)       echo "$CACHE/kubernetes-$KUBERNETES_VERSION/$1" ;;
  esac
}

# --- processes ---------------------------------------------------------------
# A pid file holds "pid starttime", so that a reused pid is never mistaken for ours.

# Nothing for a process that ended, reaped or not.
start_time() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | awk '$1 != "Z" { print $20 }'; }

running() {
  local pid born
  [[ -f $STATE/pid/$1 ]] && read -r pid born <"$STATE/pid/$1" && [[ $(start_time "$pid") == "$born" ]]
}

# start name command...: run in the background unless it already runs.
start() {
  local name=$1 pid fd; shift
  running "$name" && return 0
  # No lock may live on in what outlives the script: neither its own nor one of who called it.
  (
    for fd in /proc/self/fd/*; do fd=${fd##*/}; ((fd <= 2)) || exec {fd}>&-; done
    exec setsid "$@"
  ) >>"$STATE/log/$name.log" 2>&1 </dev/null &
  pid=$!
  echo "$pid $(start_time "$pid")" >"$STATE/pid/$name"
}

# stop name signal: and KILL after ten seconds.
stop() {
  local name=$1 pid born deadline=$((SECONDS + 10))
  if running "$name"; then
    read -r pid born <"$STATE/pid/$name"
    kill "-$2" "$pid" 2>/dev/null || true
    while running "$name"; do
      ((SECONDS < deadline)) || kill -KILL "$pid" 2>/dev/null || true
      sleep 0.02
    done
    say "stopped $name"
  fi
  rm -f "$STATE/pid/$name"
}

# hundredths name: sets the variable to a time in hundredths of a second.
hundredths() { local t=${EPOCHREALTIME/[,.]/}; printf -v "$1" %s "${t%????}"; }

# counted hundredths name: sets the variable to how much of this time counts.  As tests/supervise.py has it: with more than four
# ready threads a processor, only the share that those would have of it.
counted() {
  local load usual=$((400 * PROCESSORS))
  read -r load _ </proc/loadavg
  load=$((10#${load/./}))
  printf -v "$2" %s $((load > usual ? $1 * usual / load : $1))
}

# wait_for name seconds what command...: poll; fail at once if process name died.  On a busy machine the seconds are longer:
# what waits for a processor has not failed.  A pause is as long as the try before it, so that tries leave half of a processor
# to what they wait for.
wait_for() {
  local name=$1 began=$SECONDS left=$((100 * $2)) what=$3 next=$((SECONDS + 2)) last tried now spent; shift 3
  hundredths last
  until hundredths tried; "$@" >/dev/null 2>&1; do
    running "$name" || { tail -n 15 "$STATE/log/$name.log" >&2; die "$name ended; see $STATE/log/$name.log"; }
    hundredths now
    counted $((now - last)) spent
    ((left -= spent, left > 0)) || {
      tail -n 15 "$STATE/log/$name.log" >&2
      die "not after $((SECONDS - began)) s: $what; see $STATE/log/$name.log"
    }
    last=$now
    ((SECONDS < next)) || { next=$((SECONDS + 2)); say "waiting: $what"; }
    sleep "$((now - tried > 10 ? now - tried : 10))e-2"
  done
  say "$what"
}
