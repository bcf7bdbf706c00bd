"""The first thing to run: four policies on the paper's default problem."""

from __future__ import annotations

from linoto.experiments import Experiment, Setting
from linoto.paper import contenders


def demo(horizon: int) -> Experiment:
    """The paper's default problem over so many rounds."""
    order = ("LinOtO", "LinUCB", "LinLCB", "Random")
    policies = {name: contenders()[name] for name in order}
    setting = Setting(name="default", horizon=horizon, policies=policies)
    return Experiment(name="demo", title="The paper's default problem", settings=(setting,))
