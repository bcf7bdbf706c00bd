"""Prometheus text: what every loop and the writer have done.

The lines of a loop are kept until its next event: to write those of a thousand anew takes half a second of
processor time, which requests would wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from linoto.service.loops.alarms import ALARMS
from linoto.service.loops.views import LoopView
from linoto.service.storage.store import Store
from linoto.service.web.access_log import BUCKETS, Latency
from linoto.service.web.live_views import Shown

AFTERWARDS = "and above more after the first alarm"
NUMBERS = {
    "pending": "decisions that await their reward",
    "budget": "room that the gate sees for the next exploration",
    "reference": "mean reward of the log",
    "realised": "summed reward of closed decisions, a lost one as the default",
    "gain": "known rewards less what the log earns on average in as many decisions: against the log, "
    "not against practice as it is now, which is what a Control gate and a control group compare with",
    "left_to_lose": "what may still be lost under the promise",
    "expected_by_log": "the reference as often as decisions were closed",
    "promised_least": "the least that the promise allows the summed reward to be",
    "evidence_against_promise": f"e-value; alarms above 1 / alarm_error, {AFTERWARDS}",
    "evidence_for_practice": "e-value that practice would have earned more; alarms above "
    f"(1 + guardrails) / alarm_error, {AFTERWARDS} (practice_alarm_at of the loop)",
    "evidence_of_drift": "e-detector; alarms above alarm_run",
}
METRICS = {  # of a guardrail
    "gained": "how much better explored decisions were in a metric than with practice, in all",
    "gained_lower": "the least that may be, at any time",
    "gained_upper": "the most that may be, at any time",
    "left_to_lose": "what may still be lost of a metric under the promise",
    "evidence_for_practice": "e-value that a metric would have been better with practice; alarms above "
    f"(1 + guardrails) / alarm_error, {AFTERWARDS} (practice_alarm_at of the metric)",
}
AHEAD = "linoto_clock_ahead_seconds"
FAMILIES = {  # of loops: (type, help) by name
    "linoto_decisions_total": ("counter", "decisions made"),
    "linoto_rewards_total": ("counter", "decisions closed"),
    "linoto_mode": ("gauge", "1 for the mode a loop is in"),
    "linoto_alarms_total": ("counter", "alarms raised"),
    "linoto_alarms_unanswered": ("gauge", "alarms that nobody has answered"),
    **{f"linoto_{field}": ("gauge", text) for field, text in NUMBERS.items()},
    "linoto_metric_values_total": ("counter", "values of guardrails that came, or are lost"),
    "linoto_metric_alarms_total": ("counter", "alarms raised about a guardrail"),
    **{f"linoto_metric_{field}": ("gauge", text) for field, text in METRICS.items()},
    AHEAD: ("gauge", "time of the loop less that of the system's clock"),
}
NOT_FINITE = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}
Lines = Mapping[str, str]  # of a loop, by family


def samples(view: LoopView) -> Iterator[tuple[str, str, float]]:
    """(family, labels, value) of every number of a loop; names of loops need no quoting."""
    loop = f'loop="{view.name}"'
    for group, totals in view.groups.items():
        told = totals.closed - totals.defaults
        yield "linoto_decisions_total", f'group="{group}",{loop}', totals.plays
        yield "linoto_rewards_total", f'group="{group}",{loop},origin="default"', totals.defaults
        yield "linoto_rewards_total", f'group="{group}",{loop},origin="reported"', told
    yield "linoto_mode", f'{loop},mode="{view.mode}"', 1
    for kind in ALARMS:
        yield "linoto_alarms_total", f'kind="{kind}",{loop}', sum(alarm.kind == kind for alarm in view.alarms)
    yield "linoto_alarms_unanswered", loop, sum(not alarm.answered for alarm in view.alarms)
    for field in NUMBERS:
        value = getattr(view, field)
        if value is not None:
            yield f"linoto_{field}", loop, value
    for metric in view.metrics:
        labels = f'{loop},metric="{quoted(metric.name)}"'
        alarms = sum(alarm.metric == metric.name for alarm in view.alarms)
        yield "linoto_metric_values_total", f'{labels},origin="lost"', metric.lost
        yield "linoto_metric_values_total", f'{labels},origin="reported"', metric.told
        yield "linoto_metric_alarms_total", labels, alarms
        for field in METRICS:
            value = getattr(metric, field)
            if value is not None:
                yield f"linoto_metric_{field}", labels, value


def quoted(text: str) -> str:
    """A text within the quotes of a label."""
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def line(family: str, labels: str, value: float) -> str:
    """A sample as it is written."""
    written = repr(float(value))
    return f"{family}{{{labels}}} {NOT_FINITE.get(written, written)}\n"


def lines_of(view: LoopView) -> Lines:
    """All that is said of a loop."""
    found: dict[str, str] = {}
    for family, labels, value in samples(view):
        found[family] = found.get(family, "") + line(family, labels, value)
    return found


Numbers = dict[str, tuple[str, Callable[[], float | None]]]  # (help, value) by name


class MetricsPage:
    """The page that Prometheus reads."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.gauges: Numbers = {}  # of the server's parts
        self.counters: Numbers = {}
        self._known: dict[str, tuple[Shown, Lines]] = {}

    def render(self, shown: list[Shown], latency: Latency | None, ahead: Mapping[str, float]) -> bytes:
        """Of these loops; `ahead` is how far the time of each is ahead of the clock."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(ServerNumbers(self.store, latency, self.gauges, self.counters))
        ProcessCollector(registry=registry)
        return generate_latest(registry) + "".join(self._loops(shown, ahead)).encode()

    def _loops(self, shown: list[Shown], ahead: Mapping[str, float]) -> Iterator[str]:
        known = [self._lines(each) for each in shown]
        for family, (kind, text) in FAMILIES.items():
            yield f"# HELP {family} {text}\n# TYPE {family} {kind}\n"
            if family == AHEAD:
                yield from (line(AHEAD, f'loop="{name}"', seconds) for name, seconds in ahead.items())
            else:
                yield from (lines[family] for lines in known if family in lines)

    def _lines(self, shown: Shown) -> Lines:
        before, lines = self._known.get(shown.view.name, (None, {}))
        if before is not shown:
            lines = lines_of(shown.view)
            self._known[shown.view.name] = shown, lines
        return lines


class ServerNumbers:
    """The numbers of the process at one moment, as a collector."""

    def __init__(
        self,
        store: Store,
        latency: Latency | None,
        gauges: Numbers,
        counters: Numbers,
    ) -> None:
        self.store, self.latency, self.gauges, self.counters = store, latency, gauges, counters

    def collect(self) -> Iterable[Metric]:
        """Every family once."""
        m = self.store.measures
        yield CounterMetricFamily("linoto_commits", "transactions synced to disk", value=m.commits)
        yield CounterMetricFamily("linoto_requests_committed", "requests in them", value=m.jobs)
        yield CounterMetricFamily("linoto_commit_failures", "transactions undone", value=m.failures)
        yield CounterMetricFamily("linoto_commit_seconds", "time spent syncing", value=m.commit_seconds)
        yield GaugeMetricFamily("linoto_slowest_commit_seconds", "the longest sync", value=m.slowest_commit)
        yield GaugeMetricFamily("linoto_waiting", "requests in the queue", value=self.store.waiting)
        for family, numbers in ((GaugeMetricFamily, self.gauges), (CounterMetricFamily, self.counters)):
            for name, (text, read) in numbers.items():
                value = read()
                if value is not None:
                    yield family(name, text, value=value)
        if self.latency is not None:
            yield request_seconds(self.latency)


def request_seconds(latency: Latency) -> Metric:
    """How long requests took, by the class of their status."""
    family = HistogramMetricFamily("linoto_request_seconds", "from request to answer", labels=["status"])
    for status, counts in sorted(latency.counts.items()):
        bounds = (*map(str, BUCKETS), "+Inf")
        buckets = [(bound, float(n)) for bound, n in zip(bounds, accumulate(counts), strict=True)]
        family.add_metric([status], buckets, latency.seconds[status])
    return family
