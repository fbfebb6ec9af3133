"""The web pages: made on the server, whole without scripts, better with them, and without a request to anybody else."""

from __future__ import annotations

from overlay.pages.assets import static
from overlay.pages.docs_page import docs, openapi
from overlay.pages.listing_page import listing
from overlay.pages.logo import logo
from overlay.pages.publish_page import publish, publish_pasted
from overlay.pages.search_page import search
from overlay.pages.status_page import status

__all__ = ["docs", "listing", "logo", "openapi", "publish", "publish_pasted", "search", "static", "status"]
