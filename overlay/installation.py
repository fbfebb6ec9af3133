"""The systems of this installation: each is a folder of `overlay/systems/` that can be taken out, and is loaded by its
name, and only then."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from indexer.declarations import declarations

NAMES = (
    "payments", "rating", "delegateos", "a2a", "ard", "bsv_overlay", "feeds", "liveness", "mcp", "mcp_registry",
    "motebit", "mrp", "relay", "webhooks", "x402",
)  # fmt: skip
"""Every system, in the order in which they are opened."""

SETTINGS = {
    "prices": "payments", "delegation_roots": "delegateos", "gasp_peers": "bsv_overlay",
    "arc_callback_token": "bsv_overlay", "probe": "liveness", "relay": "relay", "relay_address": "relay",
}  # fmt: skip
"""The settings that only one system reads."""

SORTS = {"rating": "rating"}
"""The values of the parameter `sort` that need a system."""

FILTERS = {"minCustomers": "rating", "reachable": "liveness", "health": "liveness"}
"""The filters of a search that need a system."""


SERVER = (
    "aiohttp", "apscheduler", "google_crc32c", "isal", "jinja2", "markdown_it", "markupsafe", "numba", "numpy",
    "opensearchpy", "PIL", "prometheus_client", "psycopg", "rapidfuzz", "rich", "sqlalchemy", "whoosh", "zmq",
)  # fmt: skip
"""Libraries that only the server needs, by the names that they are imported by."""

NEEDS_SERVER = (
    "this needs the server, and only the client is installed: pip install '.[server]' in this repository, or "
    "'FILE.whl[server]'; with --url URL, or A2B_URL, most commands query a running overlay"
)


def has_server() -> bool:
    """Whether the server's libraries are installed, too."""
    return find_spec("sqlalchemy") is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A system, with the names of its modules, which are imported when they are needed: `api` has a constant `API`,
    `tables` declares its tables (`indexer.store.schema`), each of `commands` has a function `add`, and both `jobs`, run
    by a server, and `indexing`, run by the process that writes facts, a function `jobs` that gives periodic jobs.
    `visits` has a function `host_checks` that gives the checks of hosts that the fetch loop runs, and `facts` a
    constant `FACTS` (`overlay.listings.system_facts`). `diagnosis` has a function `steps`, which gives the steps of
    a diagnosis about listings by id (`indexer.diagnosis.diagnoser.MoreSteps`). `forgetting` has a function
    `forget_chain`, which removes what belongs to a chain from its tables (`indexer.store.forgetting.Forget`).
    `signs`: it signs with this server's identity key."""

    name: str
    api: str
    tables: str = ""
    jobs: str = ""
    indexing: str = ""
    visits: str = ""
    facts: str = ""
    diagnosis: str = ""
    forgetting: str = ""
    commands: tuple[str, ...] = ()
    signs: bool = False

    def add_commands(self, commands: Any) -> None:
        """Add its commands to the command line."""
        for name in self.commands:
            self.module(name).add(commands)

    def module(self, name: str) -> Any:
        """One of its modules."""
        return import_module(f"overlay.systems.{self.name}.{name}")


@cache
def system(name: str) -> System | None:
    """The system of a name; None where it is not installed."""
    module = f"overlay.systems.{name}"
    try:
        result: System = import_module(module).SYSTEM
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return None
    return result


def absence(name: str) -> str:
    """Why a system is not there, after its name."""
    return "is not installed" if system(name) is None else "is left out of systems"


def installed() -> list[System]:
    """Every system that is installed."""
    return [member for member in map(system, NAMES) if member is not None]


def declare_tables() -> None:
    """Declare the tables of all installed systems, served or not: every process then creates and checks the same ones.
    The tables of a removed system are not changed."""
    for member in installed():
        if member.tables:
            member.module(member.tables)


declarations.append(declare_tables)
