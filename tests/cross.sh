#!/bin/sh
# Checks that the program compiles for systems that this machine does not run.
#
#   sh tests/cross.sh              Windows on x86-64, and macOS on Apple's processors
#   sh tests/cross.sh TARGET ..    these targets, by the names that `rustup target list` prints, as x86_64-apple-darwin
#
# `rustup target add` brings the standard library of each. Types and borrows of the program and of all its dependencies are
# checked, and nothing is linked or run: that needs the system itself. CARGO_TARGET_DIR names another folder than
# target/cross, where the checked dependencies are kept.
# Exit codes: 0 it compiles, 77 this machine lacks what a target needs, anything else a failure.
set -eu

cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- x86_64-pc-windows-gnu aarch64-apple-darwin
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target/cross}"

left_out() {
    echo "LEFT OUT: the program was not checked for $1: $2" >&2
    exit 77
}

for target in "$@"; do
    library=$(rustc --print sysroot)/lib/rustlib/$target/lib
    if [ ! -d "$library" ]; then
        command -v rustup >/dev/null || left_out "$target" "there is no rustup, and the toolchain has no library for it"
        rustup target add "$target" || left_out "$target" "\`rustup target add $target\` fails"
    fi
done
for target in "$@"; do
    cargo check --locked --target "$target" --package longwave
    echo "the program compiles for $target"
done
