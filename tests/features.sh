#!/bin/sh
# Checks that the program compiles with every feature that needs no toolchain of its own.
#
#   sh tests/features.sh
#
# `wgpu` alone is what the GPU tests run with. `cuda` and `rocm` need the makers' own toolchains, `metal` needs macOS.
# Exit codes: 0 all compile, anything else a failure.
set -eu

cd "$(dirname "$0")/.."

features=autotune,vulkan
cargo check --locked --package longwave --features "$features"
echo "the program compiles with the features $features"
