"""Diagnose a transaction: why it is listed, or why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from indexer.settings import Settings
from overlay.app.storage import in_configured_order

if TYPE_CHECKING:
    from indexer.diagnosis.diagnoser import ChainRules
    from indexer.diagnosis.source_lookup import SourceTransaction
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
    from indexer.diagnosis.diagnoser import Diagnoser, requested
    from indexer.store.requests import Requests
    from overlay.api.problems import ProblemError

    networks = _networks(settings, store)
    if isinstance(transaction, bytes) and not networks:
        raise ProblemError(503, "no chain is indexed yet, so the transaction cannot be read")
    diagnoser = Diagnoser(store, lambda: networks, ask)
    answer = diagnoser.by_name(transaction) if isinstance(transaction, str) else diagnoser.by_raw(transaction)
    request = Requests(store.engine).get(bytes.fromhex(answer["txid"])[::-1])
    return answer if request is None else {**answer, "steps": [requested(request), *answer["steps"]]}


def _networks(settings: Settings, store: Store) -> dict[str, ChainRules]:
    """The rules for reading transactions of each stored chain, in configured order."""
    from indexer.diagnosis.diagnoser import ChainRules
    from indexer.headers.networks import by_caip2

    networks = {name: by_caip2(caip2) for name, caip2 in in_configured_order(settings, store.chains()).items()}
    return {name: ChainRules(network.rules, network.kind) for name, network in networks.items() if network is not None}
