"""Text that came out of a run, made harmless: it may name things, and it may do nothing else."""

from __future__ import annotations

import unicodedata
from html import escape

LONGEST = 300
"""Characters of one name or reason that are shown; a longer one is cut, and says so."""


def plain(text: object, longest: int = LONGEST) -> str:
    """One line of visible text: controls, line ends, marks that turn the writing direction, and halves of pairs show as escapes."""
    raw = str(text)
    shown = "".join(char if _harmless(char) else _named(char) for char in raw[:longest])
    return shown if len(raw) <= longest else f"{shown}… ({len(raw):,} characters)"


def markup(text: object, longest: int = LONGEST) -> str:
    """``plain``, escaped for HTML and SVG: for text between tags and for attributes in double quotes."""
    return escape(plain(text, longest), quote=True)


def cell(text: object) -> str:
    """A field of a CSV file. What a spreadsheet would take for a formula gets an apostrophe in front."""
    if isinstance(text, int | float):
        return f"{text:.10g}" if isinstance(text, float) else str(text)
    shown = plain(text, 10_000)
    if shown[:1] in "=+-@" and shown and not _numeric(shown):
        shown = f"'{shown}"
    return f'"{shown.replace(chr(34), chr(34) * 2)}"' if any(c in shown for c in ',";') else shown


def _harmless(char: str) -> bool:
    return char == " " or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")


def _named(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _numeric(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
