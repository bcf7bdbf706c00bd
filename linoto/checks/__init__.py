"""The public laws: what every policy must obey, and a function that says which law one breaks."""

from linoto.checks.suite import check_policy

__all__ = ["check_policy"]
