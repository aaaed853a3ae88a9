"""Several real processes at the edge of one ceiling: together they never spend more, whoever is killed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from apex_budgets.store import SharedStore

WORKER = """
import asyncio, json, random, sys
from pathlib import Path
from apex_budgets.day import DayScope
from apex_budgets.episode import EpisodeScope
from apex_budgets.role import RoleScope
from apex_budgets.run import RunScope
from apex_framework.budget import Grant, Guard, Ledger
from apex_framework.interfaces import CallTags
from apex_framework.ports import SystemClock

folder, number, run_tokens, day_tokens, dies = Path(sys.argv[1]), *map(int, sys.argv[2:])
rng = random.Random(number)
scopes = [EpisodeScope(), RoleScope(), RunScope(run_tokens, folder / "run"), DayScope(day_tokens, folder / "day")]
guard = Guard(Ledger(), scopes, clock=SystemClock(), safety=1.2)
tags = CallTags("run1", f"ep{number}", "a", "solo", 10**6)
spent = 0

async def call():
    global spent
    prompt, output = rng.randint(1, 200), rng.randint(1, 200)
    grant = await guard.admit(tags, prompt, max_tokens=output)
    if not isinstance(grant, Grant):
        return grant.reasons
    await asyncio.sleep(rng.random() * 0.002)
    actual = prompt + rng.randint(0, output)
    guard.settle(grant.id, actual)
    spent += actual

async def work():
    await call()  # each holds a tranche before the race begins
    print("holding", flush=True)
    sys.stdin.readline()
    refused = 0
    while refused < 20:
        answers = await asyncio.gather(*(call() for _ in range(10)))
        refused += sum(answer is not None for answer in answers)
        if dies and spent > 2_000:
            print(json.dumps({"spent": spent}), flush=True)
            await asyncio.sleep(600)
    await guard.close()
    print(json.dumps({"spent": spent, "refused": refused}), flush=True)

print("ready", flush=True)
sys.stdin.readline()
asyncio.run(work())
"""


def start(folder: Path, number: int, run_tokens: int, day_tokens: int, *, dies: bool = False):
    arguments = [str(folder), *map(str, (number, run_tokens, day_tokens, int(dies)))]
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def go(workers):
    """Let them begin together, once each has loaded."""
    for word in ("ready\n", "holding\n"):
        for worker in workers:
            assert worker.stdout.readline() == word
        for worker in workers:
            worker.stdin.write("\n")
            worker.stdin.flush()


def report(worker):
    out, err = worker.communicate(timeout=60)
    assert worker.returncode == 0, err
    return json.loads(out.splitlines()[-1])["spent"]


@pytest.mark.parametrize(("run_tokens", "day_tokens"), [(20_000, 10**6), (10**6, 20_000), (15_000, 15_500)])
def test_processes_at_the_edge_never_exceed_together(tmp_path, run_tokens, day_tokens):
    workers = [start(tmp_path, number, run_tokens, day_tokens) for number in range(4)]
    go(workers)
    spent = [report(worker) for worker in workers]
    edge = min(run_tokens, day_tokens)
    assert all(spent) and edge * 0.7 < sum(spent) <= edge
    assert SharedStore(tmp_path / "run").balance("run", "run1", time.time()) == (sum(spent), 0, 0)


def test_a_killed_process_is_debited_in_full_and_the_others_go_on_within_the_ceiling(tmp_path):
    tokens = 20_000
    killed = start(tmp_path, 0, tokens, 10**6, dies=True)
    go([killed])
    of_killed = json.loads(killed.stdout.readline())["spent"]
    workers = [start(tmp_path, number, tokens, 10**6) for number in (1, 2)]
    go(workers)
    killed.kill()
    killed.communicate(timeout=60)
    others = sum(report(worker) for worker in workers)
    store = SharedStore(tmp_path / "run")
    spent, alive, dead = store.balance("run", "run1", time.time() + 3_600)
    assert (spent, alive) == (others, 0) and dead >= of_killed > 2_000
    assert others + of_killed <= spent + dead <= tokens
