from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from apex_framework import EpisodeJob

NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Two nodes of one CPU each on this machine, and this process connected to them."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    nodes = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    try:
        nodes.add_node(**NODE)
        ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
        yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()


@pytest.fixture
def episodes(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The stand-ins, importable here and on the nodes."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import ray_episodes

    return ray_episodes


@pytest.fixture
def jobs(tmp_path: Path) -> Callable[..., list[EpisodeJob]]:
    """One job per name of a task; ``marks`` is a folder that they all see."""

    def make(*tasks: str, **run: Any) -> list[EpisodeJob]:
        shared = {"marks": str(tmp_path), **run}
        return [EpisodeJob(index, {"name": "arm"}, task, 7, shared) for index, task in enumerate(tasks)]

    return make
