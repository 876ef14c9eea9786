"""What folders of runs and studies hold, as tables and a chart."""

from __future__ import annotations

import glob
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .program import LongwaveError

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

# Lists inside a row: a table has no place for them.
_LISTS = ("bigrams", "positions", "per_document", "difference", "checksum")


def runs(pattern: str | Path = "runs/*") -> pandas.DataFrame:
    """The results of every run or study that a path or a pattern names, as a pandas DataFrame: one line a measurement, with
    the names of results.jsonl, and `folder`, where it was found."""
    rows = []
    for folder in _folders(pattern, "results.jsonl"):
        rows += [{"folder": str(folder)} | row for row in map(flat, _lines(folder / "results.jsonl"))]
    return frame_of(rows)


def metrics(pattern: str | Path = "runs/*") -> pandas.DataFrame:
    """The training of every run that a path or a pattern names, as a pandas DataFrame: one line a step, with the names of
    metrics.jsonl, and `folder`."""
    rows = []
    for folder in _folders(pattern, "metrics.jsonl"):
        for row in _lines(folder / "metrics.jsonl"):
            rows.append({"folder": str(folder)} | {name: value for name, value in row.items() if name != "checksum"})
    return frame_of(rows)


def plot(frame: pandas.DataFrame, value: str = "ppl", axes: Axes | None = None) -> Axes:
    """Draws `value` against the length, a line for each way of reading, by what `readings` calls it; several seeds become their
    mean: of `ppl` the exponential of the mean loss. Of a run that was trained further, its last step alone. Gives the axes of
    matplotlib."""
    try:
        import numpy
        from matplotlib import pyplot
    except ImportError as error:
        raise missing("matplotlib") from error

    if axes is None:
        axes = pyplot.figure().subplots()
    of = "nll" if value == "ppl" else value
    frame = latest(frame)
    frame = frame.assign(reading=readings(frame))
    for reading, lines in frame.groupby("reading", sort=False):
        mean = lines.groupby("length")[of].mean()
        if value == "ppl":
            mean = numpy.exp(mean)
        baseline = lines.extend.iloc[0] == "window_baseline"
        axes.plot(mean.index, mean, "--" if baseline else "o-", color="grey" if baseline else None, label=reading)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("length in tokens")
    axes.set_ylabel("perplexity" if value == "ppl" else value)
    axes.legend()
    return axes


# What tells measurements of one run with one extension apart, besides length and seed.
_WAYS = (
    "extend_config protocol split corpus corpus_hash text_hash key_tokens checkpoint target max_length window_stride "
    "windows_per_document stride bucket passage sequences task train_length exact"
).split()


def latest(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Without what was measured of a run before it was trained further: those lines are of other weights, and no other seeds."""
    run = [name for name in ("folder", "run", "seed", "checkpoint") if name in frame]
    if "step" not in frame or not run:
        return frame
    return frame[frame["step"] == frame.groupby(run, dropna=False)["step"].transform("max")]


def readings(frame: pandas.DataFrame) -> list[str]:
    """What each line of a table was read by, for a legend: `run`, `extend`, and what else differs between lines of these two,
    such as `protocol = sliding`. Runs of one name that differ in more than their seed are told apart by a folder."""

    def text(value: Any) -> str:
        value = value.item() if hasattr(value, "item") else value
        if isinstance(value, (dict, list, bool)):
            return json.dumps(value, sort_keys=True, ensure_ascii=False)
        return str(value)

    ways = [way for way in _WAYS if way in frame]
    names = [f"{run}, {extend}" for run, extend in zip(frame["run"], frame["extend"])]
    values = [[text(value) for value in row] for row in zip(*(frame[way] for way in ways))] or [[] for _ in names]
    known: dict[str, list[set[str]]] = {}
    for name, row in zip(names, values):
        for seen, value in zip(known.setdefault(name, [set() for _ in ways]), row):
            seen.add(value)

    # The first folder of each config that a run's name stands for.
    firsts: dict[str, dict[str, str]] = {}
    folders = list(frame["folder"]) if "folder" in frame else [""] * len(names)
    configs = {folder: _trained(folder) for folder in set(folders)}
    for run, folder in zip(frame["run"], folders):
        firsts.setdefault(run, {}).setdefault(configs[folder], folder)

    def label(name: str, row: list[str], run: str, folder: str) -> str:
        differ = [f"{way} = {value}" for way, value, seen in zip(ways, row, known[name]) if len(seen) > 1]
        of = [f"trained as {firsts[run][configs[folder]]}"] if len(firsts[run]) > 1 else []
        return ", ".join([name, *of, *differ])

    return [label(*line) for line in zip(names, values, frame["run"], folders)]


def _trained(folder: str) -> str:
    """The config of a run's folder without name, seed and evaluations; nothing where there is none."""
    path = Path(folder) / "config.toml"
    if not folder or not path.is_file():
        return ""
    section, kept = "", []
    for line in path.read_text(encoding="utf-8").splitlines():
        section = line if line.startswith("[") else section
        of_run = not section and line.startswith(("name =", "seed =", "evaluate ="))
        if line and not of_run and "evaluate" not in section:
            kept.append(line)
    return "\n".join(kept)


def flat(row: dict[str, Any]) -> dict[str, Any]:
    """A row of results.jsonl without the lists that a table has no place for."""
    against = row.get("difference") or {}
    kept = {name: value for name, value in row.items() if name not in _LISTS}
    differences = {"against": "against", "difference": "nll", "difference_se": "nll_se"}
    return kept | {name: against.get(key) for name, key in differences.items()}


def frame_of(rows: list[dict[str, Any]]) -> pandas.DataFrame:
    try:
        import pandas
    except ImportError as error:
        raise missing("pandas") from error
    return pandas.DataFrame(rows)


def missing(package: str) -> LongwaveError:
    return LongwaveError(f"this needs {package}", hint="pip install 'longwave[plot]'")


def _folders(pattern: str | Path, name: str) -> list[Path]:
    # A folder may be called as a pattern is.
    found = [Path(pattern)] if Path(pattern).exists() else [Path(path) for path in sorted(glob.glob(str(pattern)))]
    # A study keeps the rows of its runs in `report`.
    places = [place for path in found for place in (path, path / "report") if (place / name).is_file()]
    if not places:
        raise FileNotFoundError(f"no folder that {str(pattern)!r} names has a {name}")
    return places


def _lines(path: Path) -> list[dict[str, Any]]:
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]
