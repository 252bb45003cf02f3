"""How the runs of this package are computed, and what is measured on them; none of it is the paper's.

patterns       pattern coordinates: the same model at a cost that does not depend on d
bench          a layer trained by Section 8.3's algorithm, and its error on Definition 2's prompts
architectures  the recurrences of Section 12 as layers
scaling        how many iterations and examples are needed
extensions     Sections 13 and 14 trained and tested
boundaries     the error on both sides of the conditions of Theorems 2 and 4
"""
