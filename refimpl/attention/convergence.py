r"""Lemmas A.2-A.4, D.3, Theorem 4.2's overfitting part (E.1), and Section 4.3's two difficulties.

What descent ends in: one token a sample, the right one. Along a run (descent's weights s, or the flow's log s):

    left, right = clean_order(s, Y, Y_star, roles)          Lemma A.3: the relevant tokens stay in front
    left, right = noisy_order(s, Y, Y_star, roles)          Lemma A.4: those that match the wrong label do
    token, rest = picked_token(log_s)                       Lemma A.2: t*_i, and log(1 - s_{t*})
    left, right = limit_margins(...)                        Eqs. 204, 205: the margins that are left
"""

import numpy as np

from refimpl.attention.data import RELEVANT
from refimpl.attention.model import token_slopes
from refimpl.attention.scores import ScoreScale
from refimpl.attention.updates import noise_update_range
from refimpl.calculus.losses import logistic, logistic_derivative, margin
from refimpl.calculus.softmax import softmax
from refimpl.checks import arrays, count, labels


def clean_order(s, Y, Y_star, roles):
    r"""Lemma A.3. On clean samples, at every step, $\max_{t \in R} s_t \ge s_u$ for all u in W and I.

    s : (..., n, T) weights, or their logarithms.  Y, Y_star : (n,).  roles : (n, T).
    Returns $\max_R s$ and the largest s outside R, each (..., |C|).  Raises ValueError where the axes do not agree.

    States: attention Lemma A.3
    """
    return _order(s, Y, Y_star, roles, 1, lambda roles, Y: roles == RELEVANT)


def noisy_order(s, Y, Y_star, roles):
    r"""Lemma A.4. On noisy samples, at every step, $\max_{u \in W_{Y}} s_u \ge s_t$ for all other t.

    Arguments as in clean_order.  Returns $\max_{W_Y} s$ and the largest s outside $W_Y$, each (..., |N|).

    States: attention Lemma A.4
    """
    return _order(s, Y, Y_star, roles, -1, lambda roles, Y: roles == Y[:, None])


def _order(s, Y, Y_star, roles, sign, wanted):
    Y, Y_star, roles = arrays(Y=(Y, "n"), Y_star=(Y_star, "n"), roles=(roles, "nT"))
    s, chosen = np.asarray(s, dtype=float), labels("Y", Y) * labels("Y_star", Y_star) == sign
    s, inside = s[..., chosen, :], wanted(roles, Y)[chosen]
    return tuple(np.max(np.where(kept, s, -np.inf), axis=-1) for kept in (inside, ~inside))


def picked_token(log_s):
    r"""Lemma A.2. The token $t^*_i$ of largest weight, and $\log(1 - s_{t^*})$: it goes to minus infinity.

    log_s : (..., n, T), logarithms of the weights, T >= 2.  Returns tokens : (..., n), integers; rest : (..., n).

    States: attention Lemma A.2
    """
    log_s = arrays(log_s=(log_s, "...nT"))
    count("T", log_s.shape[-1], least=2)
    order = np.argsort(log_s, axis=-1)
    others = np.take_along_axis(log_s, order[..., :-1], axis=-1)  # increasing: the last is the runner-up
    return order[..., -1], others[..., -1] + np.log(np.sum(np.exp(others - others[..., -1:]), axis=-1))


def gradient_floor(X, z, gamma, Y):
    r"""Lemma D.3. $\|\nabla_p \hat L\| \ge c \sum_{i,t} \frac1n |\ell'_i| s_t |\gamma_t - f_i|$ (Eqs. 151-154).

    The gradient is $\sum_{i,t} a_{i,t} W x_t^{(i)}$, $a = \partial \hat L / \partial z$, W orthogonal. With $\sigma$
    the tokens' smallest singular value, $\|X^\top a\| \ge \sigma \|a\|_2 \ge \sigma \|a\|_1 / \sqrt{nT}$: c is positive
    where the tokens are independent, which needs $d \ge nT$; for fewer dimensions c = 0 and the lemma fails.

    X : (n, T, d).  z, gamma : (n, T) logits and scores.  Y : (n,).  Returns the two sides, floats.

    States: attention Lemma D.3
    """
    X, z, gamma, Y = arrays(X=(X, "nTd"), z=(z, "nT"), gamma=(gamma, "nT"), Y=(Y, "n"))
    a, tokens = token_slopes(z, gamma, Y).ravel(), X.reshape(-1, X.shape[-1])
    sigma = np.linalg.svd(tokens, compute_uv=False)[-1] if len(tokens) <= X.shape[-1] else 0.0
    return float(np.linalg.norm(a @ tokens)), float(sigma * np.sum(np.abs(a)) / np.sqrt(a.size))


def one_hot_floor(s, gamma):
    r"""Lemma D.3. $1 - \max_t s_t \le (T - 1) \sqrt{\epsilon'}$ with $\epsilon' = \max_t s_t |\gamma_t - f|$.

    Each token has $s_t \le \sqrt{\epsilon'}$ or $|\gamma_t - f| \le \sqrt{\epsilon'}$ (Eq. 155): the latter only one,
    where $2\sqrt{\epsilon'}$ is below all gaps of scores.

    s, gamma : (n, T), T >= 2.  Returns left, right : (n,), the latter infinite where the condition does not hold.

    States: attention Lemma D.3
    """
    s, gamma = arrays(s=(s, "nT"), gamma=(gamma, "nT"))
    count("T", s.shape[-1], least=2)
    f = np.sum(s * gamma, axis=-1, keepdims=True)
    root = np.sqrt(np.max(s * np.abs(gamma - f), axis=-1))
    smallest_gap = np.min(np.diff(np.sort(gamma, axis=-1), axis=-1), axis=-1)
    order = np.sort(s, axis=-1)
    return order[:, :-1].sum(axis=-1), np.where(2 * root < smallest_gap, (s.shape[-1] - 1) * root, np.inf)


def limit_margins(gamma, Y, Y_star, tokens, weak_scale, scale):
    r"""Theorem 4.2, E.1. With attention on $t^*_i$ alone, $Y_i f_i \ge a - e$ if clean, $\rho a - e$ if noisy.

    Eqs. 204 and 205. Lemma C.2 gives both, where $t^*_i$ is in R on clean samples (A.3) and in $W_{Y_i}$ on noisy ones
    (A.4). Where they are positive every label is fitted, the wrong ones by a margin of order $\rho$ only.

    gamma : (n, T).  Y, Y_star : (n,).  tokens : (n,), integers.  weak_scale : rho.  scale : a scores.ScoreScale.
    Returns the two sides, each (n,).

    States: attention Theorem 4.2 (overfitting)
    """
    gamma, Y, Y_star = arrays(gamma=(gamma, "nT"), Y=(Y, "n"), Y_star=(Y_star, "n"))
    left = labels("Y", Y) * np.take_along_axis(gamma, np.asarray(tokens)[:, None], axis=-1)[:, 0]
    a, e = scale
    return left, np.where(Y == labels("Y_star", Y_star), a, weak_scale * a) - e


def fit_times(s, gamma, Y):
    r"""Theorem 4.2, E.1. From when on every training label is fitted, $Y_i f_i > 0$ then and at all later moments.

    s : (K, n, T), weights in the order of time.  gamma : (n, T).  Y : (n,).
    Returns the first index of that last stretch; K where the last moment does not fit.

    States: attention Theorem 4.2 (overfitting)
    """
    s, gamma, Y = arrays(s=(s, "KnT"), gamma=(gamma, "nT"), Y=(labels("Y", Y), "n"))
    fitted = np.all(Y * np.einsum("kit,it->ki", s, gamma) > 0, axis=-1)
    return int(len(fitted) - np.argmin(fitted[::-1])) if not fitted.all() else 0


def one_hot_risk(gamma, Y, tokens):
    r"""Section 4.3. The risk and the share of wrong labels where attention is on one token a sample, whichever.

    All $T^n$ choices are limits in which the gradient vanishes; $|\ell'|$ does not, since $|f| \le \max|\gamma|$.

    gamma : (n, T).  Y : (n,).  tokens : (n,), integers.  Returns two floats.

    States: attention Section 4.3 (local minima)
    """
    gamma, Y = arrays(gamma=(gamma, "nT"), Y=(Y, "n"))
    margins = labels("Y", Y) * np.take_along_axis(gamma, np.asarray(tokens)[:, None], axis=-1)[:, 0]
    return float(np.mean(logistic(margins))), float(np.mean(margins <= 0))


def gradient_ceiling(X, z, gamma, Y):
    r"""Section 4.3. $\|\nabla_p \hat L\| \le \frac2n \sum_i |\ell'_i| \max_t \|x_t\| D_i (1 - \max_t s_t)$.

    $D = \max\gamma - \min\gamma$. $\sum_t s_t |\gamma_t - f| \le 2 D (1 - s_{t^*})$: the other tokens' mass times D,
    and $|\gamma_{t^*} - f| \le (1 - s_{t^*}) D$. It vanishes with attention on any token, so no multiple of the
    training error is below the gradient.

    Arguments as in gradient_floor.  Returns the two sides, floats.

    States: attention Section 4.3 (local minima)
    """
    X, z, gamma, Y = arrays(X=(X, "nTd"), z=(z, "nT"), gamma=(gamma, "nT"), Y=(Y, "n"))
    s = softmax(z)
    slopes = -logistic_derivative(margin(labels("Y", Y), np.sum(s * gamma, axis=-1)))
    rest = np.sort(s, axis=-1)[:, :-1].sum(axis=-1)
    size = np.max(np.linalg.norm(X, axis=-1), axis=-1)
    left = np.linalg.norm(np.tensordot(token_slopes(z, gamma, Y), X, axes=2))
    return float(left), float(2 * np.mean(slopes * size * np.ptp(gamma, axis=-1) * rest))


def update_ceiling(s, gamma, m):
    r"""Section 4.3. $|\Delta\rho_{i,t}| \le m_i D_i\, s_t (1 - s_t)$: a picked or a dropped token hardly moves.

    $s_t |\gamma_t - f| = s_t |\sum_u s_u (\gamma_t - \gamma_u)|$, and the other weights sum to $1 - s_t$.

    s, gamma : (n, T).  m : (n,) from updates.step_weights.  Returns the two sides, each (n, T).

    States: attention Section 4.3 (diminishing updates)
    """
    s, gamma, m = arrays(s=(s, "nT"), gamma=(gamma, "nT"), m=(m, "n"))
    left = m[:, None] * np.abs(s * (gamma - np.sum(s * gamma, axis=-1, keepdims=True)))
    return left, (m * np.ptp(gamma, axis=-1))[:, None] * s * (1 - s)


def memorisation_margin(s, Y, roles, weak_scale):
    r"""Lemma A.3's first term. $\min_{u \notin R} (s_{t'} B_{t'} - s_u B_u) \ge (1 - \rho) s_{t'} (1 - S_R)$.

    It is about a clean sample. $t'$ is the token of R with the largest weight, $S_R$ the attention on R, and B is
    Corollary D.1's: the left side says by how much the update of $t'$ is ahead of that of any token outside R.

    Assumed are $s_{t'} \ge s_u$ for all u, and $S_R \ge \rho$. By Corollary D.1 the difference is then
    $s_{t'}(1 - S_R) + s_u S_R + \rho (S_- - S_+)(s_{t'} - s_u)$, less $\rho s_u$ where u is in $W_Y$. The right side
    follows from $S_+ \le 1 - S_R$. While $S_R \le 1 - 1/4T$ it is at least $(1 - \rho)/4T^2$, since $s_{t'} \ge 1/T$:
    this is where (A'1) needs its $T^2$. Remark 5: once $s_{t'} \ge 1/2$ it is at least $(1 - \rho)/8T$, and T would do.

    s, roles : (n, T), of clean samples.  Y : (n,).  weak_scale : rho.  Returns the two sides, each (n,).

    States: attention Lemma A.3; attention Remark 5
    """
    s, roles, Y = arrays(s=(s, "nT"), roles=(roles, "nT"), Y=(Y, "n"))
    low, high = noise_update_range(s, np.ones_like(Y), Y, Y, roles, weak_scale, ScoreScale(1.0, 0.0))
    relevant = roles == RELEVANT
    top = np.argmax(np.where(relevant, s, -1), axis=-1)[:, None]
    gaps = np.take_along_axis(low, top, axis=-1) - high
    s_top, S_R = np.take_along_axis(s, top, axis=-1)[:, 0], np.sum(s * relevant, axis=-1)
    return np.min(np.where(relevant, np.inf, gaps), axis=-1), (1 - weak_scale) * s_top * (1 - S_R)
