"""Kernels are compiled once, in a process of their own; until then pages are served and searches refused."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from indexer.settings import Settings
from overlay.app import compilation, version
from overlay.app.compilation import (
    CompiledLoops,
    cache_folder,
    compile_in_subprocess,
    is_compiled,
    set_cache_folder,
    wait_until_compiled,
)
from overlay.app.composition import AppContext
from overlay.app.search_start import SearchStart
from overlay.engines import CompilingError, IndexPosition
from overlay.projection.search_index import SearchIndex
from overlay.search.query import Query
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.overlay.calls import get
from tests.running import environment
from tests.serving import new_app, running, serving
from tests.waiting import until

LOOPS = CompiledLoops("slow", (), ("tests.overlay.slow_loops",))
BROKEN = CompiledLoops("broken", (), ("tests.overlay.slow_loops", "tests.overlay.missing"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of `slow_loops`, beside a cache that is empty but for the kernels of blocks."""
    compilation.prepare.cache_clear()
    monkeypatch.setenv("TEST_LOOPS", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    for loops in (LOOPS, BROKEN):
        for path in Path(os.environ["NUMBA_CACHE_DIR"]).glob(f"{loops.name}.*"):
            path.unlink()
    return tmp_path


def compilers(folder: Path) -> list[str]:
    """The processes that compiled, in their order."""
    path = folder / "compiled"
    return path.read_text().split() if path.exists() else []


# -- a server


@pytest.fixture
def app_context(folder: Path) -> AppContext:
    kit = ChainKit()
    kit.mine(kit.inscribe(agent("Tower")))
    built = new_app(folder, MemoryChain(*kit.blocks, name="live"))
    assert built.engine is not None
    assert built.search_start is not None
    built.search_start = SearchStart(built.settings, built.search_start.projector, built.engine, LOOPS, most=-1)
    return built


async def answers(session: ClientSession, path: str, **headers: str) -> tuple[int, str, str]:
    async with session.get(path, headers=headers) as response:
        return response.status, response.headers.get("Retry-After", ""), await response.text()


SEARCHES = (
    "/v1/search", "/v1/search?q=tower", "/v1/suggest?q=to", "/v1/feeds/search.atom?q=tower", "/v0.1/servers", "/agents",
    "/mrp/registry/query", "/api/v1/agents/discover", "/discovery/resources",
)  # fmt: skip


async def test_while_the_search_is_compiled_pages_are_served_and_searches_are_refused(
    folder: Path, app_context: AppContext
) -> None:
    (folder / "hold").touch()
    async with running(app_context) as (runner, _):
        await until(lambda: runner.url and list(folder.glob("began.*")))
        async with ClientSession(runner.url) as session:
            for path in SEARCHES:
                status, again, body = await answers(session, path)
                assert (path, status, again) == (path, 503, "5")
                assert "being compiled, once for this version" in body
            status, again, body = await answers(session, "/?q=tower", Accept="text/html")
            assert (status, again, "data-again" in body, 'value="tower"' in body) == (503, "5", True, True)
            for path in ("/docs", "/status", "/publish", "/healthz"):
                assert (await answers(session, path, Accept="text/html"))[0] == 200
            assert (await get(session, "/v1/status"))["index"]["compiling"] is True
            assert "being compiled" in (await answers(session, "/readyz"))[2]
            (folder / "hold").unlink()
            await until(lambda: runner.status.ready() is None)
            assert (await get(session, "/v1/search?q=tower"))["total"] == 1
            assert "compiling" not in (await get(session, "/v1/status"))["index"]
    first, second = compilers(folder)
    assert first != second == str(os.getpid()), "compiled in another process, and loaded here"


async def test_a_registry_that_grows_too_large_meanwhile_is_not_searched_until_kernels_are_compiled(
    folder: Path,
) -> None:
    kit = ChainKit()
    kit.mine(kit.inscribe(agent("Tower")))
    chain = MemoryChain(*kit.blocks, name="live")
    built = new_app(folder, chain)
    assert built.engine is not None
    assert built.search_start is not None
    built.search_start = SearchStart(built.settings, built.search_start.projector, built.engine, LOOPS, most=1)
    (folder / "hold").touch()
    async with running(built) as (runner, _):
        await until(lambda: runner.url and runner.status.ready() is None)
        async with ClientSession(runner.url) as session:
            await until(lambda: built.engine.position().seq)
            assert (await get(session, "/v1/search?q=tower"))["total"] == 1
            assert (await get(session, "/v1/status"))["index"]["compiling"] is True
            chain.arrive(kit.mine(kit.inscribe(agent("Tower two"))))
            await until(lambda: built.engine.is_compiling)
            assert (await answers(session, "/v1/search?q=tower"))[0] == 503
            (folder / "hold").unlink()
            await until(lambda: not built.engine.is_compiling and built.engine.search(Query(text="tower")).total == 2)
            assert "compiling" not in (await get(session, "/v1/status"))["index"]


async def test_no_route_fails_while_the_search_is_compiled(folder: Path, app_context: AppContext) -> None:
    (folder / "hold").touch()
    async with running(app_context) as (runner, _):
        await until(lambda: runner.url)
        async with ClientSession(runner.url) as session:
            paths = (await get(session, "/openapi.json"))["paths"]
            plain = [path for path, methods in paths.items() if "get" in methods and "{" not in path]
            streams = [path for path in plain if path.endswith("/stream")]
            failures = {path: answer for path in plain if path not in streams
                        and (answer := await answers(session, f"{path}?q=tower"))[0] == 500}  # fmt: skip
            (folder / "hold").unlink()
            await until(lambda: runner.status.ready() is None)
    assert len(plain) > 20
    assert not failures


async def test_an_index_refuses_searches_and_writes_until_it_is_compiled(app_context: AppContext) -> None:
    engine: Any = app_context.engine
    engine.is_compiling = True
    for work in (engine.terms, engine.clear, lambda: engine.plan("tower"), lambda: engine.suggest("to", 8)):
        with pytest.raises(CompilingError):
            work()
    assert engine.position() is None
    assert engine.get("anything") is None, "listings are read without their duplicates"
    app_context.close()


def test_an_index_is_opened_without_kernels(tmp_path: Path) -> None:
    with closing(SearchIndex(f"native:{tmp_path}")) as index:
        index.replace([], [], IndexPosition("epoch", 7))
    program = (
        "from parsers import interpretation as jit\n"
        "from overlay.engines import native\n"
        "from overlay.projection.search_index import SearchIndex\n"
        "kernels = jit.unprepared()\n"
        f"index = SearchIndex('native:{tmp_path}')\n"
        "assert index.position().seq == 7 and index.progress() is None\n"
        "assert kernels == jit.unprepared(), kernels - jit.unprepared()\n"
    )
    subprocess.run([sys.executable, "-c", program], env=environment(), check=True, cwd=tmp_path)


async def test_a_server_that_has_no_room_for_temporary_files_answers_all_the_same(
    folder: Path, app_context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(_loops: CompiledLoops) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("overlay.app.search_start.prepare", prepare)
    async with serving(app_context) as session:
        assert (await get(session, "/v1/search?q=tower"))["total"] == 1


async def test_what_was_compiled_before_is_loaded_before_a_server_serves(folder: Path, app_context: AppContext) -> None:
    await compile_in_subprocess(LOOPS)
    async with running(app_context) as (runner, _):
        await until(lambda: runner.url)
        assert not app_context.engine.is_compiling  # type: ignore[union-attr]
    assert compilers(folder)[1:] == [str(os.getpid())]


# -- the process that compiles


async def test_of_several_processes_one_compiles_and_the_others_wait_for_it(folder: Path) -> None:
    await asyncio.gather(*(compile_in_subprocess(LOOPS) for _ in range(3)))
    assert len(compilers(folder)) == 1
    assert is_compiled(LOOPS)


async def test_a_process_that_ends_during_compilation_waits_for_the_compiler(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    children: list[asyncio.subprocess.Process] = []
    create = asyncio.create_subprocess_exec

    async def observed(*command: str, **supplied: Any) -> asyncio.subprocess.Process:
        children.append(await create(*command, **supplied))
        return children[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", observed)
    (folder / "hold").touch()
    compiling = asyncio.create_task(compile_in_subprocess(LOOPS))
    await until(lambda: list(folder.glob("began.*")))
    compiling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await compiling
    assert children[0].returncode == -signal.SIGKILL
    assert not is_compiled(LOOPS)
    (folder / "hold").unlink()
    await compile_in_subprocess(LOOPS)
    assert is_compiled(LOOPS), "a killed process holds no lock"


async def test_what_fails_to_compile_is_not_taken_as_compiled(folder: Path) -> None:
    await compile_in_subprocess(BROKEN)
    assert not is_compiled(BROKEN)


def test_a_command_says_on_standard_error_that_it_compiles_and_waits(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for line in ("a2b: compiling the search, once for this user and version, which takes about ten seconds\n", ""):
        wait_until_compiled(LOOPS)
        assert capsys.readouterr() == ("", line)
    assert len(compilers(folder)) == 1


@pytest.mark.parametrize("loops", compilation.ALL_LOOPS, ids=lambda loops: loops.name)
def test_all_kernels_are_prepared_and_then_run_from_the_cache(loops: CompiledLoops, tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from overlay.app import compilation\n"
        f"loops = next(one for one in compilation.ALL_LOOPS if one.name == {loops.name!r})\n"
        "compilation.wait_until_compiled(loops)\n"
        "assert compilation.is_compiled(loops)\n"
        "import numba.core.dispatcher\n"
        "def refuse(*_): raise AssertionError('compiled again')\n"
        "numba.core.dispatcher._FunctionCompiler.compile = refuse\n"
        "compilation.prepare(loops)\n"
        "from parsers.interpretation import unprepared\n"
        "files = {source.removesuffix('.py').replace('/', '.') for source in loops.sources}\n"
        "left = [name for name in unprepared() if name.rpartition('.')[0] in files]\n"
        "assert not left, left\n"
    )
    subprocess.run([sys.executable, "-c", program], env=environment(), check=True, cwd=tmp_path)


# -- the cache


def test_a_kernel_is_cached_where_the_folder_is_set_after_numba_was_imported(tmp_path: Path) -> None:
    program = (
        "import os\n"
        "os.environ.pop('NUMBA_CACHE_DIR', None)\n"
        f"os.environ['XDG_CACHE_HOME'] = {str(tmp_path)!r}\n"
        "import numba\n"
        "from indexer.settings import Settings\n"
        "from overlay.app.compilation import set_cache_folder\n"
        f"set_cache_folder(Settings.load({{'data': {str(tmp_path)!r}}}))\n"
        "from overlay.engines.native.tables import find, pack\n"
        "find(pack([b'a']), [b'a'])\n"
    )
    subprocess.run([sys.executable, "-c", program], env=environment(), check=True, cwd=tmp_path)
    assert list(tmp_path.glob("a2b-registry/*/*/**/*.nbi"))


@pytest.fixture
def user_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder, empty, of a user whose data folder is `tmp_path/data`."""
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    return tmp_path / "cache"


def chosen_cache(tmp_path: Path) -> str:
    set_cache_folder(Settings.load({"data": str(tmp_path / "data")}))
    return os.environ.pop("NUMBA_CACHE_DIR", "")


def test_kernels_are_cached_where_the_environment_says(tmp_path: Path) -> None:
    before = os.environ["NUMBA_CACHE_DIR"]
    set_cache_folder(Settings.load({"data": str(tmp_path)}))
    assert os.environ["NUMBA_CACHE_DIR"] == before, "the folder of this test run"


def test_kernels_are_cached_for_the_user_alone_by_version(tmp_path: Path, user_cache: Path) -> None:
    folder = user_cache / "a2b-registry" / version()
    for _ in range(2):
        assert chosen_cache(tmp_path) == str(cache_folder(folder))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert not list((tmp_path / "data").iterdir())


@pytest.mark.parametrize("is_shared", [True, False])
def test_kernels_are_cached_in_the_data_folder_where_others_can_write_the_users(
    is_shared: bool, tmp_path: Path, user_cache: Path
) -> None:
    if is_shared:
        (user_cache / "a2b-registry" / version()).mkdir(parents=True)
        (user_cache / "a2b-registry" / version()).chmod(0o777)
    else:
        user_cache.write_text("a file")
    assert chosen_cache(tmp_path) == str(cache_folder(tmp_path / "data" / "numba"))
    (tmp_path / "data" / "numba").chmod(0o770)
    assert chosen_cache(tmp_path) == "", "each process compiles rather than run what others may have written"


def test_each_process_compiles_for_a_user_without_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda _: {}["no such user"])
    set_cache_folder(Settings.load({"data": str(tmp_path / "missing")}))
    assert "NUMBA_CACHE_DIR" not in os.environ
    wait_until_compiled(LOOPS)
    assert not is_compiled(LOOPS)


def digest_of(tmp_path: Path, **variables: str) -> str:
    program = "from overlay.app.compilation import cache_folder; from pathlib import Path; print(cache_folder(Path()))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment(**variables), check=True, cwd=tmp_path, capture_output=True)
    return done.stdout.decode().strip()


def test_another_version_of_any_source_has_another_cache(tmp_path: Path) -> None:
    rooms = Path(compilation.__file__).parents[2]
    copy = tmp_path / "copy"
    for room in ("indexer", "overlay", "parsers"):
        subprocess.run(["cp", "-r", f"{rooms}/{room}", f"{copy.mkdir(exist_ok=True) or copy}/{room}"], check=True)
    before = digest_of(tmp_path, PYTHONPATH=str(copy))
    assert before == digest_of(tmp_path)
    assert before != digest_of(tmp_path, NUMBA_BOUNDSCHECK="1")
    for loops in compilation.ALL_LOOPS:
        for source in loops.sources:
            text = (copy / source).read_text()
            (copy / source).write_text(f"{text}# changed\n")
            assert digest_of(tmp_path, PYTHONPATH=str(copy)) != before
            (copy / source).write_text(text)


async def test_old_caches_of_other_sources_are_removed_and_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = folder / "numba"
    current, older, other = cache_folder(base), base / "0123456789abcdef", base / "block_f00d"
    recent = base / "fedcba9876543210"
    for path in (current, older, other, recent):
        path.mkdir(parents=True)
    for path in (older, other):
        os.utime(path, (0, 0))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(current))
    await compile_in_subprocess(LOOPS)
    assert {path.name for path in base.iterdir()} == {current.name, other.name, recent.name}
