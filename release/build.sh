#!/bin/sh
# Makes what a release consists of, for this system or for another Linux.
#
#   sh release/build.sh [--program FILE] [--target TARGET] [--out DIR]
#
# DIR (`dist` unless given) then holds: an archive with the program, completions, manual pages and licences; a `.deb` where
# dpkg-deb is there; a Python wheel where python3 is there; the source, of the last commit; a bill of materials; and SHA256SUMS.
# Without --program it builds the program first (`cargo build --release`), which takes some minutes. Run it once on each of macOS
# and Windows (there in a shell such as that of Git). On Linux run it for two targets, into one DIR:
#
#   pip install ziglang && rustup target add aarch64-unknown-linux-gnu
#   sh release/build.sh --target x86_64-unknown-linux-gnu.2.17
#   sh release/build.sh --target aarch64-unknown-linux-gnu.2.17
#
# CARGO_OPTIONS may hold options for cargo, such as the --config that the project is compiled with already.
#
# TARGET is one of Rust's, then the oldest glibc that the program must run with. `release/zig-cc` links it, so that it can be newer
# than the system that it is built on, or for another processor.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
program=
target=
out=$root/dist
while [ $# -gt 0 ]; do
    case $1 in
    --program) program=$2 ;;
    --target) target=$2 ;;
    --out) out=$2 ;;
    *)
        echo "error: \`$1\` is no option" >&2
        exit 2
        ;;
    esac
    shift 2
done

cd "$root"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
glibc=
case $target in
'') target=$(rustc -vV | sed -n 's/^host: //p') ;;
*-linux-gnu.2.*) glibc=2.${target##*.} target=${target%.2.*} ;;
*)
    echo "error: \`--target $target\` does not name a Linux and its oldest glibc" >&2
    echo "hint: write it as \`aarch64-unknown-linux-gnu.2.17\`" >&2
    exit 2
    ;;
esac
exe=longwave
case $target in *windows*) exe=longwave.exe ;; esac
if [ -z "$program" ] && [ -n "$glibc" ]; then
    missing() { echo "error: \`--target\` needs \`$1\`" >&2; exit 77; }
    python3 -m ziglang version >/dev/null 2>&1 || missing "pip install ziglang"
    [ -e "$(rustc --print target-libdir --target "$target")" ] || missing "rustup target add $target"
    # Another processor's symbols can only be stripped by who links.
    env "CARGO_TARGET_$(echo "$target" | tr a-z- A-Z_)_LINKER=$root/release/zig-cc" ZIG_TARGET="${target%%-*}-linux-gnu.$glibc" \
        CARGO_PROFILE_RELEASE_STRIP=symbols cargo build --release --locked --package longwave --bin longwave --target "$target"
    program=${CARGO_TARGET_DIR:-target}/$target/release/$exe
elif [ -z "$program" ]; then
    cargo build --release --locked --package longwave --bin longwave
    program=${CARGO_TARGET_DIR:-target}/release/$exe
fi

mkdir -p "$out"
out=$(cd "$out" && pwd)
name=longwave-$version-$target
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT INT TERM
folder=$stage/$name
mkdir "$folder"
cp "$program" "$folder/$exe"
strip "$folder/$exe" 2>/dev/null || true
cp README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$folder"
cargo run ${CARGO_OPTIONS:-} --quiet --locked --package longwave-tests --bin longwave-pages -- "$folder"
cargo run ${CARGO_OPTIONS:-} --quiet --locked --package longwave-tests --bin longwave-sbom >"$out/longwave-$version.sbom.json"
tar -C "$stage" -czf "$out/$name.tar.gz" "$name"

if command -v dpkg-deb >/dev/null; then
    case $target in
    x86_64-*) architecture=amd64 ;;
    aarch64-*) architecture=arm64 ;;
    *) architecture=$(dpkg --print-architecture) ;;
    esac
    tree=$stage/deb
    share=$tree/usr/share
    mkdir -p "$tree/DEBIAN" "$tree/usr/bin" "$share/man/man1" "$share/bash-completion/completions" \
        "$share/zsh/vendor-completions" "$share/fish/vendor_completions.d" "$share/doc/longwave"
    cp "$folder/$exe" "$tree/usr/bin/longwave"
    for page in "$folder"/man/*.1; do gzip -9n <"$page" >"$share/man/man1/$(basename "$page").gz"; done
    cp "$folder/completions/longwave.bash" "$share/bash-completion/completions/longwave"
    cp "$folder/completions/_longwave" "$share/zsh/vendor-completions/_longwave"
    cp "$folder/completions/longwave.fish" "$share/fish/vendor_completions.d/longwave.fish"
    cat LICENSE-MIT LICENSE-APACHE >"$share/doc/longwave/copyright"
    # Older systems have no package `libgcc-s1`, and what zig links needs none.
    unwinder=
    if grep -aq 'libgcc_s\.so' "$folder/$exe"; then unwinder=', libgcc-s1'; fi
    # The oldest glibc that has every symbol the program asks for.
    glibc=$(grep -aoE 'GLIBC_2\.[0-9]+' "$folder/$exe" | sort -uV | tail -n 1 | sed 's/GLIBC_//')
    cat >"$tree/DEBIAN/control" <<END
Package: longwave
Version: $version
Architecture: $architecture
Section: science
Priority: optional
Maintainer: The authors of Longwave <longwave@localhost>
Depends: libc6 (>= $glibc)$unwinder
Description: trains small GPTs with any positional encoding
 and measures how they read texts longer than those of their training.
END
    dpkg-deb -Zxz --root-owner-group --build "$tree" "$out/longwave_${version}_$architecture.deb" >/dev/null
fi

if command -v python3 >/dev/null; then
    python3 release/wheel.py "$folder/$exe" --out "$out" >/dev/null
fi

if git rev-parse --git-dir >/dev/null 2>&1; then
    git diff --quiet HEAD || echo "warning: changes since the last commit are not in the source" >&2
    git archive --prefix="longwave-$version-source/" HEAD | gzip -9n >"$out/longwave-$version-source.tar.gz"
fi

cd "$out"
rm -f SHA256SUMS
for file in longwave*; do
    if command -v sha256sum >/dev/null; then sha256sum "$file"; else shasum -a 256 "$file"; fi
done >"$stage/sums"
mv "$stage/sums" SHA256SUMS
cat SHA256SUMS
