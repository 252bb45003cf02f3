"""How the runs of this package are computed, exactly and at a cost free of d; none of it is the paper's.

gram     the same descent in the tokens' Gram matrix
flow     gradient flow in logarithmic time
fresh    a test token as two numbers
wishart  training tokens without their d
growth   the law of one sample's logit gap
trials   one training set in Theorem 4.2's regime, the flow on it, fresh samples for any moment of it
"""
