#!/bin/sh
# Brings enwik8 to data/enwik8/{train,valid,test}/enwik8.txt (the first 90, the next 5 and the last
# 5 million bytes), from the source package of `mingru-pytorch` 0.2.1, which carries the whole file
# as data/enwik8.gz. Nothing is left behind unless everything is right; a second run does nothing.
#
#     sh data/fetch_enwik8.sh [FOLDER]     # FOLDER defaults to data/enwik8 beside this script
set -eu

package=mingru-pytorch
version=0.2.1
checksum=a1fa5ffddb56f4953e226637dabbb36a # md5 of the 100,000,000 bytes, as published with the benchmark

fail() {
    printf 'error: %s\n\nhint: %s\n' "$1" "$2" >&2
    exit 1
}

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=${1:-$here/enwik8}

size() { wc -c <"$1" | tr -d ' '; }

complete() {
    [ -f "$target/train/enwik8.txt" ] && [ "$(size "$target/train/enwik8.txt")" = 90000000 ] &&
        [ -f "$target/valid/enwik8.txt" ] && [ "$(size "$target/valid/enwik8.txt")" = 5000000 ] &&
        [ -f "$target/test/enwik8.txt" ] && [ "$(size "$target/test/enwik8.txt")" = 5000000 ]
}

if complete; then
    echo "enwik8 is already in $target"
    exit 0
fi
if [ -e "$target" ]; then
    fail "\`$target\` exists but is not enwik8" "remove it, or name another folder: sh $0 FOLDER"
fi
command -v python3 >/dev/null 2>&1 ||
    fail "no \`python3\` in PATH" "install Python 3 with pip; it downloads and unpacks the package"
python3 -m pip --version >/dev/null 2>&1 ||
    fail "python3 has no pip" "install it, e.g. with \`python3 -m ensurepip --user\` or the system's python3-pip"

# The temporary folder lies beside the target, so that the last step is one rename.
parent=$(dirname -- "$target")
mkdir -p -- "$parent"
work=$(mktemp -d "$parent/.enwik8.XXXXXX")
trap 'rm -rf -- "$work"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

echo "downloading $package $version (37 MB) ..."
if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-cache-dir \
    --no-binary "$package" --dest "$work" "$package==$version" >"$work/pip.log" 2>&1; then
    tail -n 5 "$work/pip.log" >&2
    fail "pip could not download the source package $package==$version" \
        "check the network (pip's own settings apply: a proxy, an index, a mirror) and run this again"
fi

echo "unpacking, checking and splitting ..."
mkdir "$work/enwik8"
python3 - "$work" "$checksum" <<'PYTHON' || fail "the package does not hold enwik8 as published" "run this again; if it fails again, place the three files by hand (data/README.md)"
import glob, gzip, hashlib, os, sys, tarfile

work, checksum = sys.argv[1:]
archives = glob.glob(os.path.join(work, "*.tar.gz"))
if len(archives) != 1:
    sys.exit(f"expected one source archive, found {len(archives)}")
with tarfile.open(archives[0]) as archive:
    members = [m for m in archive.getmembers() if m.isfile() and m.name.endswith("/data/enwik8.gz")]
    if len(members) != 1:
        sys.exit("no data/enwik8.gz in the source archive")
    with gzip.open(archive.extractfile(members[0])) as packed:
        content = packed.read()
found = hashlib.md5(content).hexdigest()
if len(content) != 100_000_000 or found != checksum:
    sys.exit(f"{len(content)} bytes with md5 {found}; expected 100000000 with {checksum}")
for split, start, end in (("train", 0, 90), ("valid", 90, 95), ("test", 95, 100)):
    folder = os.path.join(work, "enwik8", split)
    os.mkdir(folder)
    with open(os.path.join(folder, "enwik8.txt"), "wb") as file:
        file.write(content[start * 1_000_000 : end * 1_000_000])
        file.flush()
        os.fsync(file.fileno())
PYTHON

mv -- "$work/enwik8" "$target"
echo "enwik8 is in $target (train 90,000,000, valid 5,000,000, test 5,000,000 bytes)"
