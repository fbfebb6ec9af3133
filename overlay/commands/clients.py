"""`a2b clients`: clients with limits of their own, and their tokens."""

from __future__ import annotations

import re
import time
from argparse import Namespace
from contextlib import closing
from typing import TYPE_CHECKING, Any

from overlay.commands.options import UsageError, add_json, command, print_answer, settings_of
from overlay.text.terminal import say, say_json
from overlay.text.timestamps import timestamp

if TYPE_CHECKING:
    from indexer.store import Store
    from overlay.commands.options import Commands

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


def add(commands: Commands) -> None:
    """Add the command."""
    parser = command(
        commands, "clients", clients, "List the clients with limits of their own, add one, or revoke its token. Exit "
        "code 1 when the name is taken, or no client has it.",
        "data", "database",
        more="A client sends its token as `Authorization: Bearer TOKEN` or `A2B-Client: TOKEN`; then its requests "
        "count by its name, not by its address. It holds within two seconds on all servers of this database.",
    )  # fmt: skip
    parser.add_argument(
        "action", metavar="add|revoke", nargs="?", choices=("add", "revoke"),
        help="add: make a client and print its token, once; revoke: refuse its token from now on",
    )  # fmt: skip
    parser.add_argument("name", metavar="NAME", nargs="?", help="up to 32 of a to z, 0 to 9, _ and -")
    parser.add_argument(
        "--limits", metavar="KIND=REQUESTS/SECONDS...", dest="client_limits",
        help="with add: its limits, such as 'read=60000/60 costly=off'; for other kinds, those of all clients",
    )  # fmt: skip
    add_json(parser)


def clients(args: Namespace) -> int:
    """Add, revoke or list."""
    from overlay.app.storage import open_store

    if args.action and not _NAME.fullmatch(args.name or ""):
        raise UsageError(f"a2b clients {args.action} NAME: up to 32 of a to z, 0 to 9, _ and -")
    if (args.action == "add") != (args.client_limits is not None):
        raise UsageError("write a2b clients add NAME --limits read=60000/60")
    settings = settings_of(args)
    with closing(open_store(settings, create=False)) as store:
        if args.action == "add":
            return _add(args, store)
        if args.action == "revoke":
            return _revoke(args.name, store)
        members = [
            {"name": client.name, "limits": client.limits, "since": timestamp(client.since)}
            for client in store.clients.all()
        ]
    print_answer(args, members, _show)
    return 0


def _add(args: Namespace, store: Store) -> int:
    from indexer.setting_values import stated_limits
    from indexer.store.clients import StoredClient, add_client
    from overlay.api.client_tokens import digest, new_token

    limits = " ".join(args.client_limits.split())
    if not stated_limits("--limits", limits):
        raise UsageError("--limits is empty: write KIND=REQUESTS/SECONDS, such as read=60000/60")
    token = new_token()
    if not add_client(store.primary, StoredClient(args.name, digest(token), limits, int(time.time()))):
        say(f"there is a client {args.name} already: revoke it first, or take another name")
        return 1
    if args.json:
        say_json({"name": args.name, "limits": limits, "token": token})
    else:
        say(token)
        say(f"the token of {args.name}, which is shown once: it is stored as its SHA-256 alone")
    return 0


def _revoke(name: str, store: Store) -> int:
    from indexer.store.clients import revoke_client

    is_revoked = revoke_client(store.primary, name)
    say(f"the token of {name} is refused from now on" if is_revoked else f"no client has the name {name}")
    return 0 if is_revoked else 1


def _show(members: list[dict[str, Any]]) -> None:
    for client in members:
        say(f"{client['name']:32}  {client['limits']}  since {client['since']}")
    if not members:
        say("no client has limits of its own")
