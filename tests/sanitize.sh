#!/bin/sh
# Runs the unsafe code under a tool that reports wrong accesses to memory.
#
#   sh tests/sanitize.sh miri       small inputs for the unsafe code of the kernels and of the allocator, in Miri
#   sh tests/sanitize.sh address    the unit tests of longwave-kernels on the CPU, with AddressSanitizer
#   sh tests/sanitize.sh thread     the same with ThreadSanitizer
#
# What each needs, on Linux x86-64:
#   address   the project's own toolchain: RUSTC_BOOTSTRAP opens the compiler's flag for sanitizers
#   miri      rustup component add --toolchain nightly miri rust-src
#   thread    rustup component add --toolchain nightly rust-src; the standard library is compiled with the sanitizer
#             too, so that it sees the library's locks and no race is reported that is none
#
# Each builds the dependencies once more, in a folder of its own under target/. NIGHTLY names another toolchain than
# `nightly`. Further arguments go to the test program: sh tests/sanitize.sh thread product
# Exit codes: 0 nothing found, 77 this machine lacks what the tool needs, anything else a failure.
set -eu

tool=${1:-}
[ $# = 0 ] || shift
nightly=${NIGHTLY:-nightly}
cd "$(dirname "$0")/.."

left_out() {
    echo "LEFT OUT: no test ran under $tool: $1" >&2
    exit 77
}

# The compiler and the sources of the standard library.
need_nightly() {
    sysroot=$(rustc "+$nightly" --print sysroot 2>/dev/null) || left_out "there is no toolchain $nightly"
    [ -e "$sysroot/lib/rustlib/src/rust/library/Cargo.lock" ] ||
        left_out "rustup component add --toolchain $nightly rust-src"
}

host=$(rustc -vV | sed -n 's/^host: //p')
[ "$host" = x86_64-unknown-linux-gnu ] || left_out "this was set up for Linux x86-64 alone, and this is $host"

# The unit tests of the kernels, with the sanitizer $1. Dependencies are compiled at opt-level 1, which is faster; the
# kernels keep the level at which they ship.
sanitize() {
    sanitizer=$1
    shift
    export RUSTFLAGS="-Zsanitizer=$sanitizer"
    cargo --config 'profile.dev.package."*".opt-level=1' --config 'profile.dev.debug="line-tables-only"' \
        --config 'profile.dev.package."*".debug=0' \
        test --locked --target "$host" --target-dir "target/$sanitizer" -p longwave-kernels --lib "$@"
}

case $tool in
miri)
    need_nightly
    cargo "+$nightly" miri --version >/dev/null 2>&1 || left_out "rustup component add --toolchain $nightly miri"
    # The queues of rayon turn integers into pointers and break the rules of Stacked Borrows, but not those of Tree
    # Borrows. Its threads may outlive the test.
    export MIRIFLAGS="-Zmiri-tree-borrows -Zmiri-permissive-provenance -Zmiri-ignore-leaks ${MIRIFLAGS:-}"
    # Tests that reach every piece of unsafe code that a CPU runs, with small inputs. Under Miri work is cut into small
    # parts (constants with `cfg!(miri)`), so that these inputs reach the code that large ones reach elsewhere.
    [ $# != 0 ] || set -- machine::buffers::tests machine::matmul::tests machine::bf16::tests \
        machine::bf16::small::tests ops::rotary::tests::the_number_of_threads ops::rotary::tests::turning_back \
        ops::head::tests::the_head_is_computed allocator::memory_safety
    cargo "+$nightly" miri test --locked -p longwave-kernels -p longwave --lib -- "$@"
    ;;
address)
    RUSTC_BOOTSTRAP=1 sanitize address -- "$@"
    ;;
thread)
    need_nightly
    RUSTUP_TOOLCHAIN=$nightly sanitize thread -Zbuild-std -- "$@"
    ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
