"""Learn online from a log of past decisions without doing worse than what is already running.

Explore when you can afford it, otherwise play safe. Names resolve on first use, so importing is instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from linoto.version import __version__ as __version__

if TYPE_CHECKING:
    from linoto.agent import Agent as Agent
    from linoto.agent import Decision as Decision
    from linoto.agent import LinearAgent as LinearAgent
    from linoto.agent import NoSafeArm as NoSafeArm
    from linoto.bandits import Bandit as Bandit
    from linoto.bandits import LinearBandit as LinearBandit
    from linoto.bandits import logged_pulls as logged_pulls
    from linoto.bandits import sphere_bandit as sphere_bandit
    from linoto.certificates import Certificate as Certificate
    from linoto.checks import check_policy as check_policy
    from linoto.client import AsyncClient as AsyncClient
    from linoto.client import Client as Client
    from linoto.client import ServiceError as ServiceError
    from linoto.confidence import PAPER as PAPER
    from linoto.confidence import Confidence as Confidence
    from linoto.confidence import Ellipsoid as Ellipsoid
    from linoto.data import Offline as Offline
    from linoto.doubling import Doubling as Doubling
    from linoto.features import ArmTable as ArmTable
    from linoto.features import load as load
    from linoto.gates import Budget as Budget
    from linoto.gates import Closed as Closed
    from linoto.gates import Open as Open
    from linoto.gates import Tolerance as Tolerance
    from linoto.guard import Guard as Guard
    from linoto.logs import read_arms as read_arms
    from linoto.logs import read_log as read_log
    from linoto.outlook import Preview as Preview
    from linoto.outlook import preview as preview
    from linoto.policies import Gated as Gated
    from linoto.policies import Greedy as Greedy
    from linoto.policies import LinLCB as LinLCB
    from linoto.policies import LinOtO as LinOtO
    from linoto.policies import LinTS as LinTS
    from linoto.policies import LinUCB as LinUCB
    from linoto.policies import Policy as Policy
    from linoto.policies import Random as Random
    from linoto.simulation import Run as Run
    from linoto.simulation import simulate as simulate
    from linoto.snapshots import from_dict as from_dict
    from linoto.snapshots import restore as restore
    from linoto.snapshots import to_dict as to_dict
    from linoto.verdicts import audit_log as audit_log

HOMES = {
    "agent": ("Agent", "Decision", "LinearAgent", "NoSafeArm"),
    "bandits": ("Bandit", "LinearBandit", "logged_pulls", "sphere_bandit"),
    "certificates": ("Certificate",),
    "checks": ("check_policy",),
    "client": ("AsyncClient", "Client", "ServiceError"),
    "confidence": ("PAPER", "Confidence", "Ellipsoid"),
    "data": ("Offline",),
    "doubling": ("Doubling",),
    "features": ("ArmTable", "load"),
    "gates": ("Budget", "Closed", "Open", "Tolerance"),
    "guard": ("Guard",),
    "policies": ("Gated", "Greedy", "LinLCB", "LinOtO", "LinTS", "LinUCB", "Policy", "Random"),
    "logs": ("read_arms", "read_log"),
    "outlook": ("Preview", "preview"),
    "simulation": ("Run", "simulate"),
    "snapshots": ("from_dict", "restore", "to_dict"),
    "verdicts": ("audit_log",),
}
_HOME_OF = {name: home for home, names in HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'linoto' has no attribute {name!r}")
    value = getattr(import_module(f"linoto.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
