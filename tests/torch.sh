#!/bin/sh
# Holds `model.py` of `longwave export RUN torch` against Longwave: every encoding, every extension that applies to it, all gradients, and
# the way back of a model that PyTorch has trained further. Needs pip and 6 GiB of disk for torch; ends with 77 where pip cannot have it.
set -eu
cd "$(dirname "$0")/.."

torch=2.15.*

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv" || exit 77
"$work/venv/bin/pip" install --quiet --disable-pip-version-check "torch==$torch" || exit 77

LONGWAVE_EXPORTS="$work/exports" cargo test --locked --package longwave-tests --test workspace hub::torch
"$work/venv/bin/python" tests/pytorch.py "$work/exports/torch" "$work/trained"
LONGWAVE_TRAINED="$work/trained" cargo test --locked --package longwave-tests --test workspace hub::torch::a_folder_that_was_trained
