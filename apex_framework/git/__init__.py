"""Git for workspaces, suites and tools: repositories of our own, in which nothing that others wrote can run.

Commits are made from and written to plain folders byte for byte, by plumbing that knows no hooks, filters or attributes;
a folder that agents work in holds no ``.git``, and one that they make there is not looked at.
"""

from __future__ import annotations

from .addresses import Network, networks_of
from .process import Outcome, converse
from .repository import CheckedOut, Commit, Repository
from .runner import GitLimits, run_git
from .trees import Entry

__all__ = [
    "CheckedOut",
    "Commit",
    "Entry",
    "GitLimits",
    "Network",
    "Outcome",
    "Repository",
    "converse",
    "networks_of",
    "run_git",
]
