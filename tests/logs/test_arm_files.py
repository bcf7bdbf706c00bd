"""Arms from .npy files and from Parquet with lists are those of a table, and bad files are named."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.exits import run

import linoto
from linoto.core.names import Numbered
from linoto.logs.arms import arms_alike
from linoto.service.errors import Refused
from linoto.service.storage.features import read_upload

K, D = 5000, 8
FEATURES = np.random.default_rng(3).standard_normal((K, D)).astype(np.float32)


@pytest.fixture
def items(tmp_path: Path) -> Path:
    path = tmp_path / "items.npy"
    np.save(path, np.asfortranarray(FEATURES))
    return path


def test_an_array_of_float32_is_mapped_and_arms_are_numbered(items: Path) -> None:
    arms = linoto.read_arms(items, intercept=False)
    assert isinstance(arms.features, np.memmap) and arms.actions is arms.features
    assert arms.names == Numbered(K) and arms.names[17] == "17" and "17" in arms.names
    assert np.array_equal(arms.actions, FEATURES)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_every_kind_of_file_has_the_same_arms(tmp_path: Path, order: str, kind: type) -> None:
    made = np.asarray(FEATURES, kind, order)  # type: ignore[call-overload]
    names = [f"sku {i}" for i in range(K)]
    with (tmp_path / "items.npy").open("wb") as file:
        np.save(file, made)
        np.save(file, np.array(names))
    columns = {f"feature[{j}]": made[:, j] for j in range(D)}
    pq.write_table(pa.table({"id": names, **columns}), tmp_path / "columns.parquet")
    lists = pa.array(list(np.ascontiguousarray(made)), pa.list_(pa.from_numpy_dtype(kind)))
    pq.write_table(pa.table({"id": names, "feature": lists}), tmp_path / "lists.parquet")
    found = [linoto.read_arms(tmp_path / name) for name in ("items.npy", "columns.parquet", "lists.parquet")]
    for arms in found:
        assert arms.names == tuple(names) and arms.features.dtype == kind
        assert arms.labels == ("intercept", *columns)
        assert np.array_equal(arms.actions[:, 1:], FEATURES) and (arms.actions[:, 0] == 1).all()


def test_few_arms_of_lists_are_float64_as_of_any_table(tmp_path: Path) -> None:
    lists = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32()))
    pq.write_table(pa.table({"id": ["a", "b"], "taste": lists, "price": [1, 2]}), tmp_path / "arms.parquet")
    arms = linoto.read_arms(tmp_path / "arms.parquet", intercept=False)
    assert arms.actions.dtype == np.float64 and arms.actions.tolist() == [[1, 2, 1], [3, 4, 2]]
    assert arms.labels == ("taste[0]", "taste[1]", "price")


@pytest.mark.few(99)
@pytest.mark.parametrize("rows", [20, K])
@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64(), pa.uint16()])
def test_integers_are_numbers(tmp_path: Path, rows: int, kind: pa.DataType) -> None:
    path, values = tmp_path / "arms.parquet", np.arange(rows) % 7
    lists = pa.array([[value, value * value] for value in values.tolist()], pa.list_(kind))
    table = {
        "id": np.arange(rows),
        "sizes": lists,
        "price": pa.array(values[::-1], kind),
        "brand": values % 2,
    }
    pq.write_table(pa.table(table), path)
    arms = linoto.read_arms(path, intercept=False, categorical=["brand"], arm_effects=False)
    assert arms.names[:2] == ("0", "1") and arms.labels == (
        *("sizes[0]", "sizes[1]", "price"),
        *("brand=0", "brand=1"),
    )
    assert np.array_equal(arms.actions[:, :3], np.c_[values, values**2, values[::-1]])
    pq.write_table(pa.table(table | {"price": pa.array([None, *values[1:].tolist()], kind)}), path)
    with pytest.raises(ValueError, match="row 1, column 'price': a feature is missing"):
        linoto.read_arms(path)


def test_files_that_are_no_arms_are_refused_in_a_sentence(tmp_path: Path, items: Path) -> None:
    path = tmp_path / "bad.npy"

    def refused(match: str) -> None:
        with pytest.raises(ValueError, match=match):
            linoto.read_arms(path)

    for array, match in (
        (FEATURES.astype(np.int64), "float32 or float64, got int64"),
        (FEATURES[0], r"got one of shape \(8,\)"),
        (np.where(FEATURES > 3, np.nan, FEATURES), "actions must be finite, got nan"),
    ):
        np.save(path, array)
        refused(match)
    path.write_bytes(b"id,price\n1,2\n")
    refused("must be an array of arms by features as numpy.save writes it, got something else")
    path.write_bytes(items.read_bytes()[:-100])
    refused("got a part of one")
    path.write_bytes(items.read_bytes() + b"and more")
    refused("names of arms as a second one, got something else")
    with path.open("wb") as file:
        np.save(file, FEATURES)
        np.save(file, np.array(["one"]))
    refused(r"5000 names as a second one, got <U3 of shape \(1,\)")
    with pytest.raises(ValueError, match="normalise must be left out where arms are an array"):
        linoto.read_arms(items, normalise=True)
    with pytest.raises(OSError, match=r"gone\.npy must be a file that can be read"):
        linoto.read_arms(tmp_path / "gone.npy")
    ragged = pa.array([[1.0], [1.0, 2.0]])
    pq.write_table(pa.table({"id": ["a", "b"], "taste": ragged}), tmp_path / "ragged.parquet")
    with pytest.raises(ValueError, match="'taste': must have as many numbers in every row, got 1 and 2"):
        linoto.read_arms(tmp_path / "ragged.parquet")


def array_of(header: str, content: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header.encode() + content


def header_of(shape: str, kind: str = "<f8") -> str:
    return f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n"


SMALL = np.arange(8.0).reshape(4, 2)
WHOLE = array_of(header_of("(4, 2)"), SMALL.tobytes())
DAMAGED = {
    "no end": array_of("{'a': (((((\n"),
    "no end of text": array_of("'''abc\n"),
    "a key that is no key": array_of("{[]: 1}\n"),
    "nested": array_of("(" * 5000 + "\n"),
    "many signs": array_of("-" * 9000 + "1\n"),
    "zeros": array_of("\0\0\0\n"),
    "keys of two kinds": array_of("{'descr': 1, 'x': 2, 3: 4}\n"),
    "truth": array_of(header_of("(True, True)"), SMALL.tobytes()[:8]),
    "negative": array_of(header_of("(-4, -2)"), SMALL.tobytes()),
    "huge": array_of(header_of(f"({10**30}, 4)"), SMALL.tobytes()),
    "another version": b"\x93NUMPY\x09" + WHOLE[7:],
    "only magic": WHOLE[:8],
}
BAD_NAMES = {
    "no end": array_of("{'a': (((((\n"),
    "a key that is no key": array_of("{[]: 1}\n"),
    "huge": array_of(header_of("(1000000000,)", "<U1000"), b"x"),
    "long": array_of(header_of("(4,)", "<U200000000"), b"x"),
    "none": array_of(header_of("(4,)", "<U0")),
    "negative": array_of(header_of("(-4,)", "<U4"), b"x"),
    "floats": array_of(header_of("(4,)"), SMALL.tobytes()[:32]),
    "more": array_of(header_of("(4,)", "<i8"), SMALL.tobytes()),
    "surrogate": array_of(header_of("(4,)", "<U1"), np.array(["a", "b", "c", "\ud800"]).tobytes()),
    "beyond Unicode": array_of(header_of("(4,)", "<U1"), b"\xff" * 16),
    "far beyond": array_of(header_of("(4,)", "<U1"), b"a\0\0\0b\0\0\0c\0\0\0\xff\xff\xff\x7f"),
    "from the other end": array_of(header_of("(4,)", ">U1"), b"\x7f\xff\xff\xff" + b"\0\0\0a" * 3),
    "no UTF-8": array_of(header_of("(4,)", "|S1"), b"abc\xff"),
}


@pytest.mark.few(99)
@pytest.mark.parametrize(
    "content",
    [*DAMAGED.values(), *(WHOLE + names for names in BAD_NAMES.values())],
    ids=[*DAMAGED, *(f"names: {name}" for name in BAD_NAMES)],
)
def test_damaged_arrays_are_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.npy"
    path.write_bytes(WHOLE)
    assert np.array_equal(linoto.read_arms(path, intercept=False).actions, SMALL)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"^{re.escape(str(path))} must be an array of arms .*, got "):
        linoto.read_arms(path, intercept=False)
    with pytest.raises(Refused, match=r"^the body must be an array of arms .* got ") as refused:
        read_upload(content)
    assert refused.value.status == 422


def test_arms_that_cannot_be_read_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "stats.npz", pulls=[1, 2], reward_sums=[0.1, 0.2])
    (tmp_path / "folder.npy").mkdir()
    for name, why in (("gone.npy", "No such file or directory"), ("folder.npy", "Is a directory")):
        assert run("certificate", tmp_path / "stats.npz", "--arms", tmp_path / name, "--noise", 0.5) == 1
        said = capsys.readouterr().err
        assert said == f"linoto: {tmp_path / name} must be a file that can be read: {why}\n"
    for name in ("gone.csv", "."):
        assert run("certificate", tmp_path / "stats.npz", "--arms", tmp_path / name, "--noise", 0.5) == 1
        said = capsys.readouterr().err
        assert str(tmp_path / name) in said and "stats.npz" not in said and "None" not in said, said


def test_a_number_that_is_missing_among_many_is_named(tmp_path: Path) -> None:
    values = [None if i == 4321 else float(i) for i in range(K)]
    pq.write_table(pa.table({"id": range(K), "price": values}), tmp_path / "arms.parquet")
    with pytest.raises(ValueError, match="row 4322, column 'price': a feature is missing"):
        linoto.read_arms(tmp_path / "arms.parquet")


def test_arms_alike_are_those_with_equal_rows() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        features = rng.integers(-1, 2, size=(60, 3)) * 0.1
        features[rng.integers(60), 0] = -0.0
        _, place, count = np.unique(features + 0.0, axis=0, return_inverse=True, return_counts=True)
        assert arms_alike(features) == tuple(np.flatnonzero(count[place.ravel()] > 1).tolist())
    assert arms_alike(FEATURES) == ()


def test_an_agent_of_an_array_decides_as_one_of_the_table(items: Path) -> None:
    arms = linoto.read_arms(items, intercept=False)
    log = linoto.Offline(pulls=np.ones(K), reward_sums=FEATURES[:, 0].astype(np.float64))
    mapped = linoto.LinUCB().start(arms.actions, log, names=arms.names)
    plain = linoto.LinUCB().start(FEATURES.astype(np.float64), log)
    assert mapped.names == Numbered(K)
    for n in range(20):
        arm = mapped.select()
        assert arm == plain.select()
        for agent in (mapped, plain):
            agent.update(arm, 0.1 * n)
    kept = mapped.checkpoint()
    again = linoto.restore(kept, arms.actions)
    assert again.names == mapped.names and again.decide().name == str(mapped.decide().arm)


def test_statistics_without_features_take_arms_by_file(
    items: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pulls = np.zeros(K, dtype=int)
    pulls[:50] = 20
    np.savez(tmp_path / "stats.npz", pulls=pulls, reward_sums=0.4 * pulls)
    rewards = ("--noise", "bounded", "--reward-range", 0, 1, "--budget", 40, "--json")
    assert run("certificate", tmp_path / "stats.npz", "--arms", items, "--no-intercept", *rewards) == 0
    assert json.loads(capsys.readouterr().out)["certificate"]["budget"] == 40
    short = tmp_path / "short.npz"
    np.savez(short, pulls=[1, 2], reward_sums=[0.1, 0.2])
    assert run("certificate", short, "--arms", items, *rewards) == 1
    assert "pulls must be of the 5000 arms in ARMS, got 2" in capsys.readouterr().err
    np.savez(short, pulls=[1, 2], reward_sums=[0.1, 0.2], actions=[[1.0], [2.0]])
    assert run("certificate", short, "--arms", items, *rewards) == 1
    assert "--arms must be left out: STATS has the features of its arms" in capsys.readouterr().err


def test_a_log_is_audited_with_arms_by_file_and_saved_with_their_numbers(items: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    played = rng.integers(200, size=2000)
    log = pa.table({"item": played, "clicked": (rng.random(2000) < 0.3).astype(int)})
    pq.write_table(log, tmp_path / "log.parquet")
    words = ("--item", "item", "--reward", "clicked", "--arms", items, "--save", tmp_path / "stats.npz")
    assert run("audit", tmp_path / "log.parquet", *words) in (0, 1)
    saved = linoto.load(tmp_path / "stats.npz")
    assert saved.names == Numbered(K) and saved.offline.total == 2000
    assert np.array_equal(saved.offline.pulls, np.bincount(played, minlength=K))
    assert saved.actions.dtype == np.float32 and np.array_equal(saved.actions[:, 1:], FEATURES)
