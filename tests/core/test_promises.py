"""No certificate is broken: adversaries, wrong models, lost rewards, and every hole found (H1 to H8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from helpers.chance import most
from helpers.inner_kernels import from_python

import linoto
from linoto.core import kernels
from linoto.core.kernels import ledger

RUNS = 250  # of each adversary, in the slow suite
GATES: dict[str, Any] = {
    "budget": linoto.Gated(gate=linoto.Budget(alpha=0.1), confidence=linoto.Confidence(radius="hkz")),
    "budget, paper": linoto.Gated(gate=linoto.Budget(alpha=0.1), confidence=linoto.PAPER),
    "budget, max": linoto.Gated(gate=linoto.Budget(form="max", slack="coverage")),
    "model": linoto.Gated(gate=linoto.Tolerance(epsilon=0.05, evidence="model")),
    "model, hkz": linoto.Gated(
        gate=linoto.Tolerance(epsilon=0.05, evidence="model"), confidence=linoto.Confidence(radius="hkz")
    ),
    "rewards": linoto.Gated(
        gate=linoto.Tolerance(epsilon=0.05, evidence="rewards"),
        confidence=linoto.Confidence(reward_range=(-1, 1)),
    ),
    "both": linoto.Gated(
        gate=linoto.Tolerance(epsilon=0.05), confidence=linoto.Confidence(reward_range=(-1, 1))
    ),
    "rewards, union": linoto.Gated(
        gate=linoto.research.OlderTolerance(epsilon=0.05, evidence="rewards", rounding="low"),
        confidence=linoto.Confidence(reward_range=(-1, 1)),
    ),
    "both, union": linoto.Gated(
        gate=linoto.research.OlderTolerance(epsilon=0.05, rounding="low"),
        confidence=linoto.Confidence(reward_range=(-1, 1)),
    ),
    "model, a loss budget": linoto.Gated(gate=linoto.Tolerance(budget=6.0, evidence="model")),
    "rewards, a loss budget": linoto.Gated(
        gate=linoto.Tolerance(budget=6.0, epsilon=0.01, evidence="rewards"),
        confidence=linoto.Confidence(reward_range=(-1, 1)),
    ),
    "both, a loss budget": linoto.Gated(
        gate=linoto.Tolerance(budget=6.0), confidence=linoto.Confidence(reward_range=(-1, 1))
    ),
}


def worst_affordable(agent: Any, means: np.ndarray) -> Any:
    """The decision of an explorer that proposes the worst arm the gate would let through."""
    agent.decide()
    open_arms = np.flatnonzero(agent.running.state.arms[kernels.ROOM] > 0)
    return agent.guard(int(open_arms[means[open_arms].argmin()] if open_arms.size else means.argmin()))


def against_the_worst(
    agent: Any, bandit: Any, log: Any, rounds: int, rng: np.random.Generator
) -> tuple[np.ndarray, bool]:
    """(rounds,) R_t^off of the adversary behind the agent's gate, and whether the good events held."""
    means, ours = bandit.means, Estimates.of(agent, bandit, log)
    reference = float(log.pulls @ means / log.total)
    below = np.empty(rounds)
    explored, referred = 0.0, float(log.reward_sums.sum() - log.pulls @ means)  # summed noise of either kind
    good = is_good(agent, reference, explored, referred) and ours.hold(agent)
    for t, draw in enumerate(bandit.draw(rounds, rng)):
        decision = worst_affordable(agent, means)
        agent.update(decision, float(bandit.pay(np.array([decision.arm]), np.array([draw]))[0]))
        ours.add(bandit.actions[decision.arm], draw)
        below[t] = reference - means[decision.arm]
        if decision.source == "mixture":
            referred += draw
        else:
            explored += draw
        good &= is_good(agent, reference, explored, referred) and ours.hold(agent)
    return np.cumsum(below), good


@dataclass(eq=False)
class Estimates:
    """V and the summed noise sum a * noise, kept beside an agent: what its estimate can be wrong by."""

    V: np.ndarray  # (d, d)
    noise: np.ndarray  # (d,)

    @classmethod
    def of(cls, agent: Any, bandit: Any, log: Any) -> Estimates:
        actions = bandit.actions
        ridge = agent.confidence.ridge_for(actions.shape[1])
        V = ridge * np.eye(actions.shape[1]) + actions.T @ (log.pulls[:, None] * actions)
        return cls(V, actions.T @ (log.reward_sums - log.pulls * bandit.means))

    def add(self, action: np.ndarray, noise: float) -> None:
        self.V += np.outer(action, action)
        self.noise += action * noise

    def hold(self, agent: Any) -> bool:
        """The event that a Tolerance by the model relies on: the noise lies in the ellipsoid of its radius.

        What the ridge costs is bounded for sure, and is no part of it.
        """
        if not agent.running.params[0]["by_model"]:
            return True
        distance = np.sqrt(self.noise @ np.linalg.solve(self.V, self.noise))
        return bool(distance <= agent.running.run["gate_radius"] + 1e-9)


def is_good(agent: Any, reference: float, explored: float, referred: float) -> bool:
    """The event that realised rewards rely on, for noise of scale 1.

    Of a union: mu_off is below its upper bound, and the noise of the plays outside the mixture never sums
    below -b(q). Jointly: both sums of noise lie in the ellipse.
    """
    p, r = agent.running.params[0], agent.running.run
    q, rows, head = int(r["explored_plays"]), int(r["logged"] + r["mixed"]), r["logged"] / 8
    if not p["by_rewards"]:
        return True
    if not p["joint"]:
        return bool(reference <= r["upper_reference"] and explored >= -from_python(ledger.boundary)(p, q))
    volume = np.log((rows + head) / head) + (np.log((q + 50) / 50) if q else 0.0)
    distance = referred**2 / (rows + head) + (explored**2 / (q + 50) if q else 0.0)
    return bool(distance <= 2 * p["reference_level"] + volume)


def broken(policy: Any, *, m: int, seeds: range, rounds: int, d: int = 3, k: int = 8) -> tuple[int, int]:
    """In how many runs more was lost than allowed at any time: on the good event, and in all."""
    on_event = in_all = 0
    for seed in seeds:
        rng = np.random.default_rng([seed, m])
        bandit = linoto.sphere_bandit(k=k, d=d, rng=rng)
        log = bandit.log(linoto.logged_pulls(bandit, m=m, arms=4, rng=rng), rng)
        certificate = policy.certificate(bandit.actions, log)
        assert certificate.holds
        lost, good = against_the_worst(policy.start(bandit.actions, log), bandit, log, rounds, rng)
        allowed = certificate.per_round * np.arange(1, rounds + 1) + certificate.constant
        over = bool((lost > allowed + 1e-9).any())
        on_event += over and good
        in_all += over
    return on_event, in_all


@pytest.mark.parametrize("m", [12, 400])
@pytest.mark.parametrize("name", GATES)
@pytest.mark.few(3)
def test_an_adversary_breaks_no_promise(name: str, m: int) -> None:
    """None on the good event, where none is possible. In all, P(binomial(8, 0.05) > 4) = 2e-5."""
    on_event, in_all = broken(GATES[name], m=m, seeds=range(8), rounds=120)
    assert on_event == 0
    assert in_all <= 4


@pytest.mark.slow
@pytest.mark.parametrize("m", [12, 400])
@pytest.mark.parametrize("name", GATES)
def test_an_adversary_breaks_no_promise_in_hundreds_of_runs(name: str, m: int) -> None:
    """None on the good event, where none is possible. In all a false alarm in 2e-4 of the tests."""
    on_event, in_all = broken(GATES[name], m=m, seeds=range(RUNS), rounds=200)
    assert on_event == 0
    assert in_all <= most(RUNS, 0.05, alarm=2e-4)
    print(f"{name}, m = {m}: {in_all} of {RUNS} broken")


REALISED = {
    "a rate": linoto.Tolerance(epsilon=0.05, evidence="rewards", promise="realised"),
    "a loss budget": linoto.Tolerance(budget=8.0, evidence="rewards", promise="realised"),
    "both, relative": linoto.Tolerance(
        budget=8.0, epsilon=0.02, evidence="rewards", promise="realised", relative=True
    ),
}
CLICKS = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
CLICKS_OF_FIVE = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0), bound=2.0)


def realised_excess(gate: linoto.Tolerance, confidence: linoto.Confidence, seed: int, rounds: int) -> float:
    """The most by which plays outside the mixture ever earned less than they may; the worst arm explores.

    Means are .2 to .8, the log is of 60 rows, and rewards come up to ten rounds late.
    """
    rng = np.random.default_rng(seed)
    means = rng.uniform(0.2, 0.8, size=5)
    pulls = np.array([30, 20, 10, 0, 0])
    log = linoto.Offline(pulls=pulls, reward_sums=rng.binomial(pulls, means).astype(float))
    agent = linoto.Gated(explorer=linoto.Greedy(), gate=gate, confidence=confidence).start(np.eye(5), log)
    reference = float(pulls @ means / pulls.sum())
    unit = reference if gate.relative else 1.0
    owed = worst = 0.0
    late: list[tuple[int, linoto.Decision, float]] = []
    for t in range(1, rounds + 1):
        decision = agent.guard(int(means.argmin()))
        agent.commit(decision)
        reward = float(rng.random() < means[decision.arm])
        late.append((t + int(rng.integers(0, 10)), decision, reward))
        if decision.source != "mixture":
            owed += reference - reward
        worst = max(worst, owed - unit * (gate.budget + gate.epsilon * t))
        for item in [item for item in late if item[0] <= t]:
            late.remove(item)
            agent.observe(item[1], item[2])
    return worst


@pytest.mark.parametrize("name", REALISED)
@pytest.mark.few(1)
def test_an_adversary_breaks_no_realised_promise(name: str) -> None:
    """A run may fail with probability 0.05: P(binomial(30, 0.05) > 7) = 9e-5."""
    over = [realised_excess(REALISED[name], CLICKS, seed, 300) > 1e-9 for seed in range(30)]
    assert sum(over) <= 7


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("name", REALISED)
def test_an_adversary_breaks_no_realised_promise_in_hundreds_of_runs(name: str, delta: float) -> None:
    """A false alarm in 2e-4 of the tests."""
    confidence = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0), delta=delta)
    over = [realised_excess(REALISED[name], confidence, seed, 400) > 1e-9 for seed in range(RUNS)]
    print(f"{name}, delta = {delta}: {sum(over)} of {RUNS} broken")
    assert sum(over) <= most(RUNS, delta, alarm=2e-4) < RUNS


EXPECTED = {
    "a rate": linoto.Tolerance(epsilon=0.05, evidence="rewards"),
    "a loss budget": linoto.Tolerance(budget=8.0, evidence="rewards"),
    "relative": linoto.Tolerance(budget=8.0, epsilon=0.02, evidence="rewards", relative=True),
    "both": linoto.Tolerance(budget=8.0, epsilon=0.02),
}


def expected_excess(gate: linoto.Tolerance, confidence: linoto.Confidence, seed: int, rounds: int) -> float:
    """The most by which R_t^off was ever above what it may be; rewards of 0 or 1, up to ten rounds late.

    The adversary builds a surplus with the best arm for 30 rounds, and then spends it on the worst one.
    """
    rng = np.random.default_rng(seed)
    means = rng.uniform(0.2, 0.8, size=5)
    pulls = np.array([30, 20, 10, 0, 0])
    log = linoto.Offline(pulls=pulls, reward_sums=rng.binomial(pulls, means).astype(float))
    policy = linoto.Gated(explorer=linoto.Greedy(), gate=gate, confidence=confidence)
    agent, certificate = policy.start(np.eye(5), log), policy.certificate(np.eye(5), log)
    reference = float(pulls @ means / pulls.sum())
    unit, kappa = reference if gate.relative else 1.0, certificate.kappa or 0.0
    lost = worst = 0.0
    late: list[tuple[int, linoto.Decision, float]] = []
    for t in range(1, rounds + 1):
        decision = agent.guard(int(means.argmax() if t <= 30 else means.argmin()))
        agent.commit(decision)
        late.append((t + int(rng.integers(0, 10)), decision, float(rng.random() < means[decision.arm])))
        lost += reference - means[decision.arm]
        worst = max(worst, lost - unit * (gate.budget + gate.epsilon * t) - kappa)
        for item in [item for item in late if item[0] <= t]:
            late.remove(item)
            agent.observe(item[1], item[2])
    return worst


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.few(1)
def test_an_adversary_breaks_no_promise_about_clicks(name: str) -> None:
    """A run may fail with probability 0.05: P(binomial(40, 0.05) > 8) = 1.3e-4."""
    over = [expected_excess(EXPECTED[name], CLICKS_OF_FIVE, seed, 200) > 1e-9 for seed in range(40)]
    assert sum(over) <= 8


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("name", EXPECTED)
def test_an_adversary_breaks_no_promise_about_clicks_in_hundreds_of_runs(name: str, delta: float) -> None:
    """A false alarm in 2e-4 of the tests."""
    confidence = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0), delta=delta, bound=2.0)
    over = [expected_excess(EXPECTED[name], confidence, seed, 400) > 1e-9 for seed in range(RUNS)]
    print(f"{name}, delta = {delta}: {sum(over)} of {RUNS} broken")
    assert sum(over) <= most(RUNS, delta, alarm=2e-4) < RUNS


def test_a_promise_of_a_budget_alone_never_grows() -> None:
    certificate = linoto.Gated(gate=linoto.Tolerance(budget=80.0)).certificate(np.eye(2), LOG_OF_TWO)
    assert certificate.loss(10) == certificate.loss(10**9) == 80.0 + certificate.kappa * 2
    assert "most lost in all" in str(certificate)


LOG_OF_TWO = linoto.Offline(pulls=[30, 20], reward_sums=[12.0, 9.0])


def test_a_relative_budget_is_in_rounds_worth_of_the_reference() -> None:
    gate = linoto.Tolerance(budget=10.0, relative=True, evidence="rewards")
    certificate = linoto.Gated(gate=gate, confidence=CLICKS).certificate(np.eye(2), LOG_OF_TWO)
    high = certificate.reference_interval[1]
    assert 10 * certificate.reference <= certificate.budget <= 10 * 1.3 * high
    assert certificate.per_round == 0.0


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: linoto.Tolerance(budget=-1.0), "budget must be a number >= 0, got -1.0"),
        (
            lambda: linoto.Tolerance(promise="real"),
            "promise must be one of 'expected', 'realised', got 'real'",
        ),  # type: ignore[arg-type]
        (lambda: linoto.Tolerance(promise="realised"), "evidence must be 'rewards' for promise='realised'"),
        (
            lambda: linoto.Guard(LOG_OF_TWO, budget=5.0, reward_range=(0, 1), promise="realised"),
            "noise must be 'bounded' for promise='realised', got 1.0",
        ),
    ],
)
def test_a_promise_that_nothing_can_keep_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def misspecified(seed: int) -> tuple[linoto.Bandit, linoto.Offline]:
    """H2: the linear model says that the second arm earns twice the first; it earns nothing."""
    bandit = linoto.Bandit(actions=[[0.5], [1.0]], means=[0.5, 0.0], noise=0.5)
    return bandit, bandit.log([400, 0], np.random.default_rng(seed))


def excess_under_wrong_model(evidence: str, seeds: range, rounds: int) -> np.ndarray:
    """(seeds,) max_t R_t^off - epsilon t of a greedy explorer that believes the model."""
    policy = linoto.Gated(
        explorer=linoto.Greedy(),
        gate=linoto.Tolerance(epsilon=0.05, evidence=evidence),  # type: ignore[arg-type]
        confidence=linoto.Confidence(noise=0.5, reward_range=(0, 1)),
    )
    worst = []
    for seed in seeds:
        bandit, log = misspecified(seed)
        run = linoto.simulate(policy, bandit, log, horizon=rounds, seed=seed)
        worst.append((run.offline_regret - 0.05 * np.arange(1, rounds + 1)).max())
    return np.array(worst)


@pytest.mark.few(0)
def test_a_wrong_model_breaks_model_but_not_rewards_and_both_stays_within_the_veto() -> None:
    """H2. `rewards` may fail with probability 0.05 a run; the boundary is loose by a factor of ten, so less
    than 1 of 300 is expected. P(binomial(300, 0.005) > 8) = 3e-5."""
    assert (excess_under_wrong_model("model", range(6), 2000) > 500).all()
    rewards = excess_under_wrong_model("rewards", range(300), 1000)
    kappa = 1.0  # one logged arm: no rounding at all
    assert (rewards > kappa).sum() <= 8
    both = excess_under_wrong_model("both", range(100), 2000)
    _, log = misspecified(0)
    agent = linoto.Gated(
        gate=linoto.Tolerance(epsilon=0.05), confidence=linoto.Confidence(noise=0.5, reward_range=(0, 1))
    ).start([[0.5], [1.0]], log)
    p, r = agent.running.params[0], agent.running.run
    plays = 200
    allowed = (
        2 * from_python(ledger.boundary)(p, plays) + plays * (r["upper_reference"] - r["lower_reference"]) + 1
    )
    assert (both < allowed).all()
    assert (both > 1).any()  # the veto limits the damage, it does not undo it


def test_a_right_model_is_never_vetoed() -> None:
    """On the good event a right model cannot be vetoed; a false veto needs one of two events at delta/4 each,
    which are loose: 0 expected in 60 runs."""
    policy = linoto.Gated(confidence=linoto.Confidence(reward_range=(-1, 1)))
    for seed in range(60):
        rng = np.random.default_rng(seed)
        bandit = linoto.sphere_bandit(k=10, d=3, rng=rng)
        log = bandit.log(linoto.logged_pulls(bandit, m=60, arms=4, rng=rng), rng)
        agent = policy.start(bandit.actions, log)
        agent.play(bandit.means, bandit.draw(1500, rng))
        assert agent.running.run["vetoed"] == 0


def test_rounding_of_the_mixture_cannot_be_spent() -> None:
    """H1: a proposer that speaks only when the mixture's rounding favours it, counts 10 : 1 : 88."""
    means = np.array([-0.898, 0.0, 0.102])
    pulls = np.array([10, 1, 88]) * 10_000
    log = linoto.Offline(pulls=pulls, reward_sums=pulls * means)
    epsilon = 0.001
    agent = linoto.Gated(
        gate=linoto.Tolerance(epsilon=epsilon, evidence="model"), confidence=linoto.Confidence(noise=0.01)
    ).start(np.eye(3), log)
    reference = float(pulls @ means / pulls.sum())
    lost, deepest = 0.0, 0.0
    for t in range(1, 3000):
        favourable = lost < -0.5
        decision = agent.guard(1) if favourable else agent.decide(allowed=None)
        if not favourable and decision.source == "explorer":
            decision = agent.guard(int(means.argmin()))
        agent.update(decision, float(means[decision.arm]))
        lost += reference - means[decision.arm]
        deepest = max(deepest, lost - epsilon * t)
    certificate = agent.certificate
    assert certificate.kappa is not None
    assert deepest <= certificate.kappa * (means.max() - means.min())


def test_a_bound_that_the_log_contradicts_is_refused() -> None:
    """H3: a mean of 5 along a unit action needs |theta| >= 5."""
    log = linoto.Offline(pulls=[2000, 0], reward_sums=[10_000.0, 0.0])
    with pytest.raises(ValueError, match=r"bound must be at least \d.* for this log, got 1"):
        linoto.Gated().start(np.eye(2), log)
    with pytest.raises(ValueError, match=r"arm 'blue' earns more than a parameter of that length allows"):
        linoto.Gated().start(np.eye(2), log, names=["blue", "red"])
    linoto.Gated(confidence=linoto.Confidence(bound=6.0)).start(np.eye(2), log)


def lost_zeros(by_decision: bool, seed: int) -> float:
    """H4: max_t R_t^off - epsilon t when a reward of 0 is never reported."""
    means, epsilon = np.array([0.9, 0.5]), 0.05
    pulls = np.array([400, 1600])
    rng = np.random.default_rng(seed)
    log = linoto.Offline(pulls=pulls, reward_sums=rng.binomial(pulls, means).astype(float))
    guard = linoto.Guard(log, epsilon=epsilon, reward_range=(0, 1), noise="bounded")
    reference = float(pulls @ means / pulls.sum())
    lost, deepest = 0.0, 0.0
    for t in range(1, 1201):
        decision = guard.decide(1)
        guard.commit(decision)
        if rng.random() < means[decision.arm]:
            guard.observe(decision if by_decision else decision.arm, 1.0)
        lost += reference - means[decision.arm]
        deepest = max(deepest, lost - epsilon * t)
    return deepest


def test_rewards_lost_because_they_are_bad_break_nothing_when_reported_by_decision() -> None:
    """H4: by its own decision a reward keeps the books right whatever is lost; by arm alone it does not."""
    assert max(lost_zeros(True, seed) for seed in range(20)) <= 1.0
    assert min(lost_zeros(False, seed) for seed in range(3)) > 1.0


@pytest.mark.few(0)
def test_a_reference_from_bounded_rewards_survives_a_log_that_stops_when_it_likes() -> None:
    """H5: m chosen as the moment the running mean looks lowest; the tilted bound holds at any stopping time.

    1000 logs at d2 = 0.0125: P(binomial(1000, 0.0125) > 30) = 6.3e-6.
    """
    misses = 0
    for seed in range(1000):
        rewards = (np.random.default_rng(seed).random(2000) < 0.6).astype(float)
        sums = np.cumsum(rewards)
        stop = 50 + int((sums / np.arange(1, 2001))[49:].argmin())
        log = linoto.Offline(pulls=[stop], reward_sums=[sums[stop - 1]])
        guard = linoto.Guard(log, epsilon=0.1, reward_range=(0, 1), noise="bounded", delta=0.025)
        misses += guard._run[0]["upper_reference"] < 0.6
    assert misses <= 30


def test_a_stale_decision_is_refused() -> None:
    """H8: two decisions of one round would spend the same room twice."""
    log = linoto.Offline(pulls=[50, 50], reward_sums=[25.0, 20.0])
    for agent in (linoto.Gated().start(np.eye(2), log), linoto.Guard(log, epsilon=0.1, reward_range=(0, 1))):
        ask = agent.decide if isinstance(agent, linoto.Guard) else agent.guard
        first, second = ask(1), ask(1)
        agent.commit(first)
        with pytest.raises(ValueError, match="decision must be of round 2, got one of round 1"):
            agent.commit(second)
        assert agent.rounds == 1


def test_the_certificate_names_what_it_cannot_check() -> None:
    """H2, H3, H4, H5, H7 and H8 are printed where they matter, and only there."""
    log = linoto.Offline(pulls=[50, 50], reward_sums=[25.0, 20.0])
    ranged = linoto.Confidence(reward_range=(0, 1))
    texts = {
        evidence: " ".join(
            linoto.Gated(gate=linoto.Tolerance(epsilon=0.1, evidence=evidence), confidence=ranged)
            .certificate(np.array([[1.0, 0.5], [0.5, 1.0]]), log)
            .assumes
        )
        for evidence in ("model", "rewards", "both")
    }
    for evidence, text in texts.items():
        assert "no drift" in text
        assert "committed before the next" in text
        assert ("linear" in text) == (evidence != "rewards")
        assert ("not chosen by looking" in text) == (evidence != "model")


def test_bounded_rewards_lift_where_sub_gaussian_ones_hardly_do() -> None:
    """Bernoulli rewards around .88, m = 504, n = 6000, epsilon 0.02, both promises kept.

    Paired over 8 worlds the lifts differ by 4.4 standard errors with these seeds; 2 is asked for. Features
    are shared here, so both kinds of evidence lift; bounded ones lift more.
    """
    lifts: dict[Any, list[float]] = {0.5: [], "bounded": []}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        actions = np.column_stack([np.ones(60), rng.standard_normal((60, 5)) / np.sqrt(5)])
        theta = np.append(0.88, rng.standard_normal(5))
        theta[1:] *= 0.077 / np.abs(actions[:, 1:] @ theta[1:]).max()
        bandit = linoto.LinearBandit(actions=actions, theta=theta, rewards="bernoulli")
        log = bandit.log(np.where(np.arange(60) < 12, 42, 0), rng)
        for noise, values in lifts.items():
            policy = linoto.Gated(
                explorer=linoto.LinUCB(),
                gate=linoto.Tolerance(epsilon=0.02, evidence="rewards"),
                confidence=linoto.Confidence(noise=noise, reward_range=(0, 1)),
            )
            run = linoto.simulate(policy, bandit, log, horizon=6000, seed=seed)
            constant = policy.certificate(bandit.actions, log).constant
            assert constant is not None
            assert (run.offline_regret <= 0.02 * np.arange(1, 6001) + constant).all()
            values.append(-run.offline_regret[-1] / 6000)
    gain = np.array(lifts["bounded"]) - lifts[0.5]
    assert gain.mean() > 2 * gain.std(ddof=1) / np.sqrt(8)
    assert np.mean(lifts["bounded"]) > 0.005
