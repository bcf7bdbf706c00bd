"""Every page, written with names that would be markup if one of them was not escaped."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from helpers.audit_logs import ACTIONS, clean_log

import linoto
from linoto.audit.audit import audit_log
from linoto.experiments import takeover
from linoto.experiments.claims import CheckedClaim, Claim, Measurement
from linoto.experiments.compare import compare
from linoto.experiments.run import run_experiment
from linoto.experiments.settings import Experiment, Setting
from linoto.logs.arms import ArmTable
from linoto.logs.read import Log
from linoto.pages.audit import write_audit
from linoto.pages.compare import write_comparison
from linoto.pages.demo import write_story
from linoto.pages.figures.experiments import draw_story
from linoto.pages.figures.pieces import save
from linoto.pages.preview import write_preview
from linoto.pages.report import write_report

ODD = "<script>alert(1)</script> \"&' <img src=x onerror=x>"


def audit_page(folder: Path) -> Path:
    columns: dict[str, Any] = {"id": [f"{ODD} {arm}" for arm in range(len(ACTIONS))]}
    columns |= {f"{ODD} {j}": column.tolist() for j, column in enumerate(ACTIONS.T)}
    arms = ArmTable.from_columns(columns, intercept=False)
    log = Log(**{**vars(clean_log()), "arms": arms, "split": ODD})
    return write_audit(folder / "audit.html", audit_log(log), source=ODD, command=ODD)


def preview_page(folder: Path) -> Path:
    log = linoto.Offline(pulls=[40, 40, 0], reward_sums=[20.0, 8.0, 0.0])
    shown = linoto.preview(np.eye(3), log, grid=[0.05, 0.2], horizon=50, worlds=4)
    names = [f"{ODD} {arm}" for arm in range(3)]
    path = folder / "preview.html"
    return write_preview(path, shown, log, names=names, source=ODD, command=ODD, limit=20.0)


def report_page(folder: Path) -> Path:
    policies: dict[str, Any] = {"LinOtO": linoto.LinOtO(), ODD: linoto.LinTS()}
    setting = Setting(name=ODD, k=9, d=3, logged_arms=3, horizon=40, policies=policies)
    result = run_experiment(Experiment(name="odd", settings=(setting,), title=ODD, caption=ODD), runs=2)
    text = {"name": ODD, "experiment": ODD, "quote": ODD, "source": ODD, "measure": ODD}
    claim = Claim(**text, measurements=lambda _: ())
    finding = CheckedClaim(claim=claim, measurements=(Measurement(label=ODD, values=np.ones(2)),))
    write_report([result], [finding], folder, title=ODD, command=ODD, with_bounds=True)
    return folder / "report.html"


def demo_page(folder: Path) -> Path:
    contenders = takeover.contenders()
    story = takeover.story(runs=1, horizon=50, policies={"Gated": contenders["Gated"], ODD: linoto.LinUCB()})
    picture = save(draw_story(story), folder / "demo")[1]
    return write_story(folder / "demo.html", story, picture=picture, command=ODD, audit=[ODD])


def compare_page(folder: Path) -> Path:
    setting = Setting(
        name=ODD,
        k=9,
        d=3,
        logged_arms=3,
        horizon=40,
        policies={"LinTS": linoto.LinTS(), ODD: linoto.LinUCB()},
    )
    write_comparison(folder, compare([setting], runs=2), command=ODD)
    return folder / "compare.html"


PAGES: dict[str, Callable[[Path], Path]] = {
    "audit": audit_page,
    "preview": preview_page,
    "report": report_page,
    "demo": demo_page,
    "compare": compare_page,
}
PACKAGE = Path(linoto.__file__).parent
LIBRARY = str(Path(matplotlib.__file__).parent)


def callers(work: Callable[[], Any]) -> set[Path]:
    """The files of linoto that call into matplotlib while this works."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(LIBRARY) and frame.f_back is not None:
            found.add(frame.f_back.f_code.co_filename)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return {Path(name) for name in found if Path(name).is_relative_to(PACKAGE)}


class Written(NamedTuple):
    """A page, and who drew for it."""

    text: str
    callers: set[Path]


@cache
def written(name: str) -> Written:
    """A page of odd names, written once for every test."""
    paths: list[Path] = []
    with TemporaryDirectory() as folder:
        found = callers(lambda: paths.append(PAGES[name](Path(folder))))
        return Written(paths[0].read_text("utf-8"), found)
