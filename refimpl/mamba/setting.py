r"""Sections 2 to 4.1: the sizes of a problem, and Definition 2: how its test prompts differ from those of training.

    setting = Setting()._replace(p_a=0.4)                         Section 4.1's experiment, one number changed
    testing = Testing(mixture=UNSEEN, kappa_a=4.0, alpha=0.6)     the rest as in training

Data, training, theory and figures take these two. Where the paper is silent, the default is ours, and said so.
"""

from typing import NamedTuple

import numpy as np

from refimpl.checks import arrays, count, number
from refimpl.mamba.tasks import cycle, pairs

BELOW_ONE = 1 - 1e-12  # the largest p_a, alpha and epsilon that count as below 1

# Section 4.1: the unseen outliers v'_1, v'_2, v'_3 as mixtures of the training ones; L = 0.3.
UNSEEN = ((0.7, 0.6, -0.4), (0.4, 0.7, -0.6), (-0.7, 0.5, 0.5))


class Setting(NamedTuple):
    r"""Sections 2 to 4.1. The numbers of a problem; the defaults are Section 4.1's.

    d : dimension of x.  M1, M2, V : how many relevant, irrelevant and outlier patterns.
    beta : norm of the relevant and irrelevant patterns.  outlier_norm : of the outliers; ours, the paper is silent.
    kappa_a : magnitude of an outlier in a training prompt.  p_a : its probability in each example.
    l : examples in a training prompt, $l_{tr}$.  K : $\kappa \sim U(-K, K)$; ours, the paper is silent.
    delta : the initial diagonal of W_B and W_C.  eta : step.  B : prompts in a batch.  epsilon : the error aimed
    at.
    tasks : (n, 2) training tasks $\mathcal T_{tr}$; None for the cycle, Condition 1's construction.

    States: mamba Section 8.3 (algorithm); mamba Theorem 1; mamba Theorem 3
    """

    d: int = 30
    M1: int = 6
    M2: int = 10
    V: int = 3
    beta: float = 3.0
    kappa_a: float = 2.0
    p_a: float = 0.6
    l: int = 20
    delta: float = 0.2
    K: float = 0.5
    outlier_norm: float = 3.0
    eta: float = 1.0
    B: int = 128
    epsilon: float = 0.1
    tasks: object = None

    def outliers(self):
        r"""Eq. 4. $\kappa_a v_s^*$ in the unit outliers, one a row: (V, V)."""
        return self.kappa_a * self.outlier_norm * np.eye(self.V)

    def training_tasks(self):
        """Condition 1. The training tasks: (n, 2)."""
        return cycle(self.M1) if self.tasks is None else pairs(self.tasks, self.M1)


class Testing(NamedTuple):
    r"""Definition 2. What test prompts are made of; None stands for "as in training".

    tasks : (n, 2).  mixture : (S, V), row s the $\lambda_i$ of $v_s' = \sum_i \lambda_i v_i^*$.
    kappa_a : $\kappa_a'$.  l : $l_{ts}$.  K : $K'$.
    alpha : in [0, 1), the probability of an outlier in each example, or, if counted, the exact share of the l
    examples, rounded half up.  placement : of the outliers, "farthest" from the query, "closest" or "random".
    labelling : of outlier examples, "flipped" to -f(x), "targeted" to +1 (Example 1), "random", or a function of
    the clean Prompts and a numpy Generator that returns (B, l) labels.

    States: mamba Definition 2
    """

    tasks: object = None
    mixture: object = None
    kappa_a: float | None = None
    alpha: float = 0.5
    l: int | None = None
    K: float | None = None
    labelling: object = "flipped"
    counted: bool = False
    placement: str = "random"

    def outliers(self, setting):
        r"""Eq. 5. $\kappa_a' v_s^{*\prime}$ in the unit training outliers of a Setting, one a row: (S, V)."""
        testing = filled(self, setting)
        return testing.kappa_a * setting.outlier_norm * testing.mixture


Testing.__test__ = False  # sizes, which pytest would take for a test


def checked(setting):
    """The Setting with its counts as integers and its tasks as an array.

    setting : a Setting.  Returns a Setting.  Raises ValueError that names what is out of range.

    States: mamba Definition 1
    """
    s = setting
    least = dict(d=1, M1=2, M2=1, V=1, l=1, B=1)
    counts = {name: count(name, getattr(s, name), least[name]) for name in least}
    for name in ("beta", "kappa_a", "outlier_norm", "eta", "delta"):
        number(name, getattr(s, name), above=0)
    number("p_a", s.p_a, 0, BELOW_ONE), number("K", s.K, 0, 0.5), number("epsilon", s.epsilon, above=0, most=BELOW_ONE)
    s = s._replace(**counts)
    return s._replace(tasks=s.training_tasks())


def filled(testing, setting):
    """The Testing with what it leaves to the training put in, its tasks and mixture as arrays.

    testing : a Testing.  setting : the Setting of training.  Returns a Testing.
    Raises ValueError that names what is out of range.

    States: mamba Definition 2
    """
    tasks = setting.training_tasks() if testing.tasks is None else pairs(testing.tasks, setting.M1)
    mixture = np.eye(setting.V) if testing.mixture is None else arrays(mixture=(testing.mixture, "SV"))
    if mixture.shape[1] != setting.V:
        raise ValueError(f"mixture: must have V = {setting.V} columns, got {mixture.shape[1]}")
    kappa_a, l, K = (
        getattr(setting, name) if getattr(testing, name) is None else getattr(testing, name)
        for name in ("kappa_a", "l", "K")
    )
    kappa_a, l, K = number("kappa_a", kappa_a, above=0), count("l", l), number("K", K, 0)
    alpha = number("alpha", testing.alpha, 0, BELOW_ONE)
    return testing._replace(tasks=tasks, mixture=mixture, kappa_a=kappa_a, l=l, K=K, alpha=alpha)
