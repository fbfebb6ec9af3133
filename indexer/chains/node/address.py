"""A node's address and login, parsed from `http://user:password@host:port/path`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from indexer.chains.options import web_address
from indexer.errors import SourceError, SourceUnavailableError


@dataclass(frozen=True, slots=True)
class Address:
    """A node's address. `base` has neither login nor trailing slash; `login` is (user, password), `cookie` the file to
    which the node writes them at each start."""

    name: str
    base: str
    login: tuple[str, str] | None
    cookie: Path | None

    def read_login(self) -> tuple[str, str] | None:
        """The current user and password. Raises SourceUnavailableError when the cookie file cannot be read."""
        if self.cookie is None:
            return self.login
        try:
            user, _, password = self.cookie.read_text(encoding="utf-8").strip().partition(":")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise SourceUnavailableError(
                f"{self.name}: the node's cookie {self.cookie} cannot be read ({why}); a node writes it when it "
                "starts: is it running, and may this user read its folder?"
            ) from error
        return user, password


def read(name: str, url: str, cookie: str | None = None) -> Address:
    """The address in a node's URL without query. Raises SourceError, which never repeats the password."""
    parts = web_address(url)
    if parts is None or parts.hostname is None or parts.fragment or any(ord(letter) <= 32 for letter in url):
        raise SourceError(
            f"{name}: its URL is not that of a node; write http://user:password@host:port, and in a password "
            "@ as %40, : as %3A, / as %2F, ? as %3F, # as %23, % as %25"
        )
    if cookie is not None and parts.username is not None:
        raise SourceError(f"{name}: its URL has a login and a cookie; leave one of them out")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    base = f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path.rstrip('/')}"
    login = (unquote(parts.username), unquote(parts.password or "")) if parts.username is not None else None
    return Address(name, base, login, Path(cookie).expanduser() if cookie is not None else None)
