"""Problems on pages: whoever reads HTML is told in HTML what went wrong, all others get problem details (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import web

from overlay.api.problems import ProblemError
from overlay.pages.rendering import html_answer, names_html, render

_API = "/v1/"


def for_people(request: web.Request, problem: ProblemError, request_id: str) -> web.Response | None:
    """A problem as a page, where Accept names HTML and what was asked for is not of the API; else None."""
    return problem_page(problem, request_id) if not request.path.startswith(_API) and names_html(request) else None


def problem_page(problem: ProblemError, request_id: str = "") -> web.Response:
    """A problem as a page; where the server is to blame, with the id that its operator finds the reason under."""
    details = [fault.detail for fault in problem.faults] or [problem.detail]
    answer = html_answer(
        render(
            "problem.html",
            title=HTTPStatus(problem.status).phrase.capitalize(),
            details=details[:20],
            request_id=request_id if problem.status == HTTPStatus.INTERNAL_SERVER_ERROR else "",
        ),
        status=problem.status,
    )
    answer.headers.update(problem.headers)
    return answer
