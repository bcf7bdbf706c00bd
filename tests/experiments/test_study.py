from __future__ import annotations

from pathlib import Path

import pytest

from linoto import PAPER, Budget, Gated, LinOtO, LinTS, LinUCB, cli
from linoto.experiments.study import read_study

GOOD = """
title = "Mine"

[policies.LinOtO]
type = "LinOtO"
alpha = 0.01

[policies.Thompson]
type = "LinTS"
confidence = "paper"

[policies.Guarded]
type = "Gated"
reach = "proposal"
explorer = {type = "LinUCB", scale = 0.5}
gate = {type = "Budget", alpha = 1.0}

[[setting]]
name = "small"
k = 30
d = 5
horizon = 100

[[setting]]
d = 6
policies = ["LinOtO"]
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "my-study.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_study_is_what_the_file_says(tmp_path: Path) -> None:
    study = read_study(write(tmp_path, GOOD))
    assert (study.name, study.title) == ("my-study", "Mine")
    small, second = study.settings
    assert (small.k, small.d, small.horizon, small.m) == (30, 5, 100, 100)
    assert small.policy("LinOtO") == LinOtO(alpha=0.01)
    assert small.policy("Thompson") == LinTS(confidence=PAPER)
    guarded = Gated(explorer=LinUCB(scale=0.5), gate=Budget(alpha=1.0), reach="proposal")
    assert small.policy("Guarded") == guarded
    assert second.name == "setting 2" and second.labels == ("LinOtO",)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("alpha = 0.01", "alhpa = 0.01", r"\[policies.LinOtO\] has no key 'alhpa': did you mean 'alpha'"),
        ('"LinTS"', '"LinTs"', r"\[policies.Thompson\]: there is no type 'LinTs': did you mean 'LinTS'"),
        ('type = "LinTS"', "", r"\[policies.Thompson\]: type is missing"),
        ('type = "LinTS"\nconfidence = "paper"', 'type = "Budget"', "type must be a policy, got 'Budget'"),
        ("alpha = 0.01", "alpha = -1", r"\[policies.LinOtO\]: alpha must be a number >= 0"),
        ("scale = 0.5", "scael = 0.5", r"\[policies.Guarded\] explorer has no key 'scael': .* 'scale'"),
        ("horizon = 100", "horizn = 100", r"\[\[setting\]\] number 1 has no key 'horizn': .* 'horizon'"),
        ("d = 6", "d = 0", r"\[\[setting\]\] number 2: d must be a whole number >= 1, got 0"),
        ('["LinOtO"]', '["LinOto"]', r"number 2: policies has no 'LinOto': did you mean 'LinOtO'"),
        ('["LinOtO"]', "3", "number 2: policies must be a list of names"),
        ('title = "Mine"', 'tilte = "Mine"', "the file has no key 'tilte': did you mean 'title'"),
        ('title = "Mine"', 'name = "a/b"', "name must be made of letters"),
        ('title = "Mine"', "title = 3", "title must be text, got 3"),
        ('title = "Mine"', "caption = ['Mine']", r"caption must be text, got \['Mine'\]"),
        ('"LinTS"', '["LinTS"]', r"\[policies.Thompson\]: type must be a name, got \['LinTS'\]"),
        ('"LinTS"', "1979-05-27", r"\[policies.Thompson\]: type must be a name, got datetime.date"),
        ('type = "LinUCB"', "type = {}", r"\[policies.Guarded\] explorer: type must be a name, got {}"),
        ('title = "Mine"', "title = ", "is not valid TOML"),
    ],
)
def test_every_mistake_is_named_with_its_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(ValueError, match=message) as caught:
        read_study(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"\[policies\] is missing"),
        ("[policies]\n[[setting]]", r"\[policies\]"),
        ("[policies.x]\ntype = 'LinTS'", r"at least one \[\[setting\]\]"),
        ("policies = 3", "policies must be a table"),
        ("[policies]\nx = 3\n[[setting]]", r"\[policies.x\] must be a table"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_study(write(tmp_path, text))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"none\.toml must be a file that can be read: No such file"):
        read_study(tmp_path / "none.toml")
    with pytest.raises(OSError, match="must be a file that can be read: Is a directory"):
        read_study(tmp_path)


def test_the_command_says_which_file_is_missing_and_never_a_number_of_the_system(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["study", str(tmp_path / "none.toml")]) == 1
    assert capsys.readouterr().err == f"linoto: there is no file '{tmp_path / 'none.toml'}'\n"
    for path in (tmp_path, tmp_path / "none.json"):
        assert cli.main(["certificate" if path.suffix else "study", str(path)]) == 1
        err = capsys.readouterr().err
        assert f"{path} must be a file that can be read" in err and "Errno" not in err


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="must be UTF-8"):
        read_study(path)
