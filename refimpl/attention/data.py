r"""Section 3.3: the data. Relevant tokens carry the class, weak ones both classes, the rest only noise.

sample      = draw(rng, setting)                             n samples of Definition 3.1
clean       = draw(rng, setting._replace(noise_rate=0))      of the clean law P*
sample      = draw_experiment(rng, setting)                  Section 5's n samples
train, test = streams(seed)                                  two independent generators
"""

import math
from typing import NamedTuple

import numpy as np

from refimpl.attention.setting import checked
from refimpl.checks import arrays, count, diagonal, labels, number

RELEVANT, IRRELEVANT = 2, 0  # roles; a weakly relevant token has its sign w_u = +1 or -1 as role


class Sample(NamedTuple):
    """n labelled token sequences, with what is hidden from the model.

    X      : (n, T, d) tokens
    Y      : (n,) observed labels, -1 or +1
    Y_star : (n,) clean labels Y*
    noise  : (n, T, d) the noise vectors epsilon_t
    roles  : (n, T) RELEVANT (R), +1 or -1 (W_{+1}, W_{-1}), IRRELEVANT (I)

    States: attention Definition 3.1
    """

    X: np.ndarray
    Y: np.ndarray
    Y_star: np.ndarray
    noise: np.ndarray
    roles: np.ndarray


def signals(norm, d):
    r"""Assumption A. $\mu_{+1} = \|\mu\| e_1$, $\mu_{-1} = \|\mu\| e_2$: orthogonal, of equal norm.

    norm : > 0.  d : >= 2.  Returns mu : (2, d).  Raises ValueError outside these ranges.

    States: attention Assumption A
    """
    return number("norm", norm, above=0) * np.eye(2, count("d", d, least=2))


def assumption_a(mu, Sigma=1.0, tolerance=1e-9):
    r"""Assumption A. $\|\mu_{+1}\| = \|\mu_{-1}\|$, $\langle\mu_{+1}, \mu_{-1}\rangle = 0$, and both again in $\Sigma$.

    An equality a = b holds up to rounding: its slack is tolerance times the norms' squares over |a - b|.

    mu : (2, d).  Sigma : the diagonal of the covariance, (d,) or one number.  tolerance : of rounding, > 0.
    Returns {condition: slack}, each >= 1 where it holds.  Raises ValueError for another shape.

    States: attention Assumption A
    """
    mu = arrays(mu=(mu, "2d"))
    mu = mu / (np.max(np.abs(mu)) or 1)  # a slack has no scale; nothing overflows
    Sigma = diagonal("Sigma", Sigma, mu.shape[-1])
    slack = {}
    for name, G in (("", mu @ mu.T), ("in Sigma", (mu * Sigma) @ mu.T)):
        allowed = tolerance * (G[0, 0] + G[1, 1])
        for condition, gap in (("equal norms", abs(G[0, 0] - G[1, 1])), ("orthogonal", abs(G[0, 1]))):
            slack[f"{condition} {name}".strip()] = float(allowed / gap) if gap > 0 else np.inf
    return slack


def draw(rng, setting, mu=None):
    r"""Definition 3.1. n samples from P, or from the clean P* where noise_rate is 0.

    $x_t = \mu_{Y^*} + \epsilon_t$ on R, $x_u = \rho\mu_{w_u} + \epsilon_u$ on W, $x_v = \epsilon_v$ on I;
    $\epsilon \sim N(0, \Sigma)$; the signs $w_u$ uniform given that both occur; $Y = -Y^*$ with probability
    $\eta$. R comes first, then W, then I: attention does not see positions.

    rng : numpy Generator.  setting : a Setting.
    mu : (2, d), signals that take the place of the setting's norm and d; signals(norm, d) where None.
    Returns a Sample.  Raises ValueError for a setting out of range.

    States: attention Definition 3.1; attention Remark 1
    """
    mu = signals(setting.norm, setting.d) if mu is None else arrays(mu=(mu, "2d"))
    s = checked(setting._replace(d=mu.shape[-1]))
    Y_star = rng.choice([-1.0, 1.0], s.n)
    Y = np.where(rng.random(s.n) < s.noise_rate, -Y_star, Y_star)
    roles = np.full((s.n, s.T), IRRELEVANT)
    roles[:, : s.relevant] = RELEVANT
    roles[:, s.relevant : s.relevant + s.weak] = _both_signs(rng, s.n, s.weak)
    return _with_tokens(rng, Y, Y_star, roles, mu, s)


def draw_experiment(rng, setting, flips=None):
    r"""Section 5. n samples with the roles of experiment_roles, $\Sigma = I$, and a fixed number of wrong labels.

    rng : numpy Generator.  setting : a Setting with |R| = 1, |W| = 2, Sigma = 1.
    flips : the wrong labels as in with_flips; $\lceil \eta n \rceil$ where None. The paper's test samples have none.
    Returns a Sample with the signals of signals(norm, d).  Raises ValueError for another setting, or too many flips.

    States: attention Definition 3.1
    """
    s = checked(setting)
    if (s.relevant, s.weak, s.variance) != (1, 2, 1):
        raise ValueError("relevant, weak, Sigma: must be 1, 2 and 1, as in Section 5")
    Y_star = rng.choice([-1.0, 1.0], s.n)
    # eta n up to rounding first: 0.3 times 10 is a little above 3
    Y = with_flips(rng, Y_star, math.ceil(round(s.noise_rate * s.n, 9)) if flips is None else flips)
    return _with_tokens(rng, Y, Y_star, experiment_roles(Y_star, s.T), signals(s.norm, s.d), s)


def with_flips(rng, Y_star, flips):
    r"""Definition 3.1. Labels Y of which a fixed number differ from $Y^*$.

    rng : numpy Generator, used where flips is a number.  Y_star : (n,).
    flips : a number, of samples at random places; or a pair, the first so many of the samples with $Y^* = +1$ and of
    those with $Y^* = -1$.
    Returns (n,).  Raises ValueError for more flips than samples.

    States: attention Definition 3.1
    """
    Y_star = labels("Y_star", arrays(Y_star=(Y_star, "n")))
    if np.ndim(flips) == 0:
        wrong = [rng.permutation(len(Y_star))[: _at_most(flips, len(Y_star), "samples")]]
    elif np.shape(flips) == (2,):
        members = [np.flatnonzero(Y_star == c) for c in (1, -1)]
        wrong = [m[: _at_most(k, len(m), f"samples with Y* = {c}")] for m, k, c in zip(members, flips, ("+1", "-1"))]
    else:
        raise ValueError(f"flips: must be a number or a pair, got {flips!r}")
    Y = Y_star.copy()
    Y[np.concatenate(wrong)] *= -1
    return Y


def experiment_roles(Y_star, T=8):
    r"""Section 5. The roles of draw_experiment: token 0 in R, 1 in $W_{Y^*}$, 2 in $W_{-Y^*}$, the rest in I.

    Y_star : (n,).  T : >= 3.  Returns (n, T).  Raises ValueError outside these ranges.

    States: attention Definition 3.1
    """
    Y_star = labels("Y_star", arrays(Y_star=(Y_star, "n")))
    roles = np.full((len(Y_star), count("T", T, least=3)), IRRELEVANT)
    roles[:, 0], roles[:, 1], roles[:, 2] = RELEVANT, Y_star, -Y_star
    return roles


def streams(seed):
    """Two independent generators (PCG64) from one seed: for the training and for the test samples.

    seed : an integer >= 0, or a sequence of them.  Returns (train, test).  Raises ValueError for anything else.

    States: attention Definition 3.1
    """
    seed = [count("seed", part, least=0) for part in (seed if isinstance(seed, (tuple, list)) else (seed,))]
    return tuple(np.random.Generator(np.random.PCG64(s)) for s in np.random.SeedSequence(seed).spawn(2))


def signal_of(Y_star, roles, weak_scale):
    r"""Definition 3.1. How much of each signal a token carries: 1 of $\mu_{Y^*}$ on R, $\rho$ of $\mu_w$ on $W_w$.

    Y_star : (n,).  roles : (n, T).  weak_scale : rho, >= 0.  Returns (n, T, 2), the last axis over the classes +1, -1.
    Raises ValueError where the axes do not agree, and for other labels or roles.

    States: attention Definition 3.1
    """
    Y_star, roles = arrays(Y_star=(Y_star, "n"), roles=(roles, "nT"))
    labels("Y_star", Y_star)
    if not np.all(np.isin(roles, (RELEVANT, 1, -1, IRRELEVANT))):
        raise ValueError(f"roles: must be {RELEVANT}, 1, -1 or {IRRELEVANT}")
    weak_scale = number("weak_scale", weak_scale, least=0)
    carried = np.zeros((*roles.shape, 2))
    for k, c in enumerate((1, -1)):
        carried[..., k] = (roles == RELEVANT) * (Y_star == c)[:, None] + weak_scale * (roles == c)
    return carried


def _with_tokens(rng, Y, Y_star, roles, mu, setting):
    noise = np.sqrt(diagonal("Sigma", setting.Sigma, setting.d)) * rng.standard_normal((*roles.shape, setting.d))
    return Sample(signal_of(Y_star, roles, setting.weak_scale) @ mu + noise, Y, Y_star, noise, roles)


def _at_most(flips, members, of):
    """So many flips as a count, where there are so many members."""
    if count("flips", flips, least=0) > members:
        raise ValueError(f"flips: {flips} of {members} {of}")
    return int(flips)


def _both_signs(rng, n, weak):
    """(n, weak) fair signs, each row drawn again until it has both."""
    w = rng.choice([-1, 1], (n, weak))
    while np.any(bad := np.abs(w.sum(axis=1)) == weak):
        w[bad] = rng.choice([-1, 1], (bad.sum(), weak))
    return w
