"""The paper's figures and remarks as data: each is an experiment that `linoto reproduce` runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from linoto.core.confidence import PAPER, Confidence
from linoto.core.doubling import Doubling
from linoto.core.gates import Budget
from linoto.core.policies import Gated, LinLCB, LinOtO, LinUCB, Random
from linoto.core.protocols import Policy
from linoto.experiments.settings import Experiment, Setting

SIZES = (100, 500, 1000)  # m
ALPHA = 1e-4
ALPHAS = (1e-4, 1e-3, 1e-2, 1e-1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1e3, 1e4)
"""From what the paper uses to where LinOtO is LinUCB; finer where it changes."""
SCALES = (1.0, 0.5, 0.3, 0.2, 0.15, 0.1, 0.05)
"""Of the optimistic radius; 1 is the paper's."""

LINOTO, EXACT = "LinOtO", "LinOtO, exact budget"


def as_run(alpha: float = ALPHA, confidence: Confidence = PAPER) -> LinOtO:
    """LinOtO as the paper ran it: its budget takes the lower bound of the sum of all played actions."""
    return LinOtO(alpha=alpha, budget="aggregate", confidence=confidence)


def contenders(alpha: float = ALPHA) -> dict[str, Policy]:
    """The four policies of every figure, with the radius and the ridge of the paper, and Algorithm 1 beside.

    Algorithm 1 sums the lower bounds of the played actions; the paper says that its experiments did not.
    """
    return {
        "LinUCB": LinUCB(scale=1.0, confidence=PAPER),
        "LinLCB": LinLCB(confidence=PAPER),
        LINOTO: as_run(alpha),
        EXACT: LinOtO(alpha=alpha),
        "Random": Random(),
    }


def sized(m: int, **changes: Any) -> Setting:
    """The default problem with m logged rewards."""
    return Setting(**{"name": f"m={m}", "m": m, "policies": contenders(), **changes})


def default_problem(horizon: int) -> Experiment:
    """The default problem alone, over so many rounds."""
    policies = {name: contenders()[name] for name in ("LinOtO", "LinUCB", "LinLCB", "Random")}
    setting = Setting(name="default", horizon=horizon, policies=policies)
    return Experiment(name="demo", title="The paper's default problem", settings=(setting,))


HORIZON = Experiment(
    name="horizon",
    title="Cumulative regret across varying horizon lengths",
    caption="Figure 1a of the paper. The confidence level does not depend on n here, so shorter panels are "
    "the beginnings of longer ones.",
    settings=tuple(Setting(name=f"n={n}", horizon=n, policies=contenders()) for n in (1000, 4000, 8000)),
)

OFFLINE_SIZE = Experiment(
    name="offline-size",
    title="Varying offline size m, no optimal action in the log (alpha = 0.01 at m = 1000)",
    caption="Figure 1b of the paper.",
    settings=tuple(sized(m, policies=contenders(0.01 if m == 1000 else ALPHA)) for m in SIZES),
)

OFFLINE_SIZE_BEST = Experiment(
    name="offline-size-best",
    title="Varying offline size m, with the optimal action in the log",
    caption="Figure 1c of the paper. The optimal action takes the place of one of the ten logged actions.",
    settings=tuple(sized(m, include_best=True) for m in SIZES),
)

DIMENSION = Experiment(
    name="dimension",
    title="Cumulative regret with varying dimension d",
    caption="Figure 2 of the paper.",
    settings=tuple(Setting(name=f"d={d}", d=d, policies=contenders()) for d in (10, 20, 50)),
)


def named(alpha: float) -> str:
    """The label of LinOtO at this alpha."""
    return f"alpha={alpha:g}"


def swept() -> dict[str, Policy]:
    """LinOtO at every alpha, between the two it balances."""
    both = {name: policy for name, policy in contenders().items() if name in ("LinUCB", "LinLCB")}
    return {**{named(alpha): as_run(alpha) for alpha in ALPHAS}, **both}


ALPHA_SENSITIVITY = Experiment(
    name="alpha",
    title="Sensitivity of LinOtO to alpha",
    caption="Figure 3 of the paper: LinOtO over a grid of alpha, with the levels of LinUCB and LinLCB. "
    "Below: how many of the n rounds it played safe.",
    settings=tuple(sized(m, policies=swept(), points=17) for m in SIZES),
    view="alpha",
)


def smaller_radius(scale: float) -> dict[str, Policy]:
    """LinUCB and LinOtO with a smaller radius for optimism; the budget keeps the paper's."""
    behind_budget = Gated(
        explorer=LinUCB(scale=scale),
        gate=Budget(alpha=ALPHA, form="aggregate"),
        fallback="lcb",
        reach="proposal",
        confidence=PAPER,
    )
    return {
        f"LinUCB x {scale:g}": LinUCB(scale=scale, confidence=PAPER),
        f"LinOtO x {scale:g}": behind_budget,
    }


RADIUS = Experiment(
    name="offline-size-best-radius",
    title="With the optimal action in the log: regret by the scale of the optimistic radius",
    caption="Not in the paper. Regret per round in the last tenth of 8000 rounds when the optimistic action "
    "is chosen with a smaller radius; the budget keeps the full one.",
    settings=tuple(
        sized(
            m,
            include_best=True,
            points=81,
            policies={
                **{label: policy for scale in SCALES for label, policy in smaller_radius(scale).items()},
                "Random": Random(),
            },
        )
        for m in SIZES
    ),
    view="radius",
)

BUDGETS = Experiment(
    name="remark-budget",
    title="Remark 1: three forms of the budget",
    caption="LinOtO with the sum of the lower bounds of all played actions (exact), the lower bound of their "
    "sum (aggregate), and the larger (max). alpha = 0.01 at m = 1000.",
    settings=tuple(
        sized(
            m,
            policies={
                "exact": LinOtO(alpha=alpha),
                "aggregate": as_run(alpha),
                "max": LinOtO(alpha=alpha, budget="max"),
            },
        )
        for m, alpha in ((100, ALPHA), (500, ALPHA), (1000, 0.01))
    ),
)


def horizons(n: int) -> dict[str, Policy]:
    """LinOtO told the horizon, LinOtO by doubling, and LinUCB told the horizon."""
    known = replace(PAPER, delta=1 / n)
    return {
        "known horizon": as_run(confidence=known),
        "doubling": Doubling(policy=as_run(), delta="epoch"),
        "LinUCB": LinUCB(scale=1.0, confidence=known),
    }


DOUBLING = Experiment(
    name="remark-doubling",
    title="Remark 2: the doubling trick (delta = 2^-j in epoch j) against a known horizon (delta = 1/n)",
    caption="LinOtO restarted from the log after 1, 2, 4, ... rounds, and LinOtO and LinUCB told n = 8000.",
    settings=tuple(sized(m, policies=horizons(8000)) for m in SIZES),
)

PARETO = Experiment(
    name="remark-pareto",
    title="The trade-off between regret and the shortfall below the log, in alpha",
    caption="LinOtO at each alpha less LinUCB in the same worlds. Above, both at the same n: they differ by "
    "n (mu* - mu_off), whatever the policy, so one cannot rise while the other falls. Below, by how much "
    "alpha adds to the shortfall below the log in the first n/8 rounds, and what that buys by the end.",
    settings=tuple(sized(m, policies=swept(), points=17) for m in SIZES),
    view="pareto",
)

FIGURES: dict[str, tuple[Experiment, ...]] = {
    "horizon": (HORIZON,),
    "offline-size": (OFFLINE_SIZE,),
    "offline-size-best": (OFFLINE_SIZE_BEST, RADIUS),
    "dimension": (DIMENSION,),
    "alpha": (ALPHA_SENSITIVITY,),
    "remarks": (BUDGETS, DOUBLING, PARETO),
}
"""What `linoto reproduce` can be asked for, in the paper's order."""
