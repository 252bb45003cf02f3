r"""Appendix B: every concentration bound behind a good run, with its constants written out.

    lower, upper = mean_norm_range(trace, sigma_max)        Lemma B.1, corrected
    lipschitz_tail  gaussian_tail  norm_tail                Lemmas B.2, B.4, Eq. 66: tails as functions of t
    norm_range  noise_product_bound  signal_product_bound   Lemmas B.3, B.5, B.6: over all nT tokens at once
    hoeffding_tail  class_counts  missing_sign              Lemmas B.7, B.8, B.9: counts

All of Appendix B in one file, as it is read. A tail above 1 says nothing; it is returned as it is. delta is the
failure probability of the whole of Lemma A.1: B.3, B.5, B.6 and B.8 take a quarter of it each.
"""

import math

import numpy as np

from refimpl.attention.setting import checked, log_factor
from refimpl.checks import count, finite, number


def mean_norm_range(trace, sigma_max):
    r"""Lemma B.1, corrected. $\sqrt{\mathrm{Tr}\,\Sigma - \sigma_{\max}} \le E\|x\| \le \sqrt{\mathrm{Tr}\,\Sigma}$,
    $x \sim N(0, \Sigma)$.

    The Poincare inequality of $N(0, \Sigma)$ is $\mathrm{Var} f \le E[\nabla f^\top \Sigma \nabla f]$: for the norm,
    whose gradient has length one, at most $\sigma_{\max}$. The proof takes that of $N(0, I)$ and gets
    $\sqrt{\mathrm{Tr}\,\Sigma - 1}$.

    trace, sigma_max : of Sigma, > 0.  Returns (lower, upper).

    States: attention Lemma B.1
    """
    trace = number("trace", trace, above=0)
    return math.sqrt(trace - number("sigma_max", sigma_max, above=0, most=trace)), math.sqrt(trace)


def lipschitz_tail(t, concavity, lipschitz=1.0):
    r"""Lemma B.2 (rebuilt), Remark 3. $\Pr[|f - Ef| \ge t] \le 2 \exp(-\gamma t^2 / (4 L^2))$, f L-Lipschitz.

    For a law $e^{-\psi}$ with $\psi$ strongly convex, of parameter $\gamma$ = concavity: log_concavity(Sigma) for
    $N(0, \Sigma)$, where the sharper $2 \exp(-\gamma t^2 / (2 L^2))$ holds too. One-sided, the 2 in front falls away.

    t : >= 0, any shape.  concavity, lipschitz : > 0.  Returns the shape of t.

    States: attention Lemma B.2; attention Remark 3
    """
    gamma, L = number("concavity", concavity, above=0), number("lipschitz", lipschitz, above=0)
    return 2 * np.exp(-gamma * finite("t", t) ** 2 / (4 * L**2))


def log_concavity(Sigma):
    r"""Remark 3. The parameter of $N(0, \Sigma)$: $\sigma_{\min}(\Sigma^{-1}) = 1/\sigma_{\max}(\Sigma)$.

    Sigma : its diagonal, > 0.  Returns a float.

    States: attention Remark 3
    """
    return 1 / number("Sigma", np.max(finite("Sigma", Sigma)), above=0)


def norm_range(setting):
    r"""Lemma B.3. $\sqrt{\mathrm{Tr}\,\Sigma - \sigma_{\max}} - t \le \|\epsilon\| \le \sqrt{\mathrm{Tr}\,\Sigma} +
    t$, all nT, with probability $1 - \delta/4$.

    $t = 2 \sqrt{\sigma_{\max} \log(8Tn/\delta)}$ makes each tail of Lemma B.2 $\delta/(4Tn)$; B.1 bounds the mean.

    setting : a Setting.  Returns (lower, upper).

    States: attention Lemma B.3
    """
    s = checked(setting)
    lower, upper = mean_norm_range(s.trace, s.sigma_max)
    t = 2 * math.sqrt(s.sigma_max * (s.log + math.log(8)))
    return lower - t, upper + t


def norm_constant(C, sigma_max):
    r"""Lemma B.3. $C' = \frac12 \sqrt{C / (2\sigma_{\max})}$: then $t \le \sqrt{\mathrm{Tr}\,\Sigma} / C'$.

    From $\mathrm{Tr}\,\Sigma \ge C \log(Tn/\delta)$ and $\log(8Tn/\delta) \le 2 \log(Tn/\delta)$, that is $Tn/\delta
    \ge 8$. The lower side says something only where C' > 1: $C > 8\sigma_{\max}$.

    C, sigma_max : > 0.  Returns a float.

    States: attention Lemma B.3
    """
    return math.sqrt(number("C", C, above=0) / (2 * number("sigma_max", sigma_max, above=0))) / 2


def gaussian_tail(t, sigma):
    r"""Lemma B.4. $\Pr[|x| \ge t] \le 2 \exp(-t^2 / (2\sigma^2))$ for $x \sim N(0, \sigma^2)$.

    t : >= 0, any shape.  sigma : > 0.  Returns the shape of t.

    States: attention Lemma B.4
    """
    return 2 * np.exp(-(finite("t", t) ** 2) / (2 * number("sigma", sigma, above=0) ** 2))


def norm_tail(v, trace):
    r"""Eq. 66. $\Pr[\|\epsilon\| \ge v] \le 2 \exp(-v^2 / (2 \mathrm{Tr}\,\Sigma))$, $\epsilon \sim N(0, \Sigma)$.

    $E\|\epsilon\|^{2k}$ is convex in the variances, so largest, for a given trace, where one of them has it all:
    $(2k - 1)!!\, \mathrm{Tr}^k$. Summed, $E\cosh(h\|\epsilon\|) \le \exp(h^2 \mathrm{Tr}/2)$; and $\cosh(hv) \ge
    e^{hv}/2$, $h = v/\mathrm{Tr}$. The proof goes through $\|\epsilon\|_1$, which has no such tail.

    v : >= 0, any shape.  trace : of Sigma, > 0.  Returns the shape of v.

    States: attention Eq. 66
    """
    return 2 * np.exp(-(finite("v", v) ** 2) / (2 * number("trace", trace, above=0)))


def noise_product_bound(trace_square, n, T, delta):
    r"""Lemma B.5. $|\langle\epsilon, \epsilon'\rangle| \le 2 \sqrt{\mathrm{Tr}\,\Sigma^2} \log(8(Tn)^2/\delta)$, all
    pairs, with probability $1 - \delta/4$.

    With L that logarithm, $v^2 = 2\mathrm{Tr}\,\Sigma^2 L$ and $w^2 = 2v^2 L$: by Eq. 66 $\|\Sigma^{1/2}\epsilon'\| <
    v$ up to $2e^{-L}$; given that, by B.4, the product is below w up to $2e^{-L}$. $(Tn)^2/2$ pairs of $4e^{-L}$ make
    $\delta/4$.

    trace_square : $\mathrm{Tr}\,\Sigma^2$, > 0.  n, T : >= 1.  delta : in (0, 1).  Returns a float.

    States: attention Lemma B.5
    """
    L = log_factor(n, T, delta) + math.log(8 * T * n)
    return 2 * math.sqrt(number("trace_square", trace_square, above=0)) * L


def noise_product_constant(sigma_max):
    r"""Lemma B.5. $c_1 = 6\sqrt{\sigma_{\max}}$, for the form $c_1 \sqrt{\mathrm{Tr}\,\Sigma} \log(Tn/\delta)$, where
    $Tn/\delta \ge 8$.

    $8(Tn)^2/\delta \le (Tn/\delta)^3$ and $\mathrm{Tr}\,\Sigma^2 \le \sigma_{\max} \mathrm{Tr}\,\Sigma$.

    sigma_max : > 0.  Returns a float.

    States: attention Lemma B.5
    """
    return 6 * math.sqrt(number("sigma_max", sigma_max, above=0))


def signal_product_bound(norm_Sigma, n, T, delta):
    r"""Lemma B.6. $|\langle\epsilon, \mu_c\rangle| \le \|\mu\|_\Sigma \sqrt{2 \log(16Tn/\delta)}$, all tokens, both
    c, with probability $1 - \delta/4$.

    By B.4, 2Tn times $2 e^{-\log(16Tn/\delta)}$.

    norm_Sigma : $\|\mu\|_\Sigma = \sqrt{\mu^\top \Sigma \mu}$, > 0.  n, T : >= 1.  delta : in (0, 1).  Returns a float.

    States: attention Lemma B.6
    """
    return number("norm_Sigma", norm_Sigma, above=0) * math.sqrt(2 * (log_factor(n, T, delta) + math.log(16)))


def signal_product_constant(sigma_max):
    r"""Lemma B.6. $c_2 = \sqrt{14\sigma_{\max}/3}$, for the form $c_2 \|\mu\| \sqrt{\log(Tn/\delta)}$, where
    $Tn/\delta \ge 8$.

    $16 \le (Tn/\delta)^{4/3}$, so $2 \log(16Tn/\delta) \le \frac{14}{3} \log(Tn/\delta)$.

    sigma_max : > 0.  Returns a float.

    States: attention Lemma B.6
    """
    return math.sqrt(14 * number("sigma_max", sigma_max, above=0) / 3)


def hoeffding_tail(w, n):
    r"""Lemma B.7. $\Pr[|\frac1n \sum_i X_i - E X| \ge w] \le 2 \exp(-2nw^2)$ for independent $X_i$ of one law on [0,
    1].

    w : >= 0, any shape.  n : >= 1.  Returns the shape of w.

    States: attention Lemma B.7
    """
    return 2 * np.exp(-2 * count("n", n) * finite("w", w) ** 2)


def class_counts(n, noise_rate, margin):
    r"""Lemma B.8. The ranges $(\frac{1-\eta}{2} \pm c')n$ of $|C_{\pm1}|$ and $(\frac\eta2 \pm c')n$ of $|N_{\pm1}|$.

    n : >= 1.  noise_rate : eta in [0, 1].  margin : c' > 0.  Returns ((lower, upper) for C, (lower, upper) for N).

    States: attention Lemma B.8
    """
    n, eta, c = count("n", n), number("noise_rate", noise_rate, 0, 1), number("margin", margin, above=0)
    return tuple((n * (rate - c), n * (rate + c)) for rate in ((1 - eta) / 2, eta / 2))


def samples_needed(margin, delta):
    r"""Lemma B.8. From $n \ge \log(32/\delta) / (2c'^2)$ on all four counts are in range with probability $1 -
    \delta/4$.

    Hoeffding's $2 \exp(-2nc'^2) \le \delta/16$ for each. (A5) has it only for a C that depends on c', of order
    $c'^{-2}$.

    margin : c' > 0.  delta : in (0, 1).  Returns a float.

    States: attention Lemma B.8
    """
    return math.log(32 / number("delta", delta, above=0, most=1)) / (2 * number("margin", margin, above=0) ** 2)


def missing_sign(n, weak):
    r"""Lemma B.9. The probability that of n samples one has no token in $W_{+1}$ or none in $W_{-1}$, signs drawn
    freely.

    Exactly $1 - (1 - 2^{1 - \zeta_W T})^n$, at most $n 2^{1 - \zeta_W T}$ by the union bound: for weak = 1 it is
    certain.

    n, weak : >= 1, weak = $\zeta_W T$.  Returns (exact, bound).

    States: attention Lemma B.9
    """
    n, one = count("n", n), 2.0 ** (1 - count("weak", weak))
    return -math.expm1(n * math.log1p(-one)) if one < 1 else 1.0, n * one


def weak_tokens_needed(n, delta):
    r"""Lemma B.9. $\zeta_W T \ge 2 \log(n/\delta) + 1$ is enough: $n (\delta/n)^{2 \log 2} \le \delta$.
    $\log_2(n/\delta) + 1$ is, too.

    n : >= 1.  delta : in (0, 1).  Returns (the printed one, the sharp one).

    States: attention Lemma B.9
    """
    log = log_factor(n, 1, delta)
    return 2 * log + 1, log / math.log(2) + 1
