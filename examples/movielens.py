"""MovieLens-100K, where somebody has installed it: films as arms, "liked it" as the reward.

Run: python examples/movielens.py [FOLDER]   (needs the data, see below)

The earlier half of the ratings is the log; LinUCB and a gated policy go on from there, in a world with the
rates of the later half.

The data may be used for research only and may not be passed on, so they are neither shipped nor downloaded
here: they are read from an installed `recbole` package (1.2.1 has them in `dataset_example/ml-100k`), or from
a folder in the same format. Source: F. M. Harper and J. A. Konstan, The MovieLens Datasets: History and
Context, ACM TiiS 5(4), 2015.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

import linoto

LIKED = 4.0  # stars from which a rating counts as liked
INSTALL = "pip install --no-deps recbole==1.2.1"


@dataclass(frozen=True, kw_only=True, eq=False)
class MovieLens:
    """Films that were rated often enough, the earlier half of their ratings, and a world from the later half.

    Users chose what to watch: nobody knows with which probability, so these rows have no propensities.
    """

    names: tuple[str, ...]  # (k,) titles with their ids
    features: tuple[str, ...]  # (d,) intercept and genres
    actions: npt.NDArray[np.float64]  # (k, d) unit length
    arms: npt.NDArray[np.int64]  # (n,) what was rated, in the order of time
    rewards: npt.NDArray[np.float64]  # (n,) 1 where it was liked
    log: linoto.Offline  # the earlier half
    bandit: linoto.Bandit  # Bernoulli, with the rates of the later half


def load(folder: str | Path | None = None, *, least: int = 20) -> MovieLens:
    """The films with at least so many ratings in each half of time.

    Without a folder, from an installed `recbole`.
    """
    place = find_folder() if folder is None else Path(folder)
    ratings = sorted(read_ratings(place), key=lambda rating: rating[0])  # stable: ties stay in file order
    if not ratings:
        raise ValueError(f"{place} must hold ratings, got none")
    items, liked = [item for _, item, _ in ratings], np.array([stars >= LIKED for *_, stars in ratings])
    half = len(items) // 2
    early, late = items[:half], items[half:]
    films = {item: rest for item, *rest in read_films(place)}
    counts = [dict(zip(*np.unique(part, return_counts=True), strict=True)) for part in (early, late)]
    chosen = [item for item in films if all(count.get(item, 0) >= least for count in counts)]
    if not chosen:
        raise ValueError(
            f"least must leave some films, got {least}: no film has so many ratings in each half"
        )
    place_of = {item: arm for arm, item in enumerate(chosen)}
    known = np.array([item in place_of for item in items])
    arms = np.array([place_of.get(item, -1) for item in items])
    logs = [
        linoto.Offline.from_rows(arms[part][known[part]], liked[part][known[part]], k=len(chosen))
        for part in (slice(None, half), slice(half, None))
    ]
    actions, features = genre_actions([films[item][1] for item in chosen])
    return MovieLens(
        names=tuple(f"{films[item][0]} ({item})" for item in chosen),
        features=features,
        actions=actions,
        arms=arms[known],
        rewards=liked[known].astype(np.float64),
        log=logs[0],
        bandit=linoto.Bandit(actions=actions, means=logs[1].reward_sums / logs[1].pulls, rewards="bernoulli"),
    )


def find_folder() -> Path:
    """Where an installed recbole keeps the data; recbole itself is not imported."""
    spec = find_spec("recbole")
    homes = list(spec.submodule_search_locations or ()) if spec is not None else []
    for home in homes:
        place = Path(home) / "dataset_example" / "ml-100k"
        if place.is_dir():
            return place
    found = "an installed recbole without them" if homes else "no recbole installed"
    raise FileNotFoundError(f"MovieLens-100K comes with recbole, got {found}: {INSTALL}, or name a folder")


def read_ratings(folder: Path) -> Iterator[tuple[float, str, float]]:
    """Time, film and stars of each rating, in the order of the file."""
    for item, stars, time in read_columns(folder / "ml-100k.inter", ("item_id", "rating", "timestamp")):
        yield float(time), item, float(stars)


def read_films(folder: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Id, title and genres of each film."""
    for item, title, genres in read_columns(folder / "ml-100k.item", ("item_id", "movie_title", "class")):
        yield item, title, genres.split()


def read_columns(path: Path, names: Sequence[str]) -> Iterator[list[str]]:
    """Some columns of a table in recbole's format: tabs, and a type after each name in the header."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        header = [name.partition(":")[0] for name in next(rows, [])]
        for name in names:
            if name not in header:
                raise ValueError(f"{path} must have a column {name!r}, got {', '.join(header) or 'none'}")
        places = [header.index(name) for name in names]
        for line, row in enumerate(rows, start=2):
            if len(row) != len(header):
                raise ValueError(f"{path}, line {line}: must have {len(header)} columns, got {len(row)}")
            yield [row[place] for place in places]


def genre_actions(genres: Sequence[Sequence[str]]) -> tuple[npt.NDArray[np.float64], tuple[str, ...]]:
    """(k, d) intercept and genres of each film, unit length; and what each entry means."""
    kinds = sorted({kind for film in genres for kind in film})
    hot = np.array([[1.0, *(kind in film for kind in kinds)] for film in genres])
    return hot / np.linalg.norm(hot, axis=1, keepdims=True), ("intercept", *kinds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", help="with ml-100k.inter and ml-100k.item (default: recbole's)")
    parser.add_argument("--least", type=int, default=20, help="ratings that a film must have in each half")
    parser.add_argument("--horizon", type=int, default=5000, help="recommendations")
    options = parser.parse_args()
    films = load(options.folder, least=options.least)
    print(f"{len(films.names)} films, {films.log.total} ratings in the log")
    confidence = linoto.Confidence(noise=0.5, reward_range=(0.0, 1.0), bound=2.0)
    gated = linoto.Gated(gate=linoto.Tolerance(epsilon=0.02), confidence=confidence)
    for name, policy in {"LinUCB": linoto.LinUCB(confidence=confidence), "Gated": gated}.items():
        run = linoto.simulate(policy, films.bandit, films.log, horizon=options.horizon)
        worst = max(0.0, float(run.offline_regret.max()))
        liked = float(films.bandit.means[run.arms].mean())
        print(f"{name}: liked {liked:.1%}, largest shortfall below the log {worst:.1f}")


if __name__ == "__main__":
    main()
