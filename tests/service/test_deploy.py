"""The files of `deploy` say what the program understands, and name what it has."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from helpers.service_process import Server, create, opened
from litestar.testing import TestClient

from linoto.cli import main
from linoto.cli.commands import parser
from linoto.cli.settings import settings_of, variable_of

DEPLOY = Path(__file__).parents[2] / "deploy"
OF_OTHERS = {"up", "process_open_fds", "process_max_fds", "process_resident_memory_bytes"}
OF_OTHERS |= {"process_cpu_seconds_total"}
ONLY_WHERE_ASKED = {"linoto_connections", "linoto_webhook_waiting", "linoto_backup_age_seconds"}
ONLY_WHERE_ASKED |= {"linoto_loops_damaged", "linoto_parts_taken_total", "linoto_loops_taken_total"}

TLS = Path(__file__).parents[1] / "data" / "tls"
REQUIRED = os.environ.get("TEST_TOOLS", "").split()  # that must be there, as in .ci/run


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


def all_of(word: str) -> list[str]:
    """What follows this word, each time."""
    return [rest for each, rest in instructions() if each == word]


@pytest.fixture(scope="module")
def metrics_page(shared_folder: Path) -> str:
    """What a service with a loop tells Prometheus."""
    with opened(shared_folder / "x.sqlite") as service:
        create(service)
        with TestClient(service.app, base_url="http://127.0.0.1") as client:
            return client.get("/metrics").text


@pytest.fixture(scope="module")
def metrics(metrics_page: str) -> set[str]:
    """Every metric on that page, and those that parts of a service add where they are asked for."""
    lines = metrics_page.splitlines()
    return {line.split()[2] for line in lines if line.startswith("# TYPE")} | ONLY_WHERE_ASKED


def need(name: str) -> None:
    """Skip with a loud word where a tool is not on this machine."""
    if shutil.which(name) is None:
        reason = f"{name} is not on this machine: what it would check was NOT checked"
        print(reason, file=sys.stderr)
        pytest.fail(reason) if name in REQUIRED else pytest.skip(reason)


def tool(name: str, *words: str, said: str = "") -> str:
    """What a tool prints that finds nothing wrong."""
    need(name)
    done = subprocess.run([name, *words], capture_output=True, text=True, input=said)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


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


# (series, values of 20 minutes that raise the alert, values that do not)
RAISED_BY = {
    "LinotoDown": ('up{job="linoto"}', "1 0x19", "1x18 0 1"),
    "LinotoCannotWrite": ("linoto_commit_failures_total", "0x17 1x2", "3x20"),
    "LinotoDamagedLoop": ("linoto_loops_damaged", "0x18 1x1", "0x20"),
    "LinotoAlarm": ('linoto_alarms_unanswered{loop="banner"}', "0x18 1x1", "0x20"),
    "LinotoBelowPromise": ('linoto_left_to_lose{loop="banner"}', "-1x20", "1x20"),
    "LinotoSlowDisk": ("linoto_commit_seconds_total", "0+12x20", "0+3x20"),
    "LinotoBusy": ("linoto_waiting", "2000x20", "1000x20"),
    "LinotoWebhookStuck": ("linoto_webhook_waiting", "1x20", "1x18 0 1"),
    "LinotoBackupOld": ("linoto_backup_age_seconds", "7300x20", "3600x20"),
    "LinotoClockAhead": ('linoto_clock_ahead_seconds{loop="banner"}', "61x20", "1x20"),
    "LinotoLoopsWander": ("linoto_parts_taken_total", "0+20x20", "0x8 128x11"),
    "LinotoFewFiles": ('process_open_fds{job="linoto"}', "95x20", "50x20"),
}
BESIDE = [  # what some of these are divided by
    {"series": "linoto_commits_total", "values": "0+60x20"},
    {"series": 'process_max_fds{job="linoto"}', "values": "100x20"},
]


def alert_tests(rule: dict[str, Any]) -> list[dict[str, Any]]:
    """As promtool reads them: an alert is raised by one course of its series, and not by the other."""
    series, raising, quiet = RAISED_BY[rule["alert"]]
    labels = dict(re.findall(r'(\w+)="(\w+)"', series))
    summary = rule["annotations"]["summary"].replace("{{ $labels.loop }}", labels.get("loop", ""))
    told = {"exp_labels": rule["labels"] | labels, "exp_annotations": {"summary": summary}}
    return [
        {
            "interval": "1m",
            "input_series": [{"series": series, "values": values}, *BESIDE],
            "alert_rule_test": [{"eval_time": "20m", "alertname": rule["alert"], "exp_alerts": expected}],
        }
        for values, expected in ((raising, [told]), (quiet, []))
    ]


def test_promtool_raises_every_alert_when_it_should_and_not_when_all_is_well(tmp_path: Path) -> None:
    (group,) = load("alerts.yml")["groups"]
    tests = [test for rule in group["rules"] for test in alert_tests(rule)]
    asked = {"rule_files": [str(DEPLOY / "alerts.yml")], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(asked))
    assert "SUCCESS" in tool("promtool", "test", "rules", str(tmp_path / "tests.yml"))


def test_promtool_finds_nothing_wrong_with_what_is_scraped_and_by_which_rules(
    tmp_path: Path, metrics_page: str
) -> None:
    (tmp_path / "token").write_text("secret")
    shutil.copy(DEPLOY / "alerts.yml", tmp_path)
    shutil.copy(TLS / "first.crt", tmp_path)
    text = (DEPLOY / "prometheus.yml").read_text().replace("/run/secrets/linoto_metrics", f"{tmp_path}/token")
    text = text.replace("/run/secrets/linoto_tls_cert", f"{tmp_path}/first.crt")
    (tmp_path / "prometheus.yml").write_text(text)
    tool("promtool", "check", "config", "--lint=all", "--lint-fatal", str(tmp_path / "prometheus.yml"))
    tool("promtool", "check", "rules", "--lint=all", "--lint-fatal", str(DEPLOY / "alerts.yml"))
    tool("promtool", "check", "metrics", said=metrics_page)


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
    assert f"--uid {said['USER']} " in " ".join(all_of("RUN")) and words.index("USER") < words.index(
        "ENTRYPOINT"
    )
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
    made = " ".join(all_of("RUN"))
    assert all(place in made for place in mounted)  # by root, a volume could not be written
    scrape = load("prometheus.yml")["scrape_configs"][0]
    assert scrape["authorization"]["credentials_file"] == "/run/secrets/linoto_metrics"
    assert (DEPLOY / compose["services"]["linoto"]["build"]["dockerfile"]).name == "Containerfile"


@pytest.mark.parametrize("name", ["compose.yaml", "compose-postgres.yaml"])
def test_the_compose_files_are_what_docker_compose_reads(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("LINOTO_PASSWORD", "secret")
    read = yaml.safe_load(tool("docker-compose", "--file", str(DEPLOY / name), "config"))
    assert set(read["services"]) == set(load(name)["services"])


def test_two_servers_share_the_database_of_the_other_compose_file() -> None:
    services = load("compose-postgres.yaml")["services"]
    said, twin = parser().parse_args(services["linoto"]["command"]), services["linoto-2"]
    named, there = urlsplit(said.db.url), services["postgres"]["environment"]
    assert (named.username, named.path) == (there["POSTGRES_USER"], "/" + there["POSTGRES_DB"])
    assert named.hostname == "postgres" and twin["command"] == services["linoto"]["command"]
    assert services["linoto"]["build"] == load("compose.yaml")["services"]["linoto"]["build"]


@pytest.mark.parametrize("name", ["compose.yaml", "compose-postgres.yaml"])
def test_the_compose_files_have_tls_under_names_that_the_certificate_of_the_docs_has(name: str) -> None:
    """And are asked for metrics by it, and by each other."""
    compose, scrape = load(name), load("prometheus.yml")["scrape_configs"][0]
    docs = (DEPLOY.parent / "docs" / "deploy.md").read_text()
    (names,) = re.findall('-addext "subjectAltName=(.*?)"', docs)
    known = {each.removeprefix("DNS:") for each in names.split(",")}
    servers = {key: each for key, each in compose["services"].items() if key.startswith("linoto")}
    for key, server in servers.items():
        said = server["environment"]
        paths = {f"/run/secrets/{secret}" for secret in server["secrets"]}
        assert {said["LINOTO_TLS_CERT"], said["LINOTO_TLS_KEY"]} == paths
        assert said.get("LINOTO_ADVERTISE", f"https://{key}:8080") == f"https://{key}:8080"
        assert server["networks"]["default"]["aliases"] == scrape["dns_sd_configs"][0]["names"]
    assert scrape["scheme"] == "https" and {scrape["tls_config"]["server_name"], *servers} <= known
    assert (
        Path(scrape["tls_config"]["ca_file"]).name
        in load("compose.yaml")["services"]["prometheus"]["secrets"]
    )
    for file in ("linoto_tls.crt", "linoto_tls.key"):
        assert f"out {file}" in docs and f"./{file}" in {each["file"] for each in compose["secrets"].values()}


@pytest.mark.parametrize("secure", [False, True])
def test_a_container_is_healthy_with_tls_and_without(secure: bool, tmp_path: Path) -> None:
    """Its check, at the port of a real server."""
    tls = {"tls_cert": str(TLS / "first.crt"), "tls_key": str(TLS / "first.key")} if secure else {}
    server = Server(tmp_path / "x.sqlite", settings=tls)
    words = json.loads(all_of("HEALTHCHECK")[0].split("CMD ")[1])
    asked = [sys.executable, *(word.replace("8080", str(server.port)) for word in words[1:])]

    def healthy(certificate: str) -> bool:
        environment = {"LINOTO_TLS_CERT": certificate}
        return subprocess.run(asked, env=environment, capture_output=True).returncode == 0

    try:
        end = time.monotonic() + 60.0
        while not healthy("chain.pem" if secure else ""):
            assert time.monotonic() < end, (tmp_path / "x.log").read_text()
        assert not healthy("" if secure else "chain.pem")
    finally:
        server.kill()


def test_hadolint_finds_nothing_wrong_with_the_container_file() -> None:
    tool("hadolint", "--no-color", str(DEPLOY / "Containerfile"))


def test_only_what_is_named_is_copied_into_the_container() -> None:
    """Not the whole checkout: it may have tokens and databases."""
    copied = [word for rest in all_of("COPY") if "--from" not in rest for word in rest.split()[:-1]]
    assert set(copied) == {"pyproject.toml", "README.md", "LICENSE", "requirements", "linoto"}
    assert all((DEPLOY.parent / name).exists() for name in copied)


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


def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    """The program is where it is on this machine."""
    need("systemd-analyze")
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
