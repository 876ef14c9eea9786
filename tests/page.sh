#!/bin/sh
# Holds the page of reports in a headless Chromium.
#
#   sh tests/page.sh [PICTURES]   needs Chromium and python3; builds the program: about two minutes
#
# It trains a small run, a small study and a folder of runs, and opens their pages 1280, 800 and 390 pixels wide, on light
# and dark screens: no error, nothing fetched, nothing clipped, overlapping, too small, too faint or without a name. Series
# are switched and values read by keys and pointer, tables sorted and copied; paper and a browser without scripts show
# everything. Where a folder PICTURES is given, pictures of the pages are left there, to be looked at.
#
# LONGWAVE names a program that is built already, CHROMIUM a browser. As root, on Debian or Ubuntu, Chromium is installed
# where it is missing. Exit codes: 0 the pages hold, 77 this machine cannot have a Chromium, anything else a failure.
set -eu

left_out() {
    echo "LEFT OUT: the page is not opened in a browser: $1" >&2
    exit 77
}

root=$(cd "$(dirname "$0")/.." && pwd)
program=${LONGWAVE:-$root/target/debug/longwave}
pictures=${1:+$(mkdir -p "$1" && cd "$1" && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

browser() {
    for name in ${CHROMIUM:-chromium chromium-browser google-chrome}; do
        # Ubuntu's package is a script that asks for a snap.
        if "$name" --version >/dev/null 2>&1; then command -v "$name" && return; fi
    done
    return 1
}

command -v python3 >/dev/null || left_out "there is no python3"
if ! chromium=$(browser); then
    [ "$(id -u)" = 0 ] || left_out "there is no Chromium, and installing it needs root"
    command -v apt-get >/dev/null || left_out "there is no Chromium, and no apt-get"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -q && apt-get install -qy --no-install-recommends chromium; } >/dev/null 2>&1 ||
        left_out "apt-get cannot install chromium"
    chromium=$(browser) || left_out "the chromium of apt-get does not start"
fi
[ -x "$program" ] || (cd "$root" && cargo build --workspace)

cd "$work"
train() {
    config=$1
    shift
    "$program" train --config "$config" --set model.size=nano --set train.length=32 --set train.batch_tokens=256 \
        --set train.warmup=2 --set train.validate_every=2 "$@" >/dev/null
}
train rope.toml --set train.steps=20 --set 'train.keep_checkpoints=[5, 10]' --out run --set 'evaluate=[
    { lengths = ["L", "2L", "4L", "8L"], extend = ["direct", "linear", "ntk", "yarn"], windows_per_document = 1, checkpoints = "all" },
    { protocol = "by_position", lengths = ["8L"], extend = ["direct", "yarn"], windows_per_document = 1 }]'
for encoding in alibi cope fire kerple learned none rope shaw sinusoidal t5 xpos; do
    train "$encoding.toml" --set train.steps=6 --out "atlas/$encoding" \
        --set 'evaluate=[{ lengths = ["L", "2L", "4L", "8L"], windows_per_document = 1 }]'
done
# A folder's name stands in tables and legends.
cp -r atlas/rope 'atlas/<b onclick="x">&amp; a name of a run that is as long as such names get'
"$program" report atlas >/dev/null
cat >small.toml <<'END'
name = "small"
base = "rope.toml"
seeds = 2
best = "2L"

[set]
model = { size = "nano" }
train = { length = 32, steps = 10, batch_tokens = 256, validate_every = 5 }

[[axis]]
key = "position"
values = ["rope", "alibi", "none"]

[[evaluate]]
lengths = ["L", "2L", "4L"]
windows_per_document = 1

[[claim]]
says = "alibi < rope at 4L"
END
"$program" study small.toml >/dev/null

python3 "$root/tests/page/check.py" "$chromium" ${pictures:+"$pictures"} -- \
    run/report.html atlas/report.html runs/studies/small/report/report.html
echo "the pages of a run, of a folder of runs and of a study hold at 1280, 800 and 390 pixels"
