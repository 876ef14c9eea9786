#!/usr/bin/env python3
"""Compares Hugging Face's `transformers` with the models that Longwave writes and reads.

    LONGWAVE_EXPORTS=.cache/exports cargo test --package longwave-tests --test workspace hub::
    python3 benches/peers/exported.py .cache/exports tests/published

Run from the repository's root, with a Python that has torch and transformers; `sh tests/transformers.sh` does all of it for
transformers 4 and 5. The first command writes one folder for each published architecture, and for each `rope_type` of a scaled one,
with our logits of texts of L/2, L, 2L and 4L tokens in `expected.json`. The second loads each folder as any user of transformers would,
refuses weights that are missing, left over or of another shape, and compares logits and losses. The folders of `tests/published` have the
losses of another program; there only what transformers 5 reads is held against them. It ends with 1 if a logit is off by more than 2e-5,
or a loss by more than 5e-5 (1e-4 in `tests/published`).
"""

import json
import pathlib
import sys

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

LOGIT_TOLERANCE, LOSS_TOLERANCE, PUBLISHED_TOLERANCE = 2e-5, 5e-5, 1e-4
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


# A llama has one kind of layer, and transformers 5 does not look into an entry for it: it reads the model unscaled.
NOT_READ_THERE = {"llama3-by-layer-kind"}


def check_losses(folder: pathlib.Path, text: bytes) -> bool:
    """Losses of the tokens of a text, each reading in a model of its own: some scalings remember the longest text."""
    right = True
    for reading in json.loads((folder / "expected.json").read_text())["readings"]:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        tokens = torch.tensor(list(text[: reading["tokens"] + 1]))
        with torch.no_grad():
            logits = model(tokens[None, :-1]).logits[0]
        theirs = torch.nn.functional.cross_entropy(logits.double(), tokens[1:], reduction="none")
        off = (theirs - torch.tensor(reading["nll"], dtype=torch.float64)).abs().max().item()
        right &= off <= PUBLISHED_TOLERANCE
        print(f"{folder.name:28} {reading['tokens']:4} tokens  losses off by at most {off:.1e}")
    return right


def main() -> int:
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    right = True
    for root in map(pathlib.Path, sys.argv[1:]):
        text = root / "text" / "d00.txt"
        folders = sorted(path.parent for path in root.glob("*/expected.json"))
        if not folders:
            raise SystemExit(f"{root} has no folder with expected.json")
        for folder in folders:
            if not text.exists():
                right &= check(folder)
            elif folder.name in NOT_READ_THERE:
                print(f"{folder.name:28} transformers reads no entry for each kind of layer of a llama: left out")
            elif int(transformers.__version__.split(".")[0]) >= 5:
                right &= check_losses(folder, text.read_bytes())
    return 0 if right else 1


sys.exit(main())
