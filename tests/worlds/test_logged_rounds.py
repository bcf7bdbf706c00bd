"""Rounds like those of a log with contexts, and parameters that could have written it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import linoto
from linoto import Category, Confidence, Moments, Numeric, Offline, Recipe
from linoto.pages.preview import answers, trust_text, write_preview
from linoto.worlds.logged_rounds import LoggedRounds, draw_parameters, rounds_of_moments, rounds_of_rows
from linoto.worlds.plausible import Drawing, plausible
from linoto.worlds.posterior import Choice, draw_means
from linoto.worlds.preview import usual_grid, value_for
from linoto.worlds.reward_laws import measure_law

AGE = Numeric(name="age", mean=40.0, scale=10.0)
COUNTRY = Category(name="country", levels=("DE", "NO"))
RECIPE = Recipe(items=("A", "B", "C"), context=(AGE, COUNTRY), crosses=(("item", "age"), ("item", "country")))
CLICKS = Confidence(noise="bounded", reward_range=(0, 1), bound=2.0)
GATED = linoto.Gated(gate=linoto.Control(budget=20.0), confidence=CLICKS)


def logged(n: int = 400, seed: int = 0) -> tuple[Any, Any]:
    """A log in which young people from NO see B, others A or C, and its rows."""
    rng = np.random.default_rng(seed)
    age, country = rng.normal(45, 12, n), np.array(["DE", "NO"], dtype=object)[rng.integers(0, 2, n)]
    arms = np.where((age < 45) & (country == "NO"), 1, rng.choice([0, 2], n))
    context = {"age": age, "country": country}
    rows = SimpleNamespace(recipe=RECIPE, arms=arms, context=context, candidates=None)
    played = [
        RECIPE.transform({"age": age[i], "country": country[i]}, [RECIPE.items[arms[i]]])[0] for i in range(n)
    ]
    rewards = rng.random(n) < 0.3 + 0.2 * (arms == 1)
    return SimpleNamespace(contexts=True, recipe=RECIPE, moments=Moments.from_rows(played, rewards)), rows


def test_rounds_of_rows_are_the_rows_with_what_each_offered() -> None:
    log, rows = logged()
    rows.candidates = np.ones((400, 3), dtype=bool)
    rows.candidates[::2, 0] = rows.arms[::2] == 0
    found = rounds_of_rows(rows, None, np.random.default_rng(0))
    assert found.ends.size == 400 and np.array_equal(
        np.diff(found.ends, prepend=0), rows.candidates.sum(axis=1)
    )
    assert np.array_equal(found.items[found.played], rows.arms)
    assert np.array_equal(found.weights, found.played.astype(float)), "practice plays what the log played"
    x = found.actions[found.played]
    np.testing.assert_allclose(x.T @ x, log.moments.gram, rtol=1e-9, atol=1e-9)


def test_rounds_of_sums_have_the_averages_of_every_item() -> None:
    """1000 rounds: beyond 5 standard errors once in 2e6 a number, for about 20 of them."""
    log, _ = logged(n=4000)
    found = rounds_of_moments(RECIPE, log.moments, None, np.random.default_rng(1))
    x, exact = found.actions[found.played], log.moments.gram @ np.eye(RECIPE.d)[0] / log.moments.count
    error = x.std(axis=0) / np.sqrt(len(x))
    assert (np.abs(x.mean(axis=0) - exact) <= 5 * error + 1e-12).all()
    place = RECIPE.slices["country",]
    assert set(np.unique(found.actions[:, place])) == {0.0, 1.0}


@pytest.mark.parametrize("practice", [{"A": 3.0, "B": 1.0}, {"C": 1.0}])
def test_practice_that_is_given_plays_items_by_its_weights(practice: dict[str, float]) -> None:
    log, rows = logged()
    for found in (
        rounds_of_rows(rows, practice, np.random.default_rng(0)),
        rounds_of_moments(RECIPE, log.moments, practice, np.random.default_rng(0)),
    ):
        shares = np.bincount(found.items, weights=found.weights, minlength=3) / found.ends.size
        wanted = np.array([practice.get(item, 0.0) for item in RECIPE.items])
        np.testing.assert_allclose(shares, wanted / wanted.sum())


def test_the_posterior_of_the_parameter_is_the_textbooks() -> None:
    """Against N(theta, noise^2 V^-1) for one spread; 4000 draws, beyond 6 standard errors once in 5e8."""
    log, _ = logged()
    law = plausible(log, None).law(Confidence(noise=0.5))
    spread = 0.3
    drawn = draw_parameters(
        RECIPE, log.moments, law, np.array([spread]), np.zeros(1), worlds=4000, rng=np.random.default_rng(0)
    )
    size = (np.trace(log.moments.gram) - log.moments.gram[0, 0]) / log.moments.count
    prior = np.r_[1e-12, np.full(RECIPE.d - 1, size / spread**2)]
    cover = np.linalg.inv(log.moments.gram / law.variance + np.diag(prior))
    exact = cover @ log.moments.reward_vector / law.variance
    error = np.sqrt(np.diag(cover) / 4000)
    assert (np.abs(drawn.values.mean(axis=0) - exact) < 6 * error).all()


def test_items_without_a_context_are_drawn_as_fixed_arms_are() -> None:
    """The same log stated in both ways: the level is free, and items differ by the spread that is given.
    4000 draws of each: means within 6 standard errors, standard deviations within 10 %."""
    recipe = Recipe(items=("A", "B", "C", "D"))
    pulls, sums = np.array([40, 60, 30, 20]), np.array([10.0, 30.0, 6.0, 4.0])
    x = np.repeat(np.column_stack([np.ones(4), np.eye(4)]), pulls, axis=0)
    y = np.concatenate([np.linspace(-1, 1, n) + s / n for n, s in zip(pulls, sums, strict=True)])
    squares = np.array([(part**2).sum() for part in np.split(y, np.cumsum(pulls)[:-1])])
    moments, offline = Moments.from_rows(x, y), Offline(pulls=pulls, reward_sums=sums, reward_squares=squares)
    known = plausible(SimpleNamespace(contexts=True, recipe=recipe, moments=moments), None)
    law = known.law(Confidence(noise=0.5))
    rng = np.random.default_rng(0)
    found = draw_parameters(recipe, moments, law, np.array([0.2]), np.zeros(1), worlds=4000, rng=rng)
    mine = found.values[:, :1] + found.values[:, 1:]
    plain = measure_law(offline, Confidence(noise=0.5))._replace(
        variance=law.variance, variances=np.full(4, law.variance)
    )
    theirs = draw_means(np.eye(4), offline, plain, worlds=4000, rng=rng, prior=0.2).values
    error = np.sqrt(mine.var(axis=0) / 2000)
    assert (np.abs(mine.mean(axis=0) - theirs.mean(axis=0)) < 6 * error).all()
    np.testing.assert_allclose(mine.std(axis=0), theirs.std(axis=0), rtol=0.1)


def made(n: int = 3000, k: int = 4) -> LoggedRounds:
    played = np.tile(np.arange(k) == 1, n)
    return LoggedRounds(
        k * np.arange(1, n + 1), np.zeros((n * k, 1)), played.astype(float), np.tile(np.arange(k), n), played
    )


@pytest.mark.parametrize("limits", [None, (0.0, 1.0)])
def test_what_was_played_is_better_than_its_features_say_where_somebody_knew(limits: Any) -> None:
    """By as much as the choice says; and the best of its round where nothing is better."""
    rounds, rng = made(), np.random.default_rng(0)
    means = rounds.chosen(np.full(12_000, 0.5), Choice(0.6, 0.9, 1.5), 0.1, limits, rng)
    played, others = means[rounds.played], means[~rounds.played]
    assert played.mean() - others.mean() == pytest.approx(0.15, abs=0.01)
    assert (played.std(), others.std()) == pytest.approx((0.06, 0.09), rel=0.05)
    capped = rounds.capped(means)
    assert (np.maximum.reduceat(capped, rounds.begins) == capped[rounds.played]).all()
    assert rounds.prospects(capped) == (1, 0.0)


@pytest.mark.parametrize(
    "recipe, said",
    [
        (Recipe(context=(AGE,)), "log must have items"),
        (Recipe(items=("A", "B"), context=(AGE,), item_effects=False), "rows must be given"),
    ],
)
def test_a_log_that_does_not_tell_what_was_offered_is_refused(recipe: Recipe, said: str) -> None:
    moments = Moments.from_rows(np.ones((5, recipe.d)), np.ones(5))
    with pytest.raises(ValueError, match=said):
        plausible(SimpleNamespace(contexts=True, recipe=recipe, moments=moments), None)


def test_practice_that_nobody_offered_is_refused() -> None:
    _, rows = logged()
    rows.candidates = np.ones((400, 3), dtype=bool)
    rows.candidates[:, 2] = False
    with pytest.raises(ValueError, match="practice must be able to play"):
        rounds_of_rows(rows, {"C": 1.0}, np.random.default_rng(0))
    with pytest.raises(ValueError, match="practice must be weights"):
        rounds_of_rows(rows, {"A": -1.0}, np.random.default_rng(0))


# -- the preview of it ------------------------------------------------------------------------------------


def shown(**changes: Any) -> linoto.Preview:
    log, rows = logged()
    policy = linoto.Gated(gate=linoto.Control(budget=5.0), confidence=CLICKS)
    facts: dict[str, Any] = {"policy": policy, "grid": [5.0, 40.0], "horizon": 150, "worlds": 4, "rows": rows}
    return linoto.preview(log, **{**facts, **changes})


def test_a_log_with_contexts_is_previewed_by_the_same_function() -> None:
    one, two = (shown(engine=linoto.Engine(jobs=jobs)) for jobs in (1, 2))
    assert one.table() == two.table() and one.baseline == "current practice"
    assert "from the rows of the log" in one.rounds_from and one.covers_both
    assert "by the sums of the log" in shown(rows=None, grid=[5.0]).rounds_from
    assert one.earned == pytest.approx(150 * logged()[0].moments.reference)


def test_worlds_are_played_by_what_a_loop_of_the_recipe_would_play() -> None:
    """Optimism counts the features that one action can have, where the recipe says which are other items'."""
    explorer, gate = linoto.LinUCB(), linoto.Control(budget=40.0)
    as_it_comes = linoto.Gated(explorer=explorer, gate=gate, confidence=CLICKS)
    ridge = CLICKS.ridge_for(RECIPE.d - RECIPE.own_width * (len(RECIPE.items) - 1))
    of_one_action = replace(as_it_comes, confidence=replace(CLICKS, radius="own", ridge=ridge))
    of_all_items = replace(as_it_comes, confidence=replace(CLICKS, ridge=ridge))
    one, same, other = (
        shown(policy=policy, grid=[40.0]).points[0] for policy in (as_it_comes, of_one_action, of_all_items)
    )
    np.testing.assert_array_equal(one.final_loss, same.final_loss)
    assert (one.final_loss != other.final_loss).any()


@pytest.mark.few(2)
@pytest.mark.parametrize("reward", [0.0, 0.5])
def test_rewards_that_do_not_scatter_are_as_noisy_as_assumed(reward: float) -> None:
    """A model that explains nothing proves nothing: no click in 300 rows may be luck."""
    ages = np.random.default_rng(0).normal(size=300)
    rows = [RECIPE.transform({"age": age, "country": "NO"})[i % 3] for i, age in enumerate(ages)]
    moments = Moments.from_rows(rows, np.full(300, reward))
    known: Any = plausible(SimpleNamespace(contexts=True, recipe=RECIPE, moments=moments), None)
    assert known.law(CLICKS) == measure_law(known.whole, CLICKS)


def test_a_policy_of_ones_own_needs_no_word_for_features() -> None:
    class Mine:
        def start(self, *, offline: Any = None, d: Any = None, rng: Any = 0) -> Any:
            return linoto.Greedy().start(offline=offline, d=d, rng=rng)

    known: Any = plausible(logged()[0], None)
    (world,) = known.draw(known.law(CLICKS), Drawing(worlds=1, horizon=30)).worlds
    assert world.features is RECIPE
    assert linoto.simulate(Mine(), world, known.log, horizon=30).arms.size == 30


def test_the_best_of_every_round_is_said_to_need_more_than_features() -> None:
    """Arms have effects of their own in every round: no policy can know them, and the best of them count."""
    said = str(answers(shown(grid=[40.0])))
    assert "knowing the best arm of every round, by more than features show, would gain" in said


def test_nothing_is_gained_where_no_arm_is_better_than_what_was_played() -> None:
    """In means, against practice in the same rounds: never, in any world."""
    found = shown(logged_arms="best", grid=[40.0])
    assert found.no_better is None and (found.points[0].final_loss >= -1e-9).all()
    np.testing.assert_allclose(found.headroom, 0.0, atol=1e-12)


def test_rewards_of_any_kind_are_previewed_in_contexts() -> None:
    _, rows = logged()
    rng = np.random.default_rng(2)
    x = np.array(
        [
            RECIPE.transform({"age": age, "country": "DE"}, [RECIPE.items[arm]])[0]
            for age, arm in zip(rows.context["age"], rows.arms, strict=True)
        ]
    )
    amounts = rng.beta(1.0, 4.0, len(x))
    for confidence in (CLICKS, Confidence(noise=1.0, bound=2.0)):
        moments = Moments.from_rows(x, amounts)
        gate = (
            linoto.Control(budget=5.0)
            if confidence is CLICKS
            else linoto.Tolerance(budget=5.0, evidence="model")
        )
        policy = linoto.Gated(gate=gate, confidence=confidence)
        found = linoto.preview(
            SimpleNamespace(contexts=True, recipe=RECIPE, moments=moments),
            policy=policy,
            grid=[5.0],
            horizon=60,
            worlds=3,
        )
        assert found.event == 0.0 and np.isfinite(found.points[0].final_loss).all()
        law = plausible(SimpleNamespace(contexts=True, recipe=RECIPE, moments=moments), None).law(confidence)
        assert law.variance == pytest.approx(amounts.var(), rel=0.1)


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"drift": 0.1}, "drift must be 0 for a log with contexts"),
        ({"practice": {"Z": 1.0}}, "must be among the 3 items"),
        ({"policy": linoto.LinUCB(scale=1.0)}, "policy must have a"),
    ],
)
def test_what_cannot_be_previewed_in_contexts_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        shown(**changes)


def test_rows_and_practice_are_for_contexts() -> None:
    with pytest.raises(ValueError, match="rows and practice are for a log with contexts"):
        linoto.preview(np.eye(2), Offline(pulls=[1, 1], reward_sums=[1.0, 0.0]), practice={"A": 1.0})
    with pytest.raises(ValueError, match="offline must be given beside actions"):
        linoto.preview(np.eye(2))


def test_the_usual_grid_has_only_budgets_that_a_gate_can_have() -> None:
    """A tenth of a click is less than a round can lose: Control refuses it. A limit has its own budget."""
    known = plausible(logged()[0], None)
    policy = linoto.Gated(gate=linoto.Control(budget=5.0), confidence=CLICKS)
    values = usual_grid(policy, known, 100)
    assert values and min(values) >= 1.0
    assert value_for(policy, known, limit=12.3, horizon=100) == 12.0
    assert value_for(policy, known, limit=0.5, horizon=100) is None


@pytest.mark.parametrize("average", [0.004, 0.1, 0.77, 0.99])
def test_effects_that_no_feature_shows_do_not_move_what_practice_earns(average: float) -> None:
    """Near an end of the range too: a world in which practice earns twice as much did not write the log.
    3000 rounds with a standard deviation of at most a half: 5 standard errors are 0.046."""
    rounds = made()
    found = rounds.chosen(
        np.full(12_000, average), Choice(1.0, 1.0, 0.0), 0.4, (0.0, 1.0), np.random.default_rng(0)
    )
    assert found.min() >= 0 and found.max() <= 1
    assert found[rounds.played].mean() == pytest.approx(
        average, abs=5 * np.sqrt(average * (1 - average) / 3000)
    )


# -- logs that a coin wrote -------------------------------------------------------------------------------


def table_of(n: int = 2000, chance: Any = 0.25) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    arms = rng.integers(0, 4, n)
    clicks = rng.random(n) < np.array([0.2, 0.25, 0.3, 0.4])[arms]
    items = np.array(list("ABCD"))[arms]
    return pd.DataFrame({"item": items, "y": clicks.astype(int), "p": chance, "c": "x"})


def read(table: pd.DataFrame, **columns: Any) -> linoto.Log:
    return linoto.read_log(table, item="item", reward="y", **{"propensity": "p", **columns})


@pytest.mark.few(0)
def test_a_constant_context_previews_like_fixed_arms_where_a_coin_chose() -> None:
    """Mean gains of 40 worlds each differ by less than 4 standard errors (once in 15,000 by chance, twice);
    taken for good ones, what was played made the context gain 40 less."""
    table = table_of()
    policy = linoto.Gated(gate=linoto.Control(budget=20.0), confidence=CLICKS)
    facts: dict[str, Any] = {"policy": policy, "grid": [20.0, 60.0], "horizon": 1500, "worlds": 40}
    contexts = read(table, categories=["c"])
    rows: Any = linoto.read_rows(table, reward="y", propensity="p", recipe=contexts.recipe)
    fixed, one = linoto.preview(read(table), **facts), linoto.preview(contexts, rows=rows, **facts)
    assert one.logged_arms == "random" and one.no_better is None is fixed.no_better
    for mine, theirs in zip(one.points, fixed.points, strict=True):
        errors = [point.final_loss.std() / np.sqrt(40) for point in (mine, theirs)]
        assert abs(mine.mean_gain - theirs.mean_gain) < 4 * np.hypot(*errors)
    good = linoto.preview(contexts, rows=rows, **facts, logged_arms="good")
    assert good.logged_arms == "good" and good.points[1].mean_gain < one.points[1].mean_gain / 2


@pytest.mark.parametrize(
    "table, columns, chosen",
    [
        (table_of(), {}, "random"),
        (table_of(), {"propensity": None}, "good"),
        (table_of(chance=1.0), {}, "good"),  # nobody threw a coin
        (table_of(), {"arms": linoto.read_arms(pd.DataFrame({"item": list("ABCDE")}))}, "good"),  # E: never
    ],
    ids=["stated", "not stated", "certain", "an item was never played"],
)
def test_what_was_played_is_random_where_every_row_states_its_chance(
    table: pd.DataFrame, columns: dict[str, Any], chosen: str, tmp_path: Path
) -> None:
    """Of the log itself, and of what is saved of it."""
    log = read(table, categories=["c"], **columns)
    for known in (log, linoto.load(log.save(tmp_path / "log.npz"))):
        assert plausible(known, None).usual_choice == chosen
    assert plausible(read(table, **columns), None).usual_choice == "good"


@pytest.mark.parametrize(
    "practice, chosen",
    [
        (None, "good"),
        ({"A": 1.0}, "good"),
        ({"A": 2.0, "B": 1.0, "C": 1.0}, "good"),  # not its shares
        ("shares", "random"),
    ],
    ids=["what was played", "an item", "others", "shares"],
)
def test_what_was_played_is_random_where_practice_plays_the_shares_of_the_log(
    practice: Any, chosen: str
) -> None:
    """By rows and by sums: then no feature chose what was played, and there is no second kind of worlds."""
    log, rows = logged()
    counts = np.bincount(rows.arms, minlength=3)
    if practice == "shares":
        practice = dict(zip(RECIPE.items, (7 * counts).tolist(), strict=True))
    for at_hand in (None, rows):
        known = plausible(log, None, rows=at_hand, practice=practice)
        assert known.usual_choice == chosen and known.has_untried == (chosen == "good")


def test_an_item_that_was_never_played_was_left_out_by_somebody() -> None:
    log, rows = logged()
    recipe = Recipe(items=("A", "B", "C", "D"), context=(AGE, COUNTRY))
    played = [
        recipe.transform({name: column[i] for name, column in rows.context.items()}, [recipe.items[arm]])[0]
        for i, arm in enumerate(rows.arms.tolist())
    ]
    log = SimpleNamespace(contexts=True, recipe=recipe, moments=Moments.from_rows(played, np.zeros(400)))
    shares = dict(zip("ABCD", np.bincount(rows.arms, minlength=4).tolist(), strict=True))
    assert plausible(log, None, practice=shares).usual_choice == "good"


def test_practice_by_shares_earns_what_the_log_did_and_contradicts_a_choice() -> None:
    """Where what was played is taken for good, other arms are drawn worse, and practice draws them."""
    log, rows = logged(n=4000)
    shares = dict(zip(RECIPE.items, np.bincount(rows.arms, minlength=3).tolist(), strict=True))
    facts: dict[str, Any] = {"rows": rows, "practice": shares}
    known = plausible(log, None, **facts)
    earned, average = {}, log.moments.reward_sum / log.moments.count
    for how in ("good", "random"):
        drawn = known.draw(known.law(CLICKS), Drawing(worlds=30, horizon=100, logged_arms=how))
        pools = [world.pool for world in drawn.worlds]
        earned[how] = float(np.mean([pool.weights @ pool.means / pool.ends.size for pool in pools]))
    assert earned["good"] < 0.85 * average and abs(earned["random"] - average) < 0.1 * average
    played = {"grid": [40.0], "horizon": 100, "worlds": 2, "policy": GATED}
    found = linoto.preview(log, **facts, **played)
    assert found.logged_arms == "random" and not found.contradiction
    said = linoto.preview(log, **facts, **played, logged_arms="good")
    assert "which contradicts logged_arms 'good'" in trust_text(said)
    assert said.to_dict()["contradiction"] == said.contradiction


def test_an_audit_does_not_save_chances_that_do_not_fit(tmp_path: Path) -> None:
    wrong = read(table_of(chance=0.6), categories=["c"])
    assert wrong.randomised and not linoto.audit_log(wrong).saved().randomised
    right = linoto.audit_log(read(table_of(), categories=["c"])).saved()
    assert linoto.load(right.save(tmp_path / "log.npz")).randomised


def test_how_much_the_arms_of_one_round_differ_is_what_it_says_in_euros_of_any_level(tmp_path: Path) -> None:
    """In each country one of two items earns 6 more, around 3 or 300: a standard deviation of 6 / sqrt(2).

    What features make over contexts and arms together is another number."""
    rng, n = np.random.default_rng(5), 4000
    item, country = rng.choice(["A", "B"], n), rng.choice(["DE", "NO"], n)
    for level in (3.0, 300.0):
        pays = level * (1 + (country == "NO")) + 6.0 * ((item == "A") == (country == "DE"))
        table = pd.DataFrame({"item": item, "country": country, "p": 0.5, "y": pays + rng.normal(0, 1, n)})
        log = linoto.read_log(
            table,
            item="item",
            reward="y",
            propensity="p",
            categories=["country"],
            crosses=[("item", "country")],
        )
        sure = Confidence(noise="bounded", bound=4 * level + 9, reward_range=(-10, 3 * level + 20))
        policy = linoto.Gated(gate=linoto.Control(budget=1000.0), confidence=sure)
        found = linoto.preview(log, policy=policy, worlds=10, horizon=20, grid=[1000.0])
        assert found.within is not None
        assert found.within == pytest.approx((6**2 / 2 + 1 / 2) ** 0.5, rel=0.04), "and half of the noise"
        assert found.to_dict()["within"] == found.within.tolist()
        assert level < 10 or found.prior > 2 * found.within.max()
        text = page_of(found, log, tmp_path)
        differ = text.partition("the average rewards of the arms in one round differ by ")[2][:99].split()[0]
        assert float(differ) == pytest.approx(found.within.mean(), rel=0.06)
    fixed = Offline.from_rows([0, 1] * 20, [1.0, 0.0] * 20, k=2)
    assert linoto.preview(np.eye(2), fixed, worlds=10, horizon=5).within is None


def page_of(preview: linoto.Preview, log: Any, folder: Path) -> str:
    """The words of a preview's page."""
    page = write_preview(
        folder / "page.html", preview, log.offline, names=log.recipe.items, source="log", command="linoto"
    )
    return " ".join(page.read_text("utf-8").split())


@pytest.mark.parametrize("noise", [1.0, 1e-4, 1e-9, 0.0])
def test_rewards_that_contexts_explain_nearly_or_wholly_are_previewed(noise: float) -> None:
    """Prices of 300 and 600 with next to no scatter: posteriors of features that say the same twice."""
    rng, n = np.random.default_rng(0), 2000
    item, country = rng.choice(["A", "B"], n), rng.choice(["DE", "NO"], n)
    pays = 300 * (1 + (country == "NO")) + 20 * ((item == "A") == (country == "DE"))
    table = pd.DataFrame({"item": item, "country": country, "p": 0.5, "y": pays + noise * rng.normal(size=n)})
    log = read(table, categories=["country"], crosses=[("item", "country")])
    sure = Confidence(noise="bounded", bound=900, reward_range=(0, 900))
    policy = linoto.Gated(gate=linoto.Control(budget=1000.0), confidence=sure)
    found = linoto.preview(log, policy=policy, worlds=10, horizon=20, grid=[1000.0])
    assert found.within is not None and found.within == pytest.approx(20 / 2**0.5, rel=0.05)
    assert np.isfinite(found.points[0].regret).all()
