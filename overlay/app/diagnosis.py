"""Diagnose a transaction: why it is listed, or why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from indexer.settings import Settings
from overlay.app.storage import in_configured_order
from overlay.installation import installed

if TYPE_CHECKING:
    from indexer.diagnosis.source_lookup import SourceTransaction
    from indexer.headers.networks import Network
    from indexer.store import Store


def diagnose(
    settings: Settings,
    store: Store,
    transaction: str | bytes,
    ask: Callable[[bytes], SourceTransaction | None] = lambda _: None,
) -> dict[str, Any]:
    """The diagnosis (schema `Diagnosis`) of a txid or outpoint (text), or of the bytes of a transaction, which are read
    as one of the first chain. `ask` queries the sources for a txid (internal byte order) that is not stored. Raises
    ValueError for any other text, ParseError for bytes that are not a transaction, ProblemError (503) for bytes before
    any chain is indexed."""
    from indexer.diagnosis.diagnoser import Diagnoser
    from indexer.diagnosis.steps import requested
    from indexer.headers.networks import by_caip2
    from indexer.store.requests import Requests
    from overlay.api.problems import ProblemError

    chains = in_configured_order(settings, store.chains())
    networks: dict[str, Network] = {name: network for name, id_ in chains.items() if (network := by_caip2(id_))}
    if isinstance(transaction, bytes) and not networks:
        raise ProblemError(503, "no chain is indexed yet, so the transaction cannot be read")
    more = [member.module(member.diagnosis).steps for member in installed() if member.diagnosis]
    diagnoser = Diagnoser(store, networks, ask, more)
    answer = diagnoser.by_name(transaction) if isinstance(transaction, str) else diagnoser.by_raw(transaction)
    request = Requests(store.engine).get(bytes.fromhex(answer["txid"])[::-1])
    return answer if request is None else {**answer, "steps": [requested(request), *answer["steps"]]}
