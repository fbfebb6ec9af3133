"""The `a2b` command: its subcommands, and the exit code of each kind of error.

0 yes, 1 a negative answer (not found, invalid, not verified), 2 wrong usage, 3 a source, server or
database that cannot be used.
"""

from __future__ import annotations

import os
import sys
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from overlay.app.memory import collect_garbage_rarely
from overlay.commands import (
    backup,
    check,
    clients,
    diagnose,
    doctor,
    forget,
    hide,
    hire,
    hires,
    index_copy,
    migrate,
    mirror,
    publish,
    rebuild,
    run,
    search,
    show,
    snapshot,
    stats,
    status,
    verify,
    wallets,
)
from overlay.commands.options import use_url
from overlay.installation import NEEDS_SERVER, SERVER, has_server, installed
from overlay.text.terminal import complain, say, survive_any_encoding

EXIT_CODES = {
    "overlay.listings.lookup.ListingNotFoundError": 1,
    "overlay.api.problems.NotFoundError": 1,
    "overlay.client.errors.NotThereError": 1,
    "overlay.client.errors.HiddenError": 1,
    "indexer.snapshot.codec.SnapshotError": 1,
    "indexer.store.backup.BackupError": 1,
    "indexer.errors.RefusedTransactionError": 1,
    "overlay.verify.anchor_sources.ContradictionError": 1,
    "overlay.verify.server_answer.NotCheckedError": 1,
    "overlay.publish.coins.CoinsError": 1,
    "overlay.commands.diagnose.NotSeenError": 1,
    "overlay.publish.registration_output.RegistrationError": 1,
    "parsers.claims.canonical_json.DocumentError": 1,
    "overlay.client.hire.hiring.HireError": 1,
    "overlay.client.hire.agent_link.EndpointError": 1,
    "parsers.claims.amount_due.PaymentRefusedError": 1,
    "overlay.client.hire.agent_call.ArgumentsError": 2,
    "overlay.client.hire.wallet.WalletError": 2,
    "overlay.client.hire.policy.PolicyError": 2,
    "overlay.client.hire.journal.JournalError": 2,
    "overlay.client.hire.agent_link.UnreachableError": 3,
    "overlay.publish.keys.PrivateKeyError": 2,
    "indexer.setting_values.SettingsError": 2,
    "overlay.commands.options.UsageError": 2,
    "overlay.engines.UnknownEngineError": 2,
    "indexer.store.database.DatabaseUrlError": 2,
    "overlay.api.problems.BadRequestError": 2,
    "overlay.client.errors.RefusedError": 2,
    "overlay.client.errors.UrlError": 2,
    "overlay.api.problems.ProblemError": 3,
    "overlay.client.errors.ClientError": 3,
    "overlay.app.storage.ServerMissingError": 2,
    "overlay.app.storage.MissingError": 3,
    "overlay.api.server.AddressError": 3,
    "overlay.app.workers.WorkerError": 3,
    "overlay.engines.EngineError": 3,
    "indexer.errors.SourceError": 3,
    "indexer.store.database.StoreError": 3,
    "sqlalchemy.exc.DBAPIError": 3,
    "builtins.OSError": 3,
}
"""Exit codes of the exceptions that are not a mistake of this program's, by name: nothing is imported to look them
up."""


_FILES = ("file", "token")
"""Arguments that name files."""


class _Version(Action):
    """`--version`, looked up only when it is requested."""

    def __call__(self, parser: ArgumentParser, *_: object) -> NoReturn:
        from overlay.app import build

        say(f"a2b {build()}")
        parser.exit()


def parser() -> ArgumentParser:
    """Every command and its options."""
    root = ArgumentParser(
        "a2b",
        description="Registry of AI agents and MCP tools on Bitcoin SV: follow the chain, search, serve.",
        epilog="Exit codes: 0 yes, 1 a negative answer, 2 wrong usage, "
        "3 a source, server or database that cannot be used.",
        allow_abbrev=False,
    )
    root.add_argument("--version", action=_Version, nargs=0, help="show the version, commit and formats, and exit")
    commands = root.add_subparsers(metavar="COMMAND", required=True)
    for command in (
        run, search, show, verify, hire, hires, wallets, diagnose, check, publish, status, doctor, rebuild,
        index_copy, snapshot, backup, migrate, forget, hide, clients, stats, mirror,
    ):  # fmt: skip
        command.add(commands)
    for system in installed():
        system.add_commands(commands)
    return root


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line (default: the process') and exit with its code."""
    collect_garbage_rarely()
    survive_any_encoding()
    args = parser().parse_args(_by_names(list(sys.argv[1:] if arguments is None else arguments)))
    use_url(args)
    if (text := _no_text(args)) is not None:
        complain(f"{os.fsencode(text)!r} is not UTF-8")
        raise SystemExit(2)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # the reader has closed its end; what Python would still flush goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt:
        code = 130
    except ModuleNotFoundError as error:
        if has_server() or (error.name or "").partition(".")[0] not in SERVER:
            raise
        complain(NEEDS_SERVER)
        code = 2
    except Exception as error:
        exit_code = 2 if _names_no_file(args, error) else _exit_code(error)
        if exit_code is None:
            raise
        complain(_sentence(error))
        code = exit_code
    raise SystemExit(code)


def _by_names(arguments: list[str]) -> list[str]:
    """The arguments with `motebit sign` as one word: without `sign` or `key`, `motebit` is a command followed by a
    host."""
    is_one = arguments[:1] == ["motebit"] and arguments[1:2] in (["sign"], ["key"])
    return [" ".join(arguments[:2]), *arguments[2:]] if is_one else arguments


def _no_text(args: Namespace) -> str | None:
    """The first argument that is not UTF-8 and is not the name of a file, which may be of any bytes."""
    texts = [value for name, value in vars(args).items() if name not in _FILES]
    texts += [item for value in texts if isinstance(value, list) for item in value]
    return next((text for text in texts if isinstance(text, str) and not _is_utf8(text)), None)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _names_no_file(args: Namespace, error: Exception) -> bool:
    """Whether an argument that is a file, or `@` and a file, names one that is not there, or a folder."""
    options = vars(args).items()
    named = [value for name, value in options if isinstance(value, Path) or name in _FILES]
    named += [value[1:] for _, value in options if isinstance(value, str) and value.startswith("@")]
    return isinstance(error, (FileNotFoundError, IsADirectoryError)) and str(error.filename) in map(str, named)


def _exit_code(error: Exception) -> int | None:
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__)
    return next((EXIT_CODES[name] for name in names if name in EXIT_CODES), None)


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(getattr(error, "orig", None) or error)
