"""Uses the Python module of the wheel as a notebook would: `sh tests/wheel.sh` runs it where pandas and matplotlib are.

python tests/wheel.py examples/extrapolation.ipynb
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import longwave  # noqa: E402
import pandas  # noqa: E402
from longwave.program import _error  # noqa: E402
from longwave.results import readings  # noqa: E402

# An evaluation of seconds: two windows of each document.
FEW = {"lengths": ["L"], "windows_per_document": 2}
SMALL = {"model.size": "nano", "train.length": 32, "train.steps": 20, "train.batch_tokens": 256}


def tables() -> None:
    """Reads the run that the shell trained before."""
    frame = longwave.runs("runs/*")
    assert set(frame.extend) == {"direct", "linear", "ntk", "window_baseline"}, set(frame.extend)
    assert sorted(set(frame.length)) == [32, 64, 128, 256]
    assert frame.ppl.notna().all() and frame.difference.notna().sum() == 12
    steps = longwave.metrics("runs/mine-0")
    assert list(steps.step) == list(range(1, 21)), steps.step
    longwave.plot(frame).figure.savefig("curves.png")
    assert Path("curves.png").stat().st_size > 0


def seeds() -> None:
    """Seeds of one run share a line, and runs of one name that differ in more do not."""
    for seed, steps in [(0, 20), (1, 20), (2, 7)]:
        folder = Path(f"apart/mine-{seed}")
        folder.mkdir(parents=True)
        config = Path("runs/mine-0/config.toml").read_text(encoding="utf-8")
        changed = config.replace("seed = 0", f"seed = {seed}", 1).replace("\nsteps = 20\n", f"\nsteps = {steps}\n", 1)
        assert (changed == config) == (seed == 0), config
        if seed == 1:
            # It was evaluated later, by a command.
            changed = "evaluate = []\n" + changed[: changed.index("[[evaluate]]")].rstrip() + "\n"
        (folder / "config.toml").write_text(changed, encoding="utf-8")
        (folder / "results.jsonl").write_bytes(Path("runs/mine-0/results.jsonl").read_bytes())
    together = set(readings(longwave.runs("apart/mine-[01]")))
    assert "mine, direct" in together, together
    apart = set(readings(longwave.runs("apart/*")))
    assert {f"mine, direct, trained as {Path('apart', name)}" for name in ("mine-0", "mine-2")} <= apart, apart
    assert len(apart) == 2 * len(together), apart
    baseline = {"run": "mine", "seed": 0, "extend": "window_baseline", "length": 32}
    exact = pandas.DataFrame([baseline | {"exact": exact} for exact in (False, True)])
    assert readings(exact) == [f"mine, window_baseline, exact = {said}" for said in ("false", "true")]


def further() -> None:
    """The checkpoints that are asked for are read, and the steps of a run that was trained further are no seeds of it."""
    config = {"name": "further", "data": {"corpus": "data/sotu"}, "position": "none", "evaluate": [FEW]}

    def trained(steps: int) -> longwave.Run:
        train = {"steps": steps, "length": 32, "batch_tokens": 256, "keep_checkpoints": [1]}
        return longwave.train(config, resume=steps > 2, device="cpu", show=False, train=train, model__size="nano")

    run = trained(2)
    few = {"windows_per_document": 2, "device": "cpu", "show": False}
    # What stands alone is a list of one.
    read = run.evaluate("L", "direct", checkpoints=[1], **few)
    assert list(read[read.extend == "direct"].checkpoint) == ["step-1", "last"], read.checkpoint
    assert set(run.evaluate("L", "direct", checkpoint="step-1", **few).checkpoint) == {"step-1"}
    longer = run.evaluate("2L", {"kind": "window"}, **few)
    assert set(longer.length) == {64} and set(longer.extend) == {"window", "window_baseline"}, longer
    try:
        run.evaluate("L", checkpoint="last", checkpoints=[1], **few)
    except longwave.LongwaveError as error:
        assert error.key == "--checkpoint" and error.code == 2, error
    else:
        raise AssertionError("one checkpoint and several are asked for")
    run = trained(4)
    rows = run.results
    rows = rows[(rows.extend == "direct") & (rows.checkpoint == "last")]
    before, after = (rows[rows.step == step].ppl.item() for step in (2, 4))
    (drawn,) = longwave.plot(rows).get_lines()
    assert len(drawn.get_ydata()) == 1 and abs(drawn.get_ydata()[0] / after - 1) < 1e-9, drawn.get_ydata()
    shown = run._repr_html_()
    assert f"{after:.2f}" in shown and f"{before:.2f}" not in shown and f"{before:.2f}" != f"{after:.2f}", shown


def the_same_numbers() -> None:
    """What Python gives is what the command line gives, to the last digit."""
    run = longwave.Run("runs/mine-0")
    rows = run.evaluate(["L", "2L"], [{"kind": "yarn", "beta": 16.0}], windows_per_document=2, device="cpu", show=False)
    command = ["longwave", "eval", "runs/mine-0", "--json", "--device", "cpu", "--lengths", "L,2L"]
    command += ["--extend", "{ kind = 'yarn', beta = 16.0 }", "--set", "windows_per_document=2"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    expected = [json.loads(line) for line in printed.splitlines()]
    assert [row["extend"] for row in expected].count("yarn") == 2
    for key in ["extend", "length", "nll", "nll_se", "ppl", "bpb", "tokens"]:
        assert list(rows[key]) == [row[key] for row in expected], key
    why = run.explain(["L", "2L"], device="cpu", show=False)
    command = ["longwave", "explain", "runs/mine-0", "--json", "--device", "cpu", "--lengths", "L,2L"]
    explained = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert list(why.value) == [finding["value"] for finding in explained["findings"]]
    assert why.attrs["train_length"] == 32


def configs() -> None:
    """A dictionary is a config, and keywords change its keys."""
    config = {"name": "written", "data": {"corpus": "data/sotu"}, "position": "none", "evaluate": [FEW]}
    run = longwave.train(
        config, seed=3, device="cpu", show=False, train={"steps": 2, "length": 32, "batch_tokens": 256}, model__size="nano"
    )
    assert str(run.folder) == os.path.join("runs", "written-3") and len(run.metrics) == 2
    assert "written" in run._repr_html_()
    bias = longwave.inspect("alibi.toml").bias
    assert set(bias[bias["head"] == 0].trained / -bias[bias["head"] == 0].distance.clip(lower=1)) <= {0.25, 0.0}
    turned = longwave.inspect("rope.toml", extend={"kind": "linear", "scale": 4.0}, length="4L").bands
    assert (abs(turned.inv_freq / turned.inv_freq_read - 4) < 1e-9).all()


def errors() -> None:
    """A wrong key says which, what is allowed, and a hint."""
    for wrong, key, hint in [
        ({"train__stepz": 3}, "train.stepz", "did you mean `steps`?"),
        ({"train__steps": -3}, "train.steps", None),
    ]:
        try:
            longwave.train("mine.toml", show=False, **wrong)
        except longwave.LongwaveError as error:
            assert error.key == key and error.code == 2 and error.hint, error
            assert hint is None or error.hint == hint, error.hint
        else:
            raise AssertionError(f"{wrong} is allowed")
    # What stands in backticks may be a file, a run or a kind.
    for said, key in [
        ("there is no config `nofile.toml`: looked at `nofile.toml`", None),
        ("`ntk` does not apply to `alibi`: it needs an encoding made of frequencies", None),
        ("`model` holds no weights: it has no `model.safetensors`", None),
        ("the tensor `model.norm.weight` holds NaN, so no loss would be a number", None),
        ("`window = 32` is not allowed: `rerope` then reads distances up to 32", "window"),
        ("`evaluate[0].lengths[1] = \"2l\"` is not allowed", "evaluate[0].lengths[1]"),
        ("`alibi` acts on scores, and `model.attention = \"linear\"` has none", "model.attention"),
        ("unknown key `trian`: allowed are `name`, `seed`", "trian"),
        ("`position` is missing", "position"),
        ("`data.corpus` has no meaning beside `data.task`", "data.corpus"),
        ("`run` holds a run with another config: `train.clip` is 1.0 there and 2.0 here", "train.clip"),
        ("`--device gpu`: this build has no GPU support", "--device"),
        ("invalid value '0' for '--lengths <N,2L,..>': it must be a whole number", "--lengths"),
    ]:
        assert _error([f"error: {said}"], 2).key == key, said


def interrupts() -> None:
    """An interrupt leaves a checkpoint, from which the training goes on."""
    long = SMALL | {"train.steps": 2000, "evaluate": [FEW], "name": "long"}

    def interrupt() -> None:
        while not Path("runs/long-0/config.toml").is_file():
            time.sleep(0.1)
        time.sleep(1.5)  # some steps
        os.kill(os.getpid(), signal.SIGINT)

    # A process that was started in the background may ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        longwave.train("mine.toml", device="cpu", **long)
    except KeyboardInterrupt:
        steps = len(longwave.Run("runs/long-0").metrics)
        assert 0 < steps < 2000
    else:
        raise AssertionError("it was not interrupted")
    run = longwave.train("mine.toml", device="cpu", resume=True, **long)
    assert list(run.metrics.step) == list(range(1, 2001))


def studies() -> None:
    Path("small.toml").write_text(
        'name = "small"\nbase = "mine.toml"\nseeds = 2\n[[axis]]\nkey = "position"\nvalues = ["rope", "none"]\nlabels = ["-n/4", "none"]\n'
        '[[evaluate]]\nlengths = ["L", "2L"]\nextend = ["direct"]\nwindows_per_document = 2\n',
        encoding="utf-8",
    )
    study = longwave.study("small.toml", **SMALL)
    assert len(study.results[study.results.extend == "direct"]) == 8
    # The file guards a text that a spreadsheet would compute.
    assert "'-n/4," in (study.folder / "results.csv").read_text(encoding="utf-8")
    assert set(study.results.position) == {"-n/4", "none"}, set(study.results.position)
    assert "Perplexity" in study.text
    assert study.figure("figures/study.pdf", width="3in").read_bytes().startswith(b"%PDF")


def notebook(path: str) -> None:
    """Runs the cells one after another, as a reader would."""
    cells = json.loads(Path(path).read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(sources) == 5
    names: dict = {}
    for source in sources:
        exec(compile(source, path, "exec"), names)
    assert Path("extrapolation.pdf").read_bytes().startswith(b"%PDF")


if __name__ == "__main__":
    for check in [tables, seeds, the_same_numbers, further, configs, errors, interrupts, studies]:
        check()
    os.makedirs("notebook")
    os.chdir("notebook")
    notebook(sys.argv[1])
    print("Python:", longwave.__version__)
