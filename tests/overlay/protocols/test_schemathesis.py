"""Schemathesis, unmodified, over every operation of the OpenAPI document of a running overlay."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.overlay.calls import local_http, read_json
from tests.overlay.protocols.vectors import api_page
from tests.waiting import PATIENCE

EXAMPLES = 8
"""Requests for each operation and phase; with all phases, about 1,400."""

STREAMS = "/v1/stream"
"""It does not end."""

BEYOND_SCHEMAS = (
    "/", "/v1/search", "/v1/search/enhanced", "/v1/feeds/search.atom", "/v1/feeds/search.json", "/v1/suggest",
    "/v1/quote", "/v1/pay/check", "/v1/diagnose", "/agents", "/search", "/explore", "/discovery/resources",
    "/discovery/search", "/mrp/registry/query", "/mrp/registry/submit", "/mrp/registry/verify", "/v0/servers",
    "/v0.1/servers", "/registry/v0/servers",
    "/registry/v0.1/servers", "/lookup", "/submit", "/requestSyncResponse", "/requestForeignGASPNode",
    "/requestTopicAnchorRange", "/requestAdmittedList", "/requestCompoundMerklePath", "/publish", "/register", "/mcp",
    "/v1/headers", "/v1/evidence", "/v1/listings/{id}/evidence", "/listings/{id}/evidence",
    "/v1/delegations/revocations", "/mcp/message",
)  # fmt: skip
"""Paths that refuse some requests that fit their schema, which cannot say which cursors were given out, which chains,
transactions and offers there are, what a domain name is, or that one number is not below another."""

NO_ERROR_STATUS = (
    "/api/v1/market/candidates",
    "/a2a",
    "/mcp/message",
    "/mrp/hello",
    "/mrp/discover",
    "/mrp/negotiate",
    "/mrp/execute",
    "/mrp/evidence",
    "/",
)
"""Paths whose protocols answer bad messages with HTTP status 200 and an error in the body, and the page of a search,
which takes empty fields out of its address before it reads the others; and
candidates for an observer, which an empty Authorization does not name."""

REGISTRIES = ("/v0", "/v0.1", "/registry/v0", "/registry/v0.1")
NOT_IMPLEMENTED = tuple(
    f"{root}/{path}"
    for root in REGISTRIES
    for path in ("publish", "servers/{server}/versions/{version}", "servers/{server}/versions/{version}/status")
)
"""Paths whose methods other than GET are answered with 501, as the document of the MCP Registry has it."""


def configuration(url: str) -> str:
    """Real values for paths, and the checks that do not hold for some operations."""
    item = api_page(url, type="tool")["items"][0]
    servers = read_json(f"{url}/v0.1/servers")["servers"]
    style = re.search(r"/static/([^?\"]+)", local_http.get(url, headers={"Accept": "text/html"}).text)
    assert style
    parameters = {
        "path.id": item["id"], "path.what": item["txid"], "path.server": servers[0]["server"]["name"],
        "path.version": "latest", "path.page": "search", "path.tag": "search", "path.name": style[1],
    }  # fmt: skip
    lines = [
        "[parameters]",
        *(f'"{name}" = {json.dumps(value)}' for name, value in parameters.items()),
    ]
    for check, paths in (("positive_data_acceptance", BEYOND_SCHEMAS), ("negative_data_rejection", NO_ERROR_STATUS)):
        for path in paths:
            lines += ["[[operations]]", f"include-path = {json.dumps(path)}", f"checks.{check}.enabled = false"]
    for path in NOT_IMPLEMENTED:
        lines += ["[[operations]]", f"include-path = {json.dumps(path)}", 'exclude-method = "GET"']
        lines += [f"checks.{check}.enabled = false" for check in ("not_a_server_error", "positive_data_acceptance")]
    return "\n".join(lines)


@pytest.mark.timeout(900)
def test_every_answer_is_as_documented(overlay_url: str, tmp_path: Path) -> None:
    if find_spec("schemathesis") is None:
        missing("schemathesis")
    (tmp_path / "schemathesis.toml").write_text(configuration(overlay_url))
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", f"{overlay_url}/openapi.json",
        "--exclude-path", STREAMS, "--max-examples", str(EXAMPLES), "--generation-deterministic",
        "--no-color",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=3 * PATIENCE, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr
    counts = re.search(r"Selected: (\d+)/(\d+)\s+Tested: (\d+)", done.stdout)
    assert counts
    selected, total, tested = map(int, counts.groups())
    assert selected == tested == total - 1 > 100


def test_exceptions_are_of_paths_that_exist(overlay_url: str) -> None:
    paths = read_json(f"{overlay_url}/openapi.json")["paths"]
    assert {*BEYOND_SCHEMAS, *NO_ERROR_STATUS, *NOT_IMPLEMENTED, STREAMS} <= set(paths)
