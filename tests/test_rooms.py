"""The rooms of the house: imports point one way, and each third-party library is fenced to a few files."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

ROOMS = ("parsers", "indexer", "overlay")

MAY_IMPORT = {"parsers": {"parsers"}, "indexer": {"parsers", "indexer"}, "overlay": {"parsers", "indexer", "overlay"}}

PLUGS = ("indexer/chains", "overlay/engines")


def modules() -> list[Path]:
    return sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Every module a file imports, at the top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield node.module or ""


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_imports_point_from_the_overlay_to_the_parsers(path: Path) -> None:
    room = path.relative_to(ROOT).parts[0]
    rooms = {name.split(".")[0] for name in imports(path)} & {*ROOMS, "tests"}
    assert rooms <= MAY_IMPORT[room], f"{name_of(path)} imports {rooms - MAY_IMPORT[room]}"


@pytest.mark.parametrize("folder", PLUGS)
def test_plugs_do_not_import_each_other(folder: str) -> None:
    package = folder.replace("/", ".")
    for path in (ROOT / folder).rglob("*.py"):
        own = path.relative_to(ROOT / folder).parts[0].removesuffix(".py")
        others = tuple(f"{package}.{plug}" for plug in PLUG_NAMES[folder] - {own})
        met = [name for name in imports(path) if name.startswith(others)] if others else []
        assert not met or own == "__init__", f"{name_of(path)} imports {met}"


PLUG_NAMES = {
    "indexer/chains": {"evm", "files", "junglebus", "node", "several", "solana"},
    "overlay/engines": {"opensearch", "tantivy", "whoosh"},
}

STANDARD = set(sys.stdlib_module_names) | {"__future__"}


def test_each_library_is_fenced() -> None:
    strays = []
    for path in modules():
        for name in imports(path):
            library = name.split(".")[0]
            if library in STANDARD or library in ROOMS:
                continue
            fence = FENCES.get(library)
            assert fence is not None, f"{name_of(path)} imports {library}, which has no fence: add one on purpose"
            if not name_of(path).startswith(fence):
                strays.append(f"{name_of(path)} imports {library}")
    assert not strays


def test_every_fence_is_needed() -> None:
    used = {name.split(".")[0] for path in modules() for name in imports(path)}
    assert set(FENCES) <= used


def test_parsers_do_no_input_or_output() -> None:
    forbidden = {
        "asyncio",
        "logging",
        "socket",
        "ssl",
        "sqlite3",
        "time",
        "datetime",
        "subprocess",
        "threading",
        "random",
    }
    for path in (ROOT / "parsers").rglob("*.py"):
        found = {name.split(".")[0] for name in imports(path)} & forbidden
        assert not found, f"{name_of(path)} imports {found}"


FENCES: dict[str, tuple[str, ...]] = {
    "PIL": ("indexer/fetching/thumbnail.py",),
    "apscheduler": ("indexer/rates.py",),
    "cryptography": ("indexer/rate_feed.py",),
    "Stemmer": ("overlay/search/analysis.py",),
    "aiohttp": ("overlay/", "indexer/chains/node/", "indexer/chains/jsonrpc.py"),
    "base58": ("parsers/address.py", "indexer/chains/solana/"),
    "bitcoinx": ("parsers/sigma.py", "indexer/header_rules.py"),
    "dns": ("indexer/fetching/txt.py",),
    "httpcore": ("indexer/fetching/fetcher.py", "indexer/fetching/network.py"),
    "httpx": ("indexer/chains/junglebus/", "indexer/fetching/", "indexer/rate_feed.py", "overlay/remote.py"),
    "idna": ("parsers/locator.py",),
    "isal": ("indexer/snapshot.py", "overlay/api/middleware.py"),
    "jinja2": ("overlay/pages/",),
    "llvmlite": ("parsers/compiled",),
    "markupsafe": ("overlay/pages/",),
    "msgspec": ("indexer/snapshot_lines.py",),
    "multidict": ("overlay/",),
    "numba": ("parsers/compiled",),
    "numpy": (
        "parsers/block",
        "parsers/compiled",
        "parsers/hashing.py",
        "parsers/watched.py",
        "indexer/chains/",
        "indexer/headertree.py",
        "indexer/output_values.py",
        "indexer/proving.py",
        "indexer/rawheaders.py",
        "indexer/spend_order.py",
        "indexer/spends.py",
        "overlay/",
    ),
    "opensearchpy": ("overlay/engines/opensearch/",),
    "orjson": ("overlay/compact.py", "overlay/api/cursors.py"),
    "prometheus_client": ("overlay/metrics.py",),
    "publicsuffixlist": ("indexer/fetching/domains.py",),
    "pydantic": ("overlay/api/bodies.py",),
    "rich": ("overlay/bars.py", "overlay/terminal.py"),
    "rapidfuzz": ("overlay/search/term_dictionary.py",),
    "sqlalchemy": ("indexer/store/",),
    "tantivy": ("overlay/engines/tantivy/",),
    "whoosh": ("overlay/engines/whoosh/",),
    "zmq": ("indexer/chains/node/",),
}
"""Where each library may be imported: the files whose names begin so."""
