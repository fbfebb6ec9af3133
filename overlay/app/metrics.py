"""Everything worth watching, in the words of Prometheus: the route of every server, and the small server of a process
that only indexes. A scrape computes only the metrics that it requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from aiohttp import hdrs, web
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from indexer.model import EventKind
from indexer.setting_values import ListenAddress
from indexer.store import DATABASE_ERRORS
from indexer.sync.progress import SyncProgress
from overlay.api import status_api
from overlay.api.answers import PROCESS, ROUTE_PATHS, Answer
from overlay.api.change_broadcaster import STREAMS
from overlay.api.counters import BUCKETS, Counters
from overlay.api.executors import report
from overlay.api.middleware import handle_request
from overlay.api.request_context import CONTEXT, REFUSED, RequestContext, RouteInfo
from overlay.api.routes import TEXT, Route
from overlay.api.search_statistics import GAUGES, OPENED
from overlay.api.server import close, create_runner, listen, refuse_others
from overlay.api.services import ProcessInfo
from overlay.api.shared_tables import KEPT_DAYS
from overlay.app.logs import ERRORS, WARNINGS
from overlay.app.supervision import DATABASE_FAULTS
from overlay.app.workers import CLEAN_SECONDS
from overlay.engines import UnavailableError
from overlay.jobs import JobStatus


async def metrics(request: web.Request) -> web.Response:
    """Heights, lag, listings, requests and times to answer, for Prometheus."""
    accept, paths = request.headers.get("Accept", ""), request.app[ROUTE_PATHS]
    text, content_type = await report(exposition, request.app[PROCESS], paths, accept)
    return Answer(body=text, headers={"Content-Type": content_type, "Cache-Control": "no-store"})


async def stats(request: web.Request) -> web.Response:
    """Counts of searches, for the operator: a page at the address of metrics alone."""
    from overlay.web.rendering import html_answer, render

    read = request.app[PROCESS].searches
    if read is None:
        raise web.HTTPNotFound
    return html_answer(render("stats.html", most=KEPT_DAYS, **await asyncio.to_thread(read, KEPT_DAYS)))


ROUTES = (Route("/metrics", metrics, None, tag="operation", media=(TEXT,)),)

_HANDLERS = {"/metrics": metrics, "/healthz": status_api.healthz, "/readyz": status_api.readyz}

PATHS = tuple(_HANDLERS)
"""The paths of a process that serves nothing else."""


def create_metrics_app(process: ProcessInfo, paths: Sequence[str]) -> web.Application:
    """An application with metrics, health and readiness only. `paths` are those of the server of this process, at the
    numbers under which it counts requests."""
    app = web.Application(middlewares=[handle_request])
    app[PROCESS], app[ROUTE_PATHS] = process, list(paths)
    app[CONTEXT] = RequestContext({}, (), process.counters, access_log=process.access_log)
    if process.searches is not None:
        app.router.add_get("/stats", stats)
    for path, handler in _HANDLERS.items():
        for method in (hdrs.METH_GET, hdrs.METH_HEAD):
            added = app.router.add_route(method, path, handler)
            app[CONTEXT].add(added, RouteInfo(app[ROUTE_PATHS].index(path), None, timed=True))
    refuse_others(app)
    return app


async def serve_metrics(
    address: ListenAddress, process: ProcessInfo, on_start: Callable[[str], None], paths: Sequence[str] = PATHS
) -> None:
    """Serve until cancelled; `on_start` gets the URL once it answers; `paths` as `create_metrics_app`. Raises
    AddressError."""
    server = create_runner(create_metrics_app(process, paths))
    on_start(await listen(server, *address))
    try:
        await asyncio.Event().wait()
    finally:
        await close(server, CLEAN_SECONDS)


log = logging.getLogger(__name__)

STATES = ("starting", "catching-up", "following", "unreachable", "stopped", "silent", "stored")

_CHAIN_GAUGES = (
    # the name, the member of status, what it is
    ("a2b_chain_height", "height", "Height up to which the chain is indexed."),
    ("a2b_chain_tip_height", "tip", "Height of the source's newest block."),
    ("a2b_chain_lag_blocks", "lag", "Blocks that the source has and the index has not."),
    ("a2b_chain_mempool", "mempool", "Unconfirmed transactions at the source."),
)


def exposition(services: ProcessInfo, paths: Sequence[str], accept: str) -> tuple[bytes, str]:
    """All metrics in the format that `accept` names, and its content type. `paths` are the routes' by number,
    each once: Prometheus rejects a scrape with two samples of the same labels."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Everything(services, paths))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Everything(Collector):
    """One scrape."""

    def __init__(self, services: ProcessInfo, paths: Sequence[str]) -> None:
        self._services, self._paths = services, paths

    def collect(self) -> Iterable[Metric]:
        """All metrics, as they are now. While the database is away, those that need it are left out: the numbers of
        errors and of answers matter most then."""
        services, status = self._services, {}
        yield _by_label("a2b_info", "1 for the version that runs.", "version", {services.version: 1})
        stored: list[Metric] = []
        try:
            status = services.status()
            backup_time = float(services.backup())
            backup = GaugeMetricFamily(
                "a2b_backup_seconds", "When the last backup was made, 0 before the first.", backup_time
            )
            stored = [*self._stored(status), backup]
        except (*DATABASE_ERRORS, UnavailableError) as error:
            log.warning("metrics are served without those of the database: %s", error)
        is_up = bool(stored) and "database" not in status.get("degraded", ())
        yield GaugeMetricFamily("a2b_database_up", "1 while the database can be read and written.", float(is_up))
        yield from _chains(status.get("chains", ()), services.refused())
        yield from stored
        fetches = dict(sorted(services.fetched().items()))
        yield _by_label("a2b_fetches", "Fetches since the start, by outcome.", "outcome", fetches, CounterMetricFamily)
        failed = dict(sorted(services.failed().items()))
        yield _by_label("a2b_failed", "Listings, rows and hosts that failed, by the work on them.", "work", failed)
        yield from _ingested(services.ingested())
        yield from _jobs(services.jobs())
        yield from _http(services.counters, self._paths, sorted(services.named_clients()))
        if services.searches is not None:
            yield from _searches(services.counters)
        yield _lines(services.counters)
        yield _database_faults(services.counters)

    def _stored(self, status: Mapping[str, Any]) -> Iterator[Metric]:
        """The metrics that read the database."""
        services = self._services
        yield _by_label("a2b_listings", "Listings, by status; rejected are near misses.", "status", status["listings"])
        if index := status.get("index"):
            yield GaugeMetricFamily("a2b_index_seq", "The newest change that searches see.", index["seq"])
            yield GaugeMetricFamily("a2b_index_behind_changes", "Changes that searches do not see.", index["behind"])
            yield from _renewal(index.get("rebuilding"))
        yield _by_label(
            "a2b_ingest_requests", "Transactions that publishers requested, by state.", "state",
            services.requests.counts(),
        )  # fmt: skip
        yield _by_label(
            "a2b_locators", "Locators that pointers name, by state of fetching.", "state", status.get("pointers", {})
        )
        yield from _rates(status.get("rates"))


def _renewal(progress: Mapping[str, int] | None) -> Iterator[Metric]:
    """The progress of a rebuild of the index, while there is one."""
    if progress is not None:
        done = "Registrations in the index that is being rebuilt."
        yield GaugeMetricFamily("a2b_index_renewal_registrations", done, progress["done"])
        yield GaugeMetricFamily(
            "a2b_index_renewal_registrations_wanted", "Registrations that it will hold.", progress["of"]
        )


def _rates(rates: Mapping[str, Any] | None) -> Iterator[Metric]:
    """The age of the quotes that convert prices, and of every feed."""
    if rates is None:
        return
    if rates["age"] is not None:
        yield GaugeMetricFamily("a2b_rates_age_seconds", "Age of the exchange rates in use.", rates["age"])
    ages = GaugeMetricFamily(
        "a2b_rates_feed_age_seconds", "Age of the newest quote of a feed.", labels=["feed", "base"]
    )
    usable = GaugeMetricFamily("a2b_rates_feed_usable", "1 while a feed's quote may be used.", labels=["feed", "base"])
    for feed in rates["feeds"]:
        labels = (feed["source"], feed["base"])
        usable.add_metric(labels, float(feed["usable"]))
        if feed["age"] is not None:
            ages.add_metric(labels, feed["age"])
    yield from (ages, usable)


def _ingested(progress_by_chain: Mapping[str, SyncProgress]) -> Iterator[Metric]:
    """Counts of the blocks, bytes and events that were read of chains here."""
    blocks = CounterMetricFamily("a2b_ingested_blocks", "Blocks read and stored since the start.", labels=["chain"])
    size = CounterMetricFamily("a2b_ingested_bytes", "Bytes of these blocks.", labels=["chain"])
    events = CounterMetricFamily("a2b_ingested_events", "Events of these blocks, by kind.", labels=["chain", "outcome"])
    for name, progress in progress_by_chain.items():
        blocks.add_metric([name], progress.blocks)
        size.add_metric([name], progress.bytes)
        for kind in EventKind:
            events.add_metric([name, kind.value], progress.event_counts[kind.value])
    yield from (blocks, size, events)


def _jobs(statuses: Iterable[JobStatus]) -> Iterator[Metric]:
    """The periodic work of this process."""
    runs = GaugeMetricFamily("a2b_job_last_run_seconds", "When the last run of a job began.", labels=["job"])
    times = GaugeMetricFamily("a2b_job_run_seconds", "Duration of the last run of a job.", labels=["job"])
    planned = GaugeMetricFamily("a2b_job_next_run_seconds", "When the next run of a job is due.", labels=["job"])
    failures = CounterMetricFamily("a2b_job_failures", "Runs of a job that failed since the start.", labels=["job"])
    for job in statuses:
        failures.add_metric([job.name], job.failures)
        for family, value in ((runs, job.ran_at), (times, job.seconds), (planned, job.next_at)):
            if value is not None:
                family.add_metric([job.name], value)
    yield from (runs, times, planned, failures)


def _by_label(
    name: str, text: str, label: str, values: Mapping[str, float],
    kind: type[CounterMetricFamily | GaugeMetricFamily] = GaugeMetricFamily,
) -> Metric:  # fmt: skip
    family = kind(name, text, labels=[label])
    for value, count in values.items():
        family.add_metric([value], count)
    return family


def _chains(rows: Sequence[Mapping[str, Any]], refused: Mapping[str, int]) -> Iterator[Metric]:
    for name, member, text in _CHAIN_GAUGES:
        family = GaugeMetricFamily(name, text, labels=["chain"])
        for row in rows:
            if row.get(member) is not None:
                family.add_metric([row["name"]], row[member])
        yield family
    seen = GaugeMetricFamily(
        "a2b_follower_seen_seconds", "When the follower gave its last sign of life.", labels=["chain"]
    )
    state = GaugeMetricFamily("a2b_chain_state", "1 for the state that the chain is in.", labels=["chain", "state"])
    reorgs = CounterMetricFamily("a2b_chain_reorgs", "Reorganisations since the start.", labels=["chain"])
    disagree = GaugeMetricFamily("a2b_chain_sources_disagree", "1 while the sources disagree.", labels=["chain"])
    peers = GaugeMetricFamily("a2b_chain_peers", "Peers that are connected.", labels=["chain"])
    networks = GaugeMetricFamily("a2b_chain_peer_networks", "Networks of these peers.", labels=["chain"])
    for row in rows:
        if (counts := row.get("peers")) is not None:
            peers.add_metric([row["name"]], counts["connected"])
            networks.add_metric([row["name"]], counts["networks"])
        disagree.add_metric([row["name"]], float(bool(row.get("sourcesDisagree"))))
        for word in STATES:
            state.add_metric([row["name"], word], float(row["state"] == word))
        if row.get("reorgs") is not None:
            reorgs.add_metric([row["name"]], row["reorgs"])
        if (seen_at := row.get("followerSeenAt")) is not None:
            seen.add_metric([row["name"]], datetime.fromisoformat(seen_at).timestamp())
    text = "Blocks refused since the start."
    refusals = _by_label("a2b_chain_refused_blocks", text, "chain", refused, CounterMetricFamily)
    yield from (state, seen, reorgs, disagree, peers, networks, refusals)


def _http(counters: Counters, paths: Sequence[str], names: Iterable[str]) -> Iterator[Metric]:
    times = HistogramMetricFamily(
        "a2b_http_request_seconds", "Time to answer, by route and status.", labels=["route", "status"]
    )
    for latency in counters.latencies():
        path = paths[latency.route] if latency.route < len(paths) else "other"
        times.add_metric([path, str(latency.status or "other")], list(_buckets(latency.counts)), latency.seconds)
    yield times
    refused = {name: counters.gauge(number) for name, number in REFUSED.items()}
    text = "Requests refused by a rate limit."
    yield _by_label("a2b_http_rate_limited", text, "limit", refused, CounterMetricFamily)
    named = {name: counters.named.count(name) for name in names}
    yield _by_label("a2b_client_requests", "Requests of clients with a token.", "client", named, CounterMetricFamily)
    yield GaugeMetricFamily("a2b_streams", "Readers of the change feed that are connected.", counters.gauge(STREAMS))


def _searches(counters: Counters) -> Iterator[Metric]:
    """Counts of searches since the start."""
    outcomes = {outcome.value: counters.gauge(number) for outcome, number in GAUGES.items()}
    yield _by_label("a2b_searches", "Searches since the start, by outcome.", "outcome", outcomes, CounterMetricFamily)
    yield CounterMetricFamily("a2b_listings_opened", "Listings opened since the start.", counters.gauge(OPENED))


def _lines(counters: Counters) -> Metric:
    lines = {"warning": counters.gauge(WARNINGS), "error": counters.gauge(ERRORS)}
    return _by_label("a2b_log_lines", "Lines logged since the start, by level.", "level", lines, CounterMetricFamily)


def _database_faults(counters: Counters) -> Metric:
    text = "Errors of the database in background loops since the start; each loop is started again."
    return CounterMetricFamily("a2b_database_faults", text, counters.gauge(DATABASE_FAULTS))


def _buckets(counts: Sequence[int]) -> Iterator[tuple[str, float]]:
    """Counts up to each bound, as Prometheus adds them up."""
    total = 0
    for bound, count in zip([*map(str, BUCKETS), "+Inf"], counts, strict=True):
        total += count
        yield bound, total
