"""Model backends without a model: a script, and a cassette of recorded answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apex_framework.hookspecs import Add, ApexSpec, hookimpl

if TYPE_CHECKING:
    from apex_framework.interfaces import LLMBackend


def _scripted(**options: Any) -> LLMBackend:
    from apex_framework.testing.scripted import ScriptedBackend

    return ScriptedBackend(**options)


def _replay(spec: str = "", **options: Any) -> LLMBackend:
    """``replay:PATH`` is the cassette at PATH."""
    from .replay import ReplayBackend

    return ReplayBackend(**{"path": spec, **options} if spec else options)


class Plugin(ApexSpec):
    """What this package brings."""

    @hookimpl
    def apex_llm_backends(self, add: Add[LLMBackend]) -> None:
        add("scripted", _scripted, summary="answers from a text, a list or a function")
        add("replay", _replay, summary="answers from a cassette (replay:PATH); records them from another backend")


plugin = Plugin()
