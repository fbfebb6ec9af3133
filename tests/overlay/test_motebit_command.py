"""`a2b motebit` against a host with an identity file."""

from __future__ import annotations

import json
from pathlib import Path

from parsers.claims.motebit.identity_file import verify_identity
from tests.https import Https
from tests.indexer.fetcher.test_motebit_identity import FILE, IDENTITY, identity_file
from tests.running import a2b_here


def test_the_identity_of_a_host_is_shown_where_it_verifies(tmp_path: Path) -> None:
    with Https(tmp_path, "good.example", "forged.example", "unsigned.example") as served:
        served.bodies["good.example", FILE] = identity_file()
        served.bodies["forged.example", FILE] = identity_file().replace(b"web_search", b"pay_anyone")
        unsigned = identity_file().partition(b"<!--")[0]
        served.bodies["unsigned.example", FILE] = unsigned
        without = a2b_here("motebit", "unsigned.example", "--json", cwd=tmp_path, **served.environment)
        good = a2b_here("motebit", "good.example", "--json", cwd=tmp_path, **served.environment)
        forged = a2b_here("motebit", "forged.example", cwd=tmp_path, **served.environment)
    shown = json.loads(good.stdout)
    assert (good.returncode, shown["verified"], shown["motebit_id"]) == (0, True, IDENTITY)
    assert (forged.returncode, "bad-signature" in forged.stdout) == (1, True)
    answer = json.loads(without.stdout)
    assert (without.returncode, answer["verified"], answer["reason"]) == (1, False, "malformed")
    assert answer["detail"] == verify_identity(unsigned.decode(), {}).detail
    assert "motebit-jcs-ed25519-hex-v1" in answer["detail"]
    wrong = a2b_here("motebit", "not a host", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "not a host is not a domain name" in wrong.stderr
