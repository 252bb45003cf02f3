"""Li et al. 2025, "How Can Mamba Learn In Context with Outliers and Generalize Provably?", arXiv 2510.00399."""
