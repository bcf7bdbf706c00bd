"""Settings by flag, environment and file: one order, the same checks, and a way to see what counts."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from helpers.command import ForkedProcess
from helpers.forks import ForkedCommand

from linoto.cli import main


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, tuple[object, str]]:
    """(value, source) of every setting that is set."""
    assert main(["serve", *words, "--show-config"]) in (None, 0)
    text = capsys.readouterr().out
    lines = [line.partition("  # ") for line in text.splitlines() if not line.startswith("#")]
    values = tomllib.loads(text)
    return {name: (values[name], source) for line, _, source in lines if (name := line.split(" = ")[0])}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "linoto.toml"
    path.write_text('port = 9000\naccess-log = true\nhead = 5\nwebhook = "https://example.org/alarms"\n')
    return path


def test_a_flag_goes_before_the_environment_that_before_the_file_and_the_file_before_the_default(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--config", str(file))
    assert told(capsys)["port"] == (8080, "default")
    assert told(capsys, *words)["port"] == (9000, str(file))
    monkeypatch.setenv("LINOTO_PORT", "9001")
    assert told(capsys, *words)["port"] == (9001, "LINOTO_PORT")
    assert told(capsys, *words, "--port", "8080")["port"] == (8080, "--port")  # though it is the default
    assert told(capsys, *words)["access_log"] == (True, str(file))
    monkeypatch.setenv("LINOTO_ACCESS_LOG", "off")
    assert told(capsys, *words)["access_log"] == (False, "LINOTO_ACCESS_LOG")
    assert told(capsys, *words, "--access-log")["access_log"] == (True, "--access-log")
    monkeypatch.setenv("LINOTO_CONFIG", str(file))
    assert told(capsys)["head"] == (5.0, str(file))


def test_what_is_shown_is_a_file_that_sets_the_same(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = told(capsys, "--config", str(file), "--rate", "2.5", "--logs", "some folder")
    main(["serve", "--config", str(file), "--rate", "2.5", "--logs", "some folder", "--show-config"])
    again = tmp_path / "again.toml"
    again.write_text(capsys.readouterr().out)
    after = told(capsys, "--config", str(again))
    assert {name: value for name, (value, _) in after.items()} == {
        name: value for name, (value, _) in before.items()
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 1", "there is no setting 'prot'"),
        ("port = 70000", "port must be what --port takes, got 70000"),
        ('port = "x"', "port must be what --port takes, got 'x'"),
        ("port = true", "port must be what --port takes, got True"),
        ('access_log = "maybe"', "must be true or false, got 'maybe'"),
        ('log_format = "xml"', "must be one of auto, text, json, got 'xml'"),
        ("port = ", "must be a TOML file"),
    ],
)
def test_what_a_flag_would_refuse_is_refused_in_a_file_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    path = tmp_path / "linoto.toml"
    path.write_text(text)
    assert main(["serve", "--config", str(path), "--show-config"]) == 1
    error = capsys.readouterr().err
    assert said in error and str(path) in error and error.count("\n") == 1


def test_the_service_does_what_the_file_says(tmp_path: Path) -> None:
    """And takes the secret of the webhook from its own file."""
    (tmp_path / "secret").write_text("a secret\n")
    db, webhook = json.dumps(str(tmp_path / "x.sqlite")), "http://127.0.0.1:1/alarms"
    (tmp_path / "linoto.toml").write_text(
        f'db = {db}\nport = 0\nwebhook = "{webhook}"\nwebhook_secret_file = "{tmp_path / "secret"}"\n'
    )
    with ForkedProcess(tmp_path, "--config", str(tmp_path / "linoto.toml")) as server:
        assert server.port > 0 and (tmp_path / "x.sqlite").exists()


def test_an_empty_secret_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("\n")
    words = ["serve", "--webhook", "http://127.0.0.1:1/", "--webhook-secret-file", "secret", "--port", "0"]
    out = tmp_path / "out"
    assert ForkedCommand(words, tmp_path, {}, log=out, out=out).wait() == 1
    assert "--webhook-secret-file must hold a secret, got an empty file" in out.read_text()


def test_a_misspelt_variable_is_named_with_the_one_that_was_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where settings are shown, in a file that still sets the same, and in the log of a start."""
    said = ["LINOTO_PROT is not a setting, and is ignored: did you mean LINOTO_PORT?"]
    said.append("LINOTO_QQQQ is not a setting, and is ignored")
    with monkeypatch.context() as patch:
        for name in ("LINOTO_PROT", "LINOTO_QQQQ", "LINOTO_TOKEN", "LINOTO_WEBHOOK_SECRET", "LINOTO_HOST"):
            patch.setenv(name, "127.0.0.1")
        main(["serve", "--show-config"])
    text = capsys.readouterr().out
    assert [line for line in text.splitlines() if "ignored" in line] == [f"# {each}" for each in said]
    assert tomllib.loads(text)["port"] == 8080
    log = tmp_path / "log"
    words = ["serve", "--db", str(tmp_path / "no folder" / "x.sqlite"), "--port", "0"]
    assert ForkedCommand(words, tmp_path, {"LINOTO_PROT": "9000"}, log=log, out=log).wait() == 1
    (line,) = [json.loads(each) for each in log.read_text().splitlines() if "ignored" in each]
    assert (line["level"], line["message"]) == ("warning", said[0])
