"""Put what `linoto reproduce all` wrote into docs/reproduction.md: python benchmarks/publish.py DIR.

Pictures are copied with few colours, which makes them small; the tables between the `<!-- table: NAME -->`
marks of the page are written anew. The words around them are not touched: read them again.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from PIL import Image

DOCS = Path(__file__).parents[1] / "docs"


def claims_table(claims: list[dict[str, Any]]) -> str:
    lines = ["| sentence | measured (claimed), for each part | result |", "| --- | --- | --- |"]
    for claim in claims:
        numbers = "<br>".join(map(part_text, claim["measurements"]))
        quote = claim["quote"] if claim["ours"] else f"“{claim['quote']}”"
        words = f"{quote}<br><small>{claim['source']}: {claim['measure']}</small>"
        result = result_text(claim)
        for label, other in claim["changed_by_exact"].items():
            result += f"<br><small>with the exact budget, {label}: {other}</small>"
        lines.append(f"| {words} | {numbers} | {result} |".replace("R_", "R\\_"))
    return "\n".join(lines)


def part_text(part: dict[str, Any]) -> str:
    more = f"; {part['turning']} would decide" if part["verdict"] == "undecided" else ""
    return f"{part['label']}: {part['text']} ({part['wanted']}{more}): {part['verdict']}"


def result_text(claim: dict[str, Any]) -> str:
    total = len(claim["measurements"])
    if len(claim["parts"]) == 1:
        return f"**{claim['verdict']}**"
    return "<br>".join(f"**{result}**: {len(labels)} of {total}" for result, labels in claim["parts"].items())


def final_table(rows: list[dict[str, Any]], *, wanted: str = "") -> str:
    lines = [
        "| setting | policy | regret | shortfall below the log | explored |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for row in rows:
        if not re.search(wanted, row["policy"]):
            continue
        cells = [f"{row[name]:.0f} ± {row[f'{name}_se']:.0f}" for name in ("regret", "offline_regret")]
        lines.append(f"| {row['setting']} | {row['policy']} | {' | '.join(cells)} | {row['explored']:.1%} |")
    return "\n".join(lines)


def shrink(source: Path, target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    Image.open(source).convert("RGB").quantize(192, dither=Image.Dither.NONE).save(target, optimize=True)


def publish(out: Path) -> None:
    page = DOCS / "reproduction.md"
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"\(img/([\w.-]+)\.png\)", text):
        if (out / f"{name}.png").exists():  # --bounds and --field have more of them
            shrink(out / f"{name}.png", DOCS / "img" / f"{name}.png")

    def table(mark: re.Match[str]) -> str:
        name, _, wanted = mark[1].partition(" ")
        if name == "claims":
            found = claims_table(json.loads((out / "claims.json").read_text(encoding="utf-8")))
        else:
            rows = json.loads((out / f"{name}.table.json").read_text(encoding="utf-8"))
            found = final_table(rows, wanted=wanted)
        return f"<!-- table: {mark[1]} -->\n{found}\n<!-- end -->"

    text = re.sub(r"<!-- table: (.+?) -->\n.*?<!-- end -->", table, text, flags=re.DOTALL)
    page.write_text(text, encoding="utf-8")
    print(f"wrote {page}")


if __name__ == "__main__":
    publish(Path(sys.argv[1]))
