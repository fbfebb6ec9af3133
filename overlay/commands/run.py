"""`a2b up`, `a2b index`, `a2b serve`: follow the chains, serve, or both in one process."""

from __future__ import annotations

import signal
import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from indexer.masking import masked
from indexer.setting_values import ListenAddress
from indexer.settings import Settings
from overlay.api.systems import chosen
from overlay.app import version
from overlay.app.compilation import BLOCK_LOOPS, SEARCH_LOOPS, is_compiled
from overlay.app.logs import count_warnings, set_up_logging
from overlay.app.storage import make_data_folder
from overlay.commands.options import UsageError, add_no_copy, command, settings_of
from overlay.text.terminal import is_terminal, say

if TYPE_CHECKING:
    from overlay.api.counters import Counters
    from overlay.app.chain_loops import Loop
    from overlay.app.composition import AppContext
    from overlay.app.workers import Workers
    from overlay.commands.options import Commands

NODE = "A2B_CHAINS='bsv=http://USER:PASSWORD@127.0.0.1:8332' a2b up"

OFF = {
    "fetch_resolve": "cards of pointers, and domain badges (any A2B_CHAINS turns these on)",
    "rates": "prices compared, and paid, in other currencies",
    "prices": "payments for requests beyond the limits (HTTP 402); needs a node",
    "relay": "tasks of Motebit agents and their settlement",
    "public_url": "tokens of the overlay services SHIP and SLAP",
}
"""Abilities that need a setting, as the demonstration prints them."""

MAX_WORKERS = 64

SITE = ("title", "report", "contact", "imprint", "privacy", "terms", "hide_publish")
"""Settings about the operator of a site."""


def add(commands: Commands) -> None:
    """Add the three commands that run until a signal."""
    following = command(
        commands, "up", up, "Follow the configured chains and serve, in one process.",
        "data", "database", "search", "chains", "from_height", "host", "port", "metrics", "limits", "log",
        "statistics", "trusted_proxies",
        "fetch_resolve", "fetch_ports", "fetch_ca_file", "ipfs_gateway", "change_blocks", "rates", "rates_every",
        "rates_max_age",
        "public_url", "identity_key", "prices", "relay", "relay_address", "systems", "delegation_roots",
        "gasp_peers", "probe",
        "submit_broadcast", "price_currency", "meaning", *SITE,
        more="With nothing configured: the packaged sample blocks, SQLite and an index in ./a2b-demo, on "
        f"127.0.0.1:8080. To follow a node: {NODE}",
    )  # fmt: skip
    following.add_argument(
        "--no-demo", action="store_true", help="without configured chains, end with exit code 2: for services"
    )
    indexing = command(
        commands, "index", index, "Follow the configured chains; serve nothing.",
        "data", "database", "chains", "from_height", "metrics", "log", "fetch_resolve", "fetch_ports", "fetch_ca_file",
        "ipfs_gateway", "rates", "rates_every", "rates_max_age", "public_url", "systems", "gasp_peers", "probe",
        "submit_broadcast",
    )  # fmt: skip
    indexing.add_argument(
        "--again", metavar="NAME", action="append", default=[],
        help="first forget what is stored of the blocks of this chain, and read all of them again (may be repeated)",
    )  # fmt: skip
    for parser in (following, indexing):
        add_no_copy(parser)
    parser = command(
        commands, "serve", serve, "Serve what `a2b index` writes, also while it does; follow nothing.",
        "data", "database", "database_read", "search", "host", "port", "metrics", "limits", "log", "statistics",
        "trusted_proxies", "change_blocks", "public_url", "identity_key", "prices", "relay", "relay_address", "systems",
        "delegation_roots", "price_currency", "meaning", *SITE,
    )  # fmt: skip
    parser.add_argument("--workers", metavar="N", type=int, default=1, help="processes that serve [1]")


def up(args: Namespace) -> int:
    """Follow and serve."""
    settings = settings_of(args, writes=True, demo=not args.no_demo)
    _require_chains(settings)
    return _run(settings, follow=True, serve=True, is_copied=not args.no_copy)


def index(args: Namespace) -> int:
    """Follow only."""
    settings, again = settings_of(args, writes=True), frozenset(args.again)
    _require_chains(settings)
    names = {chain.name for chain in settings.chains}
    if unknown := sorted(again - names):
        raise UsageError(f"--again {unknown[0]!a}: the chains that are followed are {', '.join(sorted(names))}")
    return _run(settings, follow=True, serve=False, again=again, is_copied=not args.no_copy)


def serve(args: Namespace) -> int:
    """Serve only."""
    settings = settings_of(args, writes=True)
    if not 1 <= args.workers <= MAX_WORKERS:
        raise UsageError(f"--workers is {args.workers}, and must be from 1 to {MAX_WORKERS}")
    if args.workers > 1 and settings.port == 0:
        raise UsageError("several workers share one port: give --port a number")
    return _run(settings, follow=False, serve=True, workers=args.workers)


def _require_chains(settings: Settings) -> None:
    if not settings.chains:
        raise UsageError(f"no chains are configured: {NODE}; only `a2b up` without --no-demo follows the packaged one")


def _run(
    settings: Settings,
    *,
    follow: bool,
    serve: bool,
    workers: int = 1,
    again: frozenset[str] = frozenset(),
    is_copied: bool = True,
) -> int:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _exit)
    for line in _summary(settings, follow=follow, serve=serve):
        say(line)
    make_data_folder(settings)
    sys.stdout.flush()
    as_json = "json" in settings.log or (not {"text", "combined"} & {*settings.log} and not is_terminal())
    set_up_logging(as_json=as_json)
    from overlay.api.counters import Counters
    from overlay.app.workers import Workers, check_address_free

    if workers > 1:
        check_address_free(settings.host, settings.port)
    counters = Counters(workers)
    group = Workers(workers)
    counters.take(group.number)
    count_warnings(counters)
    try:
        _work(settings, group, counters, follow=follow, serve=serve, again=again, is_copied=is_copied)
    finally:
        group.stop()
    return 0


def _exit(_number: int, _frame: FrameType | None) -> NoReturn:
    """A signal while modules are imported: nothing is open yet."""
    raise SystemExit(0)


def _summary(settings: Settings, *, follow: bool, serve: bool) -> list[str]:
    """The lines about what will run, printed before anything slow is imported."""
    lines = [f"a2b {version()}"]
    if follow and settings.sample:
        name = settings.chains[0].name
        lines.append(f"follows   the packaged sample blocks, as chain {name!r} (nothing is configured)")
    elif follow:
        lines += [f"follows   {chain.shown}" for chain in settings.chains]
    if follow:
        lines += [f"rates {number:<4}{feed.shown}" for number, feed in enumerate(settings.rates, 1)]
    lines.append(f"stores    {masked(settings.database)}" + (f", index {masked(settings.search)}" if serve else ""))
    if serve:
        address = ListenAddress(settings.host, settings.port)
        lines.append(f"serves    {address.url}" if settings.port else "serves    a free port")
    if follow and settings.sample:
        lines.append(f"to follow your own node: {NODE}")
        lines.append("off until it is set (docs/configuration.md):")
        lines += [f"  A2B_{name.upper():<14} {what}" for name, what in OFF.items() if not getattr(settings, name)]
    return lines


def _work(
    settings: Settings,
    group: Workers,
    counters: Counters,
    *,
    follow: bool,
    serve: bool,
    again: frozenset[str],
    is_copied: bool,
) -> None:
    import asyncio

    from overlay.app.composition import build
    from overlay.app.runner import Runner

    context = build(settings, follow=follow, serve=serve, counters=counters, is_copied=is_copied)
    for follower in context.followers:
        follower.again = follower.progress.name in again
    if group.is_first:
        _announce_compilation(context)
    try:
        on_serving = partial(_announce, "serving on {}") if group.is_first else _ignore
        runner = Runner(
            context, on_serving, share_port=group.is_shared, on_signal=group.terminate, on_exit=group.stop
        )  # fmt: skip
        if group.is_shared:
            runner.add_loop(group.watch)
        if settings.metrics is not None and group.is_first:
            runner.add_loop(_metrics(settings.metrics, context, serve=serve))
        if follow and is_terminal() and "json" not in settings.log:
            from overlay.app.progress_bars import ProgressBars

            runner.add_loop(ProgressBars(context.status.progress).show)
        asyncio.run(runner.run())
    finally:
        context.close()


def _metrics(address: ListenAddress, context: AppContext, *, serve: bool) -> Loop:
    """The server of metrics at a separate address: of all workers, by the first."""
    from overlay.app.metrics import PATHS, serve_metrics

    paths: Sequence[str] = PATHS
    if serve:
        from overlay.app.http_app import load_systems, route_paths

        paths = route_paths(load_systems(member.name for member in chosen(context.settings)))
    announce = partial(_announce, "metrics on {}/metrics")
    return partial(serve_metrics, address, context.process_info(), announce, paths)


def _announce_compilation(context: AppContext) -> None:
    names = ["the search"] if context.engine is not None and not is_compiled(SEARCH_LOOPS) else []
    if any(not chain.sparse for chain in context.chains) and not is_compiled(BLOCK_LOOPS):
        names.append("the block reader")
    if names:
        _announce(f"compiling {' and '.join(names)}, once for this user: a small registry answers meanwhile")


def _announce(text: str, url: str = "") -> None:
    say(text.format(url))
    sys.stdout.flush()


def _ignore(_url: str) -> None:
    """The first process of the group has announced the URL."""
