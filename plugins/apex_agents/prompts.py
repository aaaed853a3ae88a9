"""What each kind of question says to a model, in plain words. The embedded solver needs only the task line."""

from __future__ import annotations

from typing import Final

from apex_framework.interfaces.prompting import Ask

INSTRUCTIONS: Final[dict[Ask, str]] = {
    Ask.LOCATE: (
        "A Python project misbehaves. Name up to 3 functions of the map to look at first, most likely culprit first.\n"
        "Answer only with lines: FOCUS path::qualname | why"
    ),
    Ask.REPAIR: (
        "Fix the fault in the functions shown. Give {candidates} different minimal changes, best first; repeat none that was tried.\n"
        "Answer only with blocks:\nCANDIDATE n why\nFILE path:line\n<<<<<<< SEARCH\nold lines\n=======\nnew lines\n>>>>>>> REPLACE"
    ),
    Ask.DIAGNOSE: (
        "Tests fail. Say which lines most likely cause it, best guess first, at most 5.\n"
        "Answer only with lines: CAUSE path:line | why"
    ),
    Ask.REVIEW: (
        "A change makes the visible tests pass. Judge whether it mends the cause or only the tests.\n"
        "Answer with one line: VERDICT accept|reject | why\nand, when rejecting, lines: FOCUS path::qualname | why"
    ),
    Ask.SUMMARIZE: "Sum up what was tried and ruled out, at most 8 lines.\nAnswer only with lines: SUMMARY text",
}
