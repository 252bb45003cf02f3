"""The arrays behind the figures against the plain computation, at small sizes."""

import inspect

import numpy as np
import pytest

from refimpl.attention import experiments as E
from refimpl.attention.data import RELEVANT, draw_experiment, signals, streams
from refimpl.attention.descent import descend_p
from refimpl.attention.head import linear_head
from refimpl.attention.model import attention, loss, output
from refimpl.attention.runs import fresh
from refimpl.attention.runs.gram import combine, gram
from refimpl.attention.setting import Setting
from refimpl.attention.uncertainty import Totals
from refimpl.sweep import complete, sweep


@pytest.mark.states("attention Figure 4", "attention Figure 6")
def test_the_published_quantities_by_hand():
    """Two samples of two tokens, labels +1 and -1, no step: every s (1 - s) is 1/4, the list reads 1/4, ..., 1.

    The samples' entries are 1/2 and 1, so Figure 4 shows 1/2 over 1. Figure 6 is 1 by its own scale. After a step with
    the first sample's attention one-hot the entries are 1 and 3/2; figure 6 shows (1 / 1.5) over (1 / 2)."""
    even, labels = np.full((2, 2), 0.5), [1.0, -1.0]
    totals = Totals(np.zeros(2), even * (1 - even))
    assert E.published(totals, even, labels, labels) == (0.5, 1)
    picked = np.array([[1.0, 0], [0.5, 0.5]])
    totals = Totals(np.zeros(2), even * (1 - even) + picked * (1 - picked))
    assert E.published(totals, picked, labels, labels) == pytest.approx((2 / 3, 4 / 3), rel=1e-14)


@pytest.mark.states("attention Figure 1")
@pytest.mark.parametrize("clean_noise", [True, False])
def test_figure_1_from_its_definition(clean_noise):
    n, d, norm, betas = 6, 40, 5.0, (0.0, 0.3, 2.0)
    train, test, results = E.figure_1(3, betas, Setting(n=n, d=d, norm=norm), clean_noise)
    mu = signals(norm, d)
    assert np.sum(train.Y != train.Y_star) == 2 and np.all(test.Y == test.Y_star)
    for beta, by_split in zip(betas, results):
        p = mu[0] + mu[1]
        for y, y0, noise in zip(train.Y, train.Y_star, train.noise):
            if clean_noise or y != y0:
                p = p + beta * noise[0 if y == y0 else 2]
        for name, sample in (("train", train), ("test", test)):
            points, accuracy = by_split[name]
            picked = [x[np.argmax(x @ p)] for x in sample.X]
            np.testing.assert_allclose(points, [x[:2] for x in picked])
            assert accuracy == np.mean([y * (x[0] - x[1]) > 0 for y, x in zip(sample.Y, picked)])


@pytest.mark.states("attention Figure 1")
def test_a_sample_wants_the_token_that_carries_its_label():
    sample = draw_experiment(streams(0)[0], Setting(n=30, d=5, norm=3.0), 10)
    for token, y, y0, roles in zip(E._wanted_token(sample), sample.Y, sample.Y_star, sample.roles):
        assert roles[token] == (RELEVANT if y == y0 else y)


@pytest.mark.states("attention Figure 2", "attention Figure 3")
def test_figure_3_records_the_plain_run():
    d, norm, steps = 30, 4.0, 25
    run = E.figure_3(1, Setting(n=5, d=d, norm=norm), steps, every=10, test_samples=50)
    assert run.times.tolist() == [0, 10, 20, 25]
    mu, path = signals(norm, d), {}
    nu = linear_head(mu)
    p = descend_p(run.sample.X, run.sample.Y, nu, 1e-4, steps, record=lambda tau, p: path.update({tau: p}))
    for tau, s in zip(run.times, run.s):
        np.testing.assert_allclose(s, attention(run.sample.X, path[tau]), rtol=1e-10)
    assert run.train_accuracy == np.mean(run.sample.Y * output(run.sample.X, p, nu) > 0)


@pytest.mark.states("attention Figure 4", "attention Figure 5", "attention Figure 6")
def test_a_row_of_the_grid_from_plain_descent():
    d, norms, steps, n = 12, (3.0, 6.0), 15, 12
    setting = Setting(n=n, d=d)
    row = E.grid_row(0, setting, norms, steps, 20_000)
    for k, norm in enumerate(norms):
        rng, _ = streams((0, d, round(1000 * norm)))
        sample, mu = draw_experiment(rng, setting._replace(norm=norm), 3), signals(norm, d)
        nu, weights = linear_head(mu), []
        p = descend_p(sample.X, sample.Y, nu, 1e-4, steps, record=lambda tau, p: weights.append(attention(sample.X, p)))
        variance = np.sum([s * (1 - s) for s in weights], axis=0)
        S = np.sum([s[:, 0] * (1 - s[:, 0]) for s in weights], axis=0)
        C = [[i for i in range(n) if sample.Y[i] == sample.Y_star[i] == c] for c in (1, -1)]
        sums = [sum(S[i] for i in members) for members in C]
        assert row["eq_9"][k] == pytest.approx(min(sums) / variance.max(), rel=1e-9)
        assert row["eq_10"][k] == pytest.approx((sums[0] / len(C[0])) / (sums[1] / len(C[1])), rel=1e-9)
        assert row["train_loss"][k] == pytest.approx(loss(sample.X, sample.Y, p, nu), rel=1e-9)
        assert row["train_accuracy"][k] == np.mean(sample.Y * output(sample.X, p, nu) > 0)
        plain = draw_experiment(np.random.default_rng(k), setting._replace(n=20_000, norm=norm), 0)
        expected = loss(plain.X, plain.Y, p, nu)
        assert row["test_loss"][k] == pytest.approx(expected, abs=5 * 0.3 / 100)  # 5 sigma of a mean of 20,000, twice
        assert row["test_accuracy"][k] == pytest.approx(
            np.mean(plain.Y * output(plain.X, p, nu) > 0), abs=5 * 0.5 / 100
        )


@pytest.mark.states("attention Figure 4", "attention Figure 6")
@pytest.mark.parametrize("seed", range(3))
def test_the_published_quantities_from_the_running_list_itself(seed):
    rng = np.random.default_rng(seed)
    n, T, steps = 6, 4, 5
    z = rng.standard_normal((steps, n, T))
    z[0] = 0
    weights = np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True)
    Y_star = np.array([1, -1, 1, -1, 1, -1.0])
    Y = Y_star * [1, 1, -1, 1, 1, 1]
    running, ratios_6 = [0.0], []
    for s in weights:
        entry = []
        for i in range(n):
            for t in range(T):
                running.append(running[-1] + s[i, t] * (1 - s[i, t]))
            entry.append(running[-1])
        of_class = [sum(e for e, y, y0 in zip(entry, Y, Y_star) if y == y0 == c) for c in (1, -1)]
        ratios_6.append(of_class[0] / of_class[1])
    totals = Totals(np.zeros(n), np.sum(weights * (1 - weights), axis=0))
    got_4, got_6 = E.published(totals, weights[-1], Y, Y_star)
    assert got_4 == pytest.approx(min(of_class) / max(entry), rel=1e-12)
    assert got_6 == pytest.approx(ratios_6[-1] / ratios_6[0], rel=1e-12)


@pytest.mark.states("attention Figure 4", "attention Figure 5", "attention Figure 6")
def test_a_cell_does_not_depend_on_the_grid_around_it_or_on_the_workers():
    def grid(dimensions, norms, jobs=1):
        rows = complete(sweep(E.grid_row, [(0, Setting(d=d), norms, 4, 10) for d in dimensions], jobs))
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    alone = grid([10], [5.0])
    one, two = (grid([10, 20], [5.0, 7.0], jobs) for jobs in (1, 2))
    for name in alone:
        np.testing.assert_allclose(one[name], two[name], rtol=1e-9)
        np.testing.assert_allclose(one[name][0, 0], alone[name][0, 0], rtol=1e-9)
    assert len(np.unique(one["test_loss"])) == 4


def test_classes_without_samples_are_reported_and_never_divided_by():
    for seed in range(40):
        row = E.grid_row(seed, Setting(n=2, d=8), (3.0,), 2, 10)
        assert np.isfinite(row["eq_9"][0]) == np.isfinite(row["eq_10"][0]) == row["all_clean"][0]
        if not row["all_clean"][0]:
            return
    raise AssertionError("no draw without a class among 40")


@pytest.mark.erratum("attention-noisy-token")
def test_noisy_samples_select_the_weak_token_of_their_observed_label():
    run = E.figure_3(0)
    noisy = run.sample.Y != run.sample.Y_star
    picked = run.s[-1].argmax(axis=-1)
    roles = run.sample.roles[np.arange(len(picked)), picked]
    assert not np.any(roles[noisy] == run.sample.Y_star[noisy])  # as printed
    np.testing.assert_array_equal(roles[noisy], run.sample.Y[noisy])


@pytest.mark.erratum("attention-figure4", "attention-figure6")
def test_the_published_ratios_are_counts_and_places_and_not_those_of_the_equations():
    norm, d, steps = 90.0, 500, 20_000
    setting = Setting(d=d, norm=norm)
    row = E.grid_row(0, setting, (norm,), steps, 10)
    sample = draw_experiment(streams((0, d, round(1000 * norm)))[0], setting, 4)
    clean = [np.flatnonzero((sample.Y == sample.Y_star) & (sample.Y == c)) for c in (1, -1)]
    assert row["published_4"][0] == pytest.approx(min(map(len, clean)), rel=1e-3)
    places = [np.mean(members + 1) for members in clean]
    assert row["published_6"][0] == pytest.approx(places[1] / places[0], rel=1e-3)
    assert row["eq_9"][0] < 1 and not 0.5 <= row["eq_10"][0] <= 2.5


@pytest.mark.states("attention Figure 1", "attention Figure 3", "attention Figure 4", "attention Figure 5")
def test_the_settings_are_the_papers():
    """With those of test_setting: n = 20, d = 2000, |mu| = 20, T = 8, rho = eta = 0.2, alpha = 1e-4."""
    defaults = {f: {k: v.default for k, v in inspect.signature(f).parameters.items()} for f in (E.figure_1, E.figure_3)}
    assert defaults[E.figure_1]["setting"] == Setting(n=100, d=10_000, norm=20)
    assert [defaults[E.figure_3][k] for k in ("setting", "steps", "test_samples")] == [Setting(), 10_000, 1000]


@pytest.mark.states("attention Figure 5")
def test_fresh_loss_against_plain_sampling_where_attention_is_far_from_uniform():
    """Within 5 standard errors of the difference of two means of 20,000: false alarm 1e-6."""
    rng, n, setting = np.random.default_rng(0), 20_000, Setting(n=5, d=30, norm=4.0)
    sample, mu = draw_experiment(rng, setting, 1), signals(4.0, 30)
    M, gamma = gram(sample.X, nu := linear_head(mu, norm=1.0))
    rho = 0.02 * rng.standard_normal(gamma.shape) + 0.02 * (sample.roles == -sample.Y_star[:, None])
    law = fresh.law_from_gram(rho, M, gamma, sample.X @ mu.T, nu, mu)
    ours, accuracy = E.fresh_loss(rng, setting, law, n)
    plain = draw_experiment(rng, setting._replace(n=n), 0)
    f = output(plain.X, combine(sample.X, rho), nu)
    losses = np.log1p(np.exp(-plain.Y * f))
    assert abs(ours - losses.mean()) < 5 * np.sqrt(2 / n) * losses.std()
    assert abs(accuracy - np.mean(plain.Y * f > 0)) < 5 * np.sqrt(2 / n) * 0.5


def test_a_row_without_norms_is_named():
    with pytest.raises(ValueError, match="^norms: "):
        E.grid_row(0, Setting(), [], 1, 1)
