"""The tools that the endpoint of a listing lists, with their schemas."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from overlay.answers.items import ItemTools
from overlay.answers.record import Record


class ObservedTool(Record, kw_only=True, omit_defaults=True):
    """A tool as its server describes it: a stranger's text, which may instruct a model."""

    name: str
    description: str = ""
    input_schema: Annotated[dict[str, Any] | None, Meta(description="A JSON Schema of its arguments.")] = None


class ToolChanges(Record, kw_only=True):
    """The names by which the tools differ from those that were seen first, until these were not served for 30 days."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]


class ListedTools(Record, kw_only=True):
    """The list of tools of a listing's URL (`tools/list`), apart from what is inscribed. Of more than 256 tools, or
    256 kB, `tools` has the first; `observed.count` counts all."""

    id: str
    observed: ItemTools
    tools: tuple[ObservedTool, ...]
    changes: ToolChanges
