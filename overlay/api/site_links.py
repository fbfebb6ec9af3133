"""The title of the site and the links of its operator, on every page."""

from __future__ import annotations

from contextvars import ContextVar
from typing import NamedTuple


class SiteLinks(NamedTuple):
    """The name of the site, its configured address ("" for that of the request), and links (https or mailto): where
    visitors report a listing and weaknesses of the server, and what the operator states; "" for none."""

    title: str = "A2B registry"
    public_url: str = ""
    report: str = ""
    contact: str = ""
    imprint: str = ""
    privacy: str = ""
    terms: str = ""

    @property
    def foot(self) -> list[tuple[str, str]]:
        """The links at the foot of a page: words and address."""
        words = {
            "Report a listing": self.report, "Contact": self.contact, "Imprint": self.imprint,
            "Privacy": self.privacy, "Terms": self.terms,
        }  # fmt: skip
        return [(word, address) for word, address in words.items() if address]


SITE: ContextVar[SiteLinks] = ContextVar("site links", default=SiteLinks())  # noqa: B039 - a tuple
"""The links of the server that answers the request."""
