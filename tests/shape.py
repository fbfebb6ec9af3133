"""Measures of the product that its reader feels: `python -m tests.shape [--way]`.

Functions and files count where one block with one inscription, and one question, pass through them: functions with a
name, of `parsers`, `indexer` and `overlay`, by `sys.setprofile`, in all threads, the second time (the first time
compiles and remembers). The indexer follows a chain in memory into SQLite, the projection writes the native index, and
the question asks this index for a word and writes a page of JSON; what duplicates and HTTP add is counted by itself. A
private function is used once where its file names it once besides its definition. Code lines are neither blank nor
comments, docstrings or imports. `--way` lists the files that are passed, the largest share first.

Nothing is asserted but that modules do not import each other in circles, and only modules below them.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import os
import re
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from tests.conftest import ROOT
from tests.test_rooms import ORDER, ROOMS, needs

Functions = ast.FunctionDef | ast.AsyncFunctionDef


class Call(NamedTuple):
    """A function with a name: its file, and its name with those of its classes."""

    file: str
    name: str


class Way(NamedTuple):
    """The functions of the product that one block and one question pass, in the order of their first calls: until the
    block is stored, until its listing is in the index, until a question is answered, and what duplicates and HTTP add
    to that."""

    store: list[Call]
    projection: list[Call]
    question: list[Call]
    duplicates: list[Call]
    http: list[Call]

    def calls(self) -> set[Call]:
        """All functions from bytes to the answer, without those of duplicates and HTTP."""
        return {*self.store, *self.projection, *self.question}

    def everything(self) -> list[Call]:
        """All functions, with those of duplicates and HTTP."""
        return [*self.calls(), *self.duplicates, *self.http]


class Recorder:
    """A profile function: which functions of the product are called, while a list is chosen to note them in."""

    def __init__(self) -> None:
        self._noted: dict[Call, None] | None = None
        self._prefix = f"{ROOT}{os.sep}"

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or self._noted is None:
            return
        code = frame.f_code
        file = code.co_filename.removeprefix(self._prefix)
        if file.startswith(ROOMS) and not code.co_qualname.endswith(">"):
            self._noted.setdefault(Call(file, code.co_qualname.replace(".<locals>", "")))

    @contextmanager
    def noting(self) -> Iterator[list[Call]]:
        """The functions that are called meanwhile, which the list holds in the end."""
        calls: list[Call] = []
        self._noted = noted = {}
        try:
            yield calls
        finally:
            self._noted = None
            calls += noted


@contextmanager
def profiling() -> Iterator[Recorder]:
    """A recorder of the calls of this thread, and of those that start meanwhile."""
    recorder = Recorder()
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    try:
        yield recorder
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


async def way(folder: Path) -> Way:
    """The way of a block and of a question, with a database and an index in this folder."""
    from aiohttp.test_utils import TestClient, TestServer

    from indexer.sync.follower import Follower
    from overlay.api import search_answer
    from overlay.api.search_request import from_pairs
    from overlay.projection.projector import IndexProjector
    from tests.chainkit import ChainKit, agent
    from tests.fakes import MemoryChain
    from tests.serving import new_app

    kit = ChainKit()
    chain = MemoryChain(*kit.blocks, name="live")
    context = new_app(folder, chain)
    assert context.writer
    assert context.engine
    engine, follower = context.engine, Follower(chain, context.store, context.writer)
    projector = IndexProjector(context.store, engine, context.duplicates)
    try:
        with profiling() as recorder:
            await follower.open()
            async with TestClient(TestServer(context.web_app())) as client:
                for name in ("Echo", "Foxtrot"):
                    chain.arrive(kit.mine(kit.inscribe(agent(name))))
                    with recorder.noting() as store:
                        await follower.catch_up()
                    with recorder.noting() as projection:
                        projector.run()
                    with recorder.noting() as question:
                        request = from_pairs([("q", name.lower())], {"live": chain.caip2})
                        hits = engine.search(request.query)
                        search_answer.page(request, hits, engine.position(), {"live": kit.tip.height})
                    with recorder.noting() as http:
                        async with client.get("/v1/search", params={"q": name.lower()}) as response:
                            assert (await response.json())["total"] == hits.total == 1
    finally:
        context.close()
    duplicates = [call for call in projection if call.file.startswith("overlay/duplicates/")]
    projection = [call for call in projection if call not in duplicates]
    passed = {*store, *projection, *question}
    return Way(store, projection, question, duplicates, [call for call in http if call not in passed])


class Module(NamedTuple):
    """A module of the product: its file, its full name, its text and its syntax tree."""

    path: Path
    name: str
    text: str
    tree: ast.Module


def modules(root: Path = ROOT) -> list[Module]:
    """The modules of the product in a checkout."""
    read = []
    for path in sorted(path for room in ROOMS for path in (root / room).rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        read.append(Module(path, name, text := path.read_text(), ast.parse(text)))
    return read


def line_kinds(module: Module) -> Counter[str]:
    """How many lines of a module are `code`, `signature`, `import`, `docstring`, `comment` and `blank`. Texts after an
    assignment count as docstrings, and blank lines inside of them, too."""
    kinds: dict[int, str] = {}
    for node in ast.walk(module.tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                first = min(part.lineno for part in (node, *node.decorator_list))
                kinds |= dict.fromkeys(range(first, max(node.body[0].lineno, node.lineno + 1)), "signature")
            case ast.Import() | ast.ImportFrom():
                kinds |= dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), "import")
            case ast.Expr(value=ast.Constant(value=str())):
                kinds |= dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), "docstring")
    counts: Counter[str] = Counter()
    for number, line in enumerate(module.text.splitlines(), 1):
        bare = line.strip()
        counts[kinds.get(number) or ("blank" if not bare else "comment" if bare.startswith("#") else "code")] += 1
    return counts


def functions(module: Module) -> list[Functions]:
    """The functions of a module, those in classes and in functions included."""
    return [node for node in ast.walk(module.tree) if isinstance(node, Functions)]


def used_once(module: Module) -> list[str]:
    """The private functions that a module names once besides their definition."""
    words = Counter(re.findall(r"\w+", module.text))
    names = [node.name for node in functions(module)]
    return [name for name in names if re.match("_(?!_)", name) and words[name] == 2]


Imports = Mapping[str, set[str]]
"""The modules that a module imports, by its name."""


def imports(modules: Iterable[Module]) -> Imports:
    """The imports between modules, those inside functions and for annotations included."""
    trees = {module.name: module.tree for module in modules}
    return {name: needs(tree, set(trees)) - {name} for name, tree in trees.items()}


def with_one_importer(modules: Iterable[Module], graph: Imports) -> list[str]:
    """The modules that one other imports, packages left out."""
    importers = Counter(target for targets in graph.values() for target in targets)
    return [module.name for module in modules if module.path.stem != "__init__" and importers[module.name] == 1]


def circle(graph: Imports) -> list[str]:
    """The modules of a circle of imports, [] where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def upward_imports(graph: Imports) -> list[str]:
    """The imports of a module of a higher room, or of a higher part of the same room (`test_rooms.ORDER`)."""
    parts = [(room, part) for room in ROOMS for part in ORDER[room].split()]
    ranks = {".".join(part): rank for rank, part in enumerate(parts)}

    def rank(name: str) -> int:
        return ranks.get(".".join(name.split(".")[:2]), -1)

    return [f"{name} imports {target}" for name in graph for target in graph[name] if rank(target) > rank(name)]


def _size(calls: Iterable[Call]) -> str:
    passed = set(calls)
    return f"{len(passed):,} ({len({call.file for call in passed}):,})"


def rows(read: Sequence[Module], measured: Way) -> Iterator[tuple[str, str]]:
    """The measures by their descriptions."""
    graph = imports(read)
    lines = sum(map(line_kinds, read), Counter[str]())
    yield "functions (files) that one block passes from bytes to the answer of a question", _size(measured.calls())
    yield "- until it is stored", _size(measured.store)
    yield "- until its listing is in the index", _size(measured.projection)
    yield "- the question", _size(measured.question)
    yield "- and what duplicates and HTTP add", _size([*measured.duplicates, *measured.http])
    yield "private functions that are used once", f"{sum(len(used_once(module)) for module in read):,}"
    yield "modules with one importer", f"{len(with_one_importer(read, graph)):,}"
    yield "code lines, without blanks, comments, docstrings and imports", f"{lines['code'] + lines['signature']:,}"
    yield "- of all lines", f"{lines.total():,}"
    yield "functions; modules", f"{sum(len(functions(module)) for module in read):,}; {len(read):,}"
    yield "circles of imports", " → ".join(circle(graph)) or "0"
    yield "imports upwards", "; ".join(upward_imports(graph)) or "0"


def shares(calls: Iterable[Call]) -> list[tuple[str, int]]:
    """The files that calls are in, with how many functions of each are called, the most first."""
    counts = Counter(call.file for call in set(calls))
    return sorted(counts.items(), key=lambda share: (-share[1], share[0]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 where there is a circle, or an import upwards."""
    parser = argparse.ArgumentParser(prog="python -m tests.shape", description=__doc__)
    parser.add_argument("--way", action="store_true", help="list the files that a block and a question pass")
    options = parser.parse_args(arguments)
    compile_kernels()
    with tempfile.TemporaryDirectory() as folder:
        measured = asyncio.run(way(Path(folder)))
    if options.way:
        for file, count in shares(measured.everything()):
            print(f"{count:4}  {file}")
        return 0
    read = modules()
    print("| measure | now |\n|---|---|")
    for what, value in rows(read, measured):
        print(f"| {what} | {value} |")
    graph = imports(read)
    return 1 if circle(graph) or upward_imports(graph) else 0


def compile_kernels() -> None:
    """Read kernels from the cache of the tests, which may compile them first."""
    from overlay.app.compilation import ALL_LOOPS, cache_folder, wait_until_compiled

    base = Path(os.environ.get("NUMBA_CACHE_DIR", ROOT / ".pytest_cache" / "numba"))
    os.environ["NUMBA_CACHE_DIR"] = str(cache_folder(base))
    for loops in ALL_LOOPS:
        wait_until_compiled(loops)


if __name__ == "__main__":
    sys.exit(main())
