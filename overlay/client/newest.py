"""Whether the revision that an overlay serves is the newest one: it may be out of date, or leave a newer one out, and
no bytes that it serves disprove this. The user's own source does, or other overlays that name the same revision."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from overlay.client.calls import Call, get
from overlay.client.errors import ClientError, NewerRevisionError, NotVerifiedError
from overlay.client.exchange import base_url
from overlay.client.listing_source import ClientSource
from overlay.verify import PROVED, VerificationReport

NEEDED = (
    "nothing shows that this revision is the newest: name a node of your own (trusted=SOURCE) or other overlays "
    "(against=[URL, …]), or accept any revision (newest_unchecked=True)"
)

MEMBERS = ("caip2", "status", "outpoint", "cardSha256")
"""The members of an item that name its revision, and where it is now."""


AskAt = Callable[[str, Call[Any]], Awaitable[Any]]
"""The answer of the overlay at a URL to a call, as JSON; raises ClientError."""


async def confirm(
    report: VerificationReport, source: ClientSource, serving: str, against: Sequence[str], ask_at: AskAt
) -> None:
    """Return where the user's own source proves in `report` that the listing in `source` is the newest revision, or one
    of the overlays `against`, other than that at `serving`, names the same one, and no overlay names a revision that
    the listing has not had before. Raises NotVerifiedError with the answer of each, UrlError."""
    urls = [url for url in dict.fromkeys(map(base_url, against)) if url != base_url(serving)]
    answers = await asyncio.gather(*(_item(url, str(source.item["id"]), ask_at) for url in urls))
    is_confirmed = any(result.step == "newest" and result.outcome == PROVED for result in report.steps)
    sentences = []
    for url, answer in zip(urls, answers, strict=True):
        difference = answer if isinstance(answer, str) else _difference(source, answer)
        is_confirmed |= not difference
        sentences.append(f"{url} {difference}")
        if isinstance(answer, dict) and difference and not _is_earlier(source, answer):
            raise NewerRevisionError(f"{report.id} may have a newer revision: {url} {difference}", report)
    if not is_confirmed:
        raise NotVerifiedError(f"{report.id}: {'; '.join([NEEDED, *sentences])}", report)


async def _item(url: str, id_: str, ask_at: AskAt) -> dict[str, Any] | str:
    """The item that an overlay answers with, or why it answers with none."""
    try:
        item = await ask_at(url, get(id_))
    except ClientError as error:
        return f"does not confirm it: {error}"
    if not isinstance(item, dict) or item.get("id") != id_:
        return "does not confirm it: it answers about another listing"
    return item


def _difference(source: ClientSource, item: Mapping[str, Any]) -> str:
    """How the item of another overlay differs; "" where it names the same revision."""
    for name in MEMBERS:
        theirs, ours = item.get(name), source.item.get(name)
        if theirs != ours:
            return f"has {name} {str(theirs)[:100]!a}, and not {str(ours)[:100]!a}"
    return ""


def _is_earlier(source: ClientSource, item: Mapping[str, Any]) -> bool:
    """Whether another overlay has the listing where the proved path of its satoshi was before."""
    return str(item.get("outpoint")) in source.spent_outpoints()
