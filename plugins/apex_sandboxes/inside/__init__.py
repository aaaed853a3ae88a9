"""What runs in the confined process before its program does: the standard library only, imported by path.

A launcher with ``python -I -S`` puts the folder above this one on its path, so nothing else of the framework is there.
"""
