"""The twenty adversaries of a Control gate against two metrics at once: one is attacked, the other helps.

`play_against` is plain Python that numba compiles as it stands: short runs play it as it is.
"""

import numpy as np
from helpers.control_adversaries import (
    CATCHES,
    DELAYED,
    FALLS,
    FEW,
    FOLLOWS,
    FORESEES,
    HIDES,
    LATE,
    LOST,
    LUCK,
    NEWS,
    SHARES,
    SPEND,
    explorer_mean,
    practice_mean,
)

from linoto.core import kernels

RELATIONS = (
    "correlated",  # the other metric is the same number
    "opposed",  # it is high where the attacked one is low
    "apart",  # it is a fair coin, whatever is played
    "lost by the other",  # opposed, and where it is high the value of the attacked one never comes
)
CORRELATED, OPPOSED, APART, LOST_BY_OTHER = range(4)


def other_value(relation, value, uniform):  # type: ignore[no-untyped-def] # numba
    """What the metric that is not attacked is, where the attacked one is `value`."""
    if relation == CORRELATED:
        return value
    if relation in (OPPOSED, LOST_BY_OTHER):
        return 1.0 - value
    return 1.0 * (uniform < 0.5)


def is_bad(ticket, own):  # type: ignore[no-untyped-def] # numba
    """Whether a value is bad news for the books: a high control, or a low explored play."""
    return ticket[0] >= 2 and (ticket[own] > 0.5) == (ticket[0] == 3)


def tell(params, run, rails, books, ticket, which):  # type: ignore[no-untyped-def] # numba
    """One value of a ticket (entry, share, two centres, two values): `which` 0 is the reward's."""
    if which == 0:
        run[0]["entry"], run[0]["entry_share"], run[0]["entry_centre"] = int(ticket[0]), ticket[1], ticket[2]
        kernels.coin_observe(params, run, ticket[4])
    else:
        kernels.rails_observe(rails, books, 0, int(ticket[0]), ticket[1], ticket[3], ticket[5], False)


def play_against(  # type: ignore[no-untyped-def] # numba
    params, run, rails, books, scenario, attacked, relation, uniforms, tickets
):
    """The largest excess over the promise of either metric in any round, in values as they came.

    `attacked` 0 is the reward, 1 the guardrail. uniforms (n, 5): coin, practice, explorer, and the other
    metric of each. tickets (n, 6) is scratch.
    """
    n = uniforms.shape[0]
    v = run if attacked == 0 else books
    own, besides = 4 + attacked, 5 - attacked
    lost = other_lost = total = 0.0
    over, spending = -np.inf, False
    for t in range(n):
        room, last = v[0]["room"], tickets[t - 1]
        control = t > 0 and last[0] == 3
        if scenario in (SPEND, FALLS):
            spending = room >= (0.0 if spending else 25.0)
        elif scenario == LUCK:
            spending = (control and last[own] <= 0.0) or (spending and room >= 0.0)
        elif scenario == FOLLOWS:
            spending = control
        elif scenario == FEW:
            spending = t > 0 and last[1] < 0.1
        elif scenario == CATCHES:
            spending = total > v[0]["upper_practice"]
        elif scenario == SHARES:
            params[0]["share"] = rails[0]["share"] = 0.9 if room < 5.0 else 0.05
        due = practice_mean(scenario, t, n, room, v[0]["centre"], spending)
        practice = 1.0 * (uniforms[t, 1] < (0.6 if scenario == FALLS else due))
        earned = 1.0 * (uniforms[t, 2] < explorer_mean(scenario, t, n, room, spending))
        agrees = scenario == FORESEES and practice < 0.5
        if scenario == FALLS:
            agrees = spending != (practice > 0.5)
        if scenario == HIDES:
            agrees = v[0]["upper_practice"] - v[0]["earned"] > lost + 4.0
        run[0]["coin"], run[0]["fallback"], run[0]["fallback_source"] = uniforms[t, 0], 0, 2
        run[0]["proposal"] = 0 if agrees else 1
        kernels.rails_measure(rails, books, run)
        kernels.coin_decide(params, run, -np.inf, 1.0)
        explored = run[0]["explored"] == 1
        ticket = tickets[t]
        ticket[0], ticket[1] = run[0]["entry"], run[0]["entry_share"]
        ticket[2], ticket[3] = run[0]["entry_centre"], books[0]["entry_centre"]
        other_practice = other_value(relation, practice, uniforms[t, 3])
        other_earned = other_value(relation, earned, uniforms[t, 4])
        ticket[own] = earned if explored else practice
        ticket[besides] = other_earned if explored else other_practice
        kernels.rails_commit(rails, books, run, False)
        kernels.coin_commit(params, run)
        if explored:
            lost += practice - earned
            total += practice
            other_lost += other_practice - other_earned
        allowed = params[0]["budget"] + params[0]["epsilon"] * (t + 1)
        also = rails[0]["budget"] + rails[0]["epsilon"] * (t + 1)
        if attacked == 0:
            over = max(over, lost - allowed, other_lost - also)
        else:
            over = max(over, lost - also, other_lost - allowed)
        when = t - LATE if scenario == DELAYED else t
        if when < 0:
            continue
        ticket = tickets[when]
        tell(params, run, rails, books, ticket, 1 - attacked)
        hidden = relation == LOST_BY_OTHER and ticket[0] >= 2 and ticket[besides] > 0.5
        if not hidden and not (scenario in (LOST, NEWS) and is_bad(ticket, own)):
            tell(params, run, rails, books, ticket, attacked)
        if scenario == NEWS and (t + 1) % LATE == 0:
            for i in range(t, t - LATE, -1):
                late = tickets[i]
                if is_bad(late, own) and not (relation == LOST_BY_OTHER and late[besides] > 0.5):
                    tell(params, run, rails, books, late, attacked)
    return over
