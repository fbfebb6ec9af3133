"""The routes of the web pages, and of the documentation."""

from __future__ import annotations

from overlay.api.parameters import SEARCH, optional
from overlay.api.routes import CSS, FORM, HTML, JSON, SCRIPT, SVG, WEBP, Route
from overlay.web import (
    assets,
    evidence_page,
    guide,
    listing_page,
    publish_page,
    register_page,
    search_page,
    status_page,
)

_FORM_FIELDS = optional(SEARCH.parameters)
"""Fields that are left empty are sent empty, and taken out of the page's address."""

ROUTES = (
    Route(
        path="/openapi.json", handler=guide.openapi, tag="documentation", answer="OpenApi", conditional=True,
        limit=None,
    ),
    Route(
        path="/docs", handler=guide.guide, tag="documentation", answer="OpenApi", media=(HTML, JSON), conditional=True,
        limit=None,
    ),
    Route(
        path="/docs/api", handler=guide.api_page, tag="documentation", answer="OpenApi", media=(HTML, JSON),
        conditional=True, limit=None,
    ),
    Route(
        path="/docs/api/{tag}", handler=guide.api_group, tag="documentation", answer=None, media=(HTML,),
        errors=(404,), conditional=True, limit=None,
    ),
    Route(
        path="/docs/{page}", handler=guide.guide_page, tag="documentation", answer=None, media=(HTML,),
        errors=(404,), conditional=True, limit=None,
    ),
    Route(
        path="/", handler=search_page.search, tag="pages", answer="Page", parameters=_FORM_FIELDS,
        media=(HTML, JSON), empty=(302,), conditional=True,
    ),
    Route(
        path="/listings/{id}/evidence", handler=evidence_page.evidence, tag="pages", answer="Evidence",
        media=(HTML, JSON), errors=(404,), conditional=True,
    ),
    Route(
        path="/listings/{id}", handler=listing_page.listing, tag="pages", answer="Listing", media=(HTML, JSON),
        errors=(404,), conditional=True,
    ),
    Route(
        path="/publish", handler=publish_page.publish, tag="pages", answer="Diagnosis", media=(HTML, JSON),
        limit="costly",
    ),
    Route(
        path="/publish", method="POST", handler=publish_page.publish_pasted, tag="pages", answer="Diagnosis",
        media=(HTML, JSON), body="PublishForm", body_media=FORM, empty=(303,), limit="costly",
    ),
    Route(path="/register", handler=register_page.register, tag="pages", answer=None, media=(HTML,)),
    Route(
        path="/register", method="POST", handler=register_page.prepare, tag="pages", answer="WalletFile",
        media=(HTML, JSON), limit="costly",
    ),
    Route(
        path="/logos/{digest}", handler=assets.logo, tag="pages", answer=None, media=(WEBP,),
        errors=(404,), conditional=True, limit="read",
    ),
    Route(path="/status", handler=status_page.status, tag="pages", answer="Status", media=(HTML, JSON)),
    Route(
        path="/static/{name}", handler=assets.static, tag="pages", answer=None, media=(CSS, SCRIPT, SVG),
        errors=(404,), conditional=True, limit=None,
    ),
)  # fmt: skip
