"""What the program does, started from Python: train, evaluate, explain, study, inspect.

Everywhere, `config` is a file, the name of a config that the program carries (`"rope.toml"`), or a dictionary with the keys of a
config. Keys are changed by keywords, `train__steps=200` for `train.steps`, or by `**{"train.steps": 200}`. Lengths are tokens or
multiples of the training length L, as `"2L"`; an extension is a kind, as `"yarn"`, or a dictionary with its keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from .program import assignments, call, folder_in, toml
from .results import flat, frame_of, latest, metrics, readings, runs

if TYPE_CHECKING:
    import pandas

Config = Union[str, Path, Mapping[str, Any]]
Length = Union[int, str]
Extension = Union[str, Mapping[str, Any]]
Lengths = Union[Length, Iterable[Length]]
Extensions = Union[Extension, Iterable[Extension]]


def train(
    config: Config,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    device: str = "auto",
    threads: int | None = None,
    show: bool = True,
    **set: Any,
) -> Run:
    """Trains a model and evaluates it as the config says.

    out: the run's folder; `runs/NAME-SEED` unless given. One that has a run of the same config goes on with `resume=True`.
    device: `"auto"`, `"cpu"`, `"gpu"` or `"gpu:N"`; threads: of the CPU, all cores unless given; show: whether progress is shown.

    Raises LongwaveError with the key and a hint where a key or value is not allowed, before anything is written. An interrupt
    leaves a checkpoint and raises KeyboardInterrupt.
    """
    arguments = ["train", *_from(config), *assignments(set), *_computed(device, threads)]
    arguments += ["--resume"] if resume else []
    arguments += _options({"--out": out})
    _, said = call(arguments, stdin=_written(config), show=show)
    return Run(out if out is not None else folder_in(said, "run "))


class _Folder:
    """What a run and a study have in common: a folder with a report."""

    folder: Path

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.folder)!r})"

    def figure(
        self,
        path: str | Path,
        *,
        width: str = "85mm",
        height: str | None = None,
        font_size: str = "9pt",
        font: str | Path | None = None,
    ) -> Path:
        """Writes perplexity by length as one figure for a paper, without a heading, as `longwave report --figure` does: of a study, means
        over seeds with their intervals. `path` ends with `.svg`, `.png` or `.pdf`.

        Sizes are texts as `"85mm"`, `"3.3in"` or `"9pt"`; font is a TrueType file, in the place of the program's own."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        sizes = _options({"--width": width, "--height": height, "--font-size": font_size, "--font": font})
        call(["report", str(self.folder), "--figure", str(path), *sizes], show=False)
        return path


class Run(_Folder):
    """A trained run, by its folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / "config.toml").is_file():
            raise FileNotFoundError(f"{str(folder)!r} holds no run")

    def _repr_html_(self) -> str:
        results = latest(self.results)
        table = results.assign(reading=readings(results)).pivot_table(
            index="reading", columns="length", values="ppl", aggfunc="last", sort=False
        )
        return f"<p>Perplexity by length, <code>{self.folder}</code></p>{table.to_html(float_format='{:.2f}'.format)}"

    @property
    def results(self) -> pandas.DataFrame:
        """All that was measured of it, one line a measurement, with the names of results.jsonl: `nll` in nats a token, `ppl`, .."""
        return runs(self.folder)

    @property
    def metrics(self) -> pandas.DataFrame:
        """Its training, one line a step, with the names of metrics.jsonl."""
        return metrics(self.folder)

    def evaluate(
        self,
        lengths: Lengths = (),
        extend: Extensions = (),
        *,
        protocol: str | None = None,
        checkpoint: str | None = None,
        device: str = "auto",
        threads: int | None = None,
        show: bool = True,
        **set: Any,
    ) -> pandas.DataFrame:
        """Reads it at these lengths with these extensions; those of its config where none are given.

        checkpoint: one to read, alone, as `"previous"` or `"best"`; unless given, those that the evaluation names by its key
        `checkpoints`: the last, or what the config or `checkpoints="best"` says.

        Gives the rows that were asked for, one line a measurement; the run's folder keeps them too. Other keywords are keys of
        the evaluation, as `windows_per_document=4`.
        """
        arguments = ["eval", str(self.folder), "--json", *_asked(lengths, extend)]
        arguments += _options({"--checkpoint": checkpoint, "--protocol": protocol})
        printed, _ = call([*arguments, *assignments(set), *_computed(device, threads)], show=show)
        return frame_of([flat(json.loads(line)) for line in printed.splitlines()])

    def explain(
        self,
        lengths: Lengths = (),
        extend: Extensions = (),
        *,
        others: str | Path | Run | Iterable[str | Path | Run] = (),
        device: str = "auto",
        threads: int | None = None,
        show: bool = True,
    ) -> pandas.DataFrame:
        """What it does with longer texts, and why it breaks: one line a number, with the columns `diagnostic`, `extend`, `length`,
        `layer`, `head`, `bin`, `value`, `se` and `count`. A number of the whole model has no layer.

        others: runs that differ in their seed alone; numbers are means over all then, with errors over seeds.
        """
        folders = [str(run.folder if isinstance(run, Run) else run) for run in (self, *_listed(others))]
        printed, _ = call(["explain", *folders, "--json", *_asked(lengths, extend), *_computed(device, threads)], show=show)
        explained = json.loads(printed)
        frame = frame_of(explained.pop("findings"))
        frame.attrs.update(explained)
        return frame


def study(
    path: str | Path,
    *,
    out: str | Path | None = None,
    jobs: int | None = None,
    budget: str | None = None,
    retry: bool = False,
    show: bool = True,
    **set: Any,
) -> Study:
    """Runs what a study lacks and writes its tables and verdicts. Interrupt and repeat it at will: what is done is kept.

    path: its file, or the name of one that the program carries. Keywords change a key of the study (`seeds=5`) or of every run's
    config (`train__steps=200`). jobs: runs at a time; budget: as `"45m"` or `"3h"`; retry: runs again that failed.
    """
    arguments = ["study", str(path), *assignments(set)]
    arguments += _options({"--out": out, "--jobs": jobs, "--budget": budget})
    _, said = call([*arguments, *(["--retry"] if retry else [])], show=show)
    wrote = [line for line in reversed(said) if line.startswith("wrote ")]
    return Study(out if out is not None else folder_in(wrote, "wrote "))


class Study(_Folder):
    """A study that has results, by its folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / "study.md").is_file():
            raise FileNotFoundError(f"{str(folder)!r} holds no study with results")

    def _repr_markdown_(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """Its tables and the verdicts on its claims, as Markdown."""
        return (self.folder / "study.md").read_text(encoding="utf-8")

    @property
    def results(self) -> pandas.DataFrame:
        """One line a measurement of every run, the labels of the axes first."""
        frame_of([])
        import pandas

        path = self.folder / "results.csv"
        columns = list(pandas.read_csv(path, nrows=0).columns)
        # Labels are text, whatever they look like.
        labels = {name: str for name in columns[: columns.index("run")]}
        frame = pandas.read_csv(path, dtype=labels, keep_default_na=False, na_values=[""])
        for name in frame.columns:
            if frame[name].dtype.kind == "O":
                frame[name] = frame[name].map(_unguarded, na_action="ignore")
        return frame.rename(columns=_unguarded)


class Inspection(list[dict[str, Any]]):
    """What `longwave inspect` says of each encoding of a config: the objects of its JSON."""

    @property
    def bands(self) -> pandas.DataFrame:
        """One line a band of each encoding that has some: `inv_freq` in radians a token, `wavelength` in tokens, `turns` in L
        tokens, and `inv_freq_read`, with the extension."""
        spectra = [(it["encoding"], it["spectrum"]) for it in self if it["spectrum"]]
        return frame_of(
            [{"encoding": name, "band": band, **it} for name, spectrum in spectra for band, it in enumerate(spectrum["bands"])]
        )

    @property
    def bias(self) -> pandas.DataFrame:
        """One line a head and distance in tokens of each encoding that adds a bias to logits: `trained`, and `read`, with the
        extension."""
        lines = []
        for it in self:
            bias = it["bias"] or {"distances": [], "trained": [], "read": []}
            for head, (trained, read) in enumerate(zip(bias["trained"], bias["read"])):
                values = zip(bias["distances"], trained, read)
                lines += [
                    {"encoding": it["encoding"], "head": head, "distance": distance, "trained": before, "read": after}
                    for distance, before, after in values
                ]
        return frame_of(lines)


def inspect(config: Config, *, length: Length | None = None, extend: Extension | None = None, **set: Any) -> Inspection:
    """What the encoding of a config does, without training: its frequencies, biases, formulas, and what an extension makes of
    them at a length."""
    arguments = ["inspect", *_from(config), "--json", *assignments(set)]
    arguments += _options({"--length": length, "--extend": None if extend is None else _extension(extend)})
    printed, _ = call(arguments, stdin=_written(config), show=False)
    return Inspection(json.loads(printed))


def _options(given: Mapping[str, Any]) -> list[str]:
    """Options by name, without those that are None."""
    return [text for name, value in given.items() if value is not None for text in (name, str(value))]


def _from(config: Config) -> list[str]:
    return ["-" if isinstance(config, Mapping) else str(config)]


def _written(config: Config) -> str | None:
    """A dictionary as TOML, which the program reads from stdin."""
    if not isinstance(config, Mapping):
        return None
    return "".join(f"{json.dumps(str(key))} = {toml(value)}\n" for key, value in config.items())


def _unguarded(cell: Any) -> Any:
    """A cell without the apostrophe that keeps spreadsheets from taking it for a formula."""
    guarded = isinstance(cell, str) and cell[:1] == "'" and cell[1:2] in ("=", "+", "-", "@")
    return cell[1:] if guarded else cell


def _listed(given: Any) -> list[Any]:
    """A list, of one where something stands alone."""
    if given is None:
        return []
    alone = isinstance(given, (str, Mapping)) or not isinstance(given, Iterable)
    return [given] if alone else list(given)


def _asked(lengths: Lengths, extend: Extensions) -> list[str]:
    lengths = _listed(lengths)
    arguments = ["--lengths", ",".join(map(str, lengths))] if lengths else []
    for one in _listed(extend):
        arguments += ["--extend", _extension(one)]
    return arguments


def _extension(extend: Extension) -> str:
    return extend if isinstance(extend, str) else toml(dict(extend))


def _computed(device: str, threads: int | None) -> list[str]:
    return _options({"--device": device, "--threads": threads})
