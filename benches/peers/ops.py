"""RoPE and attention alone in PyTorch, at the sizes of `cargo xtask bench rope` and `cargo xtask bench attention`.

    ops.py rope --elements N | attention --length N [--alibi]   [--mode eager|compile] [--device cpu|gpu] [--threads N] [--seconds S]

Prints one JSON object for each direction, with the fields of ours; `copy_fraction` is over a copy timed in turn.
"""

import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F

import model

parser = argparse.ArgumentParser()
parser.add_argument("bench", choices=["rope", "attention"])
parser.add_argument("--elements", type=int, default=1 << 22)
parser.add_argument("--length", type=int, default=512)
parser.add_argument("--alibi", action="store_true")
parser.add_argument("--mode", choices=["eager", "compile"], default="eager")
parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--seconds", type=float, default=0.7)
arguments = parser.parse_args()
model.use(arguments.device, arguments.threads)
HEADS, HEAD_DIM = 4, 64


def in_turn(subjects):
    """Median and least seconds of each `(prepare, run)`, taken in turn after one run to warm up."""
    for prepare, run in subjects:
        run(prepare())
    times = [[] for _ in subjects]
    while True:
        ran = False
        for index, (prepare, run) in enumerate(subjects):
            if len(times[index]) >= 3 and (sum(times[index]) >= arguments.seconds or len(times[index]) >= 101):
                continue
            prepared = prepare()
            model.finish()
            start = time.perf_counter()
            result = run(prepared)
            model.finish()
            times[index].append(time.perf_counter() - start)
            del result
            ran = True
        if not ran:
            return [(statistics.median(each), min(each)) for each in times]


def tell(case, direction, median, least, **more):
    peer = f"torch {torch.__version__} {arguments.mode}"
    record = {"bench": arguments.bench, "case": case, "direction": direction, "peer": peer}
    print(json.dumps({**record, "seconds": median, "seconds_min": least, **more}))


def directions(operation, inputs):
    """(forward, backward alone) of an operation of some inputs, as subjects."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    with torch.no_grad():
        gradient = torch.rand_like(operation(*inputs))

    def forward(_):
        with torch.no_grad():
            return operation(*inputs)

    backward = lambda out: torch.autograd.grad(out, leaves, gradient)
    return (lambda: None, forward), (lambda: operation(*leaves), backward)


def rope():
    length, half = 128, HEAD_DIM // 2
    x = torch.rand(arguments.elements // (HEADS * length * HEAD_DIM), HEADS, length, HEAD_DIM)
    angles = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(half) / half)
    cos, sin = angles.cos(), angles.sin()

    def rotate(x):
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)

    operation = torch.compile(rotate) if arguments.mode == "compile" else rotate
    to, from_ = torch.empty_like(x), torch.rand_like(x)
    copy = (lambda: None, lambda _: to.copy_(from_))
    times = in_turn([copy, *directions(operation, [x])])
    for direction, (median, least) in zip(["forward", "backward"], times[1:]):
        tell("rotate, half", direction, median, least, elements=x.numel(), copy_fraction=times[0][0] / median)


def attention():
    length = arguments.length
    batch = max(2048 // length, 1)
    q, k, v = (torch.rand(batch, HEADS, length, HEAD_DIM) * 2 - 1 for _ in range(3))
    if arguments.alibi:
        bias = model.dense_bias({"encoding": "alibi", "heads": HEADS}, length)
        operation = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    else:
        operation = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    if arguments.mode == "compile":
        operation = torch.compile(operation)
    case = f"{batch} x {length}, {'alibi' if arguments.alibi else 'none'}"
    for direction, (median, least) in zip(["forward", "backward"], in_turn([*directions(operation, [q, k, v])])):
        tell(case, direction, median, least, tokens=batch * length)


{"rope": rope, "attention": attention}[arguments.bench]()
