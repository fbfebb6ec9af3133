"""Everything worth watching, in the words of Prometheus. Only what a scrape asks for is computed, when it asks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from indexer.facts import EventKind
from indexer.progress import Progress
from indexer.store import StoreUnavailableError
from overlay.api.edge import REFUSED
from overlay.api.hub import STREAMS
from overlay.counters import BUCKETS, Counters
from overlay.engines import UnavailableError
from overlay.logs import ERRORS, WARNINGS
from overlay.ports import Watched

log = logging.getLogger(__name__)

STATES = ("starting", "catching-up", "following", "unreachable", "stopped", "stored")

_CHAIN_GAUGES = (
    # the name, the member of status, what it is
    ("a2b_chain_height", "height", "Height up to which the chain is indexed."),
    ("a2b_chain_tip_height", "tip", "Height of the source's newest block."),
    ("a2b_chain_lag_blocks", "lag", "Blocks that the source has and the index has not."),
    ("a2b_chain_mempool", "mempool", "Unconfirmed transactions at the source."),
)


def exposition(services: Watched, paths: Sequence[str], accept: str) -> tuple[bytes, str]:
    """All metrics in the format that `accept` asks for, and its content type. `paths` are the routes' by number,
    each once: a scrape that tells two samples with the same labels is refused whole."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Everything(services, paths))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Everything(Collector):
    """One scrape."""

    def __init__(self, services: Watched, paths: Sequence[str]) -> None:
        self._services, self._paths = services, paths

    def collect(self) -> Iterable[Metric]:
        """All metrics, as they are now. While the database is away, those that need it are left out: how many errors
        there are, and what is answered nevertheless, is told then above all."""
        services = self._services
        yield _by_label("a2b_info", "1 for the version that runs.", "version", {services.version: 1})
        try:
            stored = list(self._stored())
        except (StoreUnavailableError, UnavailableError) as error:
            log.warning("metrics are told without those of the database: %s", error)
            stored = []
        yield GaugeMetricFamily("a2b_database_up", "1 while the database answers.", float(bool(stored)))
        yield from stored
        yield _counted("a2b_fetches", "Fetches since the start, by what they came to.", "outcome", services.fetched())
        yield from _ingested(services.ingested())
        yield from _http(services.counters, self._paths)
        yield _lines(services.counters)

    def _stored(self) -> Iterator[Metric]:
        """What the database is asked for."""
        services = self._services
        status = services.status()
        yield from _chains(status["chains"], services.refused())
        yield _by_label("a2b_listings", "Listings, by status; rejected are near misses.", "status", status["listings"])
        if index := status.get("index"):
            yield GaugeMetricFamily("a2b_index_seq", "The newest change that searches see.", index["seq"])
            yield GaugeMetricFamily("a2b_index_behind_changes", "Changes that searches do not see.", index["behind"])
            yield from _renewal(index.get("renewal"))
        yield _by_label(
            "a2b_ingest_requests", "Transactions that publishers asked for, by state.", "state",
            services.requests.counts(),
        )  # fmt: skip
        yield _by_label(
            "a2b_locators", "What pointers name, by how fetching it stands.", "state", status.get("pointers", {})
        )
        yield from _rates(status.get("rates"))


def _renewal(told: Mapping[str, int] | None) -> Iterator[Metric]:
    """How far an index that is made anew has come, while it is."""
    if told is not None:
        done = "Registrations in the index that is being made anew."
        yield GaugeMetricFamily("a2b_index_renewal_registrations", done, told["done"])
        yield GaugeMetricFamily(
            "a2b_index_renewal_registrations_wanted", "Registrations that it will hold.", told["of"]
        )


def _rates(told: Mapping[str, Any] | None) -> Iterator[Metric]:
    """The age of what prices are converted by, and of every feed."""
    if told is None:
        return
    if told["age"] is not None:
        yield GaugeMetricFamily("a2b_rates_age_seconds", "Age of the exchange rates in use.", told["age"])
    ages = GaugeMetricFamily(
        "a2b_rates_feed_age_seconds", "Age of the newest quote of a feed.", labels=["feed", "base"]
    )
    usable = GaugeMetricFamily("a2b_rates_feed_usable", "1 while a feed's quote may be used.", labels=["feed", "base"])
    seen: set[tuple[str, str]] = set()
    for feed in told["feeds"]:
        labels = (feed["source"], feed["base"])
        if labels in seen:  # the preferred one of two at the same host
            continue
        seen.add(labels)
        usable.add_metric(labels, float(feed["usable"]))
        if feed["age"] is not None:
            ages.add_metric(labels, feed["age"])
    yield from (ages, usable)


def _ingested(told: Mapping[str, Progress]) -> Iterator[Metric]:
    """What was read of chains here."""
    blocks = CounterMetricFamily("a2b_ingested_blocks", "Blocks read and stored since the start.", labels=["chain"])
    size = CounterMetricFamily("a2b_ingested_bytes", "Bytes of these blocks.", labels=["chain"])
    said = CounterMetricFamily(
        "a2b_ingested_events", "What stood in these blocks, by what became of it.", labels=["chain", "outcome"]
    )
    for name, progress in told.items():
        blocks.add_metric([name], progress.blocks)
        size.add_metric([name], progress.bytes)
        for kind in EventKind:
            said.add_metric([name, kind.value], progress.said[kind.value])
    yield from (blocks, size, said)


def _counted(name: str, told: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, told, labels=[label])
    for value, count in sorted(values.items()):
        family.add_metric([value], count)
    return family


def _by_label(name: str, told: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, told, labels=[label])
    for value, count in values.items():
        family.add_metric([value], count)
    return family


def _chains(rows: Sequence[Mapping[str, Any]], refused: Mapping[str, int]) -> Iterator[Metric]:
    for name, member, told in _CHAIN_GAUGES:
        family = GaugeMetricFamily(name, told, labels=["chain"])
        for row in rows:
            if row.get(member) is not None:
                family.add_metric([row["name"]], row[member])
        yield family
    state = GaugeMetricFamily("a2b_chain_state", "1 for the state that the chain is in.", labels=["chain", "state"])
    reorgs = CounterMetricFamily("a2b_chain_reorgs", "Reorganisations since the start.", labels=["chain"])
    for row in rows:
        for word in STATES:
            state.add_metric([row["name"], word], float(row["state"] == word))
        if row.get("reorgs") is not None:
            reorgs.add_metric([row["name"]], row["reorgs"])
    blocks = CounterMetricFamily("a2b_chain_refused_blocks", "Blocks refused since the start.", labels=["chain"])
    for chain, count in refused.items():
        blocks.add_metric([chain], count)
    yield from (state, reorgs, blocks)


def _http(counters: Counters, paths: Sequence[str]) -> Iterator[Metric]:
    times = HistogramMetricFamily(
        "a2b_http_request_seconds", "Time to answer, by route and status.", labels=["route", "status"]
    )
    for each in counters.latencies():
        path = paths[each.route] if each.route < len(paths) else "other"
        times.add_metric([path, str(each.status or "other")], list(_buckets(each.counts)), each.seconds)
    yield times
    refused = CounterMetricFamily("a2b_http_rate_limited", "Requests refused by a rate limit.", labels=["limit"])
    for name, number in REFUSED.items():
        refused.add_metric([name], counters.gauge(number))
    yield refused
    yield GaugeMetricFamily("a2b_streams", "Readers of the change feed that are connected.", counters.gauge(STREAMS))


def _lines(counters: Counters) -> Metric:
    lines = CounterMetricFamily("a2b_log_lines", "Lines logged since the start, by level.", labels=["level"])
    for level, number in (("warning", WARNINGS), ("error", ERRORS)):
        lines.add_metric([level], counters.gauge(number))
    return lines


def _buckets(counts: Sequence[int]) -> Iterator[tuple[str, float]]:
    """Counts up to each bound, as Prometheus adds them up."""
    total = 0
    for bound, count in zip([*map(str, BUCKETS), "+Inf"], counts, strict=True):
        total += count
        yield bound, total
