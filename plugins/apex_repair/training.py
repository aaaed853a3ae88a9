"""Trains the tokenizer's vocabulary: ``python -m apex_repair.training [OUT] [--tokens 8000]``.

The corpus is the running Python's standard library (no tests, no tables, nothing installed), with
docstrings counted twice, so that English weighs as much as code. Equal counts are decided by the
pair's bytes: one Python version gives one file.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import heapq
import platform
import sysconfig
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from .tokenizer import VOCABULARY, escape_token, split_pieces

_LEFT_OUT = {
    "test",
    "tests",
    "idlelib",
    "lib2to3",
    "encodings",
    "site-packages",
    "__pycache__",
    "pydoc_data",
    "turtledemo",
}
_PLATFORM_FILES = "_sysconfigdata_*.py"


def corpus_files(root: Path) -> list[Path]:
    """Source files of a standard library, sorted."""
    return [
        path
        for path in sorted(root.rglob("*.py"), key=lambda p: p.relative_to(root).as_posix())
        if not _LEFT_OUT.intersection(path.relative_to(root).parts) and not path.match(_PLATFORM_FILES)
    ]


def docstrings(source: str) -> Iterator[str]:
    """Docstrings of a module, its classes and functions; none of a source that does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield text


def count_pieces(files: list[Path]) -> tuple[Counter[bytes], str]:
    """How often each piece occurs, and the sha256 of what was read."""
    pieces: Counter[bytes] = Counter()
    digest = hashlib.sha256()
    for path in files:
        data = path.read_bytes().replace(b"\r\n", b"\n")
        digest.update(data)
        pieces.update(split_pieces(data))
        for text in docstrings(data.decode("utf-8", "replace")):
            pieces.update(split_pieces(text.encode("utf-8", "surrogatepass")))
    return pieces, digest.hexdigest()


def train(pieces: Counter[bytes], tokens: int) -> list[bytes]:
    """The first ``tokens`` joins of byte-pair encoding, most frequent pair first."""
    words = [([bytes([b]) for b in piece], count) for piece, count in sorted(pieces.items()) if len(piece) > 1]
    pairs: Counter[tuple[bytes, bytes]] = Counter()
    where: defaultdict[tuple[bytes, bytes], set[int]] = defaultdict(set)
    for number, (parts, count) in enumerate(words):
        for pair in pairwise(parts):
            pairs[pair] += count
            where[pair].add(number)
    heap = [(-count, pair) for pair, count in pairs.items()]
    heapq.heapify(heap)
    vocabulary: dict[bytes, None] = {}
    while heap and len(vocabulary) < tokens:
        count, pair = heapq.heappop(heap)
        if pairs[pair] != -count or not count:
            continue  # stale: the pair was counted anew since
        joined = pair[0] + pair[1]
        vocabulary[joined] = None
        changed: set[tuple[bytes, bytes]] = set()
        for number in where.pop(pair):
            parts, times = words[number]
            for old in pairwise(parts):
                pairs[old] -= times
                changed.add(old)
            i = 0
            while i < len(parts) - 1:
                if parts[i] == pair[0] and parts[i + 1] == pair[1]:
                    parts[i : i + 2] = [joined]
                i += 1
            for new in pairwise(parts):
                pairs[new] += times
                where[new].add(number)
                changed.add(new)
        for each in changed:
            if pairs[each] > 0:
                heapq.heappush(heap, (-pairs[each], each))
    return list(vocabulary)


def render_vocabulary(vocabulary: list[bytes], digest: str) -> str:
    """The data file's text."""
    head = f"# byte-level BPE, {len(vocabulary)} joins; Python {platform.python_version()}; corpus sha256 {digest}"
    return "\n".join([head, *map(escape_token, vocabulary)]) + "\n"


def main(arguments: list[str] | None = None) -> None:
    """Train and write the data file."""
    parser = argparse.ArgumentParser(prog="python -m apex_repair.training", description=__doc__)
    parser.add_argument("out", nargs="?", type=Path, default=Path(__file__).with_name(VOCABULARY))
    parser.add_argument("--tokens", type=int, default=8000, help="joins to learn (default 8000)")
    options = parser.parse_args(arguments)
    pieces, digest = count_pieces(corpus_files(Path(sysconfig.get_path("stdlib"))))
    vocabulary = train(pieces, options.tokens)
    options.out.write_text(render_vocabulary(vocabulary, digest), encoding="ascii")
    print(f"{options.out}: {len(vocabulary)} joins from {sum(pieces.values()):,} pieces ({len(pieces):,} distinct)")


if __name__ == "__main__":
    main()
