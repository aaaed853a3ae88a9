"""Runs in the interpreter of the tests, which may be as old as Python 3.6: standard library only, and no newer syntax."""
