"""``humaneval`` (repair form) and ``humanevalfix``: functions with an issue and the checks of their data files."""
