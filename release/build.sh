#!/bin/sh
# Makes what a release consists of, for this system.
#
#   sh release/build.sh [--program FILE] [--out DIR]
#
# DIR (`dist` unless given) then holds: an archive with the program, completions, manual pages and licences; a `.deb` where
# dpkg-deb is there; a Python wheel where python3 is there; a bill of materials; and SHA256SUMS. Without --program it builds
# the program first (`cargo build --release`), which takes some minutes. Run it once on each of Linux, macOS and Windows (there
# in a shell such as that of Git).
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
program=
out=$root/dist
while [ $# -gt 0 ]; do
    case $1 in
    --program) program=$2 ;;
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
target=$(rustc -vV | sed -n 's/^host: //p')
exe=longwave
case $target in *windows*) exe=longwave.exe ;; esac
if [ -z "$program" ]; then
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
cargo run --quiet --locked --package longwave-tests --bin longwave-pages -- "$folder"
cargo run --quiet --locked --package longwave-tests --bin longwave-sbom >"$out/longwave-$version.sbom.json"
tar -C "$stage" -czf "$out/$name.tar.gz" "$name"

if command -v dpkg-deb >/dev/null; then
    architecture=$(dpkg --print-architecture)
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
    # The oldest glibc that has every symbol the program asks for.
    glibc=$(grep -aoE 'GLIBC_2\.[0-9]+' "$folder/$exe" | sort -uV | tail -n 1 | sed 's/GLIBC_//')
    cat >"$tree/DEBIAN/control" <<END
Package: longwave
Version: $version
Architecture: $architecture
Section: science
Priority: optional
Maintainer: The authors of Longwave <longwave@localhost>
Depends: libc6 (>= $glibc), libgcc-s1
Description: trains small GPTs with any positional encoding
 and measures how they read texts longer than those of their training.
END
    dpkg-deb --root-owner-group --build "$tree" "$out/longwave_${version}_$architecture.deb" >/dev/null
fi

if command -v python3 >/dev/null; then
    python3 release/wheel.py "$folder/$exe" --out "$out" >/dev/null
fi

cd "$out"
rm -f SHA256SUMS
for file in longwave*; do
    if command -v sha256sum >/dev/null; then sha256sum "$file"; else shasum -a 256 "$file"; fi
done >"$stage/sums"
mv "$stage/sums" SHA256SUMS
cat SHA256SUMS
