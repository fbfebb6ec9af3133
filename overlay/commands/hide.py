"""`a2b hide`, `a2b unhide` and `a2b hidden`: what this server does not show, by law."""

from __future__ import annotations

import re
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from overlay.commands.options import UsageError, add_json, command, print_answer, settings_of
from overlay.text.safe_text import on_one_line
from overlay.text.terminal import say
from overlay.text.timestamps import timestamp

if TYPE_CHECKING:
    from indexer.store import Store
    from indexer.store.hidden import HideDecision, Subject
    from overlay.commands.options import Commands

REASONS = (
    "illegal-content", "copyright", "trademark", "personal-data", "malware", "fraud", "court-order", "other",
)  # fmt: skip
MOST = 500
"""Characters of a law and of a text."""

_SHA256 = re.compile(r"[0-9a-f]{64}", re.IGNORECASE)


def add(commands: Commands) -> None:
    """Add the three commands."""
    parser = command(
        commands, "hide", hide, "Hide a listing on this server, by law. Exit code 1 when there is no such listing.",
        "data", "database",
        more="Its card, proof and history are answered with 451, and lists leave it out: within five seconds on all "
        "servers of this database. Nothing is deleted; state hashes and anchors stay.",
    )  # fmt: skip
    _add_subject(parser)
    parser.add_argument("--reason", required=True, choices=REASONS, help="why, as answers state it")
    parser.add_argument("--law", default="", metavar="TEXT", help="the law, as answers state it")
    parser.add_argument("--text", default="", metavar="TEXT", help="a sentence for who looks for it")
    parser.add_argument("--until", metavar="DATE", help="when it is shown again: 2027-01-31, or RFC 3339 [never]")
    parser = command(
        commands, "unhide", unhide, "Show again what `a2b hide` hides. Exit code 1 when nothing is hidden by it.",
        "data", "database",
    )  # fmt: skip
    _add_subject(parser)
    add_json(command(commands, "hidden", show_hidden, "List what this server hides.", "data", "database"))


def _add_subject(parser: ArgumentParser) -> None:
    subject = parser.add_mutually_exclusive_group(required=True)
    subject.add_argument("id", nargs="?", metavar="ID", help="a listing, with all servers of its card")
    subject.add_argument("--owner", metavar="ADDRESS", help="all that an address owns or owned")
    subject.add_argument("--sha256", metavar="HEX", help="all that has, or had, the card with this SHA-256")


def hide(args: Namespace) -> int:
    """Store the decision, and announce it where no indexer runs that does."""
    from indexer.store.hidden import HideDecision, HideReason, Subject, hide

    now = int(time.time())
    until = _until(args.until, now)
    if (longest := max(args.law, args.text, key=len)) and len(longest) > MOST:
        raise UsageError(f"--law and --text have at most {MOST} characters")
    with _opened(args) as store:
        subject, value = _subject(args)
        if subject is Subject.ID:
            _check_listed(store, args.id, value)
        law, text = on_one_line(args.law), on_one_line(args.text)
        hide(store.primary, HideDecision(subject, value, HideReason(args.reason), law, text, now, until))
        say(f"{subject} {on_one_line(value)} is hidden{f' until {timestamp(until)}' if until else ''}")
        _announce(store)
    return 0


def unhide(args: Namespace) -> int:
    """End the decision, and announce that."""
    from indexer.store.hidden import unhide

    with _opened(args) as store:
        subject, value = _subject(args)
        if not unhide(store.primary, subject, value):
            say(f"{subject} {on_one_line(value)} is not hidden")
            return 1
        say(f"{subject} {on_one_line(value)} is hidden no longer")
        _announce(store)
    return 0


def show_hidden(args: Namespace) -> int:
    """Print the decisions in force."""
    with _opened(args) as store:
        print_answer(args, [_as_json(decision) for decision in store.hidden.decisions()], _show)
    return 0


@contextmanager
def _opened(args: Namespace) -> Iterator[Store]:
    from overlay.app.storage import open_store

    with closing(open_store(settings_of(args), create=False)) as store:
        yield store


def _announce(store: Store) -> None:
    from indexer.store import StoreError, Writer
    from overlay.app.hidden_listings import announce

    try:
        with closing(Writer(store.engine)) as writer:
            announce(store, writer)
    except StoreError:
        say("the indexer that runs on this database announces it within seconds")


def _subject(args: Namespace) -> tuple[Subject, str]:
    from indexer.store.hidden import Subject
    from overlay.api.values import ValueRefusedError, owner
    from overlay.listings.ids import parse_id

    if args.sha256 is not None:
        if not _SHA256.fullmatch(args.sha256):
            raise UsageError("--sha256 is that of a card, as 64 hex digits")
        return Subject.SHA256, args.sha256.lower()
    if args.owner is not None:
        try:
            return Subject.OWNER, owner(args.owner)
        except ValueRefusedError as error:
            raise UsageError(str(error)) from None
    registration, key = parse_id(args.id)
    if key is not None:
        raise UsageError(f"a card is hidden with all its servers: name {on_one_line(registration)}")
    return Subject.ID, registration


def _check_listed(store: Store, text: str, registration: str) -> None:
    """Raise ListingNotFoundError where neither a listing nor a decision has this id."""
    from overlay.listings import lookup
    from overlay.listings.repository import ListingRepository

    repository = ListingRepository(store)
    if not repository.hidden([registration]):
        lookup.registration(repository, registration, text)


def _until(text: str | None, now: int) -> int | None:
    if text is None:
        return None
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--until {text[:60]!a} is not a date such as 2027-01-31") from None
    until = int((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp())
    if until <= now:
        raise UsageError(f"--until {text[:60]!a} has passed")
    return until


def _as_json(decision: HideDecision) -> dict[str, Any]:
    members = decision._asdict() | {"since": timestamp(decision.since), "until": timestamp(decision.until)}
    return {name: value for name, value in members.items() if value not in ("", None)}


def _show(decisions: list[dict[str, Any]]) -> None:
    for decision in decisions:
        words = [decision["reason"], *(decision[name] for name in ("law", "text") if name in decision)]
        until = f" until {decision['until']}" if "until" in decision else ""
        say(f"{decision['subject']:7}{on_one_line(decision['value'])}")
        say(f"       {'; '.join(map(on_one_line, words))}, since {decision['since']}{until}")
    if not decisions:
        say("nothing is hidden")
