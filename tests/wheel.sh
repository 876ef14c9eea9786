#!/bin/sh
# Installs the program as a Python wheel into an empty environment, and uses it there.
#
#   sh tests/wheel.sh      needs python3 with venv; builds the program unless LONGWAVE names one: about three minutes
#
# In an empty folder and without the repository: `longwave init`, a short training, the report, and the Python module. Where
# pip can install pandas, matplotlib and tqdm, tests/wheel.py starts trainings, studies and the notebook of examples/ from Python.
#
# Exit codes: 0 all of it works, 77 this machine has no python3 with venv, anything else a failure.
set -eu

left_out() {
    echo "LEFT OUT: the wheel is not installed: $1" >&2
    exit 77
}

root=$(cd "$(dirname "$0")/.." && pwd)
program=${LONGWAVE:-$root/target/debug/longwave}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

command -v python3 >/dev/null || left_out "there is no python3"
python3 -m venv "$work/python" 2>/dev/null || left_out "python3 has no venv"
[ -x "$program" ] || (cd "$root" && cargo build --package longwave)

python3 "$root/release/wheel.py" "$program" --out "$work/dist" >/dev/null
"$work/python/bin/pip" install --quiet --disable-pip-version-check --no-index "$work"/dist/longwave-*.whl

mkdir "$work/empty"
cd "$work/empty"
# Nothing of the system but its tools: the program must be that of the wheel.
PATH=$work/python/bin:/usr/bin:/bin
export PATH LONGWAVE_CACHE="$work/cache"
[ "$(command -v longwave)" = "$work/python/bin/longwave" ]
longwave --version
longwave init rope.toml --out mine.toml
longwave train mine.toml --set model.size=nano --set train.length=32 --set train.steps=20 --set train.batch_tokens=256
longwave report runs/mine-0 >/dev/null
[ -s runs/mine-0/report.html ]
python -c 'import longwave; print("module", longwave.__version__)'

if pip install --quiet --disable-pip-version-check pandas matplotlib tqdm 2>/dev/null; then
    python "$root/tests/wheel.py" "$root/examples/extrapolation.ipynb"
else
    echo "pip installs no pandas here: tables, charts and what Python starts are left out"
fi
echo "the wheel works"
