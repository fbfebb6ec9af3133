"""The web pages: made on the server, without scripts, without a request to anybody else."""

from __future__ import annotations

from overlay.pages.docs_page import docs, openapi
from overlay.pages.listing_page import listing
from overlay.pages.rendering import style
from overlay.pages.search_page import search

__all__ = ["docs", "listing", "openapi", "search", "style"]
