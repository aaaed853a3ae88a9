"""Small programs as tasks: what ``humaneval``, ``humanevalfix``, ``mbpp`` and ``quixbugs`` have in common."""
