"""Trains small GPTs with any positional encoding, and measures how they read longer texts.

    import longwave

    run = longwave.train("rope.toml", train__steps=400)     # a Run: progress meanwhile, an interrupt leaves a checkpoint
    run.evaluate(lengths=["L", "4L"], extend=["yarn"])      # a data frame, one line a measurement
    run.explain()                                           # a data frame, one line a number
    run.figure("figure.pdf", width="85mm", font_size="8pt") # the one figure that a paper needs
    longwave.plot(longwave.runs("runs/*"))

The functions call the program `longwave`, which the same package installs: numbers are those of the command line, to the last
digit. Data frames need pandas and charts matplotlib (`pip install 'longwave[plot]'`, with tqdm for progress).
"""

from .experiments import Inspection, Run, Study, inspect, study, train
from .program import LongwaveError
from .results import metrics, plot, runs

__all__ = ["Inspection", "LongwaveError", "Run", "Study", "inspect", "metrics", "plot", "runs", "study", "train"]
__version__ = "@VERSION@"
