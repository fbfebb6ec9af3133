"""Foreign protocols on the same index. Each door is a module or package here, with a constant `DOOR`; doors share
nothing with each other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
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


def names() -> list[str]:
    """The names of all doors: those of the modules of this package."""
    return sorted(module.name for module in iter_modules(__path__))


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
    loaded: list[Door] = [import_module(f"overlay.protocols.{name}").DOOR for name in names]
    return loaded


def signing(names: Iterable[str]) -> list[str]:
    """Those of these doors that sign."""
    return [name for name in names if doors([name])[0].signs]
