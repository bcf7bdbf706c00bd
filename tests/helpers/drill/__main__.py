"""`make drill`: PostgreSQL, three servers and their visitors, and two minutes of faults."""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from helpers.drill.run import Plan, run
from helpers.postgres import cluster


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make drill", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long faults happen (120)")
    parser.add_argument("--faults", type=int, default=10**9, help="or how many (no limit)")
    parser.add_argument("--seed", type=int, help="what faults and visits are drawn from (another each time)")
    parser.add_argument("--servers", type=int, default=3, help="how many (3)")
    parser.add_argument("--visitors", type=int, default=12, help="how many ask at a time (12)")
    parser.add_argument(
        "--generic", action="store_true", help="the last server has kernels compiled for another processor"
    )
    parser.add_argument("--logs", type=Path, help="folder that the logs of servers are kept in")
    return parser.parse_args()


def tell(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    """0 if nothing is wrong, 1 if something is, 130 after Ctrl-C."""
    given = arguments()
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    limits = {name: getattr(given, name) for name in ("seconds", "faults", "servers", "visitors", "generic")}
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # all is ended then too
    with TemporaryDirectory(prefix="linoto-drill-") as folder, cluster() as server:
        logs = given.logs or Path(folder)
        logs.mkdir(parents=True, exist_ok=True)
        verdict = run(Plan(seed=seed, **limits), server, logs, tell)
    tell("")
    for line in verdict.lines():
        tell(line)
    return 1 if verdict.wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped, without a verdict", file=sys.stderr)
        sys.exit(130)
