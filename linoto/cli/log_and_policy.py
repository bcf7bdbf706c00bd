"""A log and a policy from the command line: what `linoto certificate` and `linoto preview` share."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linoto.cli.terminal import above_zero, above_zero_or, at_least_zero, number, seed
from linoto.cli.usage import Parser, Words, as_typed
from linoto.core.hints import nearest

if TYPE_CHECKING:
    from linoto.core.arrays import Floats
    from linoto.core.composed import Composed
    from linoto.core.gates import Gate
    from linoto.core.offline import Offline
    from linoto.core.protocols import ComposedPolicy
    from linoto.logs.saved import SavedLog

REQUIRED = ("pulls", "reward_sums")
FILE_HELP = (
    "STATS is what a log says about each arm, as .npz or .json: `pulls`, how often it was chosen;\n"
    "`reward_sums`, what it earned in all; and if you like `reward_squares`, `names`, and `actions`,\n"
    "one row of features for each arm. One that `linoto audit --save` wrote also holds noise, bound\n"
    "and reward range: they are used where no option says otherwise.\n\n"
    '  {"actions": [[1, 0], [0.6, 0.8]], "names": ["old banner", "new banner"],\n'
    '   "pulls": [900, 100], "reward_sums": [310.0, 52.0]}'
)

noise = above_zero_or("bounded")  # the type of --noise


@dataclass(frozen=True, kw_only=True)
class ArmsAndLog:
    """Arms, their log, their names, and where all this comes from."""

    actions: Floats  # (k, d)
    offline: Offline
    names: tuple[str, ...]
    source: str
    saved: SavedLog | None = None  # with what the audit found, where it wrote the file


def add_log_and_policy(command: Parser) -> None:
    """The log, the policy, and what is assumed of the rewards."""
    command.add_argument("stats", nargs="?", type=Path, metavar="STATS", help="statistics of a log")
    command.add_argument("--paper", action="store_true", help="use the paper's default problem instead")
    command.add_argument("--seed", type=seed, default=0, help="of everything random")
    command.add_argument(
        "--policy",
        default="Gated",
        help="Gated (a tolerance), LinOtO (the paper's), or a policy as JSON, as linoto.to_dict writes it",
    )
    command.add_argument(
        "--explorer",
        metavar="NAME",
        choices=Words(explorers),
        help="what Gated explores with: %(choices)s",
    )
    add_gate(command)
    command.add_argument("--evidence", choices=("model", "rewards", "both"), help="what pays for exploration")
    command.add_argument(
        "--noise",
        type=noise,
        help="standard deviation of a reward, or the word bounded (default: from the audit, else 1)",
    )
    command.add_argument(
        "--reward-range", type=number, nargs=2, metavar=("LO", "HI"), help="where average rewards lie"
    )
    command.add_argument(
        "--bound",
        type=above_zero,
        help="of the vector that turns features into average rewards (default: from the audit, else 1)",
    )
    command.add_argument(
        "--delta", type=above_zero, help="how improbable a broken promise must be (default: 0.05)"
    )
    command.add_argument(
        "--shift",
        type=at_least_zero,
        help="how far average rewards may have moved since the log: the root mean square over its rows "
        "(default: 0, they have not)",
    )


def add_gate(command: Parser) -> None:
    """What Gated compares with."""
    command.add_argument(
        "--gate",
        metavar="NAME",
        choices=Words(gates),
        help="what Gated compares with: the log (tolerance, the default), or current practice as it is now, "
        "which is played in some of the rounds (control); one of %(choices)s",
    )


def log_and_policy_again(arguments: argparse.Namespace) -> list[str]:
    """The options above as they would be typed again, without those at their defaults."""
    words = ["--paper"] if arguments.paper else [arguments.stats.name]
    if arguments.policy != "Gated":
        words += ["--policy", arguments.policy]
    names = ("explorer", "gate", "evidence", "noise", "reward_range", "bound", "delta", "shift")
    return [shlex.quote(word) for word in [*words, *as_typed(arguments, names)]]


# -- the log ----------------------------------------------------------------------------------------------


def read_statistics(arguments: argparse.Namespace) -> ArmsAndLog:
    """The statistics that were asked for."""
    if arguments.paper == (arguments.stats is not None):
        arguments.refuse("give either a STATS file or --paper, and not both")
    if arguments.paper:
        return paper_statistics(arguments.seed)
    path: Path = arguments.stats
    try:
        found = as_arms_and_log(read_entries(path), path.name)
    except OSError as error:
        raise OSError(f"{path} must be a file that can be read: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if found.saved is not None and found.saved.warning:
        print(f"linoto: warning: {found.saved.warning}", file=sys.stderr)
    return found


def paper_statistics(seed: int) -> ArmsAndLog:
    """The paper's default problem: 100 arms in 20 dimensions, 100 logged rewards of 10 of them."""
    from linoto.core.policies import Random
    from linoto.experiments.run import draw_instance
    from linoto.experiments.settings import Setting

    bandit, offline, _ = draw_instance(Setting(name="default", policies={"any": Random()}), seed, 0)
    names = tuple(f"arm {arm}" for arm in range(len(bandit.actions)))
    return ArmsAndLog(
        actions=bandit.actions, offline=offline, names=names, source="the paper's default problem"
    )


def read_entries(path: Path) -> Mapping[str, Any]:
    """The entries of a statistics file."""
    readers = {".npz": read_npz, ".json": read_json}
    if path.suffix.lower() not in readers:
        raise ValueError(f"a statistics file must end in .npz or .json, got {path.suffix or 'no ending'!r}")
    data = readers[path.suffix.lower()](path)
    if "gram" in data:
        raise ValueError("it must be a log of fixed arms, got one with contexts")
    for name in REQUIRED:
        if name not in data:
            others = f", only {', '.join(sorted(data)) or 'nothing'}"
            raise ValueError(f"there is no {name!r}{nearest(name, data, others, ask='is it')}")
    return data


def read_npz(path: Path) -> Mapping[str, Any]:
    """The arrays of an .npz file; pickled objects are refused."""
    import zipfile

    import numpy as np

    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (zipfile.BadZipFile, ValueError, EOFError, AttributeError):
        raise ValueError("it must be arrays of numbers and text as numpy.savez writes them") from None


def read_json(path: Path) -> Mapping[str, Any]:
    """The entries of a JSON object."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ValueError("it is not valid JSON: it must be UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise ValueError(f"it must be a JSON object, got {type(data).__name__}")
    return data


def as_arms_and_log(data: Mapping[str, Any], source: str) -> ArmsAndLog:
    """Checked arms, log and names, and what an audit kept with them."""
    from linoto.core.offline import Offline, as_offline
    from linoto.core.one_hot import one_hot
    from linoto.core.validation import as_actions
    from linoto.logs.saved import read_saved

    saved = None if "header" not in data else read_saved(data)
    if saved is not None and saved.recipe is not None:
        raise ValueError("it must be a log of fixed arms, got one with contexts")
    log = Offline(
        pulls=data["pulls"], reward_sums=data["reward_sums"], reward_squares=data.get("reward_squares")
    )
    if log.total == 0:
        raise ValueError("pulls must hold at least one reward, got an empty log")
    actions = as_actions(data["actions"]) if "actions" in data else one_hot(len(log.pulls))
    return ArmsAndLog(
        actions=actions,
        offline=as_offline(log, len(actions)),
        names=as_arm_names(data.get("names"), len(actions)),
        source=source,
        saved=saved,
    )


def as_arm_names(names: Any, k: int) -> tuple[str, ...]:
    """One name for each arm, or numbers where there are none."""
    if names is None:
        return tuple(f"arm {arm}" for arm in range(k))
    words = list(names) if isinstance(names, Sequence) or hasattr(names, "tolist") else None
    if isinstance(names, str) or words is None or len(words) != k:
        raise ValueError(f"names must be a list of {k} names, one for each arm")
    return tuple(str(word) for word in words)


# -- the policy -------------------------------------------------------------------------------------------


def read_policy(arguments: argparse.Namespace, log: ArmsAndLog | None = None) -> ComposedPolicy:
    """The policy that was asked for, with what the audit of the log found and what was said about rewards."""
    from linoto.core.confidence import check_noise, with_assumptions

    policy = named_policy(arguments.policy)
    if log is not None and log.saved is not None and log.saved.confidence is not None:
        policy = with_assumptions(policy, log.saved.confidence)
    chosen: ComposedPolicy = with_parts(with_facts(policy, told(arguments)), arguments)
    if log is not None:
        check_noise(chosen.composed().assumed, log.offline)
    return chosen


def told(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the options say about rewards."""
    names = ("noise", "bound", "delta", "reward_range", "shift")
    return {name: value for name in names if (value := getattr(arguments, name, None)) is not None}


def with_facts(record: Any, facts: Mapping[str, Any]) -> Any:
    """The policy that assumes this about rewards."""
    from linoto.core.confidence import Confidence

    if not facts:
        return record
    if not hasattr(record, "confidence"):
        raise ValueError(
            f"--policy {type(record).__name__} assumes nothing about rewards: leave --"
            f"{next(iter(facts)).replace('_', '-')} out"
        )
    return replace(record, confidence=replace(record.composed().confidence or Confidence(), **facts))


def with_parts(record: Any, arguments: argparse.Namespace) -> Any:
    """The policy with the explorer, the gate and the evidence that were asked for."""
    from linoto.core.policies import Gated

    if arguments.explorer is not None:
        if not isinstance(record, Gated):
            raise ValueError(f"--explorer is for Gated, got --policy {type(record).__name__}")
        record = replace(record, explorer=explorers()[arguments.explorer])
    if getattr(arguments, "gate", None) is not None:  # an evaluation has no practice to draw
        if not isinstance(record, Gated) or arguments.policy != "Gated":
            raise ValueError(f"--gate is for Gated, got --policy {type(record).__name__}")
        record = replace(record, gate=gates()[arguments.gate]())
    if arguments.evidence is not None:
        if not isinstance(record, Gated) or not hasattr(record.gate, "evidence"):
            raise ValueError(f"--evidence is for a Tolerance gate, got --policy {type(record).__name__}")
        change: dict[str, Any] = {"evidence": arguments.evidence}
        record = replace(record, gate=replace(record.gate, **change))
    return record


def add_gate_options(command: Parser) -> None:
    """How much may be lost: what `with_gate_options` reads."""
    command.add_argument(
        "--budget", type=at_least_zero, help="the most that may be lost in all, in units of the reward"
    )
    command.add_argument(
        "--epsilon",
        type=at_least_zero,
        help="the most that may be lost per round (default without --budget: what Gated allows)",
    )
    command.add_argument(
        "--alpha", type=at_least_zero, help="the paper's parameter, for LinOtO and Budget gates"
    )


def with_gate_options(
    policy: ComposedPolicy, arguments: argparse.Namespace, log: ArmsAndLog | None = None
) -> ComposedPolicy:
    """The policy with the parameters that were given; of several, the others are 0, and of none the usual."""
    names = ("budget", "epsilon", "alpha")
    given = {name: value for name in names if (value := getattr(arguments, name, None)) is not None}
    if not given and arguments.policy == "Gated":
        earned, rows = (inf, 0) if log is None else (float(log.offline.reward_sums.sum()), log.offline.total)
        return with_usual_gate(policy, earned, rows)
    known = policy.composed().gate.parameters
    for name in given:
        if name not in known:
            has = " or ".join(f"--{other}" for other in known) or "none of these"
            raise ValueError(f"--{name} is not what this policy has: give {has}")
    for name in known if given else ():
        policy = policy.with_parameter(name, given.get(name, 0.0))
    return policy


def with_usual_gate(policy: ComposedPolicy, earned: float, rows: int) -> ComposedPolicy:
    """A Gated that allows what is usual with its confidence and a log that earned so much in so many rows,
    paid for by the evidence that it has."""
    from linoto.core.policies import Gated

    if not isinstance(policy, Gated):
        return policy
    return replace(policy, gate=policy.composed().gate.usual(policy.assumed, earned=earned, rows=rows))


def named_policy(text: str) -> Any:
    """A policy by name or as JSON: a record with a gate."""
    from linoto.core.gates import Tolerance
    from linoto.core.policies import Gated, LinOtO
    from linoto.core.protocols import ComposedPolicy
    from linoto.experiments.study import as_policy

    if text.lstrip().startswith("{"):
        try:
            policy = as_policy("--policy", json.loads(text))
        except json.JSONDecodeError as error:
            raise ValueError(f"--policy is not valid JSON: {error}") from None
        if not isinstance(policy, ComposedPolicy):
            raise ValueError(f"--policy must be a policy with a gate, got {type(policy).__name__}")
        return policy
    known = {"Gated": Gated(gate=Tolerance(epsilon=0.1)), "LinOtO": LinOtO()}
    if text not in known:
        others = ": it must be Gated, LinOtO, or JSON in braces"
        raise ValueError(f"there is no policy {text!r}{nearest(text, known, others)}")
    return known[text]


def explorers() -> Mapping[str, Composed]:
    """The explorers that --explorer names."""
    from linoto.core.policies import named_explorers

    return named_explorers()


def gates() -> Mapping[str, type[Gate]]:
    """The gates that --gate names."""
    from linoto.core.gates import GATES

    return {gate.word: gate for gate in GATES if gate.word}
