"""Whether what decides over a test's outcome is still what it was before the repository's code was imported."""

import sys
import unittest
from typing import Any

_OF_UNITTEST = (  # type: tuple[tuple[Any, tuple[str, ...]], ...]
    (unittest.TestCase, ("run", "__call__", "fail", "assertEqual", "assertTrue", "assertFalse", "assertRaises",
                         "assertIs", "assertIn", "assertIsNone", "skipTest", "debug", "failureException")),
    (unittest.TestSuite, ("run", "__call__")),
    (unittest.TestResult, ("addError", "addFailure", "addSuccess", "addSubTest", "wasSuccessful")),
    (unittest.case, ("_Outcome", "SkipTest")),
)  # fmt: skip
_OF_PYTEST = {
    "_pytest.python": ("Function", ("runtest", "setup")),
    "_pytest.unittest": ("TestCaseFunction", ("runtest", "addError", "addFailure", "addSkip", "addSuccess")),
    "_pytest.reports": ("TestReport", ("from_item_and_call",)),
    "_pytest.runner": ("CallInfo", ("from_call",)),
}
_MISSING = object()


class Intact:
    """Remembers them when it is made."""

    def __init__(self) -> None:
        self._known = []  # type: list[tuple[Any, str, Any]]
        for owner, methods in _OF_UNITTEST:
            self._note(owner, methods)
        self._note(vars(unittest.case)["_Outcome"], ("testPartExecutor",))
        for module, (name, names) in _OF_PYTEST.items():
            found = getattr(sys.modules.get(module), name, None)
            if found is not None:
                self._note(found, names)
        self._own, self._type = vars, type

    def _note(self, owner: Any, names: "tuple[str, ...]") -> None:
        for name in names:
            self._known.append((owner, name, vars(owner).get(name, _MISSING)))

    def replaced(self) -> str:
        """The name of one that was replaced, or nothing."""
        for owner, name, value in self._known:
            if self._own(owner).get(name, _MISSING) is not value:
                return "{}.{}".format(getattr(owner, "__name__", "?"), name)
        return ""
