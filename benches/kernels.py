#!/usr/bin/env python3
"""Training steps with the fused kernels beside plain tensor operations, for every config of `configs/`.

    python3 benches/kernels.py [--seconds 3] [--threads 2] [CONFIG ..]

Run from the repository's root. Both kinds of steps take turns in one process (`longwave bench train`). Prints a
Markdown table, slowest gain first, and below it the median gain.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "target" / "debug" / "longwave"

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("configs", nargs="*", type=pathlib.Path)
parser.add_argument("--seconds", default="3", help="time for each kind of step, of which there are at least three")
parser.add_argument("--threads", default="2")
arguments = parser.parse_args()

subprocess.run(["cargo", "build", "-q", "-p", "longwave"], cwd=ROOT, check=True)
rows = []
for config in arguments.configs or sorted((ROOT / "configs").glob("*.toml")):
    command = [PROGRAM, "bench", "train", "--config", config, "--json", "--device", "cpu"]
    command += ["--seconds", arguments.seconds, "--threads", arguments.threads]
    done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        message = next((line for line in done.stderr.splitlines() if line.startswith("error")), "failed")
        print(f"{config.stem}: {message}", file=sys.stderr)
        continue
    step = json.loads(done.stdout.splitlines()[0])
    mebibytes = [step[key] / 2**20 for key in ("reference_peak_bytes", "peak_bytes")]
    rows.append((step["speedup"], config.stem, 1e3 * step["reference_seconds"], 1e3 * step["seconds"], *mebibytes))
    print(f"{config.stem}: {step['speedup']:.2f}", file=sys.stderr)

print("| config | plain, ms | fused, ms | times as fast | plain, MiB | fused, MiB |\n|---|---|---|---|---|---|")
for gain, name, before, after, before_memory, memory in sorted(rows):
    print(f"| `{name}` | {before:.0f} | {after:.0f} | {gain:.2f} | {before_memory:.0f} | {memory:.0f} |")
if rows:
    print(f"\nMedian {statistics.median(row[0] for row in rows):.2f}, least {min(rows)[0]:.2f}.")
