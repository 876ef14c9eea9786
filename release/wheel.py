"""Packs the built program and a small Python module into a wheel, with Python's standard library alone.

    cargo build --release --locked --package longwave --bin longwave
    python3 release/wheel.py target/release/longwave --out dist
    pip install dist/longwave-*.whl

The wheel fits the system that the program was built for: on Linux its name says which processor and which glibc the program asks for.
"""

import argparse
import base64
import hashlib
import re
import sysconfig
import zipfile
from pathlib import Path

# What an ELF file calls a processor, and what a wheel calls it.
MACHINES = {3: "i686", 62: "x86_64", 183: "aarch64"}
ROOT = Path(__file__).resolve().parent.parent
# A zip has no earlier date; a fixed one makes two builds the same bytes.
DATE = (1980, 1, 1, 0, 0, 0)


def version():
    return re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.M).group(1)


def platform(program):
    """The platform tag of the wheel. A program for Linux says it itself (PEP 600), whatever this system is."""
    if not program.startswith(b"\x7fELF"):
        return sysconfig.get_platform().replace("-", "_").replace(".", "_")
    # e_machine, in the file's own order of bytes.
    machine = int.from_bytes(program[18:20], "little" if program[5] == 1 else "big")
    if machine not in MACHINES:
        raise SystemExit(f"error: no wheel is made for processor {machine} of ELF; there are {MACHINES}")
    needed = re.findall(rb"GLIBC_2\.(\d+)", program)
    if not needed:
        raise SystemExit("error: the program asks for no glibc; is it built for Linux with another C library?")
    return f"manylinux_2_{max(map(int, needed))}_{MACHINES[machine]}"


def files(program, tag):
    """Names and contents of everything in the wheel but its record."""
    number = version()
    name = f"longwave-{number}"
    exe = "longwave.exe" if tag.startswith("win") else "longwave"
    about = (
        "Metadata-Version: 2.1\n"
        "Name: longwave\n"
        f"Version: {number}\n"
        "Summary: Trains small GPTs with any positional encoding and measures how they read longer texts\n"
        "License: MIT OR Apache-2.0\n"
        "Requires-Python: >=3.9\n"
        "Provides-Extra: plot\n"
        "Requires-Dist: pandas ; extra == 'plot'\n"
        "Requires-Dist: matplotlib ; extra == 'plot'\n"
        "Requires-Dist: tqdm ; extra == 'plot'\n"
        "Description-Content-Type: text/markdown\n\n"
    ) + (ROOT / "README.md").read_text()
    for module in sorted((ROOT / "release/python/longwave").glob("*.py*")):
        text = module.read_text(encoding="utf-8").replace("@VERSION@", number)
        yield f"longwave/{module.name}", text.encode(), 0o644
    yield f"{name}.data/scripts/{exe}", program, 0o755
    yield f"{name}.dist-info/METADATA", about.encode(), 0o644
    wheel = f"Wheel-Version: 1.0\nGenerator: longwave release/wheel.py\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n"
    yield f"{name}.dist-info/WHEEL", wheel.encode(), 0o644
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"]:
        yield f"{name}.dist-info/licenses/{licence}", (ROOT / licence).read_bytes(), 0o644


def write(program, out):
    tag = platform(program)
    path = out / f"longwave-{version()}-py3-none-{tag}.whl"
    out.mkdir(parents=True, exist_ok=True)
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:

        def add(name, content, mode):
            info = zipfile.ZipInfo(name, DATE)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o100000 | mode) << 16
            wheel.writestr(info, content)

        for name, content, mode in files(program, tag):
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}")
            add(name, content, mode)
        name = f"longwave-{version()}.dist-info/RECORD"
        add(name, ("\n".join([*record, f"{name},,"]) + "\n").encode(), 0o644)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program", type=Path, help="the built program")
    parser.add_argument("--out", type=Path, default=Path("dist"), help="the folder of the wheel")
    arguments = parser.parse_args()
    print(write(arguments.program.read_bytes(), arguments.out))


if __name__ == "__main__":
    main()
