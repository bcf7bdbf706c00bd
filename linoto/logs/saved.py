"""What `linoto audit --save` keeps of a log, and how it is read back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.core import codec
from linoto.core.arrays import Floats
from linoto.core.confidence import Confidence
from linoto.core.features.moments import Moments
from linoto.core.features.recipe import Recipe
from linoto.core.guardrail import Guardrail
from linoto.core.names import Names, Numbered
from linoto.core.offline import Offline, as_offline
from linoto.core.one_hot import one_hot
from linoto.core.snapshots import from_dict, to_dict
from linoto.core.verdicts import Findings, findings_of
from linoto.logs.arms import ArmTable, Encoding
from linoto.logs.features import OF_MOMENTS, ArmFeatures, ContextFeatures, LogFeatures, Stored

FORMAT = 1
OF_METRIC = "metric_{}_"  # before the names of the arrays of a metric, by its place
SAVED = "what linoto audit --save wrote"
JUDGED = ("verdict", "reasons", "verdict_of_log", "reasons_of_log", "against_log", "least_misfit")
AUDITED = ("stated", "source", *JUDGED, "drift", "randomised")
"""What a file holds of the audit; some are not in files of earlier versions."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Audited:
    """What an audit proposed or was told, and its verdict."""

    confidence: Confidence | None = None  # what the audit proposed or was told
    stated: tuple[str, ...] = ()  # which of noise, bound and reward_range it was told
    source: str = ""  # what was audited; "": an earlier version did not say
    verdict: str | None = None  # of the audit; None: as well
    reasons: tuple[str, ...] = ()  # for the verdict
    verdict_of_log: str | None = None  # whatever is promised; None: an earlier version did not say
    reasons_of_log: tuple[str, ...] = ()
    against_log: tuple[str, ...] = ()  # what the verdicts leave out, as a Control gate does not rest on it
    least_misfit: float | None = None  # that the log could have shown; 0: nothing is judged by features alone
    drift: float | None = None  # how far an arm's mean moves in as many rounds as the log has; None: unknown
    randomised: bool = False  # whether every arm was played, each row by a chance that it states

    def origin(self, name: str) -> str:
        """Where noise, bound or reward_range come from, as the end of a sentence."""
        audit = f"the audit of {self.source}" if self.source else "the audit"
        return f"as stated in {audit}" if name in self.stated else f"from {audit}"

    @property
    def summary(self) -> str:
        """What is assumed of rewards and where it comes from, in one line."""
        if self.confidence is None:
            return ""
        found = self.confidence.assumptions().items()
        return "; ".join(f"{name.replace('_', ' ')} {text}, {self.origin(name)}" for name, text in found)

    @property
    def warning(self) -> str:
        """What speaks against using it; nothing where the verdict is to deploy."""
        said, why = f"the audit of {self.source or 'this log'} says: {self.verdict}", self.reasons
        if self.verdict in (None, "deploy"):
            said, why = f"{said} behind a Control gate only", self.against_log
        return f"{said}, because {why[0]}" if why else ""

    def findings(self, *, by_practice: bool) -> Findings:
        """What the audit found of the log, for a verdict on another promise than the audit's.

        `by_practice`: one by practice in the same rounds, which does not rest on the log.
        """
        found = findings_of(self.verdict_of_log, self.reasons_of_log)
        if self.verdict_of_log is None:
            found = findings_of(self.verdict, self.reasons)
        return found if by_practice else replace(found, against=(*found.against, *self.against_log))

    def header(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "confidence": None if self.confidence is None else to_dict(self.confidence),
            **{name: getattr(self, name) for name in AUDITED},
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class SavedLog(Audited):
    """Everything an agent needs to start from a log: what `linoto audit --save` writes, and `load` reads.

    Of a log with contexts it is the recipe and the moments of its features, too.
    """

    arms: ArmTable
    offline: Offline
    recipe: Recipe | None = None
    moments: Moments | None = None
    guardrails: tuple[Guardrail, ...] = ()  # metrics besides the reward, with practice's mean
    metrics: Mapping[str, SavedLog] = field(default_factory=dict)  # the log of each, in the reward's place

    @classmethod
    def of_moments(cls, recipe: Recipe, moments: Moments, **audited: Any) -> SavedLog:
        """A log of which the moments are known: where items have effects, X'X has counted them."""
        check_features(moments, recipe)
        place = recipe.slices.get((recipe.item,))
        if place is None:
            raise ValueError("it must have counts of items, got moments without: read the log again")
        counts = np.rint(moments.gram.diagonal()[place]).astype(np.int64)
        offline = Offline(pulls=counts, reward_sums=moments.reward_vector[place])
        arms = ContextFeatures(recipe, moments).table(recipe.items)
        return cls(arms=arms, offline=offline, recipe=recipe, moments=moments, **audited)

    @property
    def features(self) -> LogFeatures:
        """What rewards are linear in: features that a recipe makes of contexts, or those of the arms."""
        if self.recipe is None or self.moments is None:
            return ArmFeatures(self.arms, self.offline)
        return ContextFeatures(self.recipe, self.moments)

    @property
    def contexts(self) -> Recipe | None:
        """None where rows have no context."""
        return self.recipe

    def logged(self, rail: Guardrail) -> Guardrail:
        """A guardrail with what this log had of its metric, for a gate that compares with that."""
        known = self.metrics.get(rail.name)
        return rail if known is None else rail.logged_in(known.features.to_start["offline"])

    @property
    def actions(self) -> Floats:
        """(k, d) the arm set."""
        return self.arms.actions

    @property
    def names(self) -> Names:
        """(k,) the ids."""
        return self.arms.names

    @property
    def encoding(self) -> Encoding:
        """How features became actions."""
        return self.arms.encoding

    def with_items(self, names: Sequence[str], values: Sequence[Sequence[float]] | None = None) -> SavedLog:
        """The same with items that came later, of which the log says nothing: the export of their loop has
        them. `values` are the numbers of the recipe's item columns, where it has some."""
        larger = self.features.with_items(names, values)
        items = larger.recipe.items
        return replace(
            self,
            arms=larger.table(items),
            offline=padded(self.offline, len(items)),
            metrics={name: metric.with_items(names, values) for name, metric in self.metrics.items()},
            **larger.to_create,
        )

    def save(self, path: str | Path) -> Path:
        """Write it as npz, never pickle. `linoto certificate` and `linoto preview` read it too."""
        return write_arrays(Path(path), *self.packed())

    def packed(self) -> Stored:
        """The header of a file, and its arrays; those of metrics behind the place of each."""
        more, arrays = self.features.stored
        header = {
            "format": FORMAT,
            "encoding": self.encoding.to_dict(),
            "effects": self.arms.effects,
            "effects_of": self.arms.effects_of,
            **self.header(),
            **more,
        }
        log = self.offline
        arrays |= {"names": stored_names(self.names), "pulls": log.pulls, "reward_sums": log.reward_sums}
        if log.reward_squares is not None:
            arrays["reward_squares"] = log.reward_squares
        if self.guardrails:
            header["guardrails"] = codec.encode(self.guardrails)
        for place, (name, metric) in enumerate(self.metrics.items()):
            of_metric, sums = metric.packed()
            header.setdefault("metrics", []).append({"name": name, "header": of_metric})
            arrays |= {f"{OF_METRIC.format(place)}{array}": values for array, values in sums.items()}
        return header, arrays


def padded(log: Offline, k: int) -> Offline:
    """The same log of k arms, of which the later ones were never played."""
    more = k - log.pulls.size
    squares = log.reward_squares
    return Offline(
        pulls=np.pad(log.pulls, (0, more)),
        reward_sums=np.pad(log.reward_sums, (0, more)),
        reward_squares=None if squares is None else np.pad(squares, (0, more)),
    )


def write_arrays(path: Path, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Path:
    """One npz file."""
    with path.open("wb") as file:  # given a name, NumPy would append .npz to it
        np.savez(file, allow_pickle=False, header=np.array(json.dumps(header)), **arrays)
    return path


def load(path: str | Path) -> SavedLog:
    """What `linoto audit --save` wrote: `.actions`, `.offline`, `.names`, `.confidence`, `.verdict`, ...

    Of a log with contexts also `.recipe` and `.moments`, which are None otherwise.
    """
    place = Path(path)
    try:
        with np.load(place, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except OSError:
        raise
    except Exception:  # zip and npy complain in their own ways
        raise ValueError(f"{place} must be {SAVED}, got something else") from None
    try:
        return read_saved(arrays)
    except ValueError as error:
        text = str(error)
        raise ValueError(f"{place} {text[3:]}" if text.startswith("it ") else text) from None


def read_saved(arrays: Mapping[str, Any]) -> SavedLog:
    """The arrays of such a file as what they mean."""
    try:
        header = json.loads(str(arrays["header"]))
        known = header["format"]
    except Exception:  # JSON complains in many ways
        raise ValueError(f"it must be {SAVED}, got something else") from None
    if known != FORMAT:
        raise ValueError(f"it must be of format {FORMAT}, got format {known!r}")
    try:
        return unpack(header, {name: array for name, array in arrays.items() if name != "header"})
    except ValueError:
        raise
    except Exception:  # something is missing, or not what its name says
        raise ValueError(f"it must be {SAVED}, got a part of it") from None


def unpack(header: Mapping[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> SavedLog:
    """What was packed by `save`."""
    confidence = None if header["confidence"] is None else from_dict(header["confidence"])
    audited = {name: header[name] for name in AUDITED if name in header}
    for name in ("stated", "reasons", "reasons_of_log", "against_log"):
        audited[name] = tuple(audited.get(name, ()))
    if "guardrails" in header:
        audited["guardrails"] = tuple(from_dict(rail) for rail in header["guardrails"])
        audited["metrics"] = unpack_metrics(header.get("metrics", ()), arrays)
    if "gram" in arrays:
        moments = Moments(**{name: as_scalar(array) for name, array in arrays.items()})
        recipe = Recipe.from_dict(header["recipe"])
        return SavedLog.of_moments(recipe, moments, confidence=confidence, **audited)
    found: dict[str, Any] = {}
    if "recipe" in header:
        found["recipe"] = Recipe.from_dict(header["recipe"])
        sums = [name for name in arrays if name.startswith(OF_MOMENTS)]
        found["moments"] = Moments(
            **{name.removeprefix(OF_MOMENTS): as_scalar(arrays.pop(name)) for name in sums}
        )
        check_features(found["moments"], found["recipe"])
        arms = ContextFeatures(**found).table(tuple(map(str, arrays.pop("names"))))
    else:
        encoding = Encoding.from_dict(header["encoding"])
        names, stored = names_in(arrays.pop("names")), "actions" in arrays
        arms = ArmTable(
            names=names,
            features=arrays.pop("actions")[:, : len(encoding.features)] if stored else one_hot(len(names)),
            encoding=encoding,
            effects=header["effects"],
            effects_of=None if (some := header.get("effects_of")) is None else tuple(some),
        )
        if not (stored or arms.featureless):
            raise KeyError("actions")
    offline = as_offline(Offline(**arrays), len(arms.names))
    return SavedLog(arms=arms, offline=offline, confidence=confidence, **found, **audited)


def stored_names(names: Names) -> npt.NDArray[Any]:
    """(k,) the names as an array: of numbered arms, the numbers."""
    return np.arange(len(names)) if isinstance(names, Numbered) else np.array(names)


def names_in(stored: npt.NDArray[Any]) -> Names:
    """The same read back."""
    if stored.dtype.kind == "i" and np.array_equal(stored, np.arange(stored.size)):
        return Numbered(stored.size)
    return tuple(map(str, stored))


def unpack_metrics(
    headers: Sequence[Mapping[str, Any]], arrays: dict[str, npt.NDArray[Any]]
) -> dict[str, SavedLog]:
    """The logs of metrics, whose arrays are taken out of those of the file."""
    found = {}
    for place, metric in enumerate(headers):
        start = OF_METRIC.format(place)
        names = [name for name in arrays if name.startswith(start)]
        own = {name.removeprefix(start): arrays.pop(name) for name in names}
        found[metric["name"]] = unpack(metric["header"], own)
    return found


def check_features(moments: Moments, recipe: Recipe) -> None:
    """Refuse moments of other features than the recipe's."""
    if moments.d != recipe.d:
        raise ValueError(f"it must have {recipe.d} features like its recipe, got {moments.d}")


def as_scalar(array: npt.NDArray[Any]) -> Any:
    """An array without dimensions as the number that it is."""
    return array.item() if array.ndim == 0 else array
