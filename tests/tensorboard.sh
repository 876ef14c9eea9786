#!/bin/sh
# Reads the curves of a run and of a study with a real TensorBoard.
#
#   sh tests/tensorboard.sh      needs python3 with venv and a package index; builds the program: about two minutes
#
# It installs TensorBoard into an environment that it removes again, trains a small run, goes on with it, trains a small
# study, starts TensorBoard, and asks it for the loss by step and the perplexity by length.
#
# LONGWAVE names a program that is built already. Exit codes: 0 TensorBoard shows the numbers of the run, 77 this machine
# cannot have a TensorBoard, anything else a failure.
set -eu

left_out() {
    echo "LEFT OUT: the curves are not read by TensorBoard: $1" >&2
    exit 77
}

root=$(cd "$(dirname "$0")/.." && pwd)
program=${LONGWAVE:-$root/target/debug/longwave}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

command -v python3 >/dev/null || left_out "there is no python3"
python3 -m venv "$work/python" 2>/dev/null || left_out "python3 has no venv"
"$work/python/bin/pip" install --quiet --disable-pip-version-check tensorboard setuptools 2>/dev/null ||
    left_out "pip cannot install tensorboard"
[ -x "$program" ] || (cd "$root" && cargo build --workspace)

cd "$work"
# A run that goes on has each step once.
train() {
    "$program" train --config rope.toml --set model.size=nano --set train.length=32 --set train.batch_tokens=256 \
        --set train.schedule=wsd --set train.warmup=2 --set train.validate_every=5 "$@" --out runs/rope >/dev/null
}
train --set train.steps=10 --set 'evaluate=[]'
train --set train.steps=20 --resume
cat >small.toml <<'END'
name = "small"
base = "rope.toml"
seeds = 2

[set]
model = { size = "nano" }
train = { length = 32, steps = 10, batch_tokens = 256, validate_every = 5 }

[[axis]]
key = "position"
values = ["rope", "alibi"]

[[evaluate]]
lengths = ["L", "2L"]
windows_per_document = 1
END
"$program" study small.toml >/dev/null

"$work/python/bin/python" - <<'END'
import json, subprocess, sys, time, urllib.parse, urllib.request
from pathlib import Path

port = 6123
study = "studies/small/report/tensorboard/by_length"
wanted = {"rope/tensorboard/train", "rope/tensorboard/by_length", study}
server = subprocess.Popen(
    [sys.executable, "-m", "tensorboard.main", "--logdir", "runs", "--port", str(port), "--load_fast=false"],
    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

def asked(path, **query):
    url = f"http://localhost:{port}/data/plugin/scalars/{path}?{urllib.parse.urlencode(query)}"
    return json.load(urllib.request.urlopen(url, timeout=10))

def curve(run, tag):
    return {step: value for _, step, value in asked("scalars", run=run, tag=tag)}

def near(found, expected, what):
    assert set(found) == set(expected), (what, sorted(found), sorted(expected))
    for step, value in expected.items():
        assert abs(found[step] - value) <= 1e-5 * abs(value), (what, step, found[step], value)

def lines(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]

try:
    for _ in range(120):
        time.sleep(0.5)
        try:
            tags = asked("tags")
        except OSError:
            continue
        # Runs are listed before their curves are read.
        if all(tags.get(run) for run in wanted):
            break
    assert all(tags.get(run) for run in wanted), tags
    metrics = lines("runs/rope/metrics.jsonl")
    near(curve("rope/tensorboard/train", "loss/train"), {m["step"]: m["loss"] for m in metrics}, "training loss")
    near(curve("rope/tensorboard/train", "loss/valid"),
         {m["step"]: m["valid_loss"] for m in metrics if "valid_loss" in m}, "validation loss")
    rows = [row for row in lines("runs/rope/results.jsonl") if row["extend"] == "direct"]
    near(curve("rope/tensorboard/by_length", "perplexity/direct"),
         {row["length"]: row["ppl"] for row in rows}, "perplexity by length")
    names = sorted(tags[study])
    assert len(curve(study, names[0])) == 2 and any("rope" in name for name in names), names
    print("TensorBoard shows", {run: sorted(found) for run, found in tags.items() if "store" not in run})
finally:
    server.terminate()
    server.wait()
END
echo "TensorBoard shows the losses and the perplexity by length of the run and of the study"
