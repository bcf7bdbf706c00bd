"""A log in the server's log folder, counted for a new loop; nothing outside that folder can be named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath

from linoto.core.features.recipe import Recipe
from linoto.core.offline import Offline
from linoto.engines import Engine
from linoto.logs.arms import ArmTable
from linoto.logs.queries import distinct_ids
from linoto.logs.read import Log, read_log
from linoto.logs.tables import open_source
from linoto.service.errors import invalid


def open_folder(path: Path) -> Path:
    """The log folder as it really lies on disk, so that names in it can be compared with it."""
    if not path.is_dir():
        raise ValueError(f"logs must be a folder, got {path}")
    return path.resolve()


def find_log(folder: Path | None, file: str) -> Path:
    """The file of this name in the folder; every refusal is the same, whatever lies outside."""
    if folder is None:
        raise invalid("this server has no log folder: start it with --logs FOLDER")
    refusal = invalid(f"file must be a file in the log folder, got {file!r}")
    if PurePath(file).is_absolute() or ".." in PurePath(file).parts:
        raise refusal
    try:
        path = (folder / file).resolve()  # where links lead
        if path.is_relative_to(folder) and path.is_file():
            return path
    except (OSError, ValueError, RuntimeError):  # too long, not a name, a link to itself
        pass
    raise refusal


@contextmanager
def without_folder(path: Path, file: str) -> Iterator[None]:
    """Errors about a log name the file only, and not the folder it lies in."""
    try:
        yield
    except (ValueError, OSError, ImportError) as error:
        raise invalid(str(error).replace(str(path), file)) from error


def count_log(
    folder: Path | None, file: str, *, action: str, reward: str, arms: Sequence[str], most: int, longest: int
) -> tuple[Offline, list[str]]:
    """The log counted by arm, and the arms: those given, or where none are its distinct actions, sorted.

    An action that is none of the given arms is refused, with its row.
    """
    path = find_log(folder, file)
    with without_folder(path, file):
        names = list(arms) or read_actions(path, action, reward, most, longest)
        table = ArmTable.from_columns({"name": names})
        found = read_log(path, item=action, reward=reward, arms=table, engine=Engine(jobs=1))
        return found.offline, names


def count_context_log(folder: Path | None, file: str, *, action: str, reward: str, recipe: Recipe) -> Log:
    """What remains of a log with contexts, whose columns have the names that the recipe has for them."""
    path = find_log(folder, file)
    with without_folder(path, file):
        return read_log(path, item=action, reward=reward, recipe=recipe, engine=Engine(jobs=1))


def read_actions(path: Path, action: str, reward: str, most: int, longest: int) -> list[str]:
    """The distinct actions of a log, at most so many."""
    with open_source(path, {"action": action, "reward": reward}) as (connection, (staged,)):
        names = sorted(distinct_ids(connection, staged, action, most + 1))
    if not names:
        raise ValueError(f"{path}, column {action!r}: must name at least one arm, got none")
    if len(names) > most:
        raise ValueError(f"{path} must name at most {most} arms where arms are left out, got more")
    wrong = next((name for name in names if not 1 <= len(name) <= longest), None)
    if wrong is not None:
        must = f"an arm must have 1 to {longest} characters"
        raise ValueError(f"{path}, column {action!r}: {must}, got {len(wrong)}")
    return names
