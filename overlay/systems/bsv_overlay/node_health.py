"""Health as overlay-express reports it."""

from __future__ import annotations

from asyncio import to_thread
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from overlay.answers.schema_parts import array_of, record
from overlay.api.answers import SERVICES, json_answer
from overlay.api.base_url import base_url
from overlay.api.request_context import CONTEXT
from overlay.systems.bsv_overlay.express_routes import express_route
from overlay.systems.bsv_overlay.service_names import CHAIN_PREFIX, LOOKUPS, TOPICS

_STARTED_AT = web.AppKey("overlay node start", datetime)
_NETWORKS = {"mainnet": "main", "testnet": "test", "": "none"}


def note_start(app: web.Application) -> None:
    """Note when the application starts."""
    app[_STARTED_AT] = datetime.now(UTC)


async def health(request: web.Request) -> web.Response:
    """Whether the overlay is live and ready, with its checks: 503 while it is not ready (overlay-express)."""
    report = await _report(request)
    return json_answer(report, status=200 if report["ready"] else 503)


async def live(request: web.Request) -> web.Response:
    """Whether the process answers; its checks report whether it is ready (overlay-express)."""
    return json_answer(await _report(request))


async def _report(request: web.Request) -> dict[str, Any]:
    began = monotonic()
    missing = "the server is shutting down" if request.app[CONTEXT].draining else None
    missing = missing or await to_thread(request.app[SERVICES].process.ready)
    registry = _check("registry", "ready", "ok" if missing is None else "error", began)
    return {
        "status": "ok" if missing is None else "degraded",
        "live": True,
        "ready": missing is None,
        "version": request.app[SERVICES].process.version,
        "service": _service(request),
        "checks": [_check("process", "live", "ok", began), registry | ({"message": missing} if missing else {})],
    }


def _check(name: str, scope: str, status: str, began: float) -> dict[str, Any]:
    took = round(1000 * (monotonic() - began))
    return {"name": name, "scope": scope, "critical": True, "status": status, "durationMs": took}


def _service(request: web.Request) -> dict[str, Any]:
    base, started_at = urlsplit(base_url(request)), request.app[_STARTED_AT]
    chains = request.app[SERVICES].chains().values()
    network = next((caip2.removeprefix(CHAIN_PREFIX) for caip2 in chains if caip2.startswith(CHAIN_PREFIX)), "")
    return {
        "name": "a2b",
        "advertisableFQDN": base.hostname or "",
        "port": base.port or (443 if base.scheme == "https" else 80),
        "network": _NETWORKS.get(network, network),
        "startedAt": started_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "uptimeMs": (datetime.now(UTC) - started_at) // timedelta(milliseconds=1),
        "topicManagerCount": len(TOPICS),
        "lookupServiceCount": len(LOOKUPS),
    }


_route = partial(express_route, answer="OverlayHealth", limit=None)
ROUTES = (
    _route("/health", health, errors=(503,)),
    _route("/health/ready", health, errors=(503,)),
    _route("/health/live", live),
)

_STATUS: dict[str, Any] = {"enum": ["ok", "degraded", "error"]}
_CHECK = record({"name": {"type": "string"}, "scope": {"enum": ["live", "ready"]}, "status": _STATUS})
_TRUTH = {name: {"type": "boolean"} for name in ("live", "ready")}
SCHEMAS: dict[str, Any] = {
    "OverlayHealth": record({"status": _STATUS, **_TRUTH, "service": record({}), "checks": array_of(_CHECK)})
}
