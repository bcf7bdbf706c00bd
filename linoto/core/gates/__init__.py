"""Gates: can we afford to explore this arm? One file per gate; each owns everything about itself."""

from linoto.core.gates.always import Closed, Open
from linoto.core.gates.budget import Budget
from linoto.core.gates.conservative import Conservative
from linoto.core.gates.control import Control
from linoto.core.gates.gate import Gate
from linoto.core.gates.mixture import mixture_rounding
from linoto.core.gates.tolerance import Tolerance

GATES = (Open, Closed, Budget, Tolerance, Control, Conservative)
"""Every gate there is. What names gates (snapshots, messages, documents) reads this."""

__all__ = [
    "GATES",
    "Budget",
    "Closed",
    "Conservative",
    "Control",
    "Gate",
    "Open",
    "Tolerance",
    "mixture_rounding",
]
