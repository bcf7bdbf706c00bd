"""`linoto arms` changes the arms of a loop that is being served."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.exits import run
from helpers.service_process import TOLERANT, Server, free_port, served

import linoto

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("arms") / "x.sqlite") as server:
        with server.client() as client:
            log = linoto.Offline(pulls=[50, 30], reward_sums=[30.0, 10.0])
            client.create("plain", arms=["blue", "red"], policy=TOLERANT, offline=log, default_reward=0.0)
            arms = {"blue": [1.0, 0.0], "red": [0.0, 1.0]}
            client.create("shaped", arms=arms, policy=TOLERANT, offline=log, default_reward=0.0)
        yield server


def test_arms_come_and_go_and_are_listed(server: Server, capsys: Captured) -> None:
    assert run("arms", "add", "plain", "violet", "orange", "--url", server.url) == 0
    assert capsys.readouterr().out.startswith("added violet, orange: loop 'plain' has 4 arms\n")
    assert run("arms", "remove", "plain", "red", "--url", server.url) == 0
    out = capsys.readouterr().out
    assert out.startswith("removed red: loop 'plain' has 3 arms\n") and "practice" in out
    assert run("arms", "list", "plain", "--url", server.url) == 0
    listed = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()[2:]}
    assert list(listed) == ["blue", "red", "violet", "orange"]
    assert listed["red"].endswith("removed") and "50" in listed["blue"]
    assert run("arms", "list", "plain", "--json", "--limit", 2, "--url", server.url) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2


def test_features_belong_to_arms_in_their_order(server: Server, capsys: Captured) -> None:
    add = ("arms", "add", "shaped", "violet", "orange", "--url", server.url)
    assert run(*add, "--features", "0.5,0.5") == 2
    assert "--features must be given once for each of 2 arms, got 1" in capsys.readouterr().err
    assert run(*add, "--features", "0.5,x", "--features", "1,1") == 2
    assert "must be numbers with commas between them, got '0.5,x'" in capsys.readouterr().err
    assert run(*add, "--features", "0.5,0.5", "--features", "0.25,-0.5", "--json") == 0
    assert json.loads(capsys.readouterr().out)["arms"] == 4
    assert run("arms", "add", "shaped", "orange", "--features", "0.25,-0.5", "--url", server.url) == 0
    assert run("arms", "add", "shaped", "orange", "--features", "1,1", "--url", server.url) == 1
    assert "arm 'orange' is or was one of loop 'shaped'" in capsys.readouterr().err


def test_what_the_service_refuses_is_one_sentence(
    server: Server, capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run("arms", "list", "nothing", "--url", server.url) == 1
    assert capsys.readouterr().err == "linoto: there is no loop 'nothing' (404 unknown)\n"
    nobody = f"http://127.0.0.1:{free_port()}"
    assert run("arms", "list", "plain", "--url", nobody) == 1
    assert capsys.readouterr().err.startswith(f"linoto: no answer from {nobody}")
    monkeypatch.setenv("LINOTO_TOKEN", "two words")
    assert run("arms", "list", "plain", "--url", server.url) == 1
    assert "token must be one word" in capsys.readouterr().err
