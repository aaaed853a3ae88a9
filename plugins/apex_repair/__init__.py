"""The embedded LLM backend ``repair``: a rule-based program repairer behind the LLM interface. It is not an LLM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apex_framework.hookspecs import ApexSpec, hookimpl

if TYPE_CHECKING:
    from apex_framework.hookspecs import Add
    from apex_framework.interfaces import LLMBackend

    from .backend import RepairBackend


def _repair(**options: int) -> RepairBackend:
    from .backend import RepairBackend

    return RepairBackend(**options)


class Plugin(ApexSpec):
    """Registers the backend."""

    @hookimpl
    def apex_llm_backends(self, add: Add[LLMBackend]) -> None:
        add("repair", _repair, summary="rule-based program repairer behind the LLM interface; not an LLM")


plugin = Plugin()
