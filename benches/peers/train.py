"""Trains our model in PyTorch on our batches, from our initial weights: losses must agree, then time counts.

    train.py FOLDER --mode eager|compile --precision f32|bf16 --device cpu|gpu --threads N --warmup N

FOLDER is what `longwave bench train --export` wrote. Prints one JSON object: the median step's seconds,
the losses and the largest difference to ours.
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
parser.add_argument("--mode", choices=["eager", "compile"], default="eager")
parser.add_argument("--precision", choices=["f32", "bf16"], default="f32", help="bf16: the forward pass under autocast")
parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--warmup", type=int, default=2)
arguments = parser.parse_args()

model.use(arguments.device, arguments.threads)
run = json.loads((arguments.folder / "run.json").read_text())
weights = model.load_weights(arguments.folder / "weights.safetensors")
if run["encoding"] not in ("rope", "none"):
    raise SystemExit("train.py trains `rope` and `none`; long.py reads the others")
shape = (run["steps"], 2, run["sequences"], run["length"])
batches = numpy.fromfile(arguments.folder / "batches.bin", dtype="<u4").reshape(shape).astype("int64")
batches = model.here(torch.from_numpy(batches))

gpt = model.Gpt(run, weights, model.causal)
gpt.prepare(run["length"])
matrices = [p for p in gpt.parameters() if p.dim() >= 2]
vectors = [p for p in gpt.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW(
    [{"params": matrices, "weight_decay": run["weight_decay"]}, {"params": vectors, "weight_decay": 0.0}],
    lr=0.0,
    betas=(run["beta1"], run["beta2"]),
    eps=run["eps"],
    fused=True,
)
forward = torch.compile(gpt) if arguments.mode == "compile" else gpt

kind = "cuda" if arguments.device == "gpu" else "cpu"
autocast = torch.autocast(kind, dtype=torch.bfloat16, enabled=arguments.precision == "bf16")

losses, seconds = [], []
for step in range(run["steps"]):
    start = time.perf_counter()
    for group in optimizer.param_groups:
        group["lr"] = run["learning_rates"][step]
    with autocast:
        loss = forward(batches[step, 0], batches[step, 1])
    loss.backward()
    torch.nn.utils.clip_grad_norm_(gpt.parameters(), run["clip"])
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    losses.append(loss.item())
    model.finish()
    seconds.append(time.perf_counter() - start)

timed = seconds[arguments.warmup :]
print(
    json.dumps(
        {
            "peer": f"torch {torch.__version__} {arguments.mode} {arguments.precision}",
            "seconds": statistics.median(timed),
            "seconds_min": min(timed),
            "tokens_per_second": run["sequences"] * run["length"] / statistics.median(timed),
            "loss_difference": max(abs(a - b) for a, b in zip(losses, run["losses"])),
            "peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
    )
)
