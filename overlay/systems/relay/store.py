"""All tables of a relay in one database."""

from __future__ import annotations

from sqlalchemy import Engine

from indexer.store.nonces import DatabaseClock, Nonces, database_time
from overlay.systems.relay.store_agents import RelayAgents
from overlay.systems.relay.store_cash import RelayCash
from overlay.systems.relay.store_ledger import Ledger
from overlay.systems.relay.store_tasks import RelayTasks


class RelayStore:
    """The ledger and the records that are booked in it, and the nonces of tokens, which `clock` ends. Raises
    StoreError."""

    def __init__(self, engine: Engine, clock: DatabaseClock = database_time) -> None:
        self.ledger, self.nonces = Ledger(engine), Nonces(engine, clock)
        self.agents, self.tasks, self.cash = RelayAgents(engine), RelayTasks(engine), RelayCash(engine)
