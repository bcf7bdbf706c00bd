"""Our policies beside other packages, each in an environment of its own: python benchmarks/peers.py.

Five workloads: one simulated run, one decision with its update at three sizes, a start from a log of a
million rows, a problem with contexts, in which regret counts too, and a model for each arm at four sizes.
Contestants get their problem as a file and take turns. Every time is divided by that of LinUCB in NumPy in
the same turn (in the last one with a ridge model per arm), and the median of the turns counts. Environments
are made once and kept; finished workloads are kept too, so the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from peer_environments import InstallationError, environment_of
from peer_problems import QUICK, Sizes, contexts_of_models, fixed_arms, logged_rows, rounds_with_contexts
from peer_table import Column, regret_table, slower_cells, speed_table
from peer_turns import WORKER, Contestant, Limits, Outcome, take_turns

import linoto

PER_ARM = "a model for each arm, which all see one context"
REFERENCE = Contestant("numpy", "LinUCB")
PRESENT = ("linoto", "numpy")  # in the environment that runs this file
FIXED_ARMS = (
    Contestant("linoto", "LinUCB"),
    Contestant("linoto", "LinTS"),
    Contestant("linoto", "Gated"),
    REFERENCE,
    Contestant("mabwiser", "LinUCB, one model"),
    Contestant("mabwiser", "LinUCB, a model per arm", PER_ARM),
    Contestant("bayesianbandits", "ThompsonSampling"),
    Contestant("bayesianbandits", "UpperConfidenceBound"),
    Contestant("coba", "LinUCB"),
    Contestant("coba", "LinTS"),
    Contestant("vowpalwabbit", "SquareCB", "one model, learnt by gradient steps"),
    Contestant("contextualbandits", "LinUCB", PER_ARM),
    Contestant("river", "LinUCBDisjoint", PER_ARM),
    Contestant("pybandits", "CmabGaussian", PER_ARM + ", fitted by variational inference"),
    Contestant("pybandits", "SmabBernoulli", "no features; rewards of 0 and 1"),
)
GRADIENT = "learnt by gradient steps"
WITH_CONTEXTS = (
    Contestant("linoto", "LinUCB"),
    Contestant("linoto", "LinUCB, scale 0.25"),
    Contestant("linoto", "LinTS"),
    Contestant("linoto", "LinTS, scale 0.25"),
    REFERENCE,
    Contestant("mabwiser", "LinUCB, one model"),
    Contestant("bayesianbandits", "ThompsonSampling"),
    Contestant("bayesianbandits", "ThompsonSampling, noise 0.5"),
    Contestant("bayesianbandits", "UpperConfidenceBound"),
    Contestant("coba", "LinUCB"),
    Contestant("coba", "LinTS"),
    Contestant("vowpalwabbit", "SquareCB", GRADIENT),
    Contestant("vowpalwabbit", "SquareCB, gamma scale 100", GRADIENT),
    Contestant("vowpalwabbit", "SquareCB, gamma scale 1000", GRADIENT),
)
OWN_MODELS = (
    Contestant("linoto", "LinUCB"),
    Contestant("linoto", "RandUCB"),
    Contestant("linoto", "LinTS"),
    Contestant("linoto", "Gated"),
    REFERENCE,  # a ridge model per arm here
    Contestant("numpy", "LinTS"),
    Contestant("vowpalwabbit", "SquareCB", GRADIENT),
    Contestant("river", "LinUCBDisjoint"),
    Contestant("mabwiser", "LinUCB"),
    Contestant("mabwiser", "LinTS"),
    Contestant("contextualbandits", "LinUCB"),
    Contestant("bayesianbandits", "ThompsonSampling"),
    Contestant("bayesianbandits", "UpperConfidenceBound"),
    Contestant("coba", "LinUCB", "one model of all features"),
)
KINDS = ("run", "decide", "warm", "contexts", "own")
PEERS = tuple(dict.fromkeys(one.package for one in FIXED_ARMS if one.package not in PRESENT))


@dataclass(frozen=True)
class Workload:
    """One column, or the table with contexts: its problem, and how it is measured."""

    title: str
    kind: str  # the worker's word
    write: Callable[[Path], None]
    turns: int
    contestants: Sequence[Contestant] = FIXED_ARMS


def workloads_of(sizes: Sizes) -> Iterator[Workload]:
    """All workloads at these sizes."""
    k, d, n = sizes.run
    title = f"one run, k = {k:,}, d = {d}, n = {n:,}: time of a round"
    yield Workload(title, "run", partial(fixed_arms, k, d, n), sizes.turns)
    for k, d in sizes.decide:
        write = partial(fixed_arms, k, d, 20_000)
        yield Workload(f"decide + update, k = {k:,}, d = {d}", "decide", write, sizes.turns)
    k, d, rows = sizes.warm
    title = f"start from {rows:,} rows, k = {k:,}, d = {d}"
    yield Workload(title, "warm", partial(logged_rows, k, d, rows), sizes.turns)
    k, d, n = sizes.contexts
    title = f"with contexts, k = {k}, d = {d}, n = {n:,}, {sizes.runs} runs"
    write = partial(rounds_with_contexts, k, d, n, sizes.runs)
    yield Workload(title, "contexts", write, sizes.runs, WITH_CONTEXTS)
    for k, p in sizes.own:
        write = partial(contexts_of_models, k, p, 20_000)
        title = f"a model per arm, decide + update, k = {k}, p = {p}"
        yield Workload(title, "own", write, sizes.turns, OWN_MODELS)


# -- results: kept after each workload, so that nothing is lost or half-written ----------------------------


def keep(file: Path, text: str) -> None:
    """Write a whole file or nothing."""
    part = file.with_name(file.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(file)


def earlier(file: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """The finished workloads of an earlier run with the same settings."""
    if not file.exists():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return dict(found["workloads"]) if found["settings"] == settings else {}
    except (ValueError, KeyError, TypeError):
        raise SystemExit(f"{file} must be a result of this command, or not be there: remove it") from None


def as_json(command: str, sizes: Sizes, settings: dict[str, Any], done: dict[str, Any]) -> str:
    """Everything that was measured, and how."""
    about = {"command": command, "machine": machine(), "sizes": sizes.as_dict(), "settings": settings}
    return json.dumps({**about, "workloads": done}, indent=1, ensure_ascii=False) + "\n"


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    return {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}


# -- measuring ----------------------------------------------------------------------------------------------


def commands_of(peers: Sequence[str], cache: Path) -> tuple[dict[str, list[str]], dict[str, str]]:
    """How to start the worker of each package, and why some cannot be started."""
    commands = {package: [sys.executable, str(WORKER)] for package in PRESENT}
    missing = {}
    for peer in peers:
        print(f"environment of {peer}", flush=True)
        try:
            commands[peer] = [str(environment_of(peer, cache)), str(WORKER)]
        except InstallationError as reason:
            missing[peer] = f"cannot be installed: {reason}"
            print(f"  {missing[peer]}")
    return commands, missing


def compile_ours() -> None:
    """Put our compiled code on disk, so that no worker has to compile while its time is counted."""
    print("our own code, compiled once on a machine (a minute)", flush=True)
    bandit, log = linoto.sphere_bandit(k=3, d=2, rng=0), linoto.Offline(pulls=[1] * 3, reward_sums=[0.0] * 3)
    linoto.simulate(linoto.LinUCB(scale=1.0), bandit, log, horizon=3)
    fixed = linoto.LinUCB(scale=1.0).start(bandit.actions, log, rng=0)
    fixed.update(fixed.select(), 1.0)
    contextual = linoto.LinUCB(scale=1.0).start(None, d=2, rng=0)
    contextual.update(contextual.decide(actions=bandit.actions), 1.0)


def out_of(smaller: dict[str, Any]) -> dict[str, str]:
    """Who ran out of time or memory at a smaller size, and so would again."""
    reasons = {name: outcome["reason"] for name, outcome in smaller.items()}
    return {name: reason for name, reason in reasons.items() if reason.startswith(("over ", "needs more"))}


def measure(
    workload: Workload,
    commands: dict[str, list[str]],
    missing: dict[str, str],  # packages, and why they cannot take part
    limits: Limits,
    smaller: dict[str, Any] | None = None,  # the outcomes of a smaller size
) -> dict[str, Any]:
    """The outcome of every contestant of one workload, those that cannot take part included."""
    print(workload.title, flush=True)
    if workload.kind == "contexts":
        limits = replace(limits, long=inf)  # every turn is a run of its own, and all of them count
    absent = out_of(smaller or {})
    absent |= {one.name: missing[one.package] for one in workload.contestants if one.package in missing}
    able = [one for one in workload.contestants if one.package in commands and one.name not in absent]
    with TemporaryDirectory() as folder:
        problem = Path(folder) / "problem.npz"
        workload.write(problem)
        task = {"workload": workload.kind, "problem": str(problem)}
        outcomes = take_turns(able, commands, task, limits=limits, turns=workload.turns)
    outcomes |= {name: Outcome(reason=reason) for name, reason in absent.items()}
    return {name: outcome.as_dict() for name, outcome in outcomes.items()}


def tables(workloads: Sequence[Workload], done: dict[str, Any]) -> str:
    """Both tables, and in which cells a peer is faster than we are."""
    speed = [Column(one.title, done[one.title]) for one in workloads if one.kind not in ("contexts", "own")]
    own = [Column(one.title, done[one.title]) for one in workloads if one.kind == "own"]
    contexts = [Column(one.title, done[one.title]) for one in workloads if one.kind == "contexts"]
    parts = []
    if speed:
        rows = {one.name: one.solves for one in FIXED_ARMS if one.name in speed[0].outcomes}
        parts.append(speed_table(speed, REFERENCE.name, rows))
    for column in contexts:
        rows = {one.name: one.solves for one in WITH_CONTEXTS if one.name in column.outcomes}
        parts.append(f"{column.title}\n\n{regret_table(column.outcomes, REFERENCE.name, rows)}")
    if own:
        rows = {one.name: one.solves for one in OWN_MODELS if one.name in own[0].outcomes}
        parts.append(speed_table(own, REFERENCE.name, rows))
    slower = list(slower_cells([*speed, *contexts, *own], "linoto"))
    parts.append("\n".join(slower) or "No peer is faster than one of our policies in any cell.")
    return "\n\n".join(parts)


def versions(done: dict[str, Any]) -> str:
    """The exact version of every package that took part."""
    found = {
        name.split(":")[0]: outcome["version"]
        for outcomes in done.values()
        for name, outcome in outcomes.items()
        if outcome["version"]
    }
    return ", ".join(f"{package} {version}" for package, version in found.items())


# -- the command --------------------------------------------------------------------------------------------


def parser_of() -> argparse.ArgumentParser:
    """What may be asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    say, every, kinds = parser.add_argument, ",".join(PEERS), ",".join(KINDS)
    say("--peers", default=every, metavar="NAMES", help=f"some of {every} ('' for none; default all)")
    say("--only", default=kinds, metavar="KINDS", help=f"some of {kinds} (default all)")
    say("--quick", action="store_true", help="small sizes: shows that everything works, measures nothing")
    say("--seconds", type=float, default=1.0, help="of a turn; who is slower does less in it (default 1)")
    say("--patience", type=float, default=60.0, help="seconds for one answer of a worker (default 60)")
    say("--gibibytes", type=float, default=4.0, help="of memory for each worker (default 4)")
    kept = Path(".benchmarks/peers")
    say(
        "--environments", type=Path, default=kept, metavar="DIR", help=f"where they are kept (default {kept})"
    )
    out = Path("results/peers")
    say("--out", type=Path, default=out, metavar="DIR", help=f"gets peers.json and peers.md (default {out})")
    say("--again", action="store_true", help="measure again what an earlier run has finished")
    return parser


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """What was asked for."""
    parser = parser_of()
    options = parser.parse_args(given)
    for name, known in (("peers", PEERS), ("only", KINDS)):
        named = [one for one in getattr(options, name).split(",") if one]
        if unknown := [one for one in named if one not in known]:
            parser.error(f"--{name} must be some of {', '.join(known)}, got {', '.join(unknown)}")
        setattr(options, name, named)
    if min(options.seconds, options.patience, options.gibibytes) <= 0:
        parser.error("--seconds, --patience and --gibibytes must be above 0")
    return options


def main(given: Sequence[str] | None = None) -> None:
    options = arguments(given)
    sizes = QUICK if options.quick else Sizes()
    limits = Limits(options.seconds, options.patience, options.gibibytes)
    workloads = [one for one in workloads_of(sizes) if one.kind in options.only]
    command = shlex.join(["python", "benchmarks/peers.py", *(sys.argv[1:] if given is None else given)])
    settings = {"peers": options.peers, "turns": sizes.turns, "runs": sizes.runs, **asdict(limits)}
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "peers.json"
    done = {} if options.again else earlier(file, settings)
    print(f"{command}\n{machine()}, linoto {linoto.__version__}, load {os.getloadavg()[0]:.1f}\n{settings}")
    print(f"sizes: {sizes.as_dict()}")
    compile_ours()
    commands, missing = commands_of(options.peers, options.environments)
    smaller: dict[str, dict[str, Any]] = {}  # the latest outcomes of each kind
    for workload in workloads:
        before = smaller.get(workload.kind)
        if workload.title in done:
            print(f"{workload.title}: measured before, --again measures it again")
        else:
            done[workload.title] = measure(workload, commands, missing, limits, before)
            keep(file, as_json(command, sizes, settings, done))
        smaller[workload.kind] = done[workload.title]
    text = f"{tables(workloads, done)}\n\n{versions(done)}\n"
    keep(options.out / "peers.md", text)
    print(f"\n{text}\nwrote {file} and {options.out / 'peers.md'}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped: the same command goes on after the last workload that was finished")
    except OSError as error:
        sys.exit(f"{error.filename or 'a file'} cannot be used: {error.strerror or error}")
