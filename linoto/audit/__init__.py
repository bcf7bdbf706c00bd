"""What a log shows: its noise, lack of fit, drift, what it cannot tell, and what to assume of it."""

from linoto.audit.assume import promise_of, propose_confidence
from linoto.audit.bound import propose_bound, shortest_parameter
from linoto.audit.coverage import Coverage, find_coverage
from linoto.audit.drift import Drift, find_drift
from linoto.audit.fit import LackOfFit, lack_of_fit
from linoto.audit.judgement import Findings, Verdict, judge, notes_on, some
from linoto.audit.noise import Noise, arm_intervals, estimate_noise
from linoto.audit.propensities import find_miscalibrated
from linoto.audit.pvalues import ALPHA, holm
from linoto.audit.regression import regress

__all__ = [
    "ALPHA",
    "Coverage",
    "Drift",
    "Findings",
    "LackOfFit",
    "Noise",
    "Verdict",
    "arm_intervals",
    "estimate_noise",
    "find_coverage",
    "find_drift",
    "find_miscalibrated",
    "holm",
    "judge",
    "lack_of_fit",
    "notes_on",
    "promise_of",
    "propose_bound",
    "propose_confidence",
    "regress",
    "shortest_parameter",
    "some",
]
