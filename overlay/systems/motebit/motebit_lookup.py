"""`a2b motebit`: the Motebit identity that a host publishes."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from overlay.commands.options import UsageError, add_json, command, print_answer, settings_of
from overlay.text.safe_text import on_one_line
from overlay.text.terminal import say

if TYPE_CHECKING:
    from overlay.commands.options import Commands
    from overlay.systems.motebit.store_hosts import IdentityOutcome


def add(commands: Commands) -> None:
    """Add `a2b motebit`."""
    parser = command(
        commands, "motebit", motebit,
        "Show the Motebit identity that a host publishes, verified. Exit code 1 when there is none.",
        "fetch_resolve", "fetch_ca_file",
        more="Queried are DNS (TXT _motebit.HOST), then the host's well-known file, then a relay (no proof).",
    )  # fmt: skip
    parser.add_argument("host", metavar="HOST", help="a domain name")
    parser.add_argument(
        "--relay", dest="relay_url", metavar="URL", help="a relay to ask where the host publishes nothing [none]"
    )
    add_json(parser)


def motebit(args: Namespace) -> int:
    """Print the identity, and how it was found."""
    import asyncio

    from indexer.errors import SourceUnavailableError
    from indexer.fetcher.dns import TxtRecords
    from overlay.app.fetching import build_fetcher
    from overlay.systems.motebit.host_identity import MotebitVerifier
    from parsers.pointers.locator import a_label

    host = a_label(args.host)
    if host is None:
        raise UsageError(f"{on_one_line(args.host)} is not a domain name")
    verifier = MotebitVerifier(build_fetcher(settings_of(args)), TxtRecords())
    outcome = asyncio.run(verifier.lookup(host, args.relay_url))
    if outcome.is_unknown:
        raise SourceUnavailableError(f"{host} could not be reached: {outcome.reason}")
    answer = _answer(outcome)
    print_answer(args, answer, _show)
    return 0 if answer["verified"] else 1


def _show(answer: dict[str, Any]) -> None:
    for name, value in answer.items():
        say(f"{name:14}{on_one_line(', '.join(value) if isinstance(value, list) else str(value))}")


def _answer(outcome: IdentityOutcome) -> dict[str, Any]:
    identity = outcome.identity
    if identity is None:
        detail = {"detail": outcome.detail} if outcome.detail else {}
        return {"verified": False, "reason": outcome.reason, **detail}
    members = {
        "motebit_id": identity.motebit_id, "public_key": identity.public_key, "binding": identity.binding,
        "method": identity.method, "url": identity.url, "endpoint": identity.endpoint,
        "capabilities": list(identity.capabilities),
    }  # fmt: skip
    return {"verified": identity.method != "relay", **members}
