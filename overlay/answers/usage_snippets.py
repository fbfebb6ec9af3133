"""How to use a listing, as texts to copy."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from overlay.answers.record import Record, text, words

LANGUAGES = ("json", "shell", "python")


class UsageSnippet(Record, kw_only=True):
    """A text to copy: settings of an MCP client, or a call of an agent. It has a stranger's command or URL: read it
    first. Values of variables and headers are left empty, or are asked for by the client."""

    title: Annotated[str, Meta(description="The client or program that it is for.")]
    file: Annotated[str, text("The file of settings that it belongs into; empty for a call.")]
    language: Annotated[str, words(*LANGUAGES, description="`shell` is quoted for a POSIX shell.")]
    text: str


class UsageSnippets(Record, kw_only=True):
    """The texts for a listing, and a sentence why there are none."""

    id: str
    snippets: tuple[UsageSnippet, ...]
    why: Annotated[str, Meta(description="Why there are none; empty where there are some.")]
