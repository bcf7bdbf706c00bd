"""The public laws: what every policy must obey, and functions that say which law one breaks."""

from linoto.checks.promises import PromiseReport, check_promise
from linoto.checks.suite import LawError, check_policy

__all__ = ["LawError", "PromiseReport", "check_policy", "check_promise"]
