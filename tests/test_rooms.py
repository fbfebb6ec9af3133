"""The rooms of the house: imports point one way, and each third-party library is fenced to a few files."""

from __future__ import annotations

import ast
import gc
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

from overlay.app.compilation import ALL_LOOPS
from overlay.installation import NAMES
from parsers.json_records import JsonObject, RecordError, convert
from tests.conftest import ROOT

ROOMS = ("parsers", "indexer", "overlay")

MAY_IMPORT = {"parsers": {"parsers"}, "indexer": {"parsers", "indexer"}, "overlay": {"parsers", "indexer", "overlay"}}

PLUGS = ("indexer/chains", "overlay/engines", "overlay/systems", "parsers/claims")

ASSEMBLERS = ("__init__", "verification", "work_receipts")
"""Modules that may import all plugs of their folder."""


def modules() -> list[Path]:
    return sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file, which many tests read."""
    tree = ast.parse(path.read_text())
    gc.freeze()  # a million nodes that stay are not looked through again and again
    return tree


def imports(path: Path) -> Iterator[str]:
    """Every module a file imports, at the top or inside a function."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_imports_point_from_the_overlay_to_the_parsers() -> None:
    for path in modules():
        room = path.relative_to(ROOT).parts[0]
        rooms = {name.split(".")[0] for name in imports(path)} & {*ROOMS, "tests"}
        assert rooms <= MAY_IMPORT[room], f"{name_of(path)} imports {rooms - MAY_IMPORT[room]}"


def parts_of(room: str) -> dict[Path, str]:
    """The folder, or at the top the module, that each file of a room belongs to."""
    return {path: path.relative_to(ROOT / room).parts[0].removesuffix(".py") for path in (ROOT / room).rglob("*.py")}


def arrows(room: str) -> Iterator[tuple[Path, str, str]]:
    """Imports between the parts of a room: the file, the part that it belongs to, and the part that it imports."""
    parts = parts_of(room)
    for path, part in parts.items():
        targets = {name.split(".")[1] for name in imports(path) if name.startswith(f"{room}.")}
        yield from ((path, part, target) for target in targets & set(parts.values()) if target != part)


ORDER = {
    "parsers": "reasons errors json_records local_hosts byte_reader interpretation numba_compiler jit bitcoin cards"
    " pointers inscriptions claims",
    "indexer": "declarations check_verdict retries durable_files opened_path spill errors model masking client_networks"
    " public_addresses http_body sqlite_integrity headers chains store failures state_hash resolution admission sync"
    " fetcher rates setting_values settings diagnosis snapshot sqlite_heights",
    "overlay": "text jobs installation search answers engines listings duplicates projection pricing verify publish api"
    " web client app commands systems examples cli __main__",
}
"""The parts of each room, from those that import no other to those that nothing imports."""


@pytest.mark.parametrize("room", ROOMS)
def test_parts_of_a_room_build_on_each_other_in_one_order(room: str) -> None:
    order = ORDER[room].split()
    assert set(parts_of(room).values()) == {*order, "__init__"}
    strays = [(path, target) for path, part, target in arrows(room) if order.index(part) < order.index(target)]
    assert not [f"{name_of(path)} imports {target}" for path, target in strays]


def test_the_core_imports_no_system() -> None:
    """Systems are loaded by name: each can be taken out."""
    strays = [
        f"{name_of(path)} imports {name}"
        for path in modules()
        if not name_of(path).startswith(("overlay/systems/", "overlay/examples/"))
        for name in imports(path)
        if f"{name}.".startswith("overlay.systems.")
    ]
    assert not strays


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def needs(tree: ast.AST, names: set[str]) -> set[str]:
    """The modules that a file imports, inside functions and for annotations, too."""
    results = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                results.add(full if full in names else node.module or "")
        results |= needs(node, names)
    return results & names


def test_modules_do_not_import_each_other_in_circles() -> None:
    files = {module_of(path): path for path in modules()}
    graph = {name: needs(parsed(path), set(files)) - {name} for name, path in files.items()}
    TopologicalSorter(graph).prepare()


RECORDS = {
    "indexer.model",
    "overlay.search.document",
    "overlay.search.query",
    "parsers.cards",
    "parsers.cards.offers",
    "parsers.errors",
}
"""Modules of the product that oracles may import: records that are asked about, and none of the code under test."""


def test_oracles_import_no_code_that_they_check() -> None:
    for path in (ROOT / "tests" / "oracles").glob("*.py"):
        if path.name.startswith("test_"):
            continue
        modules = {name for name in imports(path) if name.split(".")[0] in ROOMS}
        strays = {name for name in modules if name not in RECORDS and name.rpartition(".")[0] not in RECORDS}
        assert strays <= {"parsers"}, f"{name_of(path)} imports {strays}"


MAX_PRIVATE_USES = 7
"""Uses of the product's private names in the tests: to be lowered as they go, and never raised."""


def private_names(paths: Iterable[Path]) -> set[str]:
    """The names with one underscore that these files define: functions, classes, variables and attributes."""
    names = set()
    for path in paths:
        for node in ast.walk(parsed(path)):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    names.add(name)
                case (
                    ast.Name(id=name, ctx=ast.Store())
                    | ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store())
                ):
                    names.add(name)
    return {name for name in names if re.match("_[a-z]", name)}


def private_uses(path: Path, names: set[str]) -> Iterator[str]:
    """Where a file uses such names of others: as attributes, or imported."""
    for node in ast.walk(parsed(path)):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(attr=name) if name in names:
                yield f"{name_of(path)}:{node.lineno} {ast.unparse(node)}"
            case ast.ImportFrom(names=aliases, module=module) if (module or "").split(".")[0] in ROOMS:
                yield from (f"{name_of(path)}:{node.lineno} {alias.name}" for alias in aliases if alias.name in names)


def test_tests_use_ever_fewer_private_names_of_the_product() -> None:
    names = private_names(modules()) - {"_replace", "_fields", "_exit"}
    tests = sorted(path for path in (ROOT / "tests").rglob("*.py") if "python_modules" not in path.parts)
    uses = [use for path in tests for use in private_uses(path, names - private_names([path]))]
    assert len(uses) <= MAX_PRIVATE_USES, "test by public behaviour instead:\n" + "\n".join(uses)


@pytest.mark.parametrize("folder", PLUGS)
def test_plugs_do_not_import_each_other(folder: str) -> None:
    package = folder.replace("/", ".")
    for path in (ROOT / folder).rglob("*.py"):
        parent = path.relative_to(ROOT / folder).parts[0].removesuffix(".py")
        others = tuple(f"{package}.{plug}." for plug in PLUG_NAMES[folder] - {parent})
        met = [name for name in imports(path) if f"{name}.".startswith(others)] if others else []
        assert not met or parent in ASSEMBLERS, f"{name_of(path)} imports {met}"


PLUG_NAMES = {
    "indexer/chains": {"evm", "files", "junglebus", "node", "overlay", "failover", "peers", "solana"},
    "overlay/engines": {"opensearch", "native", "whoosh"},
    "overlay/systems": {path.parent.name for path in (ROOT / "overlay/systems").glob("*/__init__.py")},
    "parsers/claims": {"delegateos", "motebit", "mrp"},
}

KERNELS = {source for loops in ALL_LOOPS for source in loops.sources}
"""The only files with compiled code, and all that it is made of."""


def decorators(function: ast.FunctionDef) -> set[str]:
    return {node.id for part in function.decorator_list for node in ast.walk(part) if isinstance(node, ast.Name)}


def compiled_functions(path: Path) -> list[ast.FunctionDef]:
    functions = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef)]
    return [function for function in functions if decorators(function) & {"kernel", "compiled", "intrinsic"}]


def test_compiled_code_is_in_the_files_that_are_compiled_together() -> None:
    assert not {name_of(path) for path in modules() if compiled_functions(path)} - KERNELS
    assert not {name_of(path) for path in modules() if "parsers.jit" in imports(path)} - KERNELS


def test_kernels_use_nothing_of_files_that_their_cache_does_not_depend_on() -> None:
    """A changed constant or function of another file would not change what is cached."""
    files, strays = {module_of(path): name_of(path) for path in modules()}, []
    for path in map(ROOT.joinpath, sorted(KERNELS)):
        origins = {
            alias.asname or alias.name: node.module or ""
            for node in ast.walk(parsed(path))
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for function in compiled_functions(path):
            used = {node.id for part in function.body for node in ast.walk(part) if isinstance(node, ast.Name)}
            strays += [
                f"{function.name} in {name_of(path)} uses {name} of {origins[name]}"
                for name in used & set(origins)
                if files.get(origins[name], "parsers/jit.py") not in KERNELS
            ]
    assert not strays


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


UNBOUNDED_JSON = (
    "indexer/admission/", "indexer/chains/files/", "indexer/sqlite_integrity.py", "indexer/store/",
    "overlay/api/cursors.py", "overlay/api/identity_key.py", "overlay/api/openapi.py", "overlay/api/search_answer.py",
    "overlay/commands/",
    "overlay/client/hire/journal.py", "overlay/listings/recent_changes.py", "overlay/publish/coins.py",
    "overlay/systems/delegateos/",
    "overlay/systems/liveness/store.py", "overlay/systems/motebit/store_", "overlay/systems/mrp/store.py",
    "overlay/systems/payments/",
    "overlay/systems/rating/receipt_page.py", "overlay/systems/relay/", "overlay/systems/webhooks/matcher.py",
    "overlay/text/compact_json.py", "overlay/web/search_page.py", "parsers/cards/strict_json.py",
    "parsers/pointers/pointer.py",
)  # fmt: skip
"""Files that may read JSON without the bounds of `strict_json`: what this program wrote, what its user and the services
behind its gate wrote, and texts that are held to a few kilobytes before."""


def reads_unbounded_json(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="json"), attr="loads"):
            return True
    return False


def test_strangers_json_is_read_within_bounds() -> None:
    files = [name_of(path) for path in modules() if any(map(reads_unbounded_json, ast.walk(parsed(path))))]
    assert not [name for name in files if not name.startswith(UNBOUNDED_JSON)]
    assert not [start for start in UNBOUNDED_JSON if not any(name.startswith(start) for name in files)]


def structs(kind: type[JsonObject]) -> Iterator[type[JsonObject]]:
    for struct in kind.__subclasses__():
        yield struct
        yield from structs(struct)


def test_the_types_of_every_struct_of_strangers_json_can_be_read() -> None:
    """Msgspec looks at the types of a struct when it is first read, in the loop of a chain, for example."""
    for path in modules():
        if "parsers.json_records" in imports(path):
            import_module(module_of(path))
    for struct in structs(JsonObject):
        with suppress(RecordError):
            convert({}, struct)


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
        result = {name.split(".")[0] for name in imports(path)} & forbidden
        if name_of(path) in ("parsers/numba_compiler.py", "parsers/interpretation.py"):
            result.discard("threading")  # locks of what is compiled
        assert not result, f"{name_of(path)} imports {result}"


FENCES: dict[str, tuple[str, ...]] = {
    "PIL": ("indexer/fetcher/thumbnail.py",),
    "anyio": ("overlay/systems/mcp/mcp_stdio.py",),
    "apscheduler": ("overlay/app/scheduler.py",),
    "cryptography": (
        "indexer/rates/feed_client.py",
        "overlay/api/identity_key.py",
        "parsers/claims/json_web_key.py",
    ),
    "Stemmer": ("overlay/search/analysis.py",),
    "aiohttp": ("overlay/", "indexer/chains/http_client.py", "indexer/chains/node/"),
    "bitcoinx": ("indexer/admission/script_interpreter.py",),
    "dns": ("indexer/fetcher/dns.py",),
    "google_crc32c": ("overlay/engines/native/segment_file.py", "overlay/engines/native/manifest.py"),
    "httpcore": ("indexer/fetcher/http_fetcher.py", "indexer/fetcher/connections.py"),
    "httpx": (
        "indexer/chains/httpx_session.py",
        "indexer/fetcher/",
        "indexer/rates/feed_client.py",
        "overlay/client/",
    ),
    "idna": ("parsers/pointers/locator.py",),
    "isal": ("indexer/snapshot/exporter.py", "overlay/api/compression.py"),
    "jinja2": ("overlay/web/",),
    "jsonschema": ("parsers/claims/json_schema.py",),
    "llvmlite": ("parsers/bitcoin/intrinsics.py", "parsers/bitcoin/sha256_lanes.py"),
    "markdown_it": ("overlay/web/guide.py",),
    "markupsafe": ("overlay/web/",),
    "mcp": ("overlay/systems/mcp/",),
    "mcp_types": ("overlay/systems/mcp/",),
    "msgspec": (
        "indexer/snapshot/codec.py",
        "overlay/answers/",
        "overlay/api/search_answer.py",
        "overlay/client/",
        "overlay/listings/item_json.py",
        "parsers/json_records.py",
    ),
    "multidict": ("overlay/",),
    "nacl": ("parsers/claims/ed25519.py",),
    "numba": ("parsers/numba_compiler.py", "parsers/bitcoin/intrinsics.py", "parsers/bitcoin/sha256_lanes.py"),
    "numpy": (
        "parsers/jit.py",
        "parsers/bitcoin/",
        "indexer/chains/",
        "indexer/headers/tree.py",
        "indexer/resolution/block_proofs.py",
        "indexer/headers/raw_tree.py",
        "indexer/resolution/spend_order.py",
        "indexer/sync/mempool_cache.py",
        "overlay/",
    ),
    "opensearchpy": ("overlay/engines/opensearch/",),
    "orjson": ("overlay/text/compact_json.py", "overlay/api/cursors.py"),
    "prometheus_client": ("overlay/app/metrics.py",),
    "publicsuffixlist": ("indexer/fetcher/budgets.py",),
    "pydantic": ("overlay/api/request_bodies.py", "overlay/systems/"),
    "pydantic_core": ("overlay/api/request_bodies.py",),
    "re2": ("parsers/claims/json_schema.py",),
    "referencing": ("parsers/claims/json_schema.py",),
    "rfc8785": ("parsers/claims/card_forms.py", "parsers/claims/canonical_json.py"),
    "rich": ("overlay/app/progress_bars.py", "overlay/text/terminal.py"),
    "rapidfuzz": ("overlay/search/term_dictionary.py",),
    "segno": ("overlay/web/register_page.py", "overlay/commands/wallets.py"),
    "sqlalchemy": ("indexer/store/", *(f"overlay/systems/{name}/store" for name in NAMES), "overlay/app/storage.py"),
    "wallycore": ("parsers/bitcoin/signatures.py", "parsers/bitcoin/address.py", "parsers/bitcoin/base58.py"),
    "whoosh": ("overlay/engines/whoosh/", "overlay/search/stop_words.py"),
    "yaml": ("parsers/claims/plain_yaml.py",),
    "zmq": ("indexer/chains/node/",),
}
"""Where each library may be imported: the files whose names begin so."""
