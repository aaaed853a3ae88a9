"""What fits where follows from shapes; the reckoning comes near the files that there are."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from apex_framework.workers import tiers
from apex_framework.workers.tiers import GIB, MODELS, TIERS, advice, for_models, table

DOCS = Path(__file__).parents[3] / "docs"

PUBLISHED = {
    ("Qwen2.5-Coder 1.5B", "Q4_K_M"): 0.99,
    ("Qwen2.5-Coder 7B", "Q4_K_M"): 4.68,
    ("Qwen2.5-Coder 7B", "Q8_0"): 8.10,
    ("Llama 3.1 8B", "Q4_K_M"): 4.92,
    ("Qwen2.5-Coder 32B", "Q4_K_M"): 19.85,
}
"""GB of published GGUF files."""


@pytest.mark.parametrize(("name", "size"), PUBLISHED.items(), ids=lambda p: p[0] if isinstance(p, tuple) else "")
def test_reckoned_files_are_as_large_as_published_ones(name: tuple[str, str], size: float) -> None:
    (shape,) = (s for s, quantisation in MODELS if (s.name, quantisation) == name)
    assert shape.weights(name[1]) == pytest.approx(size * 1e9, rel=0.02)


def test_what_is_said_to_fit_fits_and_more_memory_never_allows_less() -> None:
    sizes = [n * GIB for n in (0, 1, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)]
    for total in sizes:
        for fit in advice(total):
            if fit.fits:
                assert fit.needs <= for_models(total) < total - 4 * GIB + 1
                assert fit.together >= 1 and fit.weights < fit.needs
            else:
                assert fit.context == fit.together == 0 and fit.needs > for_models(total)
    for less, more in pairwise(sizes):
        for small, large in zip(advice(less), advice(more), strict=True):
            assert small.context <= large.context and small.together <= large.together


def test_the_guidance_of_the_tiers() -> None:
    fits = {tier: {(f.model, f.quantisation) for f in advice(tier * GIB) if f.fits} for tier in TIERS}
    seven, eight = ("Qwen2.5-Coder 7B", "Q4_K_M"), ("Llama 3.1 8B", "Q4_K_M")
    assert ("Qwen2.5-Coder 1.5B", "Q4_K_M") in fits[8] and seven not in fits[8]
    assert {seven, eight} <= fits[16] and ("Qwen2.5-Coder 32B", "Q4_K_M") not in fits[16]
    assert ("Qwen2.5-Coder 32B", "Q4_K_M") in fits[32]
    assert len(fits[64]) == len(MODELS)


def test_the_page_has_the_table_that_is_reckoned() -> None:
    assert table() in (DOCS / "local-models.md").read_text(encoding="utf-8"), "python -m apex_framework.workers.tiers"


def test_a_formula_that_forgets_what_is_kept_finer_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: every matrix at the bits of most."""
    monkeypatch.setitem(tiers._BITS, "Q4_K_M", (4.5, 4.5, 4.5))
    with pytest.raises(AssertionError):
        test_reckoned_files_are_as_large_as_published_ones(("Qwen2.5-Coder 7B", "Q4_K_M"), 4.68)
