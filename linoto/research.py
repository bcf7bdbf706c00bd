"""What comparisons with the literature play, and the gate that older versions stored."""

from linoto.core.gates.older import OlderTolerance
from linoto.core.oope import OOPE
from linoto.core.research import HUCB1, KLUCB, UCB1, UCBV, ArmUCB, MinUCB, OtO, RareLinUCB, WideLinTS

__all__ = [
    "HUCB1",
    "KLUCB",
    "OOPE",
    "UCB1",
    "UCBV",
    "ArmUCB",
    "MinUCB",
    "OlderTolerance",
    "OtO",
    "RareLinUCB",
    "WideLinTS",
]
