"""``python -m apex_framework`` is ``apex``."""

from .cli import main

if __name__ == "__main__":
    main()
