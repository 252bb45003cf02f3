r"""What both papers differentiate, each derivative beside its function.

softmax      : probabilities, $J(s) = \mathrm{diag}(s) - s s^\top$, $J(s) v$ without forming J
gating       : the gate product $G_i$ and its derivatives
losses       : logistic, hinge, squared, cross-entropy
differences  : central differences, which know none of the above
"""
