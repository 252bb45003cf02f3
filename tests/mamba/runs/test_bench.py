"""The bench: errors of any layer by its own forward, on the same prompts; training as Section 8.3 says."""

import numpy as np
import pytest

from refimpl.mamba.prompts import stream, test_prompts
from refimpl.mamba.runs.architectures import layers
from refimpl.mamba.runs.bench import LINEAR, MAMBA, Layer, pair, test_errors, train
from refimpl.mamba.runs.patterns import encode, forward
from refimpl.mamba.setting import UNSEEN, Setting, Testing
from refimpl.mamba.tasks import all_tasks
from refimpl.mamba.training import error


def constant(P, Psi):
    """A layer that says Psi, whatever the prompt."""
    return (np.full(len(P), Psi),)


@pytest.mark.states("mamba Section 2 (generalisation error)")
def test_errors_of_constant_answers_by_hand():
    """+1 errs where z = -1, -1 where z = 1, and 0 always; 2,500 prompts in pieces of 1,000, 1,000 and 500."""
    layer = Layer(None, constant, None, 1.0)
    models = [(layer, answer) for answer in (1.0, -1.0, 0.0)]
    plus, minus, zero = test_errors(models, Setting(), Testing(), 2500, np.random.default_rng(0), chunk=1000)
    rng = np.random.default_rng(0)
    z = np.concatenate([test_prompts(rng, n, Setting(), Testing()).z for n in (1000, 1000, 500)])
    assert plus == pytest.approx(np.mean(z == -1)) and minus == pytest.approx(np.mean(z == 1)) and zero == 1


@pytest.mark.states("mamba Section 2 (generalisation error)", "mamba Section 12 (gated retention)")
def test_a_layers_own_forward_gives_its_error():
    """A trained gated retention errs by its own forward; by Eq. 3, with the same weights and prompts, otherwise."""
    layer, testing = layers()["gated retention"], Testing(mixture=UNSEEN, alpha=0.45)
    setting = Setting(eta=layer.eta)
    Psi, _ = train(layer, setting, 100, np.random.default_rng(0))
    p = test_prompts(np.random.default_rng(1), 400, setting, testing)
    P = encode(p, setting, testing.outliers(setting))
    (got,) = test_errors([(layer, Psi)], setting, testing, 400, np.random.default_rng(1))
    assert got == error(layer.forward(P, Psi)[0], p.z)
    assert abs(got - error(forward(P, Psi)[0], p.z)) > 0.05


@pytest.mark.states("mamba Figure 2", "mamba Section 2 (generalisation error)")
def test_errors_are_those_of_the_prompts_drawn_by_hand():
    setting = Setting()
    testing = Testing(all_tasks(6), UNSEEN, 2.0, K=1.0, labelling="random")
    models = pair(setting, [np.random.default_rng(0), np.random.default_rng(0)], (100, 100), (1.0, 0.01))
    got = test_errors(models, setting, testing, 400, np.random.default_rng(5))
    p = test_prompts(np.random.default_rng(5), 400, setting, testing)
    P = encode(p, setting, 2.0 * 3.0 * np.array(UNSEEN))
    np.testing.assert_allclose(got, [error(forward(P, Psi)[0], p.z) for _, Psi in models], rtol=1e-14)
    assert got[0] != got[1]


@pytest.mark.states("mamba Figure 2")
def test_a_pair_is_mamba_and_the_linear_transformer_each_with_its_steps_and_eta():
    setting = Setting(B=16)
    (first, mamba), (second, linear) = pair(setting, [np.random.default_rng(s) for s in (0, 1)], (5, 3), (0.5, 0.02))
    assert first is MAMBA and second is LINEAR and mamba.w is not None and linear.w is None
    for layer, Psi, seed, steps, eta in ((MAMBA, mamba, 0, 5, 0.5), (LINEAR, linear, 1, 3, 0.02)):
        alone, _ = train(layer, setting._replace(eta=eta), steps, np.random.default_rng(seed))
        assert all(x is y is None or np.array_equal(x, y) for x, y in zip(Psi, alone))


@pytest.mark.states("mamba Section 8.3 (algorithm)", "mamba Section 12 (Mamba-2)")
@pytest.mark.parametrize("name", ["Mamba", "Mamba-2"])
@pytest.mark.parametrize("eta", [None, 0.03])
def test_a_layers_first_step_has_its_eta(name, eta):
    """The step is the Setting's: the layer's own, once it is put there, or another."""
    layer = layers()[name]
    eta = layer.eta if eta is None else eta
    assert eta in ({"Mamba": 1.0, "Mamba-2": 0.3}[name], 0.03)
    setting = Setting(eta=eta, B=8)
    start, after = (train(layer, setting, steps, np.random.default_rng(0))[0] for steps in (0, 1))
    drawn = np.random.default_rng(np.random.default_rng(0).bit_generator.seed_seq.spawn(2)[1])
    p = next(stream(drawn, 8, setting))
    step, _ = layer.gradient(encode(p, setting), p.z, start)
    for x, y, g in zip(start, after, step):
        np.testing.assert_allclose(y, x - eta * g, rtol=1e-12)


def test_no_prompts_are_refused():
    for count in (dict(prompts=0), dict(prompts=10, chunk=0)):
        (name,) = (key for key, value in count.items() if value == 0)
        with pytest.raises(ValueError, match=f"^{name}: "):
            test_errors([], Setting(), Testing(), rng=np.random.default_rng(0), **count)
