"""Run folders for tests of reports: rows of the shape that ``apex run`` writes, invented from a seed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

TOPOLOGIES = ("star", "chain", "flat")
AGENTS = ("planner", "coder", "runner", "critic")
ARMS = {"bandit_v1": "bandit_v1", "static_star": "static:star", "static_flat": "static:flat", "single": "static"}
BUDGET = 10_000

Rename = Callable[[str], str]


def invent_run(
    path: Path,
    *,
    tasks: int = 12,
    seeds: int = 1,
    traced: int = 4,
    rename: Rename = lambda name: name,
    digest: str = "5d" * 32,
    seed: int = 0,
    lift: float = 0.3,
    budget: int = BUDGET,
    **run: Any,
) -> Path:
    """A run in which the first arm switches; ``rename`` is what every name in it goes through, ``run`` goes into run.json."""
    path.mkdir(parents=True)
    random = Random(seed)
    names = [
        [rename(f"task-{i:04}"), rename(f"module-{i % 40}"), rename(("clear", "vague")[i % 2])] for i in range(tasks)
    ]
    arms = [
        {
            "name": rename(name),
            "team": "single" if name == "single" else "swe",
            "controller": controller,
            "topologies": [rename(topology) for topology in TOPOLOGIES],
            "interceptors": [],
            "budget": budget,
            "online": False,
        }
        for name, controller in ARMS.items()
    ]
    plan = {
        "suite": "mini",
        "split": "dev",
        "suite_digest": digest,
        "level": "L2",
        "tasks": names,
        "arms": arms,
        "seeds": list(range(seeds)),
        "settings": {},
        "policies": {rename("bandit_v1"): "ab" * 32},
        "versions": {"apex-framework": "0.1.0", "python": "3.11.7"},
    }
    facts = {
        "format": 1,
        "run_id": "r",
        "digest": "d" * 64,
        "command": rename("apex run --seed 3"),
        "plan": plan,
        **run,
    }
    (path / "run.json").write_text(json.dumps(facts))
    files: dict[str, list[str]] = {"episodes": [], "decisions": [], "switches": [], "calls": []}
    for index, (task, cluster, family) in enumerate(names):
        for number in range(seeds):
            for arm in ARMS:
                key = {"arm": rename(arm), "task_id": task, "seed": number}
                steps, moves = _conduct(random, arm)
                tokens = _calls(files["calls"], random, key, budget, rename)
                _decisions(files["decisions"], random, key, steps, moves, rename)
                _switches(files["switches"], key, moves, rename)
                success = random.random() < (0.4 + lift if arm == "bandit_v1" else 0.4)
                record = {
                    **key,
                    "success": success,
                    "tokens": tokens,
                    "steps": steps,
                    "switches": sum(ok for _, _, _, ok in moves),
                    "denied": 1,
                    "status": "finished",
                    "reason": rename("change accepted" if success else "no budget for another repair"),
                    "visible_passed": success,
                    "aborted": sum(not ok for _, _, _, ok in moves),
                    "cluster": cluster,
                    "family": family,
                    "suite_digest": digest,
                    "message_tokens": tokens // 3,
                    "wall_ms": 1_000 + index,
                }
                files["episodes"].append(json.dumps(record))
                if index < traced:
                    _trace(path / "episodes" / quoted(rename(arm)) / quoted(task) / str(number), steps, moves, rename)
    for name, lines in files.items():
        (path / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return path


def quoted(name: str) -> str:
    """A name as the run folder spells it."""
    from apex_framework.experiment.layout import file_name

    return file_name(name)


def _conduct(random: Random, arm: str) -> tuple[int, list[tuple[int, str, str, bool]]]:
    """Steps, and (step, origin, target, committed) of switches."""
    steps = 1 if arm == "single" else random.randint(6, 14)
    moves, now = [], "flat"
    for step in range(2, steps - 1, 3) if arm == "bandit_v1" else ():
        target = random.choice([topology for topology in TOPOLOGIES if topology != now])
        ok = random.random() < 0.85
        moves.append((step, now, target, ok))
        now = target if ok else now
    return steps, moves


def _calls(lines: list[str], random: Random, key: dict[str, Any], budget: int, rename: Rename) -> int:
    """Settled calls and one denied; what they came to."""
    tokens = 0
    for agent in AGENTS:
        spent = {"tokens_in": random.randint(budget // 20, budget // 6), "tokens_out": random.randint(10, budget // 15)}
        who = {"agent_id": rename(agent), "role": rename(agent)}
        lines.append(json.dumps({**key, "event": "CallSettled", **who, "purpose": "repair", "status": "ok", **spent}))
        tokens += sum(spent.values())
    reasons = {"reasons": {rename("episode"): rename("tok_headroom")}}
    lines.append(json.dumps({**key, "event": "CallDenied", **who, "purpose": "repair", **reasons}))
    return tokens


def _decisions(
    lines: list[str],
    random: Random,
    key: dict[str, Any],
    steps: int,
    moves: list[tuple[int, str, str, bool]],
    rename: Rename,
) -> None:
    now = ""
    wished = {step: (target, ok) for step, _, target, ok in moves}
    for step in range(steps):
        target, ok = wished.get(step, ("flat" if step == 0 else "stay", step == 0))
        options = [topology for topology in TOPOLOGIES if topology != now] + (["stay"] if step else [])
        scores = {rename(o) if o != "stay" else o: random.gauss(0, 0.1) + (o == target) for o in options}
        row = {
            "event": "DecisionTaken",
            "step": step,
            "topology": rename(now) if now else "",
            "action": target if target == "stay" else rename(target),
            "propensity": 1.0,
            "epsilon": 0.0,
            "scores": scores,
            "features": [float(now == t) for t in TOPOLOGIES] + [round(random.random(), 3) for _ in range(5)],
            "latency_ms": 0.02,
            "observe_ms": 0.1,
            "learn_ms": 0.01,
        }
        lines.append(json.dumps({**key, **row}))
        now = target if target != "stay" and ok else now


def _switches(lines: list[str], key: dict[str, Any], moves: list[tuple[int, str, str, bool]], rename: Rename) -> None:
    epoch = 0
    for step, origin, target, ok in moves:
        epoch += ok
        row = {
            "event": "SwitchFinished",
            "step": step,
            "origin": rename(origin),
            "target": rename(target),
            "ok": ok,
            "epoch": epoch,
            "reason": "" if ok else rename("quiesce deadline"),
            "phase_ms": {"prepare": 0.2, "quiesce": 1.5 if ok else 50.0, **({"commit": 0.3} if ok else {})},
            "migrated": 0,
            "whole_ms": 2.0 if ok else 50.2,
        }
        lines.append(json.dumps({**key, **row}))


def _trace(home: Path, steps: int, moves: list[tuple[int, str, str, bool]], rename: Rename) -> None:
    """A message a step from one agent to the next, some on the way of a relay; the last one dies."""
    home.mkdir(parents=True)
    rows: list[dict[str, Any]] = []
    epoch, hop, ts = 0, 0, 0.0
    epochs = {step for step, _, _, ok in moves if ok}
    holder = "user"
    for step in range(1, steps + 2):
        receiver = AGENTS[step % len(AGENTS)]
        ways = [(holder, receiver)] if step % 3 else [(holder, "critic"), ("critic", receiver)]
        for start, end in ways if receiver != "critic" and holder != "critic" else [(holder, receiver)]:
            hop += 1
            row = {
                "event": "MessageMoved",
                "msg_id": f"m{step}",
                "origin": rename(holder),
                "holder": rename(start),
                "receiver": rename(end),
                "audience": rename(receiver),
                "epoch": epoch,
                "size": 100 * step,
                "hop": hop,
                "priority": "draft",
            }
            ends = "dead" if step > steps else "acked"
            for what in ("routed", "delivered", ends):
                ts += 0.5 if what == ends else 0.0
                rows.append({**row, "what": what, "ts": ts, "reason": "episode_over" if what == "dead" else ""})
        epoch += step in epochs
        holder = receiver
    (home / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
