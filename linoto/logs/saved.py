"""What `linoto audit --save` keeps of a log, and how it is read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.core.confidence import Confidence
from linoto.core.kernels import Floats
from linoto.core.offline import Offline, as_offline
from linoto.core.snapshots import from_dict, to_dict
from linoto.logs.arms import ArmTable, Encoding

FORMAT = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class SavedLog:
    """Everything an agent needs to start from a log: what `linoto audit --save` writes, and `load` reads."""

    arms: ArmTable
    offline: Offline
    confidence: Confidence | None = None  # what the audit proposed or was told

    @property
    def actions(self) -> Floats:
        """(k, d) the arm set."""
        return self.arms.actions

    @property
    def names(self) -> tuple[str, ...]:
        """(k,) the ids."""
        return self.arms.names

    @property
    def encoding(self) -> Encoding:
        """How features became actions."""
        return self.arms.encoding

    def save(self, path: str | Path) -> Path:
        """Write it as npz, never pickle. `linoto certificate` and `linoto preview` read it too."""
        header = {
            "format": FORMAT,
            "encoding": self.encoding.to_dict(),
            "effects": self.arms.effects,
            "confidence": None if self.confidence is None else to_dict(self.confidence),
        }
        log, place = self.offline, Path(path)
        arrays = {
            "header": np.array(json.dumps(header)),
            "actions": self.actions,
            "names": np.array(self.names),
            "pulls": log.pulls,
            "reward_sums": log.reward_sums,
        }
        if log.reward_squares is not None:
            arrays["reward_squares"] = log.reward_squares
        with place.open("wb") as file:  # given a name, NumPy would append .npz to it
            np.savez(file, allow_pickle=False, **arrays)
        return place


def load(path: str | Path) -> SavedLog:
    """What `linoto audit --save` wrote: `.actions`, `.offline`, `.names`, `.encoding`, `.confidence`."""
    place = Path(path)
    try:
        with np.load(place, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays.pop("header")))
        known = header["format"]
    except OSError:
        raise
    except Exception:  # zip, npy and JSON each complain in their own way
        raise ValueError(f"{place} must be what linoto audit --save wrote, got something else") from None
    if known != FORMAT:
        raise ValueError(f"{place} must be of format {FORMAT}, got format {known!r}")
    try:
        return unpack(header, arrays)
    except ValueError:
        raise
    except Exception:  # something is missing, or not what its name says
        raise ValueError(f"{place} must be what linoto audit --save wrote, got a part of it") from None


def unpack(header: Mapping[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> SavedLog:
    """What `SavedLog.save` packed."""
    encoding = Encoding.from_dict(header["encoding"])
    arms = ArmTable(
        names=tuple(map(str, arrays.pop("names"))),
        features=arrays.pop("actions")[:, : len(encoding.features)],
        encoding=encoding,
        effects=header["effects"],
    )
    offline = as_offline(Offline(**arrays), len(arms.names))
    confidence = None if header["confidence"] is None else from_dict(header["confidence"])
    return SavedLog(arms=arms, offline=offline, confidence=confidence)
