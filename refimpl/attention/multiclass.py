r"""Section F: K classes. A head row for each class, and the cross-entropy of the outputs' softmax.

    F        = outputs(X, p, nu)                  F_k = nu_k^T X^T S(X W^T p)
    g        = loss_gradient_p(X, Y, p, nu)       sum_k (P_k - 1{Y = k}) in place of l' Y
    lam, rho = recursion(sample, mu, nu, ...)     p = sum_c lam_c W mu_c + sum_{i,t} rho_{i,t} W epsilon_t
    result   = overfit(seed)                      a run that overfits benignly, K = 3

Classes are 0 ... K - 1. K = 2 is the binary model with $\nu = \nu_0 - \nu_1$, class 0 for +1 and class 1 for -1.
"""

from math import comb

import numpy as np

from refimpl.attention.data import Sample, streams
from refimpl.attention.head import simplex_head
from refimpl.attention.model import attention
from refimpl.attention.setting import Setting, checked
from refimpl.calculus.losses import cross_entropy, cross_entropy_gradient
from refimpl.calculus.softmax import softmax, softmax_jvp
from refimpl.checks import arrays, count, diagonal, matrix, number

RELEVANT, IRRELEVANT = -1, -2  # roles; a weakly relevant token has its class w_u, 0 ... K - 1, as role


def draw(rng, setting, mu):
    r"""Section F. n samples of Definition 3.1 with K classes.

    $x_t = \mu_{Y^*} + \epsilon_t$ on R, $x_u = \rho\mu_{w_u} + \epsilon_u$ on W, $x_v = \epsilon_v$ on I;
    the classes $w_u$ uniform given that each occurs; with probability $\eta$ the label is another one, uniformly.

    rng : numpy Generator.  setting : a Setting, $|W| \ge K$.
    mu : (K, d), K >= 2, signals that take the place of the setting's norm and d.
    Returns a data.Sample whose Y, Y_star (n,) are classes and whose roles are this module's.  Raises ValueError.

    States: attention Section F
    """
    mu, (K, d) = arrays(mu=(mu, "Kd")), np.shape(mu)
    if K < 2:
        raise ValueError(f"mu: needs at least two classes, got shape {mu.shape}")
    setting, weak = checked(setting._replace(d=d)), count("weak", setting.weak, least=K)
    Y_star = rng.integers(K, size=setting.n)
    moved = rng.random(setting.n) < setting.noise_rate
    Y = (Y_star + moved * rng.integers(1, K, size=setting.n)) % K
    roles = np.full((setting.n, setting.T), IRRELEVANT)
    roles[:, : setting.relevant] = RELEVANT
    roles[:, setting.relevant : setting.relevant + weak] = [_every_class(rng, weak, K) for _ in range(setting.n)]
    noise = np.sqrt(diagonal("Sigma", setting.Sigma, d)) * rng.standard_normal((setting.n, setting.T, d))
    return Sample(_signal_of(Y_star, roles, setting.weak_scale, K) @ mu + noise, Y, Y_star, noise, roles)


def outputs(X, p, nu, W=None):
    r"""Section F. $F_k = \nu_k^\top X^\top S(X W^\top p)$.

    X : (..., T, d).  p : (d,).  nu : (K, d), the columns of $W_V$.  W : (d, d), the identity where None.
    Returns (..., K).  Raises ValueError where the axes do not agree.

    States: attention Section F
    """
    X, p, nu = arrays(X=(X, "...Td"), p=(p, "d"), nu=(nu, "Kd"))
    return np.einsum("...t,...td,kd->...k", attention(X, p, W), X, nu, optimize=True)


def loss(X, Y, p, nu, W=None):
    r"""Section F. $\hat L = -\frac1n \sum_i \log P_{Y_i}$ with $P = S(F(X_i))$.

    X : (n, T, d).  Y : (n,), classes.  p : (d,).  nu : (K, d).  W : (d, d).  Returns a float.

    States: attention Section F
    """
    X, Y = arrays(X=(X, "nTd"), Y=(Y, "n"))
    return float(np.mean(cross_entropy(outputs(X, p, nu, W), Y)))


def loss_gradient_p(X, Y, p, nu, W=None):
    r"""Section F. $\nabla_p \hat L = \frac1n \sum_i \sum_k (P_k - 1\{Y_i = k\}) W X_i^\top J(s_i) X_i \nu_k$.

    With $z = X W^\top p$ and $\gamma_k = X\nu_k$: $\partial F_k/\partial z = J(s)\gamma_k$, and
    $\partial\hat L/\partial F_k = (P_k - 1\{Y_i = k\})/n$.
    As $\sum_k P_k = 1$ the sum over k is $-\sum_{k \ne Y} P_k (\nu_Y - \nu_k)$: each wrong class with its own weight.

    Arguments as in loss.  Returns (d,).

    States: attention Section F
    """
    X, Y, p, nu = arrays(X=(X, "nTd"), Y=(Y, "n"), p=(p, "d"), nu=(nu, "Kd"))
    q = p if W is None else p @ matrix(W, p=p)
    v = np.tensordot(token_slopes(X @ q, X @ nu.T, Y), X, axes=2)
    return v if W is None else W @ v


def loss_gradient_nu(X, Y, p, nu, W=None):
    r"""Section F. $\nabla_{\nu_k} \hat L = \frac1n \sum_i (P_k - 1\{Y_i = k\}) X_i^\top s_i$.

    Arguments as in loss.  Returns (K, d).

    States: attention Section F; attention Lemma G.1
    """
    X, Y = arrays(X=(X, "nTd"), Y=(Y, "n"))
    slope = cross_entropy_gradient(outputs(X, p, nu, W), Y) / len(Y)
    return np.einsum("ik,it,itd->kd", slope, attention(X, p, W), X, optimize=True)


def token_slopes(z, gamma, Y):
    r"""Section F. $\frac1n \sum_k (P_k - 1\{Y_i = k\}) (J(s_i)\gamma^{(i)}_k)_t$: the risk's derivative in each logit.

    J is linear, so the classes are summed first: $J(s) \sum_k (P_k - 1\{Y = k\}) \gamma_k$.

    z : (n, T).  gamma : (n, T, K), $\gamma_{t,k} = \nu_k^\top x_t$.  Y : (n,), classes.  Returns (n, T).

    States: attention Section F
    """
    z, gamma, Y = arrays(z=(z, "nT"), gamma=(gamma, "nTK"), Y=(Y, "n"))
    s = softmax(z)
    slope = cross_entropy_gradient(np.einsum("it,itk->ik", s, gamma), Y) / len(Y)
    return softmax_jvp(s, np.einsum("ik,itk->it", slope, gamma))


def recursion(sample, mu, nu, weak_scale, alpha, steps, record=None):
    r"""Section F. Lemma D.1 with K classes: gradient descent from p = 0 in $\lambda, \rho$ alone.

    $\Delta\rho_{i,t} = \frac\alpha n \sum_k (1\{Y_i = k\} - P_k) s_t (\gamma_{t,k} - F_k)$; each row sums to zero.
    $\Delta\lambda_c = \sum_{i: Y^*_i = c} \sum_R \Delta\rho_{i,t} + \rho \sum_i \sum_{W_c} \Delta\rho_{i,u}$.

    sample : from draw.  mu, nu : (K, d).  weak_scale : rho, as it was drawn with.  alpha : > 0.  steps : >= 0.
    record : called as record(tau, lam, rho), tau = 0 ... steps.
    Returns lam : (K,), rho : (n, T): $p = \sum_c \lambda_c W\mu_c + \sum \rho_{i,t} W\epsilon_t$ for any orthogonal W.

    States: attention Section F
    """
    X, noise, mu, nu = arrays(X=(sample.X, "nTd"), noise=(sample.noise, "nTd"), mu=(mu, "Kd"), nu=(nu, "Kd"))
    gamma, x_mu, x_noise = X @ nu.T, X @ mu.T, np.tensordot(X, noise, axes=(2, 2))
    carried, alpha = _signal_of(sample.Y_star, sample.roles, weak_scale, len(mu)), number("alpha", alpha, above=0)
    lam, rho = np.zeros(len(mu)), np.zeros(X.shape[:2])
    for tau in range(count("steps", steps, least=0) + 1):
        if record is not None:
            record(tau, lam, rho)
        if tau == steps:
            return lam, rho
        delta_rho = -alpha * token_slopes(x_mu @ lam + np.tensordot(x_noise, rho, axes=2), gamma, sample.Y)
        lam, rho = lam + np.einsum("it,itc->c", delta_rho, carried), rho + delta_rho


def overfit(seed, setting=None, K=3, steps=3000, fresh=2000):
    r"""Section F. A run from p = 0 and what it fits and predicts, $\Sigma = I$.

    Noise is isotropic, so a fresh sample is drawn in the span of $W^\top p$ and the signals alone, exactly.

    seed : an integer >= 0.  setting : a Setting with Sigma = 1; where None, Section 5's with |W| = K and alpha = 1e-3.
    K : classes.  steps : of gradient descent.  fresh : test samples.
    Returns {name: number}: accuracy on the training and on fresh clean samples, at the end and at p = 0 (uniform
    attention); wrong labels and those of them fitted; the least $\lambda_c$; the attention that R gets on fresh
    samples, |R|/T at p = 0.

    States: attention Section F
    """
    setting = checked(Setting(weak=count("K", K, least=2), alpha=1e-3) if setting is None else setting)
    if setting.variance != 1:
        raise ValueError(f"Sigma: must be 1, got {setting.Sigma}")
    mu = setting.norm * np.eye(K, count("d", setting.d, least=K))
    rng, rng_fresh = streams(seed)
    sample, nu = draw(rng, setting, mu), simplex_head(mu)
    lam, rho = recursion(sample, mu, nu, setting.weak_scale, setting.alpha, steps)
    p = lam @ mu + np.tensordot(rho, sample.noise, axes=2)
    Q = np.linalg.qr(np.vstack((mu, p)).T)[0]
    test = draw(rng_fresh, setting._replace(n=fresh, noise_rate=0), mu @ Q)
    result = {}
    for when, end in (("", p), (" at p = 0", 0 * p)):
        right = outputs(sample.X, end, nu).argmax(axis=-1) == sample.Y
        result["train" + when] = float(right.mean())
        result["test" + when] = float(np.mean(outputs(test.X, end @ Q, nu @ Q).argmax(axis=-1) == test.Y))
        result["wrong labels fitted" + when] = int(np.sum(right & (sample.Y != sample.Y_star)))
    result["wrong labels"] = int(np.sum(sample.Y != sample.Y_star))
    result["attention on R"] = float(np.mean(np.sum(attention(test.X, p @ Q)[:, : setting.relevant], axis=-1)))
    return {**result, "least lambda": float(lam.min())}


def _signal_of(Y_star, roles, weak_scale, K):
    r"""(n, T, K): how much of each signal a token carries, 1 of $\mu_{Y^*}$ on R, $\rho$ of $\mu_c$ on $W_c$."""
    Y_star, roles = arrays(Y_star=(Y_star, "n"), roles=(roles, "nT"))
    classes = np.arange(K)
    own = Y_star[:, None, None] == classes
    return (roles == RELEVANT)[..., None] * own + weak_scale * (roles[..., None] == classes)


def _every_class(rng, weak, K):
    """`weak` classes, uniform given that each of the K occurs: drawn one by one, by the number of completions."""
    result, missing = [], set(range(K))
    for left in range(weak - 1, -1, -1):
        ways = [_covering(left, len(missing - {c}), K) for c in range(K)]
        result.append(int(rng.choice(K, p=[w / sum(ways) for w in ways])))
        missing.discard(result[-1])
    return result


def _covering(left, j, K):
    """How many sequences of K classes, `left` long, contain j given ones: inclusion and exclusion."""
    return sum((-1) ** i * comb(j, i) * (K - i) ** left for i in range(j + 1))
