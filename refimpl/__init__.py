"""Two deep-learning theory papers as plain NumPy, to be read beside the proofs.

refimpl.attention : Sakamoto & Sato 2024, arXiv 2409.17625v1
refimpl.mamba     : Li et al. 2025, arXiv 2510.00399
refimpl.calculus  : what both papers differentiate

Each paper's package opens with a reading table and a glossary.
"""

__version__ = "0.1.0"
