#!/bin/sh
# Makes a release of a built program, and looks whether its parts work.
#
#   sh tests/release.sh      builds the program unless LONGWAVE names one: about a minute
#
# The archive is unpacked and its program run in an empty folder; bash loads the completions; the manual pages name every
# command; where dpkg-deb is there, the package is unpacked and its program run.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
program=${LONGWAVE:-$root/target/debug/longwave}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
[ -x "$program" ] || (cd "$root" && cargo build --package longwave)

sh "$root/release/build.sh" --program "$program" --out "$work/dist" >/dev/null
cd "$work/dist"
if command -v sha256sum >/dev/null; then sha256sum --quiet --check SHA256SUMS; fi
cd "$work"
tar -xzf dist/longwave-*.tar.gz
folder=$(echo longwave-*)
mkdir empty
(cd empty && "../$folder/longwave" init rope.toml --out mine.toml && "../$folder/longwave" validate mine.toml) >/dev/null

if command -v bash >/dev/null; then
    bash -euc '. "$1"/completions/longwave.bash && complete -p longwave >/dev/null' bash "$folder"
fi
for command in $("$folder/longwave" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z]*\) .*/\1/p' | grep -v '^help$'); do
    [ -s "$folder/man/longwave-$command.1" ] || { echo "there is no manual page of $command" >&2; exit 1; }
done

if command -v dpkg-deb >/dev/null; then
    dpkg-deb -x dist/longwave_*.deb installed
    [ -s installed/usr/share/man/man1/longwave-train.1.gz ]
    (cd empty && ../installed/usr/bin/longwave inspect mine.toml) | grep -q '^rope: '
fi
echo "the release works"
