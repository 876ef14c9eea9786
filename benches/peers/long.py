"""Reads one long text with our model in PyTorch, the last training length of tokens scored.

    long.py FOLDER --length N --attention causal|dense|blocks|flex --threads N --runs N

`dense` gives scaled_dot_product_attention the whole bias, `blocks` a bias for each block of queries, `flex`
is FlexAttention (for `alibi`). Prints one JSON object with the median pass and the process's peak memory.
"""

import argparse
import json
import pathlib
import resource
import statistics
import time

import torch

import model

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--length", type=int, default=16384)
parser.add_argument("--attention", choices=["causal", "dense", "blocks", "flex"], default="causal")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--runs", type=int, default=1)
arguments = parser.parse_args()

torch.set_num_threads(arguments.threads)
run = json.loads((arguments.folder / "run.json").read_text())
weights = model.load_weights(arguments.folder / "weights.safetensors")
length = arguments.length
table = next((value for name, value in weights.items() if name.startswith("position.") and value.dim() == 2), None)
attention = {
    "causal": lambda: model.causal,
    "dense": lambda: model.biased(model.dense_bias(run, length, table)),
    "blocks": lambda: model.in_blocks(run, length, table),
    "flex": lambda: model.flex(run),
}[arguments.attention]()

gpt = model.Gpt(run, weights, attention)
gpt.prepare(length)
generator = torch.Generator().manual_seed(0)
tokens = torch.randint(run["vocab_size"], (1, length), generator=generator)
targets = torch.randint(run["vocab_size"], (1, min(run["length"], length)), generator=generator)
seconds = []
with torch.inference_mode():
    gpt(tokens, targets)
    for _ in range(arguments.runs):
        start = time.perf_counter()
        gpt(tokens, targets).item()
        seconds.append(time.perf_counter() - start)
print(
    json.dumps(
        {
            "peer": f"torch {torch.__version__} {arguments.attention}",
            "seconds": statistics.median(seconds),
            "seconds_min": min(seconds),
            "peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
    )
)
