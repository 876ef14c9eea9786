#!/bin/sh
# Holds transformers 4 and 5 against the models that Longwave writes, and transformers 5 against those of `tests/published`: the same
# logits and losses, scaled and not, at 0.5, 1, 2 and 4 L. Needs pip and 6 GiB of disk for torch; ends with 77 where pip cannot have it.
set -eu
cd "$(dirname "$0")/.."

torch=2.15.*
new=5.24.*
old=4.57.*

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/new" || exit 77
pip() { "$work/new/bin/pip" install --quiet --disable-pip-version-check "$@"; }
pip "torch==$torch" "transformers==$new" requests || exit 77
pip --target "$work/old" --no-deps "transformers==$old" 'huggingface_hub<1.0' 'tokenizers<0.23' || exit 77

LONGWAVE_EXPORTS="$work/exports" cargo test --locked --package longwave-tests --test workspace hub::
"$work/new/bin/python" benches/peers/exported.py "$work/exports" tests/published
PYTHONPATH="$work/old" "$work/new/bin/python" benches/peers/exported.py "$work/exports"
