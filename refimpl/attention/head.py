r"""Section 3.4: the fixed linear head $\nu \propto \mu_{+1} - \mu_{-1}$."""

import numpy as np

from refimpl.checks import arrays, number


def linear_head(mu, norm=None):
    r"""Section 3.4. $\nu = \kappa(\mu_{+1} - \mu_{-1})$ with $\|\nu\|$ = norm; where None, Theorem 4.2's $1/\|\mu\|$.

    mu : (2, d).  norm : > 0.  Returns (d,).  Raises ValueError for another shape or range.

    States: attention Section 3.4 (gradient descent)
    """
    mu = arrays(mu=(mu, "2d"))
    norm = 1 / np.linalg.norm(mu[0]) if norm is None else number("norm", norm, above=0)
    nu = mu[0] - mu[1]
    return norm / np.linalg.norm(nu) * nu
