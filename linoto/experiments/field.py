"""The paper's figures with the systems it cites beside its own, where they can play.

Those that cannot, and why: conservative bandits need rewards that are not negative, and the paper's are in
[-1, 1]; UCB1, HUCB1, MIN-UCB and OtO need arms that share no feature.
"""

from __future__ import annotations

from dataclasses import replace

from linoto.core.oope import OOPE
from linoto.core.policies import LinTS, LinUCB
from linoto.core.protocols import Policy
from linoto.core.research import RareLinUCB, WideLinTS
from linoto.experiments.paper import DIMENSION, HORIZON, LINOTO, OFFLINE_SIZE, OFFLINE_SIZE_BEST
from linoto.experiments.settings import Experiment, Setting

EMPHASISED = (LINOTO, "LinUCB", "LinLCB")  # the paper's own
PAPERS = (*EMPHASISED, "Random")


def cited() -> dict[str, Policy]:
    """Each with the radius and the ridge of its authors, and started from the log as LinUCB is."""
    return {
        "OFUL": LinUCB(scale=1.0),
        "OFUL, rarely switching": RareLinUCB(),
        "LinTS": LinTS(scale=1.0, prior="scaled"),  # the posterior
        "LinTS, Agrawal-Goyal": WideLinTS(law="agrawal-goyal"),
        "LinTS, Abeille-Lazaric": WideLinTS(law="abeille-lazaric"),
        "OOPE": OOPE(),
        "OOPE, Frank-Wolfe": OOPE(design="frank_wolfe"),
    }


def with_cited(experiment: Experiment) -> Experiment:
    """A figure of the paper with the systems that it cites."""
    settings = tuple(with_cited_here(setting) for setting in experiment.settings)
    return replace(
        experiment,
        name=f"{experiment.name}-field",
        title=f"{experiment.title}: with the systems that the paper cites",
        caption=f"{experiment.caption} Thick: the paper's policies, with its radius. Thin: what it cites.",
        settings=settings,
        view="field",
    )


def with_cited_here(setting: Setting) -> Setting:
    """A setting of the paper with all of them."""
    own = {label: policy for label, policy in setting.pairs if label in PAPERS}
    return replace(setting, policies={**own, **cited()})


FIELD: dict[str, Experiment] = {
    "horizon": with_cited(HORIZON),
    "offline-size": with_cited(OFFLINE_SIZE),
    "offline-size-best": with_cited(OFFLINE_SIZE_BEST),
    "dimension": with_cited(DIMENSION),
}
"""What `linoto reproduce --field` adds to the figures of these names."""
