"""The files of `deploy` say what the program understands, and name what it has."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.service_process import create, opened
from litestar.testing import TestClient

from linoto.cli import main
from linoto.cli.commands import parser
from linoto.cli.settings import settings_of, variable_of

DEPLOY = Path(__file__).parents[2] / "deploy"
OF_OTHERS = {"up", "process_open_fds", "process_max_fds", "process_resident_memory_bytes"}
OF_OTHERS |= {"process_cpu_seconds_total"}
ONLY_WHERE_ASKED = {"linoto_connections", "linoto_webhook_waiting", "linoto_backup_age_seconds"}


def load(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text())


def unit(name: str) -> configparser.ConfigParser:
    read = configparser.ConfigParser(strict=True, interpolation=None)
    read.optionxform = str  # type: ignore[assignment,method-assign]
    read.read_string((DEPLOY / name).read_text())
    return read


def instructions() -> list[tuple[str, str]]:
    """(word, rest) of every instruction of the container file."""
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Containerfile").read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


@pytest.fixture(scope="module")
def metrics(shared_folder: Path) -> set[str]:
    """Every metric on the page of a service, and those that parts of it add where they are asked for."""
    with opened(shared_folder / "x.sqlite") as service:
        create(service)
        with TestClient(service.app, base_url="http://127.0.0.1") as client:
            told = client.get("/metrics").text
    return {line.split()[2] for line in told.splitlines() if line.startswith("# TYPE")} | ONLY_WHERE_ASKED


def named_in(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:linoto|process)_\w+|\bup\b", expression))


def test_every_alert_is_about_a_metric_that_there_is(metrics: set[str]) -> None:
    (group,) = load("alerts.yml")["groups"]
    assert len({rule["alert"] for rule in group["rules"]}) == len(group["rules"]) >= 10
    for rule in group["rules"]:
        assert named_in(rule["expr"]) and named_in(rule["expr"]) <= metrics | OF_OTHERS, rule["alert"]
        assert rule["annotations"]["summary"].endswith((".", "?")) and "severity" in rule["labels"]
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert load("prometheus.yml")["rule_files"] == ["alerts.yml"]


def test_every_panel_is_about_a_metric_that_there_is(metrics: set[str]) -> None:
    board = json.loads((DEPLOY / "grafana-board.json").read_text())
    source = load("grafana-sources.yml")["datasources"][0]["uid"]
    for panel in board["panels"]:
        (target,) = panel["targets"]
        assert named_in(target["expr"]) <= metrics | OF_OTHERS and target["datasource"]["uid"] == source
    places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
    assert len(set(places)) == len(places)


def test_the_container_is_built_in_two_stages_runs_without_root_and_is_asked_whether_it_is_ready() -> None:
    words = [word for word, _ in instructions()]
    assert words.count("FROM") == 2 and words.count("HEALTHCHECK") == 1
    said = dict(instructions())
    assert said["USER"] == "linoto" and words.index("USER") < words.index("ENTRYPOINT")
    assert "/readyz" in said["HEALTHCHECK"] and json.loads(said["ENTRYPOINT"]) == ["linoto"]
    arguments = parser().parse_args(json.loads(said["CMD"]))
    assert str(arguments.db).startswith(said["VOLUME"])


def test_the_compose_file_mounts_files_that_are_there_and_sets_what_there_is() -> None:
    compose = load("compose.yaml")
    variables = {variable_of(action.dest) for action in settings_of(serve_command())}
    assert set(compose["services"]["linoto"]["environment"]) <= variables
    for name, service in compose["services"].items():
        assert ("image" in service) != ("build" in service), name
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            assert (DEPLOY / source).is_file() if source.startswith("./") else source in compose["volumes"]
    mounted = {volume.split(":")[1] for volume in compose["services"]["linoto"]["volumes"]}
    made = " ".join(rest for word, rest in instructions() if word == "RUN")
    assert all(place in made for place in mounted)  # by root, a volume could not be written
    scrape = load("prometheus.yml")["scrape_configs"][0]
    assert scrape["authorization"]["credentials_file"] == "/run/secrets/linoto_metrics"
    assert (DEPLOY / compose["services"]["linoto"]["build"]["dockerfile"]).name == "Containerfile"


def serve_command() -> Any:
    return parser().parse_args(["serve"]).command


def test_the_units_start_what_there_is_with_settings_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    service, listening = unit("linoto.service"), unit("linoto.socket")
    words = shlex.split(service["Service"]["ExecStart"])
    assert words[0].endswith("/linoto") and parser().parse_args(words[1:]).config.name == "linoto.toml"
    assert main(["serve", "--config", str(DEPLOY / "linoto.toml"), "--show-config"]) in (None, 0)
    assert 'db = "/var/lib/linoto/loops.sqlite"' in capsys.readouterr().out
    assert service["Unit"]["Requires"] == "linoto.socket" and "ListenStream" in listening["Socket"]
    assert load("litestream.yml")["dbs"][0]["path"] == "/var/lib/linoto/loops.sqlite"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not on this machine")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    """The program is where it is on this machine."""
    for name in ("linoto.service", "linoto.socket"):
        text = (DEPLOY / name).read_text().replace("/opt/linoto/bin/linoto", sys.executable)
        (tmp_path / name).write_text(text)
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "linoto.service")],
        capture_output=True,
        text=True,
        env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "PATH": "/usr/bin:/bin"},
    )
    ours = [line for line in found.stderr.splitlines() if "linoto." in line]
    assert ours == [], found.stderr
