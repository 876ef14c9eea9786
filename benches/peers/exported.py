#!/usr/bin/env python3
"""Holds Hugging Face's `transformers` against models that `longwave export` wrote.

    LONGWAVE_EXPORTS=.cache/exports cargo test --package longwave-tests --test workspace hub::published
    python3 benches/peers/exported.py .cache/exports

Run from the repository's root, with a Python that has torch and transformers. The first command leaves one folder
for each published architecture, with our logits of one text in `expected.json`. The second loads each folder as
any user of transformers would, refuses weights that are missing, left over or of another shape, and compares the
logits. It ends with 1 if one is off by more than 2e-5.
"""

import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

TOLERANCE = 2e-5
TEXT = "the wave is long: é 😀"


def check(folder: pathlib.Path) -> float:
    model, loading = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    strangers = {kind: names for kind, names in loading.items() if names and kind != "conversion_errors"}
    if strangers:
        raise SystemExit(f"{folder.name}: {strangers}")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if tokenizer(TEXT)["input_ids"] != list(TEXT.encode()) or tokenizer.decode(list(TEXT.encode())) != TEXT:
        raise SystemExit(f"{folder.name}: another tokenizer")
    expected = json.loads((folder / "expected.json").read_text())
    with torch.no_grad():
        logits = model(torch.tensor([expected["tokens"]])).logits
    return (logits.flatten() - torch.tensor(expected["logits"])).abs().max().item()


def main() -> int:
    worst = 0.0
    for folder in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        off = check(folder)
        worst = max(worst, off)
        print(f"{folder.name:20} {off:.1e}")
    return 0 if worst <= TOLERANCE else 1


sys.exit(main())
