#!/usr/bin/env python3
"""Holds the `model.py` of exports against Longwave itself: logits of texts of L/2, L, 2L and 4L tokens, and all gradients.

    LONGWAVE_EXPORTS=.cache/exports cargo test --package longwave-tests --test workspace hub::torch
    python3 tests/pytorch.py .cache/exports/torch .cache/trained

`sh tests/torch.sh` does all of it. The first command writes one folder for each encoding, and for each extension of each, with our numbers
in `expected.safetensors`. It ends with 1 if a logit is off by more than 1e-4, or a gradient by more than 1e-4 of the largest of its
parameter (of 1 where that is less). It names and counts the models that have no numbers of ours. The second folder is written: a model
that was trained a few steps further, with its logits.
"""

import importlib.util
import json
import pathlib
import shutil
import sys
from types import ModuleType

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

TOLERANCE = 1e-4


def module_of(folder: pathlib.Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"model_{abs(hash(folder))}", folder / "model.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def numbers(path: pathlib.Path) -> dict[str, Tensor]:
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    found = {}
    for name, about in json.loads(data[8:start]).items():
        if name != "__metadata__":
            first, last = (start + at for at in about["data_offsets"])
            found[name] = torch.frombuffer(bytearray(data[first:last]), dtype=torch.float32).reshape(about["shape"])
    return found


def text(length: int, row: int = 0) -> Tensor:
    return torch.tensor([(i * i * 7 + 40 + 31 * row) % 256 for i in range(length)])


def loss_of(model: torch.nn.Module, length: int) -> Tensor:
    texts = torch.stack([text(length + 1, row) for row in range(2)])
    return cross_entropy(model(texts[:, :-1]).flatten(0, 1), texts[:, 1:].flatten())


def check(folder: pathlib.Path) -> str | None:
    """What is off, in words."""
    model = module_of(folder).load(folder)
    expected = numbers(folder / "expected.safetensors")
    gradients = {name.removeprefix("gradient."): g for name, g in expected.items() if name.startswith("gradient.")}
    wrong = []
    if not any(name.startswith("logits.") for name in expected):
        return "nothing to hold it against"
    for name, ours in expected.items():
        if name.startswith("logits."):
            with torch.no_grad():
                theirs = model(text(ours.shape[1])[None])
            off = (theirs - ours).abs().max().item()
            if not off <= TOLERANCE:
                wrong.append(f"{name} {off:.1e}")
    if gradients:
        loss_of(model, model.config["train_length"]).backward()
        parameters = dict(model.named_parameters())
        if parameters.keys() != gradients.keys():
            wrong.append(f"other parameters: {sorted(parameters.keys() ^ gradients.keys())}")
        for name in parameters.keys() & gradients.keys():
            theirs = parameters[name].grad
            theirs = torch.zeros_like(gradients[name]) if theirs is None else theirs
            off = (theirs - gradients[name]).abs().max() / gradients[name].abs().max().clamp_min(1)
            if not off <= TOLERANCE:
                wrong.append(f"gradient of {name} {off:.1e}")
    return ", ".join(wrong) or None


def train(folder: pathlib.Path, out: pathlib.Path) -> None:
    """Trains a few steps, and writes the folder with its logits."""
    shutil.copytree(folder, out, dirs_exist_ok=True)
    module = module_of(out)
    model = module.load(out).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = loss_of(model, model.config["train_length"])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if not losses[-1] < losses[0]:
        raise SystemExit(f"{folder.name} does not learn: {losses}")
    module.save(model.eval(), out)
    model = module.load(out)
    with torch.no_grad():
        logits = model(text(model.config["train_length"])[None]).contiguous()
    header = {"logits": {"dtype": "F32", "shape": list(logits.shape), "data_offsets": [0, 4 * logits.numel()]}}
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    data = bytes(logits.flatten().view(torch.uint8).tolist())
    (out / "expected.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + data)


def main() -> int:
    torch.set_num_threads(1)
    root, trained = map(pathlib.Path, sys.argv[1:3])
    folders = sorted(path.parent for path in root.glob("*/expected.safetensors"))
    if not folders:
        raise SystemExit(f"{root} has no folder with expected.safetensors")
    left_out = sorted(path.name for path in root.iterdir() if path.is_dir() and path not in folders)
    failed = 0
    for folder in folders:
        try:
            wrong = check(folder)
        except Exception as error:  # noqa: BLE001
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            failed += 1
            print(f"{folder.name}: {wrong}")
    first = next(folder for folder in folders if folder.name.endswith("-kerple"))
    train(first, trained)
    for name in left_out:
        print(f"{name}: left out, as our own logits are not finite at any length")
    print(f"{len(folders)} models with PyTorch {torch.__version__}, {failed} of them wrong; {len(left_out)} left out")
    return int(failed > 0)


sys.exit(main())
