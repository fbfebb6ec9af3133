"""The routes of the web pages, and of the documentation."""

from __future__ import annotations

from functools import partial

from overlay.api.parameters import COMPARE, SEARCH, optional, table
from overlay.api.routes import CSS, FORM, HTML, JSON, PNG, SCRIPT, SVG, TEXT, WEBP, XML, Route
from overlay.web import (
    assets,
    badge_svg,
    compare_page,
    findability_page,
    guide,
    listing_page,
    publish_page,
    register_page,
    search_page,
    site_files,
    status_page,
)

_FORM_FIELDS = table(*optional(SEARCH.parameters))
"""Fields that are left empty are sent empty, and taken out of the page's address."""

_ID, *_TERMS = COMPARE.parameters
_COMPARE_FIELDS = table(_ID, *optional(_TERMS))

_documentation = partial(Route, tag="documentation", conditional=True, limit=None)
_page = partial(Route, tag="pages", media=(HTML, JSON))

ROUTES = (
    _documentation("/openapi.json", guide.openapi, "OpenApi"),
    _documentation("/docs", guide.guide, "OpenApi", media=(HTML, JSON)),
    _documentation("/docs/api", guide.api_page, "OpenApi", media=(HTML, JSON)),
    _documentation("/docs/api/{tag}", guide.api_group, None, media=(HTML,), errors=(404,)),
    _documentation("/docs/{page}", guide.guide_page, None, media=(HTML,), errors=(404,)),
    _page("/", search_page.search, "Page", parameters=_FORM_FIELDS, empty=(302,), conditional=True),
    _page(
        "/listings/{id}/badge.svg", badge_svg.badge, None, media=(SVG,), errors=(404, 451), conditional=True,
    ),
    _page(
        "/listings/{id}/findability", findability_page.findability, "Findability", errors=(404, 451), limit="costly",
    ),
    _page("/listings/{id}", listing_page.listing, "Listing", errors=(404, 451), conditional=True),
    _page(
        "/compare", compare_page.compare, "Comparison", parameters=_COMPARE_FIELDS, errors=(404, 451), conditional=True,
    ),
    _page("/publish", publish_page.publish, "Diagnosis", errors=(451,), limit="costly"),
    _page(
        "/publish", publish_page.publish_pasted, "Diagnosis", method="POST", body="PublishForm", body_media=FORM,
        empty=(303,), limit="costly",
    ),
    _page("/register", register_page.register, None, media=(HTML,), errors=(451,)),
    _page(
        "/register", register_page.prepare, "WalletFile", method="POST", body="RegisterForm", body_media=FORM,
        limit="costly",
    ),
    _page("/logos/{digest}", assets.logo, None, media=(WEBP,), errors=(404,), conditional=True),
    _page("/llms.txt", site_files.llms_txt, None, media=(TEXT,), conditional=True),
    _page("/sitemap.xml", site_files.sitemap_index, None, media=(XML,), conditional=True, limit="costly"),
    _page(
        "/sitemap-{number}.xml", site_files.sitemap, None, media=(XML,), errors=(404,), conditional=True,
        limit="costly",
    ),
    _page("/status", status_page.status, "Status"),
    _page(
        "/static/{name}", assets.static, None, media=(CSS, SCRIPT, SVG, PNG), errors=(404,), conditional=True,
        limit=None,
    ),
)  # fmt: skip
