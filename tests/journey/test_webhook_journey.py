"""A delivery is under way when the program is killed: the next one sends it again, under its id, and no other twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx

from tests.chainkit import ChainKit, agent
from tests.overlay.webhooks.webhook_registry import KEY, Target, target
from tests.running import Running
from tests.waiting import PATIENCE, until

__all__ = ["target"]


def program(folder: Path, blocks: Path, target: Target) -> Running:
    settings = {f"A2B_{name.upper()}": value for name, value in target.flags.items()}
    chain = f"demo=files:{blocks}?network=regtest"
    return Running("up", "--port", "0", "--chains", chain, cwd=folder, **settings)


async def test_a_kill_loses_no_delivery_and_repeats_only_the_one_under_way(tmp_path: Path, target: Target) -> None:
    kit, blocks = ChainKit(), tmp_path / "blocks"
    blocks.mkdir()
    [file] = kit.write(blocks)
    async with httpx.AsyncClient() as client:

        async def log(running: Running, created: dict[str, Any]) -> list[dict[str, Any]]:
            headers = {"Authorization": f"Bearer {created['secret']}"}
            answer = await client.get(f"{running.url}/v1/subscriptions/{created['id']}", headers=headers)
            deliveries: list[dict[str, Any]] = answer.json()["deliveries"]
            return deliveries

        with program(tmp_path, blocks, target) as first:
            await asyncio.to_thread(first.until_ready)
            webhook = {"url": "https://slow.example/in", "key": KEY, "search": {"q": "lantern"}}
            answer = await client.post(f"{first.url}/v1/subscriptions", json=webhook)
            assert answer.status_code == 201, answer.text
            created = answer.json()
            kit.append(file, kit.mine(kit.inscribe(agent("Lantern"))))
            kit.write_tip(blocks)
            await until(lambda: target.messages)
            first.process.kill()
            first.process.wait()
        target.gate.set()
        kit.append(file, kit.mine(kit.inscribe(agent("Second lantern"))))
        kit.write_tip(blocks)
        with program(tmp_path, blocks, target) as second:
            await until(lambda: len(target.messages) == 3)
            first_id, again, second_id = (message.id for message in target.messages)
            assert first_id == again
            assert first_id.startswith(f"{created['id']}-1-")
            assert second_id.startswith(f"{created['id']}-2-")
            assert target.messages[0].raw == target.messages[1].raw
            assert target.messages[2].changes == [("match", "Second lantern")]
            async with asyncio.timeout(PATIENCE):
                while [entry["state"] for entry in await log(second, created)] != ["delivered"] * 2:  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.02)  # the target has it, and the program may be about to store that
        assert len(target.messages) == 3
