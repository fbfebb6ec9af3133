"""`a2b verify`: what it prints, and the codes it ends with, on the local data and on a running overlay."""

from __future__ import annotations

from pathlib import Path

from tests.oracles.wire import frames
from tests.overlay.calls import TOWER
from tests.overlay.test_cli import Run, alone, data, run, served

__all__ = ["alone", "data", "run", "served"]

STEPS = [
    "transaction", "card", "registration", "block", "work", "chain", "lineage", "listing", "newest", "domain",
]  # fmt: skip


def test_the_local_data_is_verified_in_words(run: Run, data: Path) -> None:
    result = run("verify", TOWER, "--offline", "--data", data)
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0] == "bsv:regtest is a test network: its work proves nothing, and its coins have no value"
    assert lines[1] == f"{TOWER} on bsv:regtest"
    assert lines[-1] == "verified"
    assert lines[-2].startswith("members not proved: chain, changedHeight, deprecated, domain, ")
    messages = [line.split(": ") for line in lines[2:-2] if not line.startswith("    ")]
    assert [name for name, _ in messages] == STEPS
    assert [outcome for _, outcome in messages] == ["proved"] * 8 + ["not checked"] * 2
    assert "126 headers from the genesis block of bsv regtest on" in result.out


def test_a_chain_that_is_not_the_expected_one_is_not_proved(run: Run, data: Path) -> None:
    result = run("verify", TOWER, "--offline", "--data", data, "--chain", "bsv:mainnet")
    assert result.code == 1
    assert "chain: not proved\n    it is on bsv:regtest, and bsv:mainnet is expected\n" in result.out
    assert result.out.splitlines()[-1] == "not proved: chain"
    completed = run("verify", TOWER, "--offline", "--data", data, "--chain", "bsv:mainnet", "--json")
    assert completed.code == 1
    assert (completed.json["verified"], completed.json["notProved"]) == (False, ["chain"])
    assert [step["step"] for step in completed.json["steps"]] == STEPS


def test_a_file_of_headers_of_ones_own_proves_the_chain(run: Run, data: Path, tmp_path: Path, sample: Path) -> None:
    headers = [block[:80] for block in frames((sample / "blk00000.dat").read_bytes())]
    (tmp_path / "all").write_bytes(b"".join(headers))
    result = run("verify", TOWER, "--offline", "--data", data, "--headers", tmp_path / "all")
    assert result.code == 0
    assert f"your own source {tmp_path / 'all'} has the block's header" in result.out
    # one that does not reach so far leaves it to the packaged checkpoints
    (tmp_path / "few").write_bytes(b"".join(headers[:3]))
    assert "genesis block" in run("verify", TOWER, "--offline", "--data", data, "--headers", tmp_path / "few").out


def test_an_unknown_id_ends_with_one_and_an_unreachable_overlay_with_three(run: Run, data: Path) -> None:
    assert run("verify", f"{'00' * 32}_0", "--data", data).code == 1
    assert run("verify", "agent.example", "--data", data).code == 1
    nobody = run("verify", TOWER, "--offline", "--data", data, "--headers", "missing-file")
    assert (nobody.code, nobody.out) == (3, "")
    assert "missing-file: No such file" in nobody.err
    silent = run("verify", TOWER, "--offline", "--data", data, "--headers", "http://user:secret@127.0.0.1:1")
    assert (silent.code, silent.out) == (3, "")
    assert "secret" not in silent.err
    assert run("verify", TOWER).code == 3
    assert run("verify", TOWER, "--url", "http://127.0.0.1:1").code == 3
    assert run("verify").code == 2


def test_a_running_overlay_is_not_trusted_with_the_network(run: Run, served: str) -> None:
    result = run("verify", TOWER, "--offline", "--url", served)
    assert result.code == 1
    assert "give --chain bsv:regtest to expect it" in result.out
    assert result.out.splitlines()[-1] == "not proved: chain"
    result = run("verify", TOWER, "--offline", "--url", served, "--chain", "bsv:regtest", "--json")
    assert result.code == 0
    assert result.json["verified"] is True
    missing = run("verify", f"{'00' * 32}_0", "--url", served)
    assert (missing.code, missing.out) == (1, "")
    assert "no listing has the id" in missing.err


def test_two_overlays_are_compared_block_by_block(run: Run, data: Path, served: str) -> None:
    expected = ("--offline", "--chain", "bsv:regtest", "--complete")
    for more in (("--url", served, "--data", data), ("--data", data, "--against", served)):
        done = run("verify", TOWER, *expected, *more)
        assert done.code == 0, done.out
        assert "complete: proved\n" in done.out
        assert "leaves out, from block 1 to 125" in done.out
        assert "none moves the satoshi" in done.out
    both = run("verify", TOWER, *expected, "--url", served, "--against", served, "--json")
    assert both.json["steps"][-1]["outcome"] == "proved"


def test_a_comparison_needs_two_overlays(run: Run, data: Path, served: str) -> None:
    alone = run("verify", TOWER, "--complete", "--data", data)
    assert alone.code == 2
    assert "--against URL" in alone.err
    silent = run("verify", TOWER, "--complete", "--data", data, "--offline", "--against", "http://127.0.0.1:1")
    assert silent.code == 3
    other = run("verify", TOWER, "--complete", "--data", data, "--offline", "--against", f"{served}/nowhere")
    assert other.code == 1
    assert f"{served}/nowhere serves no anchors (BRC-136)" in other.out
