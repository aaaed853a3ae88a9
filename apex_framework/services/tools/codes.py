"""What a tool call is refused with. Codes are stable: agents, policies and logs may rely on them."""

from __future__ import annotations

from typing import Final

E_POLICY: Final = "E_POLICY"
"""The capability or a policy does not allow this tool."""
E_ARG: Final = "E_ARG"
"""An argument does not fit the tool's schema; ``detail`` begins with its name."""
E_TIMEOUT: Final = "E_TIMEOUT"
"""The tool did not answer within its deadline."""
E_TOOL: Final = "E_TOOL"
"""The tool, or an interceptor around it, is broken: an exception or an answer that is none."""
E_EPOCH: Final = "E_EPOCH"
"""The capability is of another epoch than the one in force, and the tool changes something."""
E_BUDGET: Final = "E_BUDGET"
"""The seconds for tools, of the agent or of the episode, are spent."""
E_LOOP: Final = "E_LOOP"
"""The same call has had the same result too often in a row; ``detail`` says what to do."""
E_DIRECT: Final = "E_DIRECT"
"""The call went past the door, straight to a sealed server."""
E_NOTFOUND: Final = "E_NOTFOUND"
"""There is no such resource for this caller: never was, not its own, or no longer kept."""
