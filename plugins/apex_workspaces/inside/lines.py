"""Counts the lines that run below a folder, and says which they were."""

import sys
import threading
from typing import Any


class Lines:
    """``budget`` 0 for no limit. ``exceeded`` is called, with a place, when it is spent; it must not return."""

    def __init__(self, root: str, budget: int, exceeded: Any, wanted: bool) -> None:
        self._root, self._budget, self._exceeded, self._wanted = root, budget, exceeded, wanted
        self._found = {}  # type: dict[str, set[int]]
        self.steps = 0

    def begin(self) -> None:
        """From nothing."""
        self.steps, self._found = 0, {}
        if self._budget or self._wanted:
            threading.settrace(self._call)
            sys.settrace(self._call)

    def end(self) -> None:
        """No more counting."""
        if self._budget or self._wanted:
            sys.settrace(None)
            threading.settrace(None)

    def lines(self) -> "dict[str, list[int]]":
        """Lines by relative path, if they were wanted."""
        return {path[len(self._root) :]: sorted(found) for path, found in sorted(self._found.items())}

    def _call(self, frame: Any, event: str, arg: Any) -> Any:
        path = frame.f_code.co_filename
        if not path.startswith(self._root):
            return None
        found = self._found.setdefault(path, set()) if self._wanted else None
        budget = self._budget

        def line(frame: Any, event: str, arg: Any) -> Any:
            if event == "line":
                self.steps += 1
                if found is not None:
                    found.add(frame.f_lineno)
                if budget and self.steps > budget:
                    code = frame.f_code
                    path = code.co_filename[len(self._root) :]
                    self._exceeded(f"{path}:{frame.f_lineno} in {code.co_name}")
            return line

        return line
