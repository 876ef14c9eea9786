"""Calls the program `longwave`, which the same package installs."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path
from typing import Any

# `training step 20/400  smoothed loss 5.1 ..` and `[3/10] rope, seed 0: finished ..`
_PROGRESS = re.compile(r"^(?:(?P<what>[a-z]+(?: \d+)?) (?:[a-z]+ )?|\[)(?P<done>[\d,]+)/(?P<total>[\d,]+)\]?\s*(?P<rest>.*)")

# Files, runs and kinds stand in backticks too: a key is what has a value, is missing or unknown, or stands below a section.
_SECTIONS = "axis|claim|correlation|data|eval|evaluate|explain|model|position|stage|train"
_KEY = re.compile(
    r"(?<=unknown key `)[^`]+"
    r"|(?<=[`'])--[a-z][\w-]*"
    r"|(?<=`)[\w.\[\]]+(?= = |` is missing)"
    rf"|(?<=`)(?<!tensor `)(?![\w.]+\.(?:csv|gz|jsonl?|parquet|py|safetensors|toml|txt)`)(?:{_SECTIONS})[.\[][\w.\[\]]+(?=`)"
)


class LongwaveError(Exception):
    """What the program says when it fails.

    message: the sentence, without `error:`.
    key: the key of the config or the option that it is about, if it names one.
    hint: what to do, if it says so.
    code: the program's exit code: 1 failed, 2 wrong usage or config.
    """

    def __init__(self, message: str, key: str | None = None, hint: str | None = None, code: int = 1) -> None:
        super().__init__(message if hint is None else f"{message}\nhint: {hint}")
        self.message = message
        self.key = key
        self.hint = hint
        self.code = code


def program() -> str:
    """The path of the program: that beside this Python, else the one that the shell would find.

    The variable LONGWAVE names another one.
    """
    given = os.environ.get("LONGWAVE")
    if given:
        return given
    name = "longwave.exe" if os.name == "nt" else "longwave"
    beside = Path(sysconfig.get_path("scripts")) / name
    found = str(beside) if beside.is_file() else shutil.which("longwave")
    if found is None:
        raise LongwaveError("the program `longwave` is not installed", hint="pip install longwave")
    return found


def call(arguments: list[str], *, stdin: str | None = None, show: bool = True) -> tuple[str, list[str]]:
    """Runs the program; gives what it prints, and the lines that it says meanwhile.

    show: whether progress is shown, as bars of tqdm where that is installed. An interrupt is passed on: the program writes a
    checkpoint and ends, and KeyboardInterrupt is raised then.
    """
    # A group of its own: an interrupt of the terminal must not reach it twice.
    group: dict[str, Any] = {"start_new_session": True}
    stop: int = signal.SIGINT
    if sys.platform == "win32":
        group, stop = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}, signal.CTRL_BREAK_EVENT
    process = subprocess.Popen(
        [program(), *arguments],
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=os.environ | {"LONGWAVE_PROGRESS": "0.5"},
        **group,
    )
    assert process.stdout is not None and process.stderr is not None
    if stdin is not None and process.stdin is not None:
        process.stdin.write(stdin)
        process.stdin.close()
    printed: list[str] = []
    reader = threading.Thread(target=lambda out=process.stdout: printed.append(out.read()), daemon=True)
    reader.start()
    said: list[str] = []
    bars = _Bars() if show else None
    interrupted = False
    while True:
        try:
            for line in process.stderr:
                said.append(line.rstrip("\n"))
                if bars is not None:
                    bars.line(said[-1])
            process.wait()
            break
        except KeyboardInterrupt:
            # The second one does not wait for a checkpoint.
            process.kill() if interrupted else process.send_signal(stop)
            interrupted = True
    reader.join()
    if bars is not None:
        bars.close(finished=process.returncode == 0)
    if interrupted:
        raise KeyboardInterrupt
    if process.returncode != 0:
        raise _error(said, process.returncode)
    return "".join(printed), said


def assignments(set: dict[str, Any]) -> list[str]:
    """`--set` for each key. Two underscores stand for a dot: `train__steps=200` is `train.steps`; a dictionary sets its keys one by
    one, or the whole where it names a kind."""
    found: list[str] = []
    for key, value in set.items():
        key = key.replace("__", ".")
        if isinstance(value, dict) and "kind" not in value:
            found += assignments({f"{key}.{inner}": it for inner, it in value.items()})
        else:
            found += ["--set", f"{key}={toml(value)}"]
    return found


def toml(value: Any) -> str:
    """A value as TOML on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(str(key))} = {toml(it)}" for key, it in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml(it) for it in value) + "]"
    # Numbers of numpy and others have their own types.
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (str, Path)):
        return json.dumps(str(value), ensure_ascii=False)
    raise TypeError(f"{value!r} has no form in a config")


def folder_in(said: list[str], start: str) -> Path:
    """The folder at the end of the line that begins with a word, as in `run       rope in runs/rope-0`."""
    for line in said:
        if line.startswith(start) and " in " in line:
            # No name before it has blanks.
            return Path(line.split(" in ", 1)[1])
    raise LongwaveError(f"the program did not say where its results are: {said[:1]}")


def _error(said: list[str], code: int) -> LongwaveError:
    starts = [place for place, line in enumerate(said) if line.startswith("error: ")]
    if not starts:
        return LongwaveError("\n".join(said[-5:]) or f"the program ended with code {code}", code=code)
    rest = said[starts[-1] :]
    hints = [line.removeprefix("hint: ") for line in rest if line.startswith("hint: ")]
    before = rest[: next((place for place, line in enumerate(rest) if line.startswith("hint: ")), len(rest))]
    message = "\n".join(before).removeprefix("error: ").strip()
    named = _KEY.search(message)
    return LongwaveError(message, named.group() if named else None, hints[0] if hints else None, code)


def _number(grouped: str) -> int:
    return int(grouped.replace(",", ""))


class _Bars:
    """Progress of a program whose lines come one by one."""

    def __init__(self) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            tqdm = None
        self.tqdm = tqdm
        self.what: str | None = None
        self.bar: Any = None

    def line(self, line: str) -> None:
        found = _PROGRESS.match(line)
        if found is None or self.tqdm is None:
            if self.bar is not None:
                self.tqdm.write(line, file=sys.stderr)
            elif line and not line.startswith(("error: ", "hint: ")):
                print(line, file=sys.stderr)
            return
        what = found["what"] or "runs"
        if what != self.what or self.bar is None:
            self.close(finished=True)
            self.what, self.bar = what, self.tqdm(total=_number(found["total"]), desc=what)
        self.bar.update(_number(found["done"]) - self.bar.n)
        self.bar.set_postfix_str(re.sub(r"\s{2,}", ", ", found["rest"]), refresh=False)

    def close(self, finished: bool) -> None:
        if self.bar is not None:
            # Lines come some time apart: the last one is seldom said.
            self.bar.update(self.bar.total - self.bar.n if finished else 0)
            self.bar.close()
            self.bar = None
