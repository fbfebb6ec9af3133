"""A request as the signed bearer tokens of Motebit are checked against it."""

from __future__ import annotations

from urllib.parse import urlsplit

from aiohttp import hdrs, web

from overlay.api.answers import SERVICES, body
from overlay.api.base_url import base_url
from parsers.claims.motebit.bearer_token import SignedRequest


async def signed_request(request: web.Request, most: int) -> SignedRequest:
    """The request with its body, of at most so many bytes. Raises ProblemError."""
    return SignedRequest(
        request.headers.get(hdrs.AUTHORIZATION, ""),
        await body(request, most),
        urlsplit(base_url(request)).netloc,
        bool(request.app[SERVICES].site.public_url),
    )
