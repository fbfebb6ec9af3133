"""`a2b up`, `a2b index`, `a2b serve`: follow the chains, serve, or both in one process."""

from __future__ import annotations

import signal
import sys
from argparse import Namespace
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from indexer.settings import Settings
from overlay.commands.options import UsageError, command, settings
from overlay.logs import count_lines, log_lines
from overlay.services import compiled_before, make_data, version
from overlay.terminal import is_terminal, say

if TYPE_CHECKING:
    from overlay.commands.options import Commands
    from overlay.counters import Counters
    from overlay.workers import Workers

NODE = "A2B_CHAINS='bsv=http://USER:PASSWORD@127.0.0.1:8332' a2b up"

MOST_WORKERS = 64


def add(commands: Commands) -> None:
    """The three commands that go on until they are told to stop."""
    command(
        commands, "up", up, "Follow the configured chains and serve, in one process.",
        "data", "database", "search", "chains", "from_height", "host", "port", "limits", "log", "trusted_proxies",
        "fetch_resolve", "fetch_ca_file", "ipfs_gateway", "change_blocks", "rates", "rates_every", "rates_max_age",
        more="With nothing configured: the packaged sample blocks, SQLite and an index in ./a2b-data, on "
        f"127.0.0.1:8080. To follow a node: {NODE}",
    )  # fmt: skip
    command(
        commands, "index", index, "Follow the configured chains; serve nothing.",
        "data", "database", "chains", "from_height", "metrics", "log", "fetch_resolve", "fetch_ca_file", "ipfs_gateway",
        "rates", "rates_every", "rates_max_age",
    )  # fmt: skip
    parser = command(
        commands, "serve", serve, "Serve what `a2b index` writes, also while it does; follow nothing.",
        "data", "database", "database_read", "search", "host", "port", "limits", "log", "trusted_proxies",
        "change_blocks",
    )  # fmt: skip
    parser.add_argument("--workers", metavar="N", type=int, default=1, help="processes that serve [1]")


def up(asked: Namespace) -> int:
    """Follow and serve."""
    return _run(settings(asked), follow=True, serve=True)


def index(asked: Namespace) -> int:
    """Follow only."""
    return _run(settings(asked), follow=True, serve=False)


def serve(asked: Namespace) -> int:
    """Serve only."""
    told = settings(asked)
    if not 1 <= asked.workers <= MOST_WORKERS:
        raise UsageError(f"--workers is {asked.workers}, and must be from 1 to {MOST_WORKERS}")
    if asked.workers > 1 and told.port == 0:
        raise UsageError("several workers share one port: give --port a number")
    return _run(told, follow=False, serve=True, workers=asked.workers)


def _run(told: Settings, *, follow: bool, serve: bool, workers: int = 1) -> int:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    for line in _plan(told, follow=follow, serve=serve):
        say(line)
    make_data(told)
    sys.stdout.flush()
    as_json = "json" in told.log or ("text" not in told.log and not is_terminal())
    log_lines(as_json=as_json)
    from overlay.counters import Counters
    from overlay.workers import Workers, refuse_taken

    if workers > 1:
        refuse_taken(told.host, told.port)
    counters = Counters(workers)
    group = Workers(workers)
    counters.take(group.number)
    count_lines(counters)
    try:
        _work(told, group, counters, follow=follow, serve=serve)
    finally:
        group.stop()
    return 0


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    """A signal while everything is still being imported: nothing has begun, so nothing is left to end."""
    raise SystemExit(0)


def _plan(told: Settings, *, follow: bool, serve: bool) -> list[str]:
    shown = told.shown()
    lines = [f"a2b {version()}"]
    if follow and told.sample:
        lines.append(f"follows   the packaged sample blocks, as chain {told.chains[0].name!r} (nothing is configured)")
    elif follow:
        lines += [f"follows   {chain.shown}" for chain in told.chains]
    if follow:
        lines += [f"rates     {feed.shown}" for feed in told.rates]
    lines.append(f"stores    {shown['database']}" + (f", index {shown['search']}" if serve else ""))
    if serve:
        lines.append(f"serves    http://{told.host}:{told.port}" if told.port else "serves    a free port")
    if follow and told.sample:
        lines.append(f"to follow your own node: {NODE}")
    return lines


def _work(told: Settings, group: Workers, counters: Counters, *, follow: bool, serve: bool) -> None:
    import asyncio

    from indexer.chains import Sparse
    from overlay.runner import Runner
    from overlay.services import build

    house = build(told, follow=follow, serve=serve)
    if any(not isinstance(chain, Sparse) for chain in house.chains) and not compiled_before():
        say("reading blocks is compiled at the first start: some ten seconds, once")
        sys.stdout.flush()
    try:
        said = _serving if group.is_first else _nothing
        runner = Runner(
            house, said, share_port=group.is_shared, counters=counters, ending=group.tell, leaving=group.stop
        )
        if group.is_shared:
            runner.also(group.watch)
        if not serve and told.metrics is not None:
            from overlay.api.watching import watch

            runner.also(partial(watch, told.metrics, runner.watched(), _telling))
        if follow and is_terminal() and "json" not in told.log:
            from overlay.bars import Bars

            runner.also(Bars(runner.standing.progress).show)
        asyncio.run(runner.run())
    finally:
        house.close()


def _nothing(_url: str) -> None:
    """The first process has said it."""


def _telling(url: str) -> None:
    say(f"metrics on {url}/metrics")
    sys.stdout.flush()


def _serving(url: str) -> None:
    say(f"serving on {url}")
    sys.stdout.flush()
