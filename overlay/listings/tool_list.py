"""The tools that the URL of a listing lists, as an answer."""

from __future__ import annotations

from typing import Any

from overlay.answers.observed_tools import ListedTools, ObservedTool, ToolChanges
from overlay.listings import lookup
from overlay.listings.item_json import item_tools
from overlay.listings.repository import ListingRepository


def tool_list(repository: ListingRepository, text: str) -> ListedTools:
    """The observed tools of the listing that an id names. Raises ListingNotFoundError, also where nobody looked."""
    listing = lookup.single_listing(repository, text)
    observed, tools = listing.observed_tools, item_tools(listing)
    if observed is None or tools is None:
        raise lookup.ListingNotFoundError(f"no tools were observed of {text[:200]!a}")
    stored = repository.store.tools.tools(observed.endpoint, observed.sha256)
    return ListedTools(
        id=listing.id, observed=tools, tools=tuple(map(_tool, stored)),
        changes=ToolChanges(**observed.changes._asdict()),
    )  # fmt: skip


def _tool(stored: dict[str, Any]) -> ObservedTool:
    schema = stored.get("inputSchema")
    return ObservedTool(name=stored["name"], description=stored.get("description", ""), input_schema=schema)
