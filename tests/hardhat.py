"""A real development network of Ethereum: Hardhat's, with the contract `A2BPointers` of tests/evm deployed on it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.conftest import ROOT, missing
from tests.ports import free_port
from tests.waiting import PATIENCE

FOLDER = ROOT / "tests" / "evm"


def require() -> str:
    """The path of node; the test is skipped where it, or what `npm ci` installs, is missing."""
    node = shutil.which("node")
    if node is None:
        missing("node (Node.js)")
    if not (FOLDER / "node_modules" / "hardhat").is_dir():
        missing("what `npm ci --prefix tests/evm` installs (hardhat, solc)")
    return node


def built() -> dict[str, Any]:
    """The contract as it was compiled: `abi`, `bytecode`, `methods`."""
    body: dict[str, Any] = json.loads((FOLDER / "A2BPointers.json").read_text())
    return body


class Hardhat:
    """One network, which begins anew at each start. `contract` is where the contract is, made in block `first`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.contract, self.first, self._account = "", 0, ""
        self._process: subprocess.Popen[bytes] | None = None

    # -- its life

    def start(self) -> None:
        """Start it, and wait until it answers."""
        program = FOLDER / "node_modules" / "hardhat" / "internal" / "cli" / "bootstrap.js"
        # it would ask about telemetry, and keeps the answer in the home folder
        private = {**os.environ, "HARDHAT_DISABLE_TELEMETRY_PROMPT": "true", "HOME": str(self.folder), "CI": "1"}
        self.log = self.folder / "hardhat.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [require(), str(program), "node", "--hostname", "127.0.0.1", "--port", str(self.port)],
                cwd=FOLDER, env=private, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self._account = self.rpc("eth_accounts")[0]
                return
            except OSError:
                assert self._process.poll() is None, f"the network ended: {self.log.read_text()[-2000:]}"
                assert time.monotonic() < end, f"the network does not answer: {self.log.read_text()[-2000:]}"
                time.sleep(0.05)

    def deploy(self) -> None:
        """Put the contract on the chain anew."""
        receipt = self._send({"data": built()["bytecode"]})
        self.contract, self.first = receipt["contractAddress"], int(receipt["blockNumber"], 16)

    def stop(self) -> None:
        """End it; nothing is left of its chain."""
        process, self._process = self._process, None
        if process is not None:
            # where node is a script that starts node, both end
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def __enter__(self) -> Hardhat:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- asking it

    @property
    def base(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """Its URL as a setting has it."""
        return f"{self.base}?contract={self.contract}&from={self.first}&chain=evm"

    def rpc(self, method: str, *params: Any) -> Any:
        """The result of a call. Raises OSError while it does not answer."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        request = Request(self.base, body, {"Content-Type": "application/json"})  # noqa: S310
        try:
            with urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310 - http only
                loaded = json.load(answer)
        except URLError as error:
            raise OSError(str(error.reason)) from None
        assert "error" not in loaded, loaded
        return loaded["result"]

    def block(self, height: int) -> dict[str, Any]:
        """A block of its chain."""
        answer: dict[str, Any] = self.rpc("eth_getBlockByNumber", hex(height), False)
        return answer

    @property
    def height(self) -> int:
        """The number of its newest block."""
        return int(self.rpc("eth_blockNumber"), 16)

    # -- what happens on it

    def mine(self, count: int = 1) -> None:
        """So many blocks without a transaction."""
        self.rpc("hardhat_mine", hex(count))

    def point(self, uri: str, digest: bytes = bytes(32)) -> str:
        """Call the contract in a block of its own; the transaction's hash."""
        text = uri.encode()
        words = [(64).to_bytes(32, "big"), digest, len(text).to_bytes(32, "big"), text + bytes(-len(text) % 32)]
        call = "0x" + built()["methods"]["point(string,bytes32)"] + b"".join(words).hex()
        receipt = self._send({"to": self.contract, "data": call})
        return str(receipt["transactionHash"])

    def _send(self, call: dict[str, str]) -> dict[str, Any]:
        sent = self.rpc("eth_sendTransaction", {"from": self._account, "gas": hex(6_000_000), **call})
        receipt: dict[str, Any] = self.rpc("eth_getTransactionReceipt", sent)
        assert receipt["status"] == "0x1", receipt
        return receipt
