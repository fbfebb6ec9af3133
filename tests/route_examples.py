"""One request and answer for each JSON route of the API: `python -m tests.route_examples URL` writes those of a running
`a2b up` on the packaged sample chain into `overlay/api/route_examples.json`, which the OpenAPI document shows."""

from __future__ import annotations

import json
import re
import sys
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.conftest import ROOT

FILE = ROOT / "overlay" / "api" / "route_examples.json"

TOWER = "dc35745fe6bf0623a33a2d79bcfeaeb9d34808c5d37d772598ebe5fa93db9dd7_0"
CHART = "3f9b9aaf90dc12190db2050b611b718497787b4c64725189f14bf721a8fa04c8_0"
NEAR_MISS = "ca99d4cbac84b85bc6159f0a65ba6b4d86b0b6b4eb18a0379d0559a9978f8d7e"
CARD = {
    "name": "Tide tables",
    "url": "https://tides.example/a2a",
    "description": "Tells when the tide is high or low at a harbour.",
    "skills": [{"id": "tide-forecast", "name": "Tide forecast", "description": "High and low water on a day."}],
}
TRANSACTION = f"0100000001{'00' * 36}00ffffffff0101000000000000000000000000"
"""A transaction that registers nothing."""
CLAIM = {"configId": "watchtower-month", "currency": "BSV", "stage": "full", "rawTx": TRANSACTION}


def receipt() -> Any:
    """The receipt that docs/documents.md shows."""
    text = (ROOT / "docs" / "documents.md").read_text()
    return json.loads(text.partition("`receipt.json`:\n\n```json\n")[2].partition("```")[0])


def requests() -> dict[str, tuple[str, Any]]:
    """The path and the body of the request for each route."""
    return {
        "GET /v1/search": ("/v1/search?q=watchtower&fields=name,summary,cheapest&limit=1", None),
        "GET /v1/search/enhanced": ("/v1/search/enhanced?type=tool&fields=name&limit=1", None),
        "GET /v1/suggest": ("/v1/suggest?q=watch&limit=2", None),
        "GET /v1/listings/{id}": (f"/v1/listings/{TOWER}", None),
        "GET /v1/listings/{id}/history": (f"/v1/listings/{TOWER}/history", None),
        "GET /v1/listings/{id}/card": (f"/v1/listings/{TOWER}/card", None),
        "GET /v1/listings/{id}/proof": (f"/v1/listings/{TOWER}/proof", None),
        "GET /v1/listings/{id}/snippets": (f"/v1/listings/{TOWER}/snippets", None),
        "GET /v1/listings/{id}/findability": (f"/v1/listings/{TOWER}/findability", None),
        "GET /v1/listings/{id}/tools": (f"/v1/listings/{TOWER}/tools", None),
        "GET /v1/listings/{id}/evidence": (f"/v1/listings/{TOWER}/evidence", None),
        "GET /v1/listings/{id}/payments/{txid}": (f"/v1/listings/{TOWER}/payments/{NEAR_MISS}", None),
        "GET /v1/evidence/{sha256}": (f"/v1/evidence/{'ab' * 32}", None),
        "GET /v1/compare": (f"/v1/compare?id={TOWER}&id={CHART}", None),
        "GET /v1/headers": ("/v1/headers?from=125", None),
        "GET /v1/quote": (f"/v1/quote?id={TOWER}&configId=watchtower-month", None),
        "GET /v1/diagnose/{what}": (f"/v1/diagnose/{NEAR_MISS}", None),
        "GET /v1/changes": ("/v1/changes?limit=1", None),
        "GET /v1/status": ("/v1/status", None),
        "GET /v1/hidden": ("/v1/hidden", None),
        "GET /v1/delegations/revocations": ("/v1/delegations/revocations", None),
        "GET /healthz": ("/healthz", None),
        "GET /readyz": ("/readyz", None),
        "POST /v1/listings/{id}/recheck": (f"/v1/listings/{TOWER}/recheck", {}),
        "POST /v1/verify/{kind}": ("/v1/verify/receipt", {"document": receipt(), "now": 1_790_000_005_000}),
        "POST /v1/diagnose": ("/v1/diagnose", {"rawTx": TRANSACTION}),
        "POST /v1/check": ("/v1/check", CARD),
        "POST /v1/ingest": ("/v1/ingest", {"txid": "ab" * 32}),
        "POST /v1/pay/check": ("/v1/pay/check", {"claim": CLAIM, "id": TOWER}),
        "POST /v1/evidence": ("/v1/evidence", {"kind": "receipt", "document": receipt(), "listing": TOWER}),
        "POST /v1/delegations/revocations": ("/v1/delegations/revocations", {"revocation": {}}),
    }


def answer(url: str, path: str, body: Any) -> tuple[int, Any]:
    """The status and the JSON of the answer of a server to a request."""
    sent = None if body is None else json.dumps(body).encode()
    request = Request(f"{url}{path}", data=sent, headers={"Accept": "application/json"})  # noqa: S310 - this machine
    if sent is not None:
        request.add_header("Content-Type", "application/json")
    try:
        with urlopen(request) as response:  # noqa: S310
            return response.status, json.load(response)
    except HTTPError as error:
        return error.code, json.load(error)


def shortened(value: Any) -> Any:
    """A value with the first element of each list of objects, and without the ends of long texts."""
    if isinstance(value, dict):
        return {name: shortened(member) for name, member in value.items()}
    if isinstance(value, list):
        return [shortened(element) for element in value[: 1 if value and isinstance(value[0], dict | list) else 3]]
    return f"{value[:90]}…" if isinstance(value, str) and len(value) > 100 else value


VOLATILE = re.compile(
    r"[Aa]t$|time|epoch|^since$|seconds|version|requestId|bytes|jobs|pid|uptime|memory|next|seq|last|tries|state|detail|mempool|^error$|^lag$|degraded|behind|^covered|^used|sample|readTwice|integrity",
    re.IGNORECASE,
)
"""Members whose values differ from run to run."""


def agrees(example: Any, value: Any, name: str = "") -> bool:
    """Whether an answer is the one of an example, but for what differs from run to run, and for new members."""
    if isinstance(example, dict):
        return (
            isinstance(value, dict)
            and example.keys() <= value.keys()
            and all(agrees(member, value[member_name], member_name) for member_name, member in example.items())
        )
    if isinstance(example, list):
        return isinstance(value, list) and all(
            agrees(element, other, name) for element, other in zip(example, value, strict=False)
        )
    if VOLATILE.search(name):
        return True
    return bool(example == value or (isinstance(value, str) and shortened(value) == example))


def main(url: str) -> None:
    examples = {}
    for route, (path, body) in requests().items():
        status, value = answer(url, path, body)
        examples[route] = {"request": path, "body": body, "status": status, "answer": shortened(value)}
        print(status, route, len(json.dumps(examples[route]["answer"])))
    FILE.write_text(json.dumps(examples, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
