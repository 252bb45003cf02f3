"""The two Hypothesis profiles: a fixed one, and `--hypothesis-profile=thorough`, random and larger."""

from hypothesis import HealthCheck, settings

slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=50, suppress_health_check=slow)
settings.register_profile("thorough", deadline=None, max_examples=1000, print_blob=True, suppress_health_check=slow)
settings.load_profile("fixed")
