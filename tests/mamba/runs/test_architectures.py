"""The recurrences of Section 12 as layers: each one's output by hand, its gradient, its start, and what it learns."""

import numpy as np
import pytest

from refimpl.calculus.differences import gradient_error
from refimpl.mamba.model import Weights, loss_gradient
from refimpl.mamba.prompts import training_prompts
from refimpl.mamba.runs.architectures import errors, layers
from refimpl.mamba.runs.bench import train
from refimpl.mamba.runs.patterns import encode
from refimpl.mamba.setting import Setting, Testing

LAYERS = layers()
BLIND = "gated linear attention, keys without y"


# F of the prompt below, whose summands are 6, -12 and 0, at theta = 0: every sigma and Delta's e^-Delta are 1/2.
BY_HAND = {
    "Mamba": 6 / 8 - 12 / 4,
    "linear Transformer": 6 - 12,
    "Mamba-2": 6 / 4 - 12 / 2,
    "RetNet": 0.81 * 6 - 0.9 * 12,
    "gated retention": 6 / 4 - 12 / 2,
    "gated linear attention": 6 / 4 - 12 / 2,
    BLIND: 6 / 4 - 12 / 2,
    "own gate (printed)": 6 / 2 - 12 / 2,
    "Mamba-2, input step": np.log(2) * (6 / 4 - 12 / 2),
}


@pytest.mark.states("mamba Section 12 (Mamba-2)", "mamba Section 12 (RetNet)")
@pytest.mark.states("mamba Section 12 (gated retention)", "mamba Section 12 (gated linear attention)")
def test_every_layer_by_hand():
    P = np.array([[[1.0, 1.0], [2.0, -1.0], [1.0, 0.0]]])
    W_B, W_C = np.array([[2.0, 0.0]]), np.array([[3.0, 0.0]])
    assert set(BY_HAND) == set(LAYERS)
    for name, layer in LAYERS.items():
        drawn = layer.start(Setting(d=1, M1=0, M2=0, V=1), np.random.default_rng(0)).w
        theta = None if drawn is None else np.zeros_like(drawn)
        np.testing.assert_allclose(layer.forward(P, Weights(W_B, W_C, theta))[0], [BY_HAND[name]])
    half = layers(gamma=0.5)["RetNet"].forward(P, Weights(W_B, W_C, None))[0]
    np.testing.assert_allclose(half, [6 / 4 - 12 / 2])
    for name in ("gated retention", "gated linear attention"):  # tau = 1/2: sigma^2 = 1/4
        layer = layers(tau=0.5)[name]
        theta = np.zeros_like(layer.start(Setting(d=1, M1=0, M2=0, V=1), np.random.default_rng(0)).w)
        np.testing.assert_allclose(layer.forward(P, Weights(W_B, W_C, theta))[0], [6 / 16 - 12 / 4])


@pytest.mark.states("mamba Section 12 (Mamba-2)", "mamba Section 12 (gated linear attention)")
@pytest.mark.parametrize("name", LAYERS)
def test_the_loss_gradient_of_each_layer(name):
    """Against central differences; where W_B is blind to labels, but for its label column, which stays."""
    setting, rng = Setting(d=7, M1=3, M2=2, V=2, l=5, p_a=0.5, kappa_a=1.0, outlier_norm=2.0), np.random.default_rng(0)
    p, layer = training_prompts(rng, 6, setting), LAYERS[name]
    P, Psi = encode(p, setting), layer.start(setting, rng)
    Psi = Weights(*(W + 0.1 * rng.standard_normal(W.shape) for W in Psi[:2]), Psi.w)

    def mean_loss(Psi):
        return np.mean(np.maximum(0, 1 - p.z * layer.forward(P, Psi)[0]))

    got, F = layer.gradient(P, p.z, Psi)
    assert np.min(np.abs(1 - p.z * F)) > 1e-3  # away from the kink
    assert np.array_equal(F, layer.forward(P, Psi)[0])
    assert (got.w is None) == (Psi.w is None)
    if name == BLIND:
        assert np.all(got.W_B[:, -1] == 0)
        got.W_B[:, -1] = LAYERS["gated linear attention"].gradient(P, p.z, Psi)[0].W_B[:, -1]
    for field in [field for field in Psi._fields if getattr(Psi, field) is not None]:
        by, x = getattr(got, field), getattr(Psi, field)
        assert gradient_error(lambda x: mean_loss(Psi._replace(**{field: x})), by, x) < 1e-5


@pytest.mark.states("mamba Section 12 (RetNet)")
@pytest.mark.parametrize("name", ["Mamba", "linear Transformer"])
def test_the_layers_compared_with_are_those_of_eq_3(name):
    rng, layer = np.random.default_rng(0), LAYERS[name]
    P, z = rng.standard_normal((4, 6, 5)), np.array([1.0, -1, 1, -1])
    Psi = Weights(*rng.standard_normal((2, 4, 5)), rng.standard_normal(5) if name == "Mamba" else None)
    expected = loss_gradient(P, z, Psi)
    for got, right in zip(layer.gradient(P, z, Psi)[0], expected):
        assert got is right is None or np.allclose(got, right, rtol=1e-10, atol=1e-12)


def learned(name, setting, prompts, steps):
    """errors of a layer at its own step: exact counts of flipped outliers, a fifth and three fifths of a prompt."""
    tests = [Testing(alpha=alpha, counted=True) for alpha in (0.2, 0.6)]
    return errors(LAYERS[name], 0, setting._replace(eta=LAYERS[name].eta), tests, prompts, steps)


def test_trained_on_outliers_only_a_gate_before_the_example_survives_a_flipped_majority():
    """Below 1/2 each layer is right; above, only the one whose gate is before the example.

    Exact counts of flipped outliers, 4 and 12 of 20.
    """
    for name in ("Mamba-2", "RetNet", "gated retention", "Mamba-2, input step"):
        found, share = learned(name, Setting(), 500, 300)
        assert found[0] < 0.01
        assert found[1] < 0.01 if name == "Mamba-2, input step" else found[1] > 0.5
        assert (share[1] < share[0] / 4) == (name == "Mamba-2, input step")


@pytest.mark.states("mamba Section 12 (gated linear attention)")
def test_gates_on_the_keys_select_only_through_the_square_of_the_label():
    """y_i (W_B p_i)_c has a term in y_i^2 = 1: a sum of gates, each a product over later tokens, without a label."""
    for name, blind in (("gated linear attention", False), (BLIND, True)):
        found, _ = learned(name, Setting(d=9, M1=4, M2=2, V=2), 500, 600)
        assert found[0] < 0.01
        assert found[1] > 0.75 if blind else found[1] < 0.25


def test_a_layer_starts_as_section_2_says():
    setting = Setting(d=9, M1=3, M2=2, V=2, l=4)
    Psi, _ = train(LAYERS["gated linear attention"], setting, 0, np.random.default_rng(0))
    assert Psi.W_B.shape == (7, 8) and Psi.w.shape == (7, 8) and 0.2 < Psi.w.std() < 0.45  # 1/sqrt(d + 1) = .316
    assert train(LAYERS["Mamba-2"], Setting(), 0, np.random.default_rng(0))[0].w[-1] == 0
    wide, narrow = (train(LAYERS["Mamba"], Setting(d=d), 0, np.random.default_rng(0))[0].w for d in (199, 19))
    np.testing.assert_allclose(wide, narrow / np.sqrt(10))  # N(0, 1 / (d + 1)), the same draw


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(ValueError, match="^prompts: "):
        errors(LAYERS["RetNet"], 0, Setting(), [Testing(alpha=0.2)], 0, 0)
    with pytest.raises(ValueError, match="^tests: "):
        errors(LAYERS["RetNet"], 0, Setting(), [Testing(alpha=0.0)], 1, 1)
