"""Where the engines of a benchmark keep what they index."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests.databases import Cluster, binary, is_installed

ENGINES = ("tantivy", "whoosh", "postgres")


class Places(ExitStack):
    """Empty indexes: in folders, or in databases of a PostgreSQL server of their own, on a socket, with its usual
    settings but for fsync; the server is begun when it is first wanted and ends with the `with`."""

    def __init__(self) -> None:
        super().__init__()
        self._cluster: Cluster | None = None

    def url(self, engine: str, folder: Path) -> str:
        """The URL of a new index. Exits where it would need a PostgreSQL that is not installed."""
        if engine != "postgres":
            return f"{engine}:{folder / engine}"
        if self._cluster is None:
            if not is_installed():
                raise SystemExit("PostgreSQL is not installed here")
            self._cluster = Cluster(binary("initdb"), binary("postgres"))
            self.callback(self._cluster.stop)
        return f"postgres:{self._cluster.new()}"
