"""Settings at which the attention paper's figures are measured in no time, and how to change each of them."""

# For each figure the settings that are smaller than its own.
_GRID = dict(n=12, dimensions=[20, 40, 60, 80], norms=[3.0, 4.0, 5.0, 6.0], steps=20)
TINY = {
    "attention-fig1": dict(n=20, d=60, norm=6.0, betas=[0.3, 1.0, 0.01]),
    "attention-fig2": dict(n=10, d=40, norm=80.0, steps=500, every=50),
    "attention-fig3": dict(cases=[[30, 8.0], [60, 3.0], [20, 12.0]], n=10, steps=1000, test_samples=60, seeds=1),
    "attention-fig4": _GRID | dict(seeds=2),
    "attention-fig5": _GRID | dict(test_samples=40),
    "attention-fig6": _GRID | dict(seeds=2),
    "attention-flow": dict(
        n=8,
        d=100,
        ratios=[3],
        wide_T=6,
        wide_relevant=[2],
        wide_wrong=[1],
        wide_ratio=3,
        harmful_relevant=3,
        end=30,
        fresh=40,
    ),
    "attention-regime": dict(n=8, C=2, exponents=[4, 12], seeds=1, late=1100, fresh=40),
    "attention-speed": dict(n=4, T=4, d=20, dimensions=[10, 30], together=[1, 2], steps=5, rounds=1),
}

# Where a number times 1.5, or a list without its last element, is no setting of the figure: another value.
OTHER = {
    "attention-flow": dict(ratios=[5], wide_relevant=[3], wide_wrong=[2], harmful_relevant=2),
}
