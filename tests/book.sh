#!/bin/sh
# Builds the book and holds it, and its atlas, in a headless Chromium.
#
#   sh tests/book.sh [PICTURES]   needs mdbook, Chromium and python3: two minutes
#
# The book must be built within two minutes. No link within it leads nowhere. Eleven pages are opened 1280, 800 and 390 pixels
# wide, on light and dark screens, and every other page of the atlas on a phone: no error, nothing fetched from elsewhere,
# nothing clipped, every picture shown with a name and with letters that can be read. The overview's table is sorted by clicks
# and by keys. Where a folder PICTURES is given, pictures of the pages are left there, to be looked at.
#
# CHROMIUM and MDBOOK name programs; `cargo install --locked mdbook@0.4.52` makes the second. Exit codes: 0 the book holds, 77
# this machine has no such program, anything else a failure.
set -eu

left_out() {
    echo "LEFT OUT: the book is not opened in a browser: $1" >&2
    exit 77
}

root=$(cd "$(dirname "$0")/.." && pwd)
mdbook=${MDBOOK:-mdbook}
pictures=${1:+$(mkdir -p "$1" && cd "$1" && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

command -v python3 >/dev/null || left_out "there is no python3"
"$mdbook" --version >/dev/null 2>&1 || left_out "there is no mdbook: cargo install --locked mdbook@0.4.52"
for name in ${CHROMIUM:-chromium chromium-browser google-chrome}; do
    # Ubuntu's package is a script that asks for a snap.
    if "$name" --version >/dev/null 2>&1; then chromium=$(command -v "$name") && break; fi
done
[ -n "${chromium:-}" ] || left_out "there is no Chromium"

timeout 120 "$mdbook" build "$root/docs" --dest-dir "$work/book"
python3 "$root/tests/page/book.py" "$chromium" "$work/book" ${pictures:+"$pictures"}
echo "the book and its atlas hold at 1280, 800 and 390 pixels"
