"""Where a run folder keeps what: its files' names, and the folder of one episode."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from .plan import Key

EPISODES = "episodes.jsonl"
SIDE_FILES = (
    "decisions.jsonl",
    "switches.jsonl",
    "calls.jsonl",
    "events.jsonl",
    "metrics/latency_attrib.jsonl",
    "ops.jsonl",
)
"""Files with many rows per episode; written before the episode's line, so that a line vouches for them."""
OWN_FILES = ("trace.jsonl", "patch.diff", "metrics.jsonl")
"""Files of one episode."""
METRICS = "metrics/metrics.jsonl"
THROUGHPUT = "metrics/throughput.jsonl"
SUMMARY = "metrics/summary.json"


def episode_folder(run: Path, key: Key) -> Path:
    """Where an episode's own files are: its messages (``trace.jsonl``), its patch and its metrics."""
    arm, task_id, seed = key
    return run / "episodes" / file_name(arm) / file_name(task_id) / str(seed)


def file_name(name: str) -> str:
    """A name as one path component; no two names have the same."""
    quoted = quote(name, safe=":,@+= ", errors="surrogatepass")
    return quoted if quoted.strip(".") else quoted.replace(".", "%2E")
