"""Prometheus text: what every loop and the writer have done."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from linoto.service.loops.alarms import ALARMS
from linoto.service.loops.views import LoopView
from linoto.service.storage.store import Store
from linoto.service.web.access_log import BUCKETS, Latency

NUMBERS = {
    "pending": "decisions that await their reward",
    "budget": "room that the gate sees for the next exploration",
    "reference": "mean reward of the log",
    "realised": "summed reward of closed decisions, a lost one as the default",
    "gain": "known rewards less what the log earns on average in as many decisions",
    "left_to_lose": "what may still be lost under the promise",
    "expected_by_log": "the reference as often as decisions were closed",
    "promised_least": "the least that the promise allows the summed reward to be",
    "evidence_against_promise": "e-value; alarms above 1 / alarm_error",
    "evidence_for_practice": "e-value that practice would have earned more; alarms above 1 / alarm_error",
    "evidence_of_drift": "e-detector; alarms above alarm_run",
}


class MetricsCollector:
    """The numbers of one moment, as a collector."""

    def __init__(
        self, views: list[LoopView], store: Store, latency: Latency | None, ahead: dict[str, float]
    ) -> None:
        self.views, self.store, self.latency, self.ahead = views, store, latency, ahead

    def collect(self) -> Iterator[Metric]:
        """Every family once, one sample per loop."""
        yield from self._writer()
        if self.latency is not None:
            yield request_seconds(self.latency)
        decisions = CounterMetricFamily("linoto_decisions", "decisions made", labels=["loop", "group"])
        rewards = CounterMetricFamily(
            "linoto_rewards", "decisions closed", labels=["loop", "group", "origin"]
        )
        mode = GaugeMetricFamily("linoto_mode", "1 for the mode a loop is in", labels=["loop", "mode"])
        alarms = CounterMetricFamily("linoto_alarms", "alarms raised", labels=["loop", "kind"])
        for view in self.views:
            mode.add_metric([view.name, view.mode], 1)
            for kind in ALARMS:
                alarms.add_metric([view.name, kind], sum(alarm.kind == kind for alarm in view.alarms))
            for group, totals in view.groups.items():
                decisions.add_metric([view.name, group], totals.plays)
                rewards.add_metric([view.name, group, "default"], totals.defaults)
                rewards.add_metric([view.name, group, "reported"], totals.closed - totals.defaults)
        yield from (decisions, rewards, mode, alarms)
        clock = GaugeMetricFamily(
            "linoto_clock_ahead_seconds", "time of the loop less that of the system's clock", labels=["loop"]
        )
        for name, seconds in self.ahead.items():
            clock.add_metric([name], seconds)
        yield clock
        for field, text in NUMBERS.items():
            family = GaugeMetricFamily(f"linoto_{field}", text, labels=["loop"])
            for view in self.views:
                value = getattr(view, field)
                if value is not None:
                    family.add_metric([view.name], float(value))
            yield family

    def _writer(self) -> Iterator[Metric]:
        m = self.store.measures
        yield CounterMetricFamily("linoto_commits", "transactions synced to disk", value=m.commits)
        yield CounterMetricFamily("linoto_requests_committed", "requests in them", value=m.jobs)
        yield CounterMetricFamily("linoto_commit_failures", "transactions undone", value=m.failures)
        yield CounterMetricFamily("linoto_commit_seconds", "time spent syncing", value=m.commit_seconds)
        yield GaugeMetricFamily("linoto_slowest_commit_seconds", "the longest sync", value=m.slowest_commit)
        yield GaugeMetricFamily("linoto_waiting", "requests in the queue", value=self.store.waiting)


def request_seconds(latency: Latency) -> Metric:
    """How long requests took, by the class of their status."""
    family = HistogramMetricFamily("linoto_request_seconds", "from request to answer", labels=["status"])
    for status, counts in sorted(latency.counts.items()):
        bounds = (*map(str, BUCKETS), "+Inf")
        buckets = [(bound, float(n)) for bound, n in zip(bounds, accumulate(counts), strict=True)]
        family.add_metric([status], buckets, latency.seconds[status])
    return family


def render(
    views: list[LoopView], store: Store, latency: Latency | None = None, ahead: dict[str, float] | None = None
) -> bytes:
    """The page that Prometheus reads; `ahead` is how far the time of each loop is ahead of the clock."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(MetricsCollector(views, store, latency, ahead or {}))
    return generate_latest(registry)
