#!/bin/sh
# Holds the Slurm launcher against the local one, on a Slurm of one node that this script starts.
#
#   sh tests/slurm.sh            as root, on Debian or Ubuntu; builds the program, installs slurm-wlm and munge
#
# It starts munged, slurmctld and slurmd, runs one small study here and once more through two job arrays, of which the
# second waits for the first, and compares the results byte for byte: about half a minute. It ends exactly the processes
# that it started.
#
# LONGWAVE names a program that is built already. Exit codes: 0 the same numbers, 77 this machine cannot have
# a Slurm (no root, or no packages), anything else a failure.
set -eu

left_out() {
    echo "LEFT OUT: the Slurm launcher is not tested: $1" >&2
    exit 77
}

root=$(cd "$(dirname "$0")/.." && pwd)
program=${LONGWAVE:-$root/target/debug/longwave}
work=$(mktemp -d)
started=""

finish() {
    for process in $started; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap finish EXIT INT TERM

[ "$(id -u)" = 0 ] || left_out "it needs root, to start munged and slurmd"
if ! command -v slurmctld >/dev/null || ! command -v slurmd >/dev/null || ! command -v munged >/dev/null; then
    command -v apt-get >/dev/null || left_out "there is no slurmctld, slurmd and munged, and no apt-get"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -q && apt-get install -qy --no-install-recommends slurm-wlm munge; } ||
        left_out "apt-get cannot install slurm-wlm and munge"
fi
[ -x "$program" ] || (cd "$root" && cargo build --workspace)

# munged wants its folders for itself.
mkdir -p /run/munge /var/log/munge /var/lib/munge /etc/munge
chown munge /run/munge /var/log/munge /var/lib/munge /etc/munge
chmod 755 /run/munge
[ -s /etc/munge/munge.key ] || { dd if=/dev/urandom of=/etc/munge/munge.key bs=1024 count=1 2>/dev/null; }
chown munge /etc/munge/munge.key && chmod 400 /etc/munge/munge.key
if ! munge -n 2>/dev/null | unmunge >/dev/null 2>&1; then
    setpriv --reuid munge --regid munge --clear-groups munged --foreground --pid-file="$work/munged.pid" \
        >"$work/munged.log" 2>&1 &
    started="$! $started"
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        if munge -n 2>/dev/null | unmunge >/dev/null 2>&1; then break; fi
        sleep 1
    done
fi
munge -n | unmunge >/dev/null || { cat "$work/munged.log"; exit 1; }

host=$(hostname -s)
# Ports of its own: another Slurm, or another copy of this test, may be running.
port=$((20000 + $$ % 10000 * 2))
mkdir -p "$work/state" "$work/spool"
cat >"$work/slurm.conf" <<CONF
ClusterName=longwave
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SlurmUser=root
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
ReturnToService=2
MaxArraySize=3
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
CONF
export SLURM_CONF="$work/slurm.conf"
slurmctld -D -f "$SLURM_CONF" >"$work/slurmctld.log" 2>&1 &
started="$! $started"
slurmd -D -f "$SLURM_CONF" >"$work/slurmd.log" 2>&1 &
started="$! $started"
for _ in $(seq 30); do
    if sinfo -h -o %T 2>/dev/null | grep -q idle; then break; fi
    sleep 1
done
sinfo -h -o %T | grep -q idle || { cat "$work/slurmctld.log" "$work/slurmd.log"; exit 1; }

# One project for each launcher, with the same small corpus and study.
for launcher in local slurm; do
    mkdir -p "$work/$launcher/corpus"
    for split in train valid test; do
        mkdir "$work/$launcher/corpus/$split"
        for index in 1 2 3; do
            for line in $(seq 60); do echo "the wave $index is long and its phase turns $((line * index % 7))"; done \
                >"$work/$launcher/corpus/$split/$index.txt"
        done
    done
    cat >"$work/$launcher/small.toml" <<TOML
name = "small"
[data]
corpus = "corpus"
[model]
layers = 2
width = 32
heads = 2
[position]
kind = "rope"
[train]
length = 32
steps = 10
batch_tokens = 256
TOML
    cat >"$work/$launcher/study.toml" <<TOML
name = "study"
base = "small.toml"
seeds = 2
[[axis]]
key = "position"
values = ["rope", "alibi"]
[[evaluate]]
lengths = [32, 64]
TOML
done
(cd "$work/local" && "$program" study study.toml)
(cd "$work/slurm" && "$program" study study.toml --launcher slurm --wait --jobs 2)
# Two tasks an array: four runs are two of them, and at most two runs go at a time.
arrays=$(grep -l -e '--array=0-1%2$' "$work"/slurm/runs/studies/study/slurm/*.sh | wc -l)
waiting=$(grep -l -e '--dependency=afterany:[0-9]*$' "$work"/slurm/runs/studies/study/slurm/*.sh | wc -l)
[ "$arrays" = 2 ] && [ "$waiting" = 1 ] || { echo "$arrays arrays, $waiting of them wait"; exit 1; }
for file in results.csv study.md; do
    cmp "$work/local/runs/studies/study/$file" "$work/slurm/runs/studies/study/$file"
done
echo "Slurm gives the same numbers"
