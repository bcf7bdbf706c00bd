"""Learn online from a log of past decisions without doing worse than what is already running.

Explore when you can afford it, otherwise play safe. Names resolve on first use, so importing is instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from linoto.version import __version__ as __version__

if TYPE_CHECKING:
    from linoto import columns as columns
    from linoto import research as research
    from linoto.audit.audit import audit_log as audit_log
    from linoto.checks import check_policy as check_policy
    from linoto.checks import check_promise as check_promise
    from linoto.client import AsyncClient as AsyncClient
    from linoto.client import Client as Client
    from linoto.client import ServiceError as ServiceError
    from linoto.core.agent import Agent as Agent
    from linoto.core.arm_changes import ArmChange as ArmChange
    from linoto.core.certificates import Certificate as Certificate
    from linoto.core.confidence import PAPER as PAPER
    from linoto.core.confidence import Confidence as Confidence
    from linoto.core.confidence import Ellipsoid as Ellipsoid
    from linoto.core.decisions import Decision as Decision
    from linoto.core.decisions import NoSafeArm as NoSafeArm
    from linoto.core.doubling import Doubling as Doubling
    from linoto.core.features.columns import Category as Category
    from linoto.core.features.columns import Numeric as Numeric
    from linoto.core.features.moments import Moments as Moments
    from linoto.core.features.own import OwnFeatures as OwnFeatures
    from linoto.core.features.recipe import Recipe as Recipe
    from linoto.core.gates import Budget as Budget
    from linoto.core.gates import Closed as Closed
    from linoto.core.gates import Conservative as Conservative
    from linoto.core.gates import Control as Control
    from linoto.core.gates import Open as Open
    from linoto.core.gates import Tolerance as Tolerance
    from linoto.core.guard import Guard as Guard
    from linoto.core.guardrail import Guardrail as Guardrail
    from linoto.core.offline import Offline as Offline
    from linoto.core.one_hot import one_hot as one_hot
    from linoto.core.policies import Gated as Gated
    from linoto.core.policies import Greedy as Greedy
    from linoto.core.policies import LinLCB as LinLCB
    from linoto.core.policies import LinOtO as LinOtO
    from linoto.core.policies import LinTS as LinTS
    from linoto.core.policies import LinUCB as LinUCB
    from linoto.core.policies import LogisticTS as LogisticTS
    from linoto.core.policies import Random as Random
    from linoto.core.policies import RandUCB as RandUCB
    from linoto.core.policies import SquareCB as SquareCB
    from linoto.core.protocols import Policy as Policy
    from linoto.core.shift import least_shift as least_shift
    from linoto.core.shift import shifted_bounds as shifted_bounds
    from linoto.core.snapshots import from_dict as from_dict
    from linoto.core.snapshots import restore as restore
    from linoto.core.snapshots import to_dict as to_dict
    from linoto.engines import Engine as Engine
    from linoto.experiments.run import run_experiment as run_experiment
    from linoto.experiments.settings import ContextualSetting as ContextualSetting
    from linoto.experiments.settings import Experiment as Experiment
    from linoto.experiments.settings import Setting as Setting
    from linoto.logs.arms import ArmTable as ArmTable
    from linoto.logs.databases import Query as Query
    from linoto.logs.evaluate import evaluate as evaluate
    from linoto.logs.foreign import ForeignLog as ForeignLog
    from linoto.logs.foreign import read_foreign as read_foreign
    from linoto.logs.learning import learn_policy as learn_policy
    from linoto.logs.read import Log as Log
    from linoto.logs.read import read_arms as read_arms
    from linoto.logs.read import read_log as read_log
    from linoto.logs.read_rows import read_rows as read_rows
    from linoto.logs.rows import Rows as Rows
    from linoto.logs.saved import load as load
    from linoto.worlds.bandits import Bandit as Bandit
    from linoto.worlds.bandits import DriftingBandit as DriftingBandit
    from linoto.worlds.bandits import LinearBandit as LinearBandit
    from linoto.worlds.bandits import logged_pulls as logged_pulls
    from linoto.worlds.bandits import sphere_bandit as sphere_bandit
    from linoto.worlds.contexts import ContextualBandit as ContextualBandit
    from linoto.worlds.gates import GatePreview as GatePreview
    from linoto.worlds.gates import preview_gates as preview_gates
    from linoto.worlds.preview import Preview as Preview
    from linoto.worlds.preview import preview as preview
    from linoto.worlds.run import Run as Run
    from linoto.worlds.simulate import simulate as simulate

HOMES = {
    "audit.audit": ("audit_log",),
    "checks": ("check_policy", "check_promise"),
    "client": ("AsyncClient", "Client", "ServiceError"),
    "core.agent": ("Agent",),
    "core.arm_changes": ("ArmChange",),
    "core.certificates": ("Certificate",),
    "core.confidence": ("PAPER", "Confidence", "Ellipsoid"),
    "core.features.moments": ("Moments",),
    "core.features.columns": ("Category", "Numeric"),
    "core.features.own": ("OwnFeatures",),
    "core.features.recipe": ("Recipe",),
    "core.decisions": ("Decision", "NoSafeArm"),
    "core.doubling": ("Doubling",),
    "core.gates": ("Budget", "Closed", "Conservative", "Control", "Open", "Tolerance"),
    "core.guard": ("Guard",),
    "core.guardrail": ("Guardrail",),
    "core.offline": ("Offline",),
    "core.policies": (
        "Gated",
        "Greedy",
        "LinLCB",
        "LinOtO",
        "LinTS",
        "LinUCB",
        "LogisticTS",
        "RandUCB",
        "Random",
        "SquareCB",
    ),
    "core.protocols": ("Policy",),
    "core.shift": ("least_shift", "shifted_bounds"),
    "core.snapshots": ("from_dict", "restore", "to_dict"),
    "core.one_hot": ("one_hot",),
    "engines": ("Engine",),
    "experiments.run": ("run_experiment",),
    "experiments.settings": ("ContextualSetting", "Experiment", "Setting"),
    "logs.arms": ("ArmTable",),
    "logs.evaluate": ("evaluate",),
    "logs.foreign": ("ForeignLog", "read_foreign"),
    "logs.learning": ("learn_policy",),
    "logs.databases": ("Query",),
    "logs.read": ("Log", "read_arms", "read_log"),
    "logs.read_rows": ("read_rows",),
    "logs.rows": ("Rows",),
    "logs.saved": ("load",),
    "worlds.bandits": ("Bandit", "DriftingBandit", "LinearBandit", "logged_pulls", "sphere_bandit"),
    "worlds.contexts": ("ContextualBandit",),
    "worlds.gates": ("GatePreview", "preview_gates"),
    "worlds.preview": ("Preview", "preview"),
    "worlds.run": ("Run",),
    "worlds.simulate": ("simulate",),
}
_HOME_OF = {name: home for home, names in HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name in ("columns", "research"):
        return import_module(f"linoto.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'linoto' has no attribute {name!r}")
    value = getattr(import_module(f"linoto.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
