"""`a2b doctor` and `a2b config`: what an operator should do, and the settings that are in force."""

from __future__ import annotations

import os
import shutil
import socket
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indexer.settings import DATA, DEFAULT, DEMO_DATA, KEYS, PREFIX, EffectiveSetting, Settings, SettingsError
from overlay.commands.options import add_json, command, print_answer, settings_of
from overlay.text.safe_text import on_one_line
from overlay.text.terminal import say
from overlay.text.timestamps import timestamp

if TYPE_CHECKING:
    from indexer.store import Store
    from indexer.store.backup import BackupRecord
    from overlay.app.findings import OperatorFinding
    from overlay.commands.options import Commands

SOURCE_SECONDS = 20.0
"""How long a source may take to answer."""

_NOT_ASKED = ("files", "junglebus", "overlay", "peers")
"""Kinds of sources that read much when they are opened: their followers report how they are."""

_SHOWN = ("data", "database", "search", "chains", "host", "port", "metrics", "identity_key", "public_url")


def add(commands: Commands) -> None:
    """Add both commands."""
    parser = command(
        commands, "doctor", doctor, "Look for what an operator should do. Exit code 0: nothing, 1: something, 3: the "
        "database or a source does not answer.",
        *_SHOWN,
        more="It looks at settings, disk, permissions, clocks, ports, nodes and their options, versions, the index, "
        "followers, the last block and the last backup, and changes nothing.",
    )  # fmt: skip
    add_json(parser)
    parser = command(
        commands, "config", config, "Print every setting that is in force, and where it comes from.", *_SHOWN,
        more="Origins: default, file (--config), environment, flag; secrets are masked.",
    )  # fmt: skip
    add_json(parser)


def config(args: Namespace) -> int:
    """Print the settings."""
    settings = _effective(args)
    members = [{"name": setting.name, "value": setting.text, "origin": setting.origin} for setting in settings]
    print_answer(args, members, _show_settings)
    return 0


def _effective(args: Namespace) -> list[EffectiveSetting]:
    flags = {name: getattr(args, name, None) for name in KEYS}
    data = DATA if Path(DATA).exists() else DEMO_DATA
    return Settings.effective(flags, os.environ, args.config, data=data)


def _show_settings(members: list[dict[str, str]]) -> None:
    for setting in members:
        say(f"{setting['origin']:12}{PREFIX}{setting['name'].upper()}={on_one_line(setting['value'])}")


def doctor(args: Namespace) -> int:
    """Print the findings."""
    from overlay.app.findings import OperatorFinding

    last: BackupRecord | None = None
    findings: list[OperatorFinding] = []
    try:
        settings, effective = settings_of(args), _effective(args)
    except SettingsError as error:
        findings.append(OperatorFinding("settings", str(error), "correct it, and run a2b doctor again for all else"))
    else:
        findings += _of_process(settings, [setting.name for setting in effective if setting.origin != DEFAULT])
        last = _add_stored(settings, findings)
    members: dict[str, Any] = {"findings": [finding.as_json() for finding in findings]}
    members["lastBackup"] = last and {"time": timestamp(last.time), "size": last.size}
    print_answer(args, members, _show)
    return 3 if any(finding.is_unreachable for finding in findings) else 1 if findings else 0


def _show(members: dict[str, Any]) -> None:
    for finding in members["findings"]:
        say(f"{finding['code']}: {on_one_line(finding['text'], 500)}")
        say(f"    do: {on_one_line(finding['advice'], 500)}")
    if last := members["lastBackup"]:
        say(f"the last backup: {last['time']}, {last['size']:,} bytes")
    if not members["findings"]:
        say("nothing to do")


def _of_process(settings: Settings, stated: list[str]) -> Iterator[OperatorFinding]:
    """The findings without a database."""
    from overlay.app import findings

    yield from findings.of_settings(settings, stated)
    if settings.data.exists():
        free = shutil.disk_usage(settings.data).free
        yield from findings.of_disk(settings.data, free, _index_bytes(settings))
        secret = (settings.data, Path(settings.identity_key or settings.data / "identity.json"))
        yield from findings.of_modes({path: path.stat().st_mode for path in secret if path.exists()})
        if not os.access(settings.data, os.W_OK):
            advice = f"run a2b as the user that owns it, or: chown -R USER {settings.data}"
            yield findings.OperatorFinding(
                "folder-not-writable", f"{settings.data} cannot be written by this user", advice
            )
    yield from _of_port("A2B_PORT", settings.host, settings.port)
    if settings.metrics is not None:
        yield from _of_port("A2B_METRICS", settings.metrics.host, settings.metrics.port)


def _index_bytes(settings: Settings) -> int:
    """The size of an index in files; 0 where its folder is that of the database, too."""
    from overlay.app.storage import index_folder

    folder = index_folder(settings)
    return 0 if folder == settings.data else sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _of_port(name: str, host: str, port: int) -> Iterator[OperatorFinding]:
    """A port that cannot be listened on, unless this program does."""
    from overlay.app.findings import OperatorFinding

    advice = f"name another (A2B_HOST, {name}), or stop the other program"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except PermissionError:
            advice = f"take a port from 1024 up, behind a proxy, for {name}"
            yield OperatorFinding("port-not-allowed", f"{host} port {port} is not for this user", advice)
        except OSError as error:
            if not _is_a2b(host, port):
                yield OperatorFinding(
                    "port-taken", f"{host} port {port} cannot be used: {error.strerror or error}", advice
                )


def _is_a2b(host: str, port: int) -> bool:
    from http.client import HTTPConnection, HTTPException

    target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - nothing is bound to it
    try:
        with closing(HTTPConnection(target, port, timeout=5)) as connection:
            connection.request("GET", "/healthz")
            return connection.getresponse().headers.get("Server") == "a2b"
    except (OSError, HTTPException):
        return False


def _add_stored(settings: Settings, findings: list[OperatorFinding]) -> BackupRecord | None:
    """Add the findings about the database, the index and the sources; returns the last backup."""
    from indexer.store.backup import last_backup
    from indexer.store.database import StoreError, StoreUnavailableError
    from overlay.app import findings as checks
    from overlay.app.storage import MissingError, open_store

    try:
        store = open_store(settings, create=False)
    except MissingError as error:
        findings.append(
            checks.OperatorFinding("database-missing", str(error), "start a2b up or a2b index", is_unreachable=True)
        )
        return None
    except StoreError as error:
        is_away = isinstance(error, StoreUnavailableError)
        advice = (
            "start it, or correct A2B_DATABASE" if is_away else "see a2b migrate --dry-run, or name another database"
        )
        findings.append(checks.OperatorFinding("database", str(error), advice, is_unreachable=is_away))
        return None
    with closing(store):
        last = last_backup(store.engine)
        findings += _of_store(settings, store, last)
    return last


def _of_store(settings: Settings, store: Store, last: BackupRecord | None) -> Iterator[OperatorFinding]:
    import asyncio

    from indexer.store.nonces import database_time
    from indexer.sync.packaged_chain import is_packaged
    from overlay.app import findings
    from overlay.commands.status import local_service

    names = store.chains()
    packaged = {name for name in names if is_packaged(store, name)}
    newest = {name: ref for name in names if (ref := store.blocks.newest(name)) is not None}
    with store.engine.connect() as connection:
        database_now = database_time(connection)
    yield from findings.of_clock(time.time(), database_now, {name: ref.time for name, ref in newest.items()})
    if names.keys() - packaged:
        yield from findings.of_backup(last, time.time())
    configured = set(settings.sources()) or packaged
    with local_service(settings) as service:
        yield from findings.of_status(service.status(), configured)
    for name, urls in settings.sources().items():
        height = newest[name].height + 1 if name in newest else 0
        for url in urls:
            yield from asyncio.run(_of_source(name, url, height))


async def _of_source(name: str, url: str, next_height: int) -> list[OperatorFinding]:
    """The findings about a source that answers at once."""
    import asyncio

    from indexer.chains import create, kind
    from indexer.chains.node.chain import NodeChain
    from indexer.chains.node.coin_parameters import node_info
    from indexer.errors import SourceError
    from indexer.masking import masked
    from overlay.app.findings import OperatorFinding, of_node

    unreachable = partial(OperatorFinding, "source-unreachable", is_unreachable=True)
    advice = "start it, or correct A2B_CHAINS: address, password, ?chain= and ?network="
    try:
        if kind(name, url) in _NOT_ASKED:
            return []
        chain = create(name, url)
        try:
            async with asyncio.timeout(SOURCE_SECONDS):
                if not isinstance(chain, NodeChain):
                    await chain.identify()
                    return []
                await chain.open()
                info = await node_info(chain.client)
                return list(of_node(name, chain.warning, info.pruned_below, max(next_height, chain.first)))
        finally:
            await chain.close()
    except SourceError as error:
        return [unreachable(text=str(error), advice=advice)]
    except TimeoutError:
        return [unreachable(text=f"{name}: {masked(url)} does not answer within {SOURCE_SECONDS:g} s", advice=advice)]
