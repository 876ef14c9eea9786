#!/bin/sh
# The GPU tests through Vulkan's own shaders (feature `vulkan`), with products by matrix units, on a device in software.
#
#   sh tests/vulkan.sh [names of tests]
#
# Mesa's llvmpipe takes such shaders, and has matrix units, from version 26 on. Where the system has an older one, a Debian with
# Mesa 26 is put into target/vulkan (400 MB), and the tests run in it: that needs Linux on x86-64, root and debootstrap.
# Building takes about 10 minutes on two cores, and the tests about 20.
# Exit codes: 0 all passed, 77 this machine cannot run them, anything else a failure.
set -eu

folder=$(cd "$(dirname "$0")/.." && pwd)
system=${LONGWAVE_VULKAN_SYSTEM:-$folder/target/vulkan}

# How cargo calls this script for each program of tests.
if [ "${1:-}" = --inside ]; then
    shift
    # The mounts end with the command.
    exec unshare --mount sh -c '
        system=$1 folder=$2 here=$PWD
        shift 2
        mkdir -p "$system$folder"
        mount --bind "$folder" "$system$folder"
        mount --bind /proc "$system/proc"
        mount --bind /dev "$system/dev"
        exec chroot "$system" env HOME=/tmp XDG_RUNTIME_DIR=/tmp sh -c "cd \"\$1\" && shift && exec \"\$@\"" sh "$here" "$@"
    ' sh "$system" "$folder" "$@"
fi

cannot() {
    echo "left out: the tests of Vulkan's own shaders ($1)"
    exit 77
}

[ "$(uname -sm)" = "Linux x86_64" ] || cannot "they are set up on Linux x86-64 alone"
[ "$(id -u)" = 0 ] || cannot "they need root, for a system of their own"
command -v debootstrap >/dev/null || cannot "debootstrap is not installed"

if [ ! -e "$system/usr/share/vulkan/icd.d/lvp_icd.json" ]; then
    rm -rf "$system"
    mkdir -p "$system"
    debootstrap --variant=minbase --include=ca-certificates,libvulkan1 trixie "$system"
    # Newer drivers for this Debian come from its backports.
    sed 's/trixie main/trixie-backports main/' "$system/etc/apt/sources.list" >"$system/etc/apt/sources.list.d/backports.list"
    chroot "$system" apt-get update -q
    chroot "$system" apt-get install -y -q --no-install-recommends --target-release trixie-backports mesa-vulkan-drivers
fi

export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="sh $folder/tests/vulkan.sh --inside"
export LONGWAVE_REQUIRE_GPU=1 LONGWAVE_REQUIRE_MATRIX_UNITS=1
cd "$folder"
cargo test --locked --package longwave-tests --package longwave-kernels --features vulkan --test gpu --lib -- "$@"
