"""Problems on pages: whoever reads HTML is told in HTML what went wrong, all others get problem details (RFC 9457)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from http import HTTPStatus

from aiohttp import hdrs, web

from indexer.store import StoreUnavailableError
from overlay.api.problems import ProblemError
from overlay.engines import UnavailableError
from overlay.pages.rendering import html_answer, names_html, render

PageHandler = Callable[[web.Request], Awaitable[web.Response]]

_AWAY = ProblemError(
    503, "the database does not answer for now; try again in a moment", headers={hdrs.RETRY_AFTER: "1"}
)


def for_people(handler: PageHandler) -> PageHandler:
    """A page's handler whose problems are pages too, where Accept names HTML; else they are raised as they are."""

    @wraps(handler)
    async def told(request: web.Request) -> web.Response:
        try:
            return await handler(request)
        except (ProblemError, StoreUnavailableError, UnavailableError) as error:
            if not names_html(request):
                raise
            return problem_page(error if isinstance(error, ProblemError) else _AWAY)

    return told


def problem_page(problem: ProblemError) -> web.Response:
    """A problem as a page."""
    details = [fault.detail for fault in problem.faults] or [problem.detail]
    answer = html_answer(
        render("problem.html", title=HTTPStatus(problem.status).phrase.capitalize(), details=details[:20]),
        status=problem.status,
    )
    answer.headers.update(problem.headers)
    if problem.headers.get(hdrs.CONNECTION) == "close":
        answer.force_close()
    return answer
