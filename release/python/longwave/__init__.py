"""Results of the program `longwave` as tables.

    import longwave

    frame = longwave.runs("runs/*")           # one line a result, as in results.csv
    longwave.plot(frame[frame.encoding == "rope"])

`runs` needs pandas, and `plot` matplotlib too; the program `longwave`, which the same package installs, needs neither.
"""

from __future__ import annotations

import glob
import json
from pathlib import Path

__all__ = ["runs", "metrics", "plot"]
__version__ = "@VERSION@"

# Lists inside a row: a table has no place for them.
_LISTS = ("bigrams", "positions", "per_document", "difference", "checksum")


def runs(pattern="runs/*"):
    """The results of every run or study that a path or a pattern names, as a pandas DataFrame: one line a measurement, with
    the names of results.jsonl, and `folder`, where it was found."""
    import pandas

    rows = []
    for folder in _folders(pattern, "results.jsonl"):
        for row in _lines(folder / "results.jsonl"):
            against = row.get("difference") or {}
            rows.append(
                {"folder": str(folder)}
                | {name: value for name, value in row.items() if name not in _LISTS}
                | {
                    "against": against.get("against"),
                    "difference": against.get("nll"),
                    "difference_se": against.get("nll_se"),
                }
            )
    return pandas.DataFrame(rows)


def metrics(pattern="runs/*"):
    """The training of every run that a path or a pattern names, as a pandas DataFrame: one line a step, with the names of
    metrics.jsonl, and `folder`."""
    import pandas

    rows = []
    for folder in _folders(pattern, "metrics.jsonl"):
        for row in _lines(folder / "metrics.jsonl"):
            rows.append({"folder": str(folder)} | {name: value for name, value in row.items() if name != "checksum"})
    return pandas.DataFrame(rows)


def plot(frame, value="ppl", axes=None):
    """Draws `value` against the length, a line for each way of reading (`run` and `extend`); several seeds become their
    mean: of `ppl` the exponential of the mean loss. Gives the axes of matplotlib."""
    import numpy
    from matplotlib import pyplot

    if axes is None:
        axes = pyplot.figure().subplots()
    of = "nll" if value == "ppl" else value
    for (run, extend), lines in frame.groupby(["run", "extend"], sort=False):
        mean = lines.groupby("length")[of].mean()
        if value == "ppl":
            mean = numpy.exp(mean)
        baseline = extend == "window_baseline"
        axes.plot(mean.index, mean, "--" if baseline else "o-", color="grey" if baseline else None, label=f"{run}, {extend}")
    axes.set_xscale("log", base=2)
    axes.set_xlabel("length in tokens")
    axes.set_ylabel("perplexity" if value == "ppl" else value)
    axes.legend()
    return axes


def _folders(pattern, name):
    found = [Path(path) for path in sorted(glob.glob(str(pattern)))]
    # A study keeps the rows of its runs in `report`.
    places = [place for path in found for place in (path, path / "report") if (place / name).is_file()]
    if not places:
        raise FileNotFoundError(f"no folder that {str(pattern)!r} names has a {name}")
    return places


def _lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]
