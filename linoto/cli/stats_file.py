"""STATS on the command line: what is known of a log, and where what is assumed of rewards comes from."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from linoto.cli.policy_options import stated_rewards
from linoto.cli.usage import Parser
from linoto.core.hints import nearest

if TYPE_CHECKING:
    from linoto.core.certificates import Certificate
    from linoto.core.offline import Offline
    from linoto.core.protocols import ComposedPolicy
    from linoto.logs.arms import ArmTable
    from linoto.logs.rows import Rows
    from linoto.logs.saved import SavedLog

ENDINGS = (".npz", ".json")
REQUIRED = ("pulls", "reward_sums")
FILE_HELP = (
    "STATS is what a log says about each arm, as .npz or .json: `pulls`, how often it was chosen;\n"
    "`reward_sums`, what it earned in all; and if you like `reward_squares`, `names`, and `actions`,\n"
    "one row of features for each arm. One that `linoto audit --save` wrote also holds noise, bound,\n"
    "reward range and guardrails: they are used where no option says otherwise.\n\n"
    '  {"actions": [[1, 0], [0.6, 0.8]], "names": ["old banner", "new banner"],\n'
    '   "pulls": [900, 100], "reward_sums": [310.0, 52.0]}\n\n'
    "STATS that `linoto audit --save` wrote of a log with contexts: they hold the recipe\n"
    "of its features, and Gated then compares with practice in the same rounds."
)
PRACTICE = "the item that is played today, ITEM=WEIGHT for each of several, or the word log or given"
UNSAID = "as the policy assumes: neither STATS nor an option says otherwise"


class Statistics(NamedTuple):
    """What is known of a log, what messages call it, and its rows where they are at hand."""

    log: SavedLog
    source: str
    rows: Rows | None = None


def read_statistics(arguments: argparse.Namespace) -> Statistics:
    """The statistics that were asked for; a warning where an audit found something against them."""
    if arguments.paper == (arguments.stats is not None):
        arguments.refuse("give either a STATS file or --paper, and not both")
    if arguments.paper:
        return paper_statistics(arguments.seed)
    path, arms = Path(arguments.stats), arms_in_file(arguments)
    try:
        found = as_log(read_entries(path), arms)
    except OSError as error:
        raise OSError(f"{path} must be a file that can be read: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    warn_of(found)
    return Statistics(found, path.name)


def warn_of(log: SavedLog) -> None:
    """What an audit has against the log, on stderr."""
    if log.warning:
        print(f"linoto: warning: {log.warning}", file=sys.stderr)


def paper_statistics(seed: int) -> Statistics:
    """The paper's default problem: 100 arms in 20 dimensions, 100 logged rewards of 10 of them."""
    from linoto.core.policies import Random
    from linoto.experiments.run import draw_instance
    from linoto.experiments.settings import Setting
    from linoto.logs.saved import SavedLog

    bandit, offline, _ = draw_instance(Setting(name="default", policies={"any": Random()}), seed, 0)
    arms = arms_of(bandit.actions, None, len(bandit.actions))
    return Statistics(SavedLog(arms=arms, offline=offline), "the paper's default problem")


def read_entries(path: Path) -> Mapping[str, Any]:
    """The entries of a statistics file."""
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"a statistics file must end in .npz or .json, got {path.suffix or 'no ending'!r}")
    return read_npz(path) if path.suffix.lower() == ".npz" else read_json(path)


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
    except RecursionError:
        raise ValueError("it is not valid JSON: it is nested too deeply") from None
    if not isinstance(data, dict):
        raise ValueError(f"it must be a JSON object, got {type(data).__name__}")
    return data


def arms_in_file(arguments: argparse.Namespace) -> ArmTable | None:
    """The arms in ARMS, where they were named apart from the statistics."""
    if arguments.arms is None:
        return None
    from linoto.logs.read import read_arms

    return read_arms(arguments.arms, intercept=not arguments.no_intercept)


def as_log(data: Mapping[str, Any], own: ArmTable | None = None) -> SavedLog:
    """Checked arms, log and names: what an audit saved, or somebody's own numbers and maybe arms."""
    from linoto.core.offline import Offline, as_offline
    from linoto.logs.saved import SavedLog, read_saved

    if own is not None and ("header" in data or data.get("actions") is not None):
        raise ValueError("--arms must be left out: STATS has the features of its arms")
    if "header" in data:
        return read_saved(data)
    for name in REQUIRED:
        if name not in data:
            others = f", only {', '.join(sorted(data)) or 'nothing'}"
            raise ValueError(f"there is no {name!r}{nearest(name, data, others, ask='is it')}")
    log = Offline(
        pulls=data["pulls"], reward_sums=data["reward_sums"], reward_squares=data.get("reward_squares")
    )
    if log.total == 0:
        raise ValueError("pulls must hold at least one reward, got an empty log")
    k, names = len(log.pulls), data.get("names")
    arms = own or arms_of(data.get("actions"), names, k)
    if len(arms.names) != k:
        where = "actions" if own is None else "ARMS"
        raise ValueError(f"pulls must be of the {len(arms.names)} arms in {where}, got {k}")
    if own is not None and names is not None and own.names != as_arm_names(names, k):
        raise ValueError("names must be those of ARMS in its order, or be left out, got others")
    return SavedLog(arms=arms, offline=as_offline(log, len(arms.names)))


def arms_of(actions: Any, names: Any, k: int) -> ArmTable:
    """Arms with these features, or k arms without."""
    from linoto.core.validation import as_actions
    from linoto.logs.arms import ArmTable, Column, Encoding

    if actions is None:
        return ArmTable.one_hot(as_arm_names(names, k))
    features = as_actions(actions)
    columns = tuple(Column(name=f"feature {place}", levels=None) for place in range(features.shape[1]))
    return ArmTable(
        names=as_arm_names(names, len(features)),
        features=features,
        encoding=Encoding(columns=columns, intercept=False),
    )


def as_arm_names(names: Any, k: int) -> tuple[str, ...]:
    """One name for each arm, or numbers where there are none."""
    from linoto.core.cells import has_controls

    if names is None:
        return tuple(f"arm {arm}" for arm in range(k))
    words = list(names) if isinstance(names, Sequence) or hasattr(names, "tolist") else None
    if isinstance(names, str) or words is None or len(words) != k:
        raise ValueError(f"names must be a list of {k} names, one for each arm")
    for word in words:
        if not isinstance(word, str | int) or has_controls(str(word)):
            raise ValueError(f"names must be texts without control characters or line ends, got {word!r}")
    return tuple(str(word) for word in words)


# -- what is assumed of rewards, and where it comes from --------------------------------------------------


def assumption_rows(
    policy: ComposedPolicy, log: SavedLog, arguments: argparse.Namespace
) -> list[tuple[str, str]]:
    """Noise, bound and reward range as the policy takes them, each with where it comes from."""
    assumed = policy.composed().assumed.assumptions().items()
    return [
        (name.replace("_", " "), f"{text}, {origin(name, policy, log, arguments)}") for name, text in assumed
    ]


def origin(name: str, policy: ComposedPolicy, log: SavedLog, arguments: argparse.Namespace) -> str:
    """Where one of them comes from."""
    if name in stated_rewards(arguments):
        return "as given"
    if getattr(log.confidence, name, None) != getattr(policy.composed().assumed, name):
        return UNSAID
    return log.origin(name)


def promise_rows(
    certificate: Certificate, rows: Sequence[tuple[str, str]], log: SavedLog
) -> list[tuple[str, str]]:
    """Rows of a certificate; where it rests on a log that the audit says not to trust, it says so."""
    from linoto.core.certificates import PRACTICE

    doubted = log.verdict == "do not trust" or log.against_log
    if not doubted or certificate.against == PRACTICE:
        return list(rows)
    doubt = "would hold, but the log is not to be trusted: see the warning"
    return [(name, doubt if (name, text) == ("promise", "holds") else text) for name, text in rows]


def assumption_facts(policy: ComposedPolicy, log: SavedLog, arguments: argparse.Namespace) -> dict[str, Any]:
    """The same for machines, with the verdict of the audit."""
    from linoto.core.confidence import ASSUMED

    assumed = policy.composed().assumed
    found = {name: value for name in ASSUMED if (value := getattr(assumed, name)) is not None}
    found |= {"shift": assumed.shift} if assumed.shift > 0 else {}
    return {
        "verdict": log.verdict,
        "assumed": {
            name: {"value": value, "origin": origin(name, policy, log, arguments)}
            for name, value in found.items()
        },
    }


# -- what is done today -----------------------------------------------------------------------------------


def add_practice(command: Parser, *, sent: bool = True) -> None:
    """What is done today, in rounds that bring their own arms; `sent`: decisions may bring it."""
    log = "the word log for the shares of the items in the log"
    words = f"{log}, or the word given, if it is sent with each decision" if sent else f"or {log}"
    command.add_argument(
        "--practice",
        action="append",
        default=[],
        metavar="ITEM[=WEIGHT]",
        help="what is done today, in a loop with contexts: an item, ITEM=WEIGHT for each of several (repeat "
        f"the option; weights are relative), {words}",
    )


def practice_of(
    arguments: argparse.Namespace, log: SavedLog, *, needed: bool = False
) -> str | dict[str, float] | None:
    """What is done today: an item, "given", the shares of the "log", or weights as ITEM=WEIGHT."""
    given: list[str] = arguments.practice
    takes = log.features.takes_practice
    if not given:
        if needed and takes:
            arguments.refuse(f"a loop with contexts needs --practice: {PRACTICE}")
        return None
    if not takes:
        arguments.refuse("--practice is for contexts: without them practice is the log's own mixture")
    return practice_among(given, log.names, log.offline)


def practice_among(
    given: list[str], names: Sequence[str], offline: Offline, *, sent: bool = True
) -> str | dict[str, float]:
    """The same among these items, which a log has played so often; `sent`: decisions may bring it."""
    if len(given) == 1 and (given[0] in names or (sent and given[0] == "given")):
        return given[0]
    if given == ["log"]:
        counts = zip(names, offline.pulls.tolist(), strict=True)
        return {item: n / offline.total for item, n in counts if n > 0}
    weights = dict[str, float]()
    for word in given:
        item, _, text = word.rpartition("=")
        if item in weights:
            raise ValueError(f"--practice must name each item once, got {item!r} twice")
        try:
            weights[item] = float(text)
        except ValueError:
            item = ""
        if item not in names:
            some, words = ", ".join(names[:5]) + (" ..." if len(names) > 5 else ""), " or given" * sent
            raise ValueError(
                f"--practice must be an item, ITEM=WEIGHT for each item, or log{words}, "
                f"got {word!r}: the items are {some}"
            )
    total = sum(weights.values())
    if not 0 < total < inf or min(weights.values()) < 0:
        raise ValueError(f"--practice must have weights >= 0, one of them above 0, got {' '.join(given)}")
    return {item: weight / total for item, weight in weights.items()}
