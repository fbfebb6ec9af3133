"""The BSV overlay services protocol (BRC-22, BRC-24, BRC-88, BRC-136, GASP) as overlay-express and its clients
implement it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aiohttp import web

from indexer.admission.admission import Admissions
from overlay.api.answers import SERVICES
from overlay.api.systems import Parts, Services, SystemApi
from overlay.systems.bsv_overlay import anchor_api, gasp_api, lookup_api, node_health, service_directory, submit_api


async def _run(app: web.Application) -> AsyncIterator[None]:
    node_health.note_start(app)
    load = app[SERVICES].process.counters.load
    app[gasp_api.NODES] = nodes = gasp_api.node_executor(load)
    app[submit_api.SUBMISSIONS] = submissions = submit_api.submission_executor(load)
    yield
    nodes.close()
    submissions.close()


def _bring(parts: Parts) -> Services:
    """The service that accepts transactions with their proof, and the secret that authorizes reports on them ("" for
    none)."""
    token = parts.settings.arc_callback_token
    return {submit_api.ADMISSIONS: Admissions(parts.store), submit_api.ARC_TOKEN: token}


_PARTS = (service_directory, lookup_api, submit_api, anchor_api, gasp_api, node_health)
API = SystemApi(
    routes=tuple(route for part in _PARTS for route in part.ROUTES),
    schemas={name: schema for part in _PARTS for name, schema in part.SCHEMAS.items()},
    run=_run,
    bring=_bring,
)
