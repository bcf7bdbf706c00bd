"""What a policy assumes of rewards, and where that comes from: an option, an audit, or the policy itself."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from linoto.cli.log_and_policy import told

if TYPE_CHECKING:
    from linoto.core.certificates import Certificate
    from linoto.core.protocols import ComposedPolicy
    from linoto.logs.saved import Audited

UNSAID = "as the policy assumes: neither STATS nor an option says otherwise"


class AuditedLog(Protocol):
    """Statistics of a log, with what an audit said of it, if there was one."""

    @property
    def saved(self) -> Audited | None: ...


def assumption_rows(
    policy: ComposedPolicy, log: AuditedLog, arguments: argparse.Namespace
) -> list[tuple[str, str]]:
    """Noise, bound and reward range as the policy takes them, each with where it comes from."""
    said = policy.composed().assumed.assumptions().items()
    return [
        (name.replace("_", " "), f"{text}, {origin(name, policy, log, arguments)}") for name, text in said
    ]


def origin(name: str, policy: ComposedPolicy, log: AuditedLog, arguments: argparse.Namespace) -> str:
    """Where one of them comes from."""
    if name in told(arguments):
        return "as given"
    saved = None if log.saved is None else log.saved.confidence
    if log.saved is None or getattr(saved, name, None) != getattr(policy.composed().assumed, name):
        return UNSAID
    return log.saved.origin(name)


def promise_rows(
    certificate: Certificate, rows: Sequence[tuple[str, str]], log: AuditedLog
) -> list[tuple[str, str]]:
    """Rows of a certificate; where it rests on a log that the audit says not to trust, it says so."""
    from linoto.core.certificates import PRACTICE

    sound = log.saved is None or log.saved.verdict != "do not trust" or certificate.against == PRACTICE
    if sound:
        return list(rows)
    doubt = "would hold, but the log is not to be trusted: see the warning"
    return [(name, doubt if (name, text) == ("promise", "holds") else text) for name, text in rows]


def audit_facts(policy: ComposedPolicy, log: AuditedLog, arguments: argparse.Namespace) -> dict[str, Any]:
    """The same for machines, with the verdict of the audit."""
    from linoto.core.confidence import ASSUMED

    assumed = policy.composed().assumed
    found = {name: value for name in ASSUMED if (value := getattr(assumed, name)) is not None}
    found |= {"shift": assumed.shift} if assumed.shift > 0 else {}
    return {
        "verdict": None if log.saved is None else log.saved.verdict,
        "assumed": {
            name: {"value": value, "origin": origin(name, policy, log, arguments)}
            for name, value in found.items()
        },
    }
