"""Reads one long text with our model in PyTorch, the last training length of tokens scored.

    long.py FOLDER --length N --attention causal|dense|blocks|flex --device cpu|gpu --threads N --runs N

`dense` gives scaled_dot_product_attention the whole bias, `blocks` a bias for each block of queries, `flex`
is FlexAttention (for `alibi`). Prints one JSON object: the median pass, the process's peak memory, and how far the
first batch's loss is from ours.
"""

import argparse
import json
import pathlib
import resource
import statistics
import time

import numpy
import torch

import model

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--length", type=int, default=16384)
parser.add_argument("--attention", choices=["causal", "dense", "blocks", "flex"], default="causal")
parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--runs", type=int, default=1)
arguments = parser.parse_args()

model.use(arguments.device, arguments.threads)
run = json.loads((arguments.folder / "run.json").read_text())
weights = model.load_weights(arguments.folder / "weights.safetensors")
table = next((value for name, value in weights.items() if name.startswith("position.") and value.dim() == 2), None)


def gpt_for(length):
    attention = {
        "causal": lambda: model.causal,
        "dense": lambda: model.biased(model.dense_bias(run, length, table)),
        "blocks": lambda: model.in_blocks(run, length, table, rows=min(512, max(length // 3, 1))),
        "flex": lambda: model.flex(run),
    }[arguments.attention]()
    gpt = model.Gpt(run, weights, attention)
    gpt.prepare(length)
    return gpt


# The first training batch must give the loss that ours gave.
shape = (run["steps"], 2, run["sequences"], run["length"])
first = numpy.fromfile(arguments.folder / "batches.bin", dtype="<u4").reshape(shape)[0].astype("int64")
first = model.here(torch.from_numpy(first))
with torch.inference_mode():
    loss_difference = abs(gpt_for(run["length"])(first[0], first[1]).item() - run["losses"][0])

length = arguments.length
gpt = gpt_for(length)
generator = torch.Generator(torch.get_default_device()).manual_seed(0)
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
            "loss_difference": loss_difference,
            "peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
    )
)
