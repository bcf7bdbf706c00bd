"""Every empirical sentence of the paper, as data for `linoto.experiments.claims`."""

from __future__ import annotations

from linoto.experiments import paper
from linoto.experiments.claims import (
    CLOSELY,
    EARLY,
    SAME,
    Claim,
    between,
    cheap,
    closer_with_size,
    converged,
    doubling_cost,
    explores,
    flat_gap,
    improves,
    in_parts,
    large_alpha,
    linear,
    loses,
    lower_start,
    more_often_positive,
    mostly_safe,
    near_zero,
    nearly_the_better,
    pessimism_best,
    safer_with_size,
    similar_late,
    sublinear,
    tradeoff,
    transition,
    within,
)

HORIZON_TEXT = "Varying the Horizon Length"
SIZE_TEXT = "Varying Offline Data Size (Excluding Optimal Action)"
BEST_TEXT = "Varying Offline Data Size (Including Optimal Action)"
OTHERS = "difference relative to the other's mean regret"
SUBLINEAR = "share of LinOtO's regret in the second half of the rounds below 50 %"
CONVERGED = "regret per round in the last tenth of the rounds, as a share of Random's: at most 10 %"


def nearly(name: str, experiment: str) -> Claim:
    """A sentence of the introduction, in one of the experiments."""
    return Claim(
        name=name,
        quote="LinOtO performs nearly as well as the better of the offline and online solutions",
        source="Introduction",
        experiment=experiment,
        measure="regret at most 10 % above the better of LinUCB and LinLCB; shown as the better's regret, as "
        "a share of LinOtO's: at least 1/1.1",
        measurements=nearly_the_better,
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        name="early-tracks-lcb",
        quote="in the early rounds, LinOtO [...] maintain[s] a low initial regret, closely tracking the safe "
        "baseline of LinLCB",
        source=HORIZON_TEXT,
        experiment="horizon",
        measure=f"regret at t = {EARLY} within 10 % of LinLCB's; {OTHERS}",
        measurements=within("LinOtO", "LinLCB", EARLY, CLOSELY, ("n=8000",)),
    ),
    Claim(
        name="low-initial-regret",
        quote="LinOtO successfully leverages the offline data to maintain a low initial regret",
        source=HORIZON_TEXT,
        experiment="horizon",
        measure=f"by how much its regret is below LinUCB's at t = {EARLY}; {OTHERS}",
        measurements=lower_start,
    ),
    Claim(
        name="short-horizon-tracks-lcb",
        quote="For a smaller horizon (n=1000), the performance of LinOtO closely tracks LinLCB",
        source="Figure 1a, caption",
        experiment="horizon",
        measure=f"regret at n = 1000 within 10 % of LinLCB's; {OTHERS}",
        measurements=within("LinOtO", "LinLCB", 1000, CLOSELY, ("n=1000",)),
    ),
    Claim(
        name="transitions",
        quote="As n increases and the exploration budget permits, LinOtO transitions to online exploration",
        source=HORIZON_TEXT,
        experiment="horizon",
        measure="share of explored rounds in the last half less that in the first eighth: above 0",
        measurements=transition,
    ),
    Claim(
        name="long-horizon-matches-ucb",
        quote="for a larger horizon (n=8000), LinOtO [...] achieves a sublinear regret profile matching "
        "LinUCB",
        source="Figure 1a, caption",
        experiment="horizon",
        measure=f"{SUBLINEAR}, and regret at n = 8000 within 5 % of LinUCB's; {OTHERS}",
        measurements=in_parts(
            sublinear=sublinear("LinOtO", "n=8000"),
            matching_LinUCB=within("LinOtO", "LinUCB", 8000, SAME, ("n=8000",)),
        ),
    ),
    Claim(
        name="sublinear",
        quote="It eventually achieves a sublinear regret similar to LinUCB",
        source=HORIZON_TEXT,
        experiment="horizon",
        measure=f"{SUBLINEAR}, and within 10 % of LinUCB's in the second half; {OTHERS}",
        measurements=in_parts(sublinear=sublinear("LinOtO", "n=8000"), similar_to_LinUCB=similar_late),
    ),
    Claim(
        name="lcb-linear",
        quote="LinLCB continues to follow the conservative baseline and therefore incurs linear regret",
        source=HORIZON_TEXT,
        experiment="horizon",
        measure="share of LinLCB's regret in the second half of the rounds: 50 % within 2.5 points",
        measurements=linear("LinLCB"),
    ),
    nearly("nearly-the-better-horizon", "horizon"),
    Claim(
        name="size-between",
        quote="LinOtO achieves a regret bounded between LinUCB and LinLCB",
        source="Figure 1b, caption",
        experiment="offline-size",
        measure=f"regret above the smaller and below the larger of the two; {OTHERS}",
        measurements=between,
    ),
    Claim(
        name="size-converges-to-ucb",
        quote="converging to the performance of LinUCB for large m",
        source="Figure 1b, caption",
        experiment="offline-size",
        measure=f"regret at m = 1000 within 5 % of LinUCB's; {OTHERS}",
        measurements=within("LinOtO", "LinUCB", 8000, SAME, ("m=1000",)),
    ),
    Claim(
        name="size-closer-to-ucb",
        quote="When m=1000, the performance of LinOtO [...] becomes closer to that of LinUCB",
        source=SIZE_TEXT,
        experiment="offline-size",
        measure="distance between the mean regrets of LinOtO and LinUCB, as a share of LinUCB's at the same "
        "m: by how much it is smaller at m = 1000 than at m = 100",
        measurements=closer_with_size,
    ),
    Claim(
        name="size-improves",
        quote="When m=1000, the performance of LinOtO improves further",
        source=SIZE_TEXT,
        experiment="offline-size",
        measure="by how much the regret of LinOtO falls; relative to the smaller m",
        measurements=improves("LinOtO"),
    ),
    Claim(
        name="size-lcb-linear",
        quote="LinLCB [...] commits to a suboptimal safe action and therefore incurs linear regret",
        source=SIZE_TEXT,
        experiment="offline-size",
        measure="LinLCB's regret as a share of Random's: above 0; share of it in the second half of the "
        "rounds: 50 % within 2.5 points",
        measurements=in_parts(suboptimal=loses("LinLCB"), linear=linear("LinLCB")),
    ),
    Claim(
        name="size-resembles-lcb",
        quote="Although its performance initially resembles that of LinLCB",
        source=SIZE_TEXT,
        experiment="offline-size",
        measure=f"regret at t = {EARLY} within 10 % of LinLCB's; {OTHERS}",
        measurements=within("LinOtO", "LinLCB", EARLY, CLOSELY),
    ),
    Claim(
        name="size-sublinear",
        quote="it eventually explores and achieves sublinear regret",
        source=SIZE_TEXT,
        experiment="offline-size",
        measure=f"share of explored rounds in the last half above 50 %, and {SUBLINEAR}",
        measurements=in_parts(explores=explores, sublinear=sublinear("LinOtO")),
    ),
    Claim(
        name="size-safer",
        quote="its regret relative to an offline reference decreases as the number of offline samples grows",
        source="Abstract",
        experiment="offline-size",
        measure="by how much LinOtO's shortfall below the log, per round, falls",
        measurements=safer_with_size,
    ),
    nearly("nearly-the-better-size", "offline-size"),
    *(
        Claim(
            name=f"best-improves-{label.lower()}",
            quote="The performance of all algorithms (except Random) improves as the number of offline "
            f"samples m increases [here: {label}]",
            source=BEST_TEXT,
            experiment="offline-size-best",
            measure="by how much the regret falls; relative to the smaller m",
            measurements=improves(label),
        )
        for label in ("LinUCB", "LinLCB", "LinOtO")
    ),
    Claim(
        name="best-lcb-best",
        quote="LinLCB performs best by immediately exploiting the high-quality offline data",
        source="Figure 1c, caption",
        experiment="offline-size-best",
        measure=f"by how much LinLCB's regret is below the other's; {OTHERS}",
        measurements=pessimism_best,
    ),
    Claim(
        name="best-lcb-near-zero",
        quote="LinLCB quickly identifies the optimal action and achieves (near) zero regret",
        source=BEST_TEXT,
        experiment="offline-size-best",
        measure="LinLCB's regret as a share of Random's: at most 5 %. It plays one action from the first "
        "round on, so this measures both",
        measurements=near_zero,
    ),
    nearly("best-nearly-the-better", "offline-size-best"),
    Claim(
        name="best-converges",
        quote="Both LinOtO and LinUCB perform a small amount of exploration but rapidly converge to the "
        "optimal action",
        source=BEST_TEXT,
        experiment="offline-size-best-radius",
        measure=f"a small amount: regret of all rounds at most 10 % of Random's. Converged: {CONVERGED}",
        measurements=in_parts(a_small_amount=cheap(1.0), converged=converged(1.0)),
    ),
    *(
        Claim(
            name=f"best-converges-at-{scale:g}",
            quote=f"They converge with {scale:g} of the stated radius for optimism",
            source="not in the paper",
            experiment="offline-size-best-radius",
            measure=CONVERGED,
            measurements=converged(scale),
            ours=True,
        )
        for scale in paper.SCALES[1:]
    ),
    Claim(
        name="comparable-to-ucb",
        quote="overall, the regret of LinOtO is comparable to LinUCB up to an additive constant",
        source="Remark 3 (on a bound; here measured)",
        experiment="dimension",
        measure="growth of R(LinOtO) - R(LinUCB) from n/2 to n: below 5 % of LinUCB's regret",
        measurements=flat_gap,
    ),
    nearly("nearly-the-better-dimension", "dimension"),
    Claim(
        name="alpha-large",
        quote="When alpha is large, the budget is more likely to be positive and LinOtO behaves closer to "
        "LinUCB",
        source="Remark 4",
        experiment="alpha",
        measure="share of explored rounds at alpha = 10^4 less that at 10^-4: above 0; regret at alpha = "
        f"10^4 within 5 % of LinUCB's, {OTHERS}",
        measurements=in_parts(budget_positive_more_often=more_often_positive, closer=large_alpha),
    ),
    *(
        Claim(
            name=f"alpha-small-{round}",
            quote=f"When alpha is small, then LinOtO mostly plays the LCB actions [here: of {round} rounds]",
            source="Remark 4",
            experiment="alpha",
            measure="share of safe rounds at alpha = 10^-4: above 50 %",
            measurements=mostly_safe(round),
        )
        for round in (1000, 8000)
    ),
    Claim(
        name="budget-similar",
        quote="Empirically, we observe that both implementations exhibit very similar performance",
        source="Remark 1",
        experiment="remark-budget",
        measure=f"regret of the aggregate budget within 5 % of the exact one's; {OTHERS}",
        measurements=within("aggregate", "exact", 8000, SAME),
    ),
    Claim(
        name="doubling",
        quote="This adapted algorithm enjoys almost identical regret guarantees",
        source="Remark 2 (on a bound; here measured)",
        experiment="remark-doubling",
        measure="regret of doubling over that of a known horizon: below sqrt(2)/(sqrt(2)-1) = 3.41, what "
        "doubling costs a bound of order sqrt(n)",
        measurements=doubling_cost,
    ),
    Claim(
        name="pareto",
        quote="there is a Pareto tradeoff between R_n(LinOtO) and R_n^off(LinOtO) in terms of alpha",
        source="Regret relative to mu_off (on bounds; here measured)",
        experiment="remark-pareto",
        measure="from alpha = 10^-4 to 10^4, regret falls and the shortfall below the log rises, per round. "
        "At one n the two differ by n (mu* - mu_off), whatever the policy, so the shortfall is taken early",
        measurements=tradeoff,
    ),
)
