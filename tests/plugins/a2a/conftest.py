"""Skipped aloud without the extra; what the tests of this folder share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

for needed in ("a2a", "uvicorn", "starlette", "grpc", "jwt", "cryptography"):
    pytest.importorskip(needed, reason="needs the extra [a2a]")

sys.path.insert(0, str(Path(__file__).parent))
