"""The sizes of a problem: what follows from them by hand, and that each is checked by its name."""

import math

import numpy as np
import pytest

from refimpl.attention.setting import Setting, checked, log_factor


@pytest.mark.states("attention Definition 3.1", "attention Assumption A1", "attention Assumption A2")
def test_what_follows_from_the_sizes_by_hand():
    setting = Setting(n=2, T=3, d=4, Sigma=0.5, delta=6 * math.exp(-4))
    assert (setting.trace, setting.sigma_max, setting.variance) == (2.0, 0.5, 0.5)
    assert setting.log == log_factor(2, 3, setting.delta) == pytest.approx(4, rel=1e-14)
    several = setting._replace(Sigma=[1.0, 3.0, 2.0, 0.0])
    assert (several.trace, several.sigma_max) == (6.0, 3.0)
    with pytest.raises(ValueError, match="^Sigma: "):
        several.variance


@pytest.mark.states("attention Definition 3.1")
def test_the_defaults_are_section_5s():
    sizes = dict(n=20, T=8, d=2000, norm=20, relevant=1, weak=2, weak_scale=0.2, noise_rate=0.2, alpha=1e-4)
    assert Setting()._asdict() == sizes | dict(delta=0.1, Sigma=1.0, lipschitz=None)


@pytest.mark.states("attention Definition 3.1")
def test_a_setting_in_range_is_left_as_it_is():
    setting = Setting(d=10**18, Sigma=2.0, lipschitz=3.0)
    assert checked(setting) == setting
    assert checked(setting._replace(d=1e18, n=20.0)) == setting and type(checked(setting._replace(d=1e18)).d) is int


@pytest.mark.states("attention Definition 3.1")
@pytest.mark.parametrize(
    "change, name",
    [
        (dict(n=0), "n"),
        (dict(n=2.5), "n"),
        (dict(T=2), "T"),
        (dict(T=7, relevant=5, weak=3), "T"),
        (dict(d=0), "d"),
        (dict(norm=0.0), "norm"),
        (dict(norm=np.inf), "norm"),
        (dict(relevant=0), "relevant"),
        (dict(weak=1), "weak"),
        (dict(weak_scale=-0.1), "weak_scale"),
        (dict(noise_rate=1.5), "noise_rate"),
        (dict(alpha=0.0), "alpha"),
        (dict(delta=0.0), "delta"),
        (dict(delta=1.0), "delta"),
        (dict(Sigma=np.ones(3)), "Sigma"),
        (dict(Sigma=-1.0), "Sigma"),
        (dict(lipschitz=0.0), "lipschitz"),
    ],
)
def test_a_number_out_of_range_is_named(change, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        checked(Setting()._replace(**change))
