"""A TLS server in a thread, for commands that run as processes of their own: paths by host, and what was asked.

with Https(authority, "a.example") as server:
    server.bodies["a.example", "/.well-known/agent.json"] = b"{}"
    server.resolve          # the value of A2B_FETCH_RESOLVE
"""

from __future__ import annotations

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import trustme


class Https:
    """The server. `bodies` are what it serves, by host and path; all else is 404."""

    def __init__(self, folder: Path, *hosts: str) -> None:
        authority = trustme.CA()
        self.ca_file = str(folder / "authority.pem")
        authority.cert_pem.write_to_path(self.ca_file)
        self.bodies: dict[tuple[str, str], bytes] = {}
        self.requests: list[tuple[str, str]] = []
        self._hosts = hosts
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*hosts).configure_cert(context)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30

            def do_GET(self) -> None:
                location = (self.headers["Host"], self.path)
                server.requests.append(location)
                body = server.bodies.get(location)
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    @property
    def resolve(self) -> str:
        """The entries that lead here."""
        return " ".join(f"{host}:443=127.0.0.1:{self._server.server_port}" for host in self._hosts)

    @property
    def environment(self) -> dict[str, str]:
        """The settings that lead a command to this server."""
        return {"A2B_FETCH_RESOLVE": self.resolve, "A2B_FETCH_CA_FILE": self.ca_file}

    def __enter__(self) -> Https:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
