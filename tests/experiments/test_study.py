from __future__ import annotations

import sys
from pathlib import Path

import pytest
from helpers.cells import rows_of
from helpers.forks import run_forked

from linoto import PAPER, Budget, Gated, LinOtO, LinTS, LinUCB, cli
from linoto.experiments.study import read_study

pytestmark = pytest.mark.usefixtures("blank_pictures")
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


# -- classes of your own ----------------------------------------------------------------------------------

OWN = """
class Mine:
    \"\"\"A policy that plays one arm.\"\"\"

    def __init__(self, arm, *others, **more):
        if arm < 0:
            raise ValueError(f"arm must be >= 0, got {arm}")
        self.arm = arm

    def start(self, actions, offline, rng=0):
        return self

    def select(self):
        return self.arm

    def update(self, arm, reward):
        pass


class First:
    \"\"\"An explorer that proposes the first allowed arm.\"\"\"

    def propose(self, view):
        return int(view.allowed.argmax())
"""
USES_OWN = """
[policies.Mine]
type = "NAME:Mine"
arm = 2

[policies.Gated]
type = "Gated"
explorer = {type = "NAME:First"}
gate = {type = "Tolerance", epsilon = 0.2}

[[setting]]
k = 6
d = 3
logged_arms = 2
horizon = 20
"""


def write_own(folder: Path, name: str, old: str = "", new: str = "") -> Path:
    """A module of somebody's own, and a study beside it that names its classes."""
    (folder / f"{name}.py").write_text(OWN)
    assert old in USES_OWN
    return write(folder, USES_OWN.replace(old, new).replace("NAME", name))


def test_a_study_names_policies_and_explorers_of_your_own(tmp_path: Path) -> None:
    study = write_own(tmp_path, "own_classes")
    (setting,) = read_study(study).settings
    assert setting.policy("Mine").arm == 2
    assert type(setting.policy("Gated").explorer).__name__ == "First"


def test_runs_of_your_own_classes_are_kept_from_one_command_to_the_next(tmp_path: Path) -> None:
    study = write_own(tmp_path, "own_kept")
    words = ["study", str(study), "--runs", "2", "--resume", "--out", str(tmp_path / "out")]
    assert run_forked(words, tmp_path)[0] == 0
    assert cli.main(words) == 0
    assert len(rows_of(tmp_path / "out" / "my-study.cells.sqlite")) == 4


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("NAME:Mine", "no_such_module:Mine", r"'no_such_module:Mine' must be a class .* ModuleNotFoundError"),
        ("NAME:Mine", "NAME:Mien", r"module 'own_\d' has no class 'Mien': did you mean 'Mine'\?"),
        ("NAME:Mine", "NAME:", "has no class ''"),
        ("NAME:Mine", "NAME:__name__", "has no class '__name__'"),
        ("NAME:Mine", "NAME:First", r"\[policies.Mine\] has no key 'arm'"),
        ("arm = 2", "amr = 2", r"\[policies.Mine\] has no key 'amr': did you mean 'arm'"),
        ("arm = 2", "", r"\[policies.Mine\]: arm is missing"),
        ("arm = 2", "arm = -1", r"\[policies.Mine\]: arm must be >= 0, got -1"),
        ("arm = 2", "arm = 'x'", r"\[policies.Mine\]: '<' not supported"),
        ("epsilon = 0.2", "epsilon = -1", r"\[policies.Gated\] gate: epsilon must be a number >= 0"),
        ("NAME:First", "NAME:Mine", r"\[policies.Gated\] explorer: arm is missing"),
    ],
)
def test_every_mistake_with_your_own_classes_is_named(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = write_own(tmp_path, "own_1", old, new)
    sys.modules.pop("own_1", None)
    with pytest.raises(ValueError, match=message):
        read_study(path)


def test_a_module_that_fails_is_named(tmp_path: Path) -> None:
    path = write_own(tmp_path, "own_broken")
    (tmp_path / "own_broken.py").write_text("1 / 0")
    with pytest.raises(ValueError, match="can be imported, got ZeroDivisionError: division by zero"):
        read_study(path)
