"""Make linoto/worlds/digits.csv from the table that scikit-learn ships: python scripts/make_digits.py.

One line per image: the digit that was written, and its 64 pixels row by row, each one character of 0 to g (0
to 16).
"""

from __future__ import annotations

from pathlib import Path

from sklearn.datasets import load_digits  # type: ignore[import-untyped]

SHADES = "0123456789abcdefg"
OUT = Path(__file__).parents[1] / "linoto" / "worlds" / "digits.csv"


def main() -> None:
    """Write the file, the same bytes on every machine."""
    pixels, digits = load_digits(return_X_y=True)
    lines = ["digit,pixels"]
    for digit, image in zip(digits.tolist(), pixels.astype(int).tolist(), strict=True):
        lines.append(f"{digit},{''.join(SHADES[shade] for shade in image)}")
    OUT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"wrote {OUT}")


if __name__ == "__main__":
    main()
