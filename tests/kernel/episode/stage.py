"""Episodes on the tiny suite, in this process, with plugins of the test's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tiny_suite import Tiny

from apex_framework.episode.arm import Arm
from apex_framework.episode.episode import Episode
from apex_framework.episode.workshop import Workshop
from apex_framework.hookspecs import ApexSpec
from apex_framework.interfaces import EpisodeJob, EpisodeResult
from apex_framework.plugins import load_plugins


class Stage:
    """A workshop with the tiny suite, or another one; ``close`` it."""

    def __init__(self, *, suite: str = "tiny", limit: int | None = None, **plugins: ApexSpec) -> None:
        self.shop = Workshop(load_plugins(plugins={"tiny": Tiny(), **plugins}, strict=True), suite, "dev", limit)

    def close(self) -> None:
        """End the processes that run tests."""
        self.shop.close()

    def play(self, task: str, seed: int = 0, run: Mapping[str, Any] | None = None, **arm: Any) -> EpisodeResult:
        """One episode of an arm that is named after its controller."""
        setting = Arm(**{"name": arm.get("controller", "static"), **arm})
        job = EpisodeJob(0, setting.to_json(), task, seed, {"run_id": "r", **(run or {})})
        return Episode(self.shop, setting, self.shop.task(task), job).run()


def plain(result: EpisodeResult) -> dict[str, Any]:
    """Everything that a result says, without the columns that measure the machine."""

    def strip(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {k: strip(v) for k, v in value.items() if not k.endswith("_ms") or k == "phase_ms"}
        return [strip(v) for v in value] if isinstance(value, list | tuple) else value

    kept: dict[str, Any] = strip(
        {
            "record": result.record,
            "decisions": result.decisions,
            "switches": result.switches,
            "calls": result.calls,
            "trace": result.trace,
            "patch": result.patch,
        }
    )
    return kept
