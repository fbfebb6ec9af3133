"""Foreign protocols on the same index: the systems that have a constant `DOOR`, by name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from aiohttp import web

from indexer.setting_values import SettingsError
from overlay.api.routes import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """A foreign protocol: its routes, the schemas that these name in the OpenAPI document, what runs as long as the
    application (stores, background tasks), and whether it signs with this server's identity key."""

    routes: tuple[Route, ...]
    schemas: Mapping[str, Any] = field(default_factory=dict)
    run: Callable[[web.Application], AsyncIterator[None]] | None = None
    signs: bool = False


_MODULES = {
    "a2a": "overlay.systems.a2a",
    "ard": "overlay.systems.ard",
    "bsv_overlay": "overlay.systems.bsv_overlay",
    "feeds": "overlay.systems.feeds",
    "mcp": "overlay.systems.mcp",
    "mcp_registry": "overlay.systems.mcp_registry",
    "motebit": "overlay.systems.motebit",
    "mrp": "overlay.systems.mrp",
    "relay": "overlay.systems.relay.relay_api",
    "webhooks": "overlay.systems.webhooks.webhook_api",
    "x402": "overlay.systems.x402",
}
"""The module of each door."""


def names() -> list[str]:
    """The names of all doors."""
    return sorted(_MODULES)


def chosen(text: str) -> tuple[str, ...]:
    """The doors that the setting `doors` names: `all`, `off`, or names separated by spaces. Raises SettingsError."""
    if text in ("all", "off"):
        return tuple(names()) if text == "all" else ()
    words = tuple(dict.fromkeys(text.split()))
    for word in words:
        if word not in names():
            raise SettingsError(f"doors holds {word[:60]!a}: write all, off, or some of {' '.join(names())}")
    return words


def doors(names: Iterable[str]) -> list[Door]:
    """The doors with these names."""
    loaded: list[Door] = [import_module(_MODULES[name]).DOOR for name in names]
    return loaded


def signing(names: Iterable[str]) -> list[str]:
    """Those of these doors that sign."""
    return [name for name in names if doors([name])[0].signs]
