#!/bin/sh
# Makes a release of a built program, and looks whether its parts work.
#
#   sh tests/release.sh [OPTION ..]     builds the program unless LONGWAVE names one: about two minutes
#
# The options are for the check of the source: with the features of what is compiled already it takes seconds.
# Archive, package (where dpkg-deb is there) and wheel (where python3 has venv) each train a small model and draw its figure, in an empty
# folder. bash loads the completions; the manual pages name every command. The unpacked source passes `cargo check`, so that `cargo
# install --path crates/cli --locked` has all that it needs. A wheel's name says the processor of its program.
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
folder=$(basename "$work"/dist/longwave-*-"$(rustc -vV | sed -n 's/^host: //p')".tar.gz .tar.gz)
tar -xzf "dist/$folder.tar.gz"

# main_job PROGRAM FOLDER: a small training and its figure, in an empty folder.
main_job() {
    mkdir "$2"
    (
        cd "$2" && "$1" init rope.toml --out mine.toml &&
            "$1" train mine.toml --set model.size=nano --set train.length=32 --set train.steps=20 --set train.batch_tokens=256 &&
            "$1" report runs/mine-0 --figure figure.svg --width 85mm
    ) >"$2.log" 2>&1 || { cat "$2.log" >&2; exit 1; }
    [ -s "$2/figure.svg" ]
}
export LONGWAVE_CACHE="$work/cache"
main_job "$work/$folder/longwave" archive

if command -v bash >/dev/null; then
    bash -euc '. "$1"/completions/longwave.bash && complete -p longwave >/dev/null' bash "$folder"
fi
for command in $("$folder/longwave" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z]*\) .*/\1/p' | grep -v '^help$'); do
    [ -s "$folder/man/longwave-$command.1" ] || { echo "there is no manual page of $command" >&2; exit 1; }
done

if command -v dpkg-deb >/dev/null; then
    dpkg-deb -x dist/longwave_*.deb installed
    [ -s installed/usr/share/man/man1/longwave-train.1.gz ]
    main_job "$work/installed/usr/bin/longwave" package
fi

# Everything that build scripts and `include_bytes!` read must be in the source.
if [ -e dist/longwave-*-source.tar.gz ]; then
    mkdir source
    tar -xzf dist/longwave-*-source.tar.gz -C source --strip-components 1
    (cd source && CARGO_TARGET_DIR="$root/target" cargo check --quiet --locked --offline --package longwave --package longwave-tests "$@")
fi

if command -v python3 >/dev/null; then
    printf '\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\2\0\267\0 GLIBC_2.9 GLIBC_2.17 GLIBC_2.4' >arm
    python3 "$root/release/wheel.py" arm --out wheels >/dev/null
    [ -s wheels/longwave-*-py3-none-manylinux_2_17_aarch64.whl ]
    printf '\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\2\0\363\0 GLIBC_2.17' >riscv
    if python3 "$root/release/wheel.py" riscv --out wheels 2>/dev/null; then
        echo "a program of RISC-V has a wheel" >&2
        exit 1
    fi
    case $(uname -s) in Linux) [ -s dist/longwave-*-manylinux_2_*_"$(uname -m)".whl ] ;; esac
    if python3 -m venv python 2>/dev/null; then
        python/bin/pip install --quiet --disable-pip-version-check --no-index dist/longwave-*.whl
        main_job "$work/python/bin/longwave" wheel
    else
        echo "LEFT OUT: the wheel is not installed: python3 has no venv"
    fi
fi
echo "the release works"
