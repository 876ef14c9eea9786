#!/usr/bin/env python3
"""Our program beside PyTorch on this machine: the same model, weights and batches, the same threads, in turn.

    python3 benches/peers/run.py [train] [long] [rope] [attention] [--rounds 5] [--device cpu|gpu] [--threads 2] [--steps 6]

Run from the repository's root. A virtual environment with torch and numpy is made once in `.cache/peers`. Each
round runs every program once, so that all of them meet the same machine; a ratio is PyTorch's time over ours in
the same round, and what is printed is the median ratio with the least and the largest. Losses are compared
before times: a peer that computes something else is an error.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
CACHE = ROOT / ".cache"
PYTHON = CACHE / "peers" / "bin" / "python"
PROGRAM = ROOT / "target" / "debug" / "longwave"
# Measures single operations.
XTASK = ROOT / "target" / "debug" / "xtask"
# The first steps make the optimizer's moments and fill the allocator; ours warm up once, PyTorch's twice.
STEPS_SECONDS = 3
# Losses of the same steps in f32, summed in another order, drift apart slowly. What is in bf16 is held against ours in f32.
LOSS_TOLERANCE = {"f32": 2e-3, "bf16": 2.5e-2}

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("what", nargs="*", choices=["train", "long", "rope", "attention", []], default=[])
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu", help="`gpu`: ours through wgpu, PyTorch through CUDA or ROCm")
parser.add_argument("--threads", type=int, default=os.cpu_count())
parser.add_argument("--steps", type=int, default=6, help="training steps of a round, two of them to warm up")
parser.add_argument("--seconds", type=float, default=0.7, help="time for each operation of a round")
parser.add_argument("--sizes", default="128,256,384", help="training sizes, by width")
parser.add_argument("--precisions", default="f32,bf16", help="precisions of training")
parser.add_argument("--lengths", default="128,512,2048,8192", help="lengths of attention")
parser.add_argument("--long", type=int, default=16384, help="the length of the long reading")
parser.add_argument("--json", type=pathlib.Path, help="append every measurement to this file")
arguments = parser.parse_args()


def install():
    """PyTorch from the package index; numpy reads the batches."""
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", CACHE / "peers"], check=True)
    if subprocess.run([PYTHON, "-c", "import torch, numpy"], capture_output=True).returncode != 0:
        subprocess.run([PYTHON, "-m", "pip", "install", "-q", "torch", "numpy"], check=True)


def measured(command):
    """The JSON lines that a program prints, each with the process's own peak memory."""
    process = subprocess.Popen([str(part) for part in command], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"{' '.join(map(str, command))} failed")
    records = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    for record in records:
        record["peak_resident_bytes"] = usage.ru_maxrss * 1024
        if arguments.json:
            with open(arguments.json, "a") as file:
                file.write(json.dumps(record) + "\n")
    return records


def there():
    return ["--device", arguments.device, "--threads", arguments.threads]


def ours(*command, program=PROGRAM):
    return measured([program, "bench", *command, "--json", "--alone", *there()])


def torch(script, *command):
    return measured([PYTHON, HERE / script, *command, *there()])


def export(config, name, steps, *changes):
    folder = CACHE / "peers-data" / name
    command = [PROGRAM, "bench", "train", "--config", config, "--export", folder, "--steps", steps, *changes]
    subprocess.run([str(part) for part in command], cwd=ROOT, check=True, stderr=subprocess.DEVNULL)
    return folder


def same_losses(record, precision="f32"):
    """The record of a peer that computes what ours computes."""
    if not record["loss_difference"] <= LOSS_TOLERANCE[precision]:
        raise SystemExit(f"{record['peer']}: losses differ by {record['loss_difference']}")
    return record


def in_turn(title, own, peers):
    """Rounds of `own` and every peer, each giving its record; prints each peer's ratios."""
    rounds = [(own(), [peer() for _, peer in peers]) for _ in range(arguments.rounds)]
    mine = statistics.median(own["seconds"] for own, _ in rounds)
    memory = max(own["peak_resident_bytes"] for own, _ in rounds) / 2**20
    print(f"{title:44} ours {mine * 1e3:10.2f} ms {memory:8.0f} MiB resident", flush=True)
    for index, (name, _) in enumerate(peers):
        records = [peers[index] for _, peers in rounds]
        ratios = [peer["seconds"] / own["seconds"] for own, peer in zip((own for own, _ in rounds), records)]
        time = statistics.median(record["seconds"] for record in records)
        memory = max(record["peak_resident_bytes"] for record in records) / 2**20
        print(
            f"  {name:42} {time * 1e3:15.2f} ms {memory:8.0f} MiB   "
            f"ours is {statistics.median(ratios):.2f} times as fast ({min(ratios):.2f} to {max(ratios):.2f})",
            flush=True,
        )


def train():
    for size in arguments.sizes.split(","):
        for precision in arguments.precisions.split(","):
            training(size, precision)


def training(size, precision):
    config = HERE / f"{size}.toml"
    change = lambda precision: ["--set", f"train.precision={precision}"]
    folder = export(config, size, arguments.steps)
    own = lambda precision=precision: ours("train", "--config", config, *change(precision), "--seconds", STEPS_SECONDS)[0]

    def peer(mode):
        return same_losses(torch("train.py", folder, "--mode", mode, "--precision", precision)[0], precision)

    peers = [(f"torch {mode}", lambda mode=mode: peer(mode)) for mode in ("eager", "compile")]
    if precision != "f32":
        peers.append(("ours in f32", lambda: own("f32")))
    in_turn(f"training step, width {size}, {precision}", own, peers)


def long():
    attentions = {"none": ["causal"], "rope": ["causal"], "alibi": ["dense", "blocks", "flex"], "t5": ["dense", "blocks"]}
    for encoding, kinds in attentions.items():
        change = ["--set", f'position={{kind="{encoding}"}}']
        config = HERE / "128.toml"
        folder = export(config, f"long-{encoding}", 1, *change)
        own = lambda: ours("eval", "--config", config, *change, "--lengths", arguments.long, "--seconds", 0)[0]
        read = lambda kind: same_losses(torch("long.py", folder, "--length", arguments.long, "--attention", kind)[0])
        peers = [(f"torch, {kind}", lambda kind=kind: read(kind)) for kind in kinds]
        in_turn(f"reading {arguments.long} tokens, {encoding}", own, peers)


def operation(title, own_command, own_case, script_command):
    """Forward and backward of one operation, against both modes of PyTorch."""
    for index, direction in enumerate(["forward", "backward"]):

        def own():
            records = ours(*own_command, "--seconds", arguments.seconds, program=XTASK)
            return next(r for r in records if r["case"] == own_case and r["direction"] == direction)

        def peer(mode):
            return torch("ops.py", *script_command, "--mode", mode, "--seconds", arguments.seconds)[index]

        in_turn(f"{title}, {direction}", own, [(f"torch {mode}", lambda mode=mode: peer(mode)) for mode in ("eager", "compile")])


def rope():
    for elements in (1 << 20, 1 << 22, 1 << 24):
        operation(f"rope, {elements} numbers", ["rope", "--elements", elements], "rotate, half", ["rope", "--elements", elements])


def attention():
    for length in map(int, arguments.lengths.split(",")):
        for name, flags in (("none", []), ("alibi", ["--alibi"])):
            case = f"{max(2048 // length, 1)} x {length}, {name}"
            operation(f"attention, {case}", ["attention", "--lengths", length], case, ["attention", "--length", length, *flags])


install()
features = ["--features", "longwave/gpu,longwave/autotune"] if arguments.device == "gpu" else []
subprocess.run(["cargo", "build", "-q", "-p", "longwave", "-p", "xtask", *features], cwd=ROOT, check=True)
for each in arguments.what or ["train", "long", "rope", "attention"]:
    {"train": train, "long": long, "rope": rope, "attention": attention}[each]()
