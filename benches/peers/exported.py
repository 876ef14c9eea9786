#!/usr/bin/env python3
"""Compares Hugging Face's `transformers` with models that `longwave export` wrote.

    LONGWAVE_EXPORTS=.cache/exports cargo test --package longwave-tests --test workspace hub::
    python3 benches/peers/exported.py .cache/exports

Run from the repository's root, with a Python that has torch and transformers. The first command writes one folder
for each published architecture, and for each `rope_type` of a scaled one, with our logits of texts of L, 2L and 4L tokens
in `expected.json`. The second loads each folder as any user of transformers would, refuses weights that are missing, left over
or of another shape, and compares logits and losses. It ends with 1 if a logit is off by more than 2e-5, or a loss by more
than 5e-5.
"""

import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

LOGIT_TOLERANCE, LOSS_TOLERANCE = 2e-5, 5e-5
TEXT = "the wave is long: é 😀"


def check(folder: pathlib.Path) -> bool:
    model, loading = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    strangers = {kind: names for kind, names in loading.items() if names and kind != "conversion_errors"}
    if strangers:
        raise SystemExit(f"{folder.name}: {strangers}")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if tokenizer(TEXT)["input_ids"] != list(TEXT.encode()) or tokenizer.decode(list(TEXT.encode())) != TEXT:
        raise SystemExit(f"{folder.name}: another tokenizer")
    right = True
    # Short texts first: once it has read a long one, transformers keeps the frequencies of `dynamic` for shorter ones.
    for expected in sorted(json.loads((folder / "expected.json").read_text()), key=lambda text: len(text["tokens"])):
        tokens = torch.tensor(expected["tokens"])
        with torch.no_grad():
            theirs = model(tokens[None]).logits[0]
        ours = torch.tensor(expected["logits"]).reshape(theirs.shape)
        off = (theirs - ours).abs().max().item()
        losses = [torch.nn.functional.cross_entropy(logits[:-1], tokens[1:]).item() for logits in (ours, theirs)]
        right &= off <= LOGIT_TOLERANCE and abs(losses[0] - losses[1]) <= LOSS_TOLERANCE
        print(f"{folder.name:20} {len(tokens):4} tokens  logits {off:.1e}  loss {losses[0]:.6f}  transformers {losses[1]:.6f}")
    return right


def main() -> int:
    return 0 if all([check(folder) for folder in sorted(pathlib.Path(sys.argv[1]).iterdir())]) else 1


sys.exit(main())
