"""The two Hypothesis profiles: a fixed one, and `--hypothesis-profile=thorough`, random and larger."""

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("thorough", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("fixed")
