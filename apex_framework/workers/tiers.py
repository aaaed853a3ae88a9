"""Which quantised models fit into how much memory: reckoned from their shapes, not measured and not copied.

Weights: a matrix's elements times the bits of its kind. Of Q4_K_M, llama.cpp keeps the output matrix and half of the value and
feed-forward-down matrices in Q6_K, the others in Q4_K; Q8_0 keeps all in 8-bit blocks. Bits are those of ggml's blocks: 144 bytes
for 256 weights, 210 for 256, 34 for 32. Vectors (norms, biases) are left out: less than a thousandth.
Keys and values: 2 bytes x 2 x layers x heads of keys x size of a head, per token of context.
Room to compute: in single precision, the scores of a batch over the vocabulary and eight of its hidden states, and 48 MiB.
What is left to models: all but a quarter of the memory, at least 4 GiB, for the system, other programs and APEX itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

GIB: Final = 1 << 30
TIERS: Final = (8, 16, 32, 64)
"""GiB."""
CONTEXTS: Final = (2048, 4096, 8192, 16384, 32768)
BATCH: Final = 512
OTHERS: Final = (0.25, 4 * GIB)
"""Share of memory that is not for models, and the least of it in bytes."""

_Q4_K, _Q6_K, _Q8_0 = 144 * 8 / 256, 210 * 8 / 256, 34 * 8 / 32
_BITS: Final = {"Q4_K_M": (_Q4_K, (_Q4_K + _Q6_K) / 2, _Q6_K), "Q8_0": (_Q8_0, _Q8_0, _Q8_0)}
"""Bits per weight: of most, of value and feed-forward-down matrices, of the output matrix."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A transformer of the Llama kind, as its published configuration describes it."""

    name: str
    layers: int
    width: int
    hidden: int
    """Width of the feed-forward part."""
    heads: int
    kv_heads: int
    head: int
    """Size of a head."""
    words: int
    """Size of the vocabulary."""
    trained: int
    """Tokens of context that it was trained for."""
    tied: bool = False
    """Input and output words share one matrix."""

    @property
    def parameters(self) -> int:
        """Elements of its matrices."""
        most, mixed, output = self._matrices()
        return most + mixed + output

    def _matrices(self) -> tuple[int, int, int]:
        """Elements of most matrices, of value and feed-forward-down matrices, of the output matrix."""
        attention = 2 * self.width * self.heads * self.head + self.width * self.kv_heads * self.head
        value, down = self.width * self.kv_heads * self.head, self.width * self.hidden
        words = self.words * self.width
        most = self.layers * (attention + 2 * down) + (0 if self.tied else words)
        return most, self.layers * (value + down), words

    def weights(self, quantisation: str) -> int:
        """Bytes of the file. Raises KeyError for a quantisation without a formula."""
        parts = zip(self._matrices(), _BITS[quantisation], strict=True)
        return int(sum(elements * bits for elements, bits in parts) / 8)

    def kv_bytes(self, context: int) -> int:
        """Bytes of keys and values of one instance, in half precision."""
        return 2 * 2 * self.layers * self.kv_heads * self.head * context

    def compute_bytes(self) -> int:
        """Bytes of room to compute of one instance."""
        return 4 * BATCH * (self.words + 8 * self.width) + (48 << 20)

    def needs(self, quantisation: str, context: int) -> int:
        """Bytes of one instance."""
        return self.weights(quantisation) + self.kv_bytes(context) + self.compute_bytes()


MODELS: Final[Sequence[tuple[Shape, str]]] = (
    (Shape("Qwen2.5-Coder 1.5B", 28, 1536, 8960, 12, 2, 128, 151_936, 32_768, tied=True), "Q4_K_M"),
    (Shape("Qwen2.5-Coder 3B", 36, 2048, 11_008, 16, 2, 128, 151_936, 32_768, tied=True), "Q4_K_M"),
    (Shape("Qwen2.5-Coder 7B", 28, 3584, 18_944, 28, 4, 128, 152_064, 32_768), "Q4_K_M"),
    (Shape("Qwen2.5-Coder 7B", 28, 3584, 18_944, 28, 4, 128, 152_064, 32_768), "Q8_0"),
    (Shape("Llama 3.1 8B", 32, 4096, 14_336, 32, 8, 128, 128_256, 131_072), "Q4_K_M"),
    (Shape("Qwen2.5-Coder 14B", 48, 5120, 13_824, 40, 8, 128, 152_064, 32_768), "Q4_K_M"),
    (Shape("Qwen2.5-Coder 32B", 64, 5120, 27_648, 40, 8, 128, 152_064, 32_768), "Q4_K_M"),
    (Shape("Llama 3.1 70B", 80, 8192, 28_672, 64, 8, 128, 128_256, 131_072), "Q4_K_M"),
)
"""Models, each with a quantisation, the smaller ones first."""


@dataclass(frozen=True, slots=True)
class Fit:
    """One model against one amount of memory; sizes in bytes."""

    model: str
    quantisation: str
    parameters: int
    weights: int
    needs: int
    """With the longest context that fits, else with the shortest of CONTEXTS."""
    context: int
    """The longest of CONTEXTS that fits; 0 when none does."""
    together: int
    """So many instances fit at once, each with the shortest context and the weights shared."""

    @property
    def fits(self) -> bool:
        """Whether it fits at all."""
        return self.context > 0


def for_models(total_bytes: int) -> int:
    """What is left to models of so much memory."""
    share, least = OTHERS
    return max(0, total_bytes - max(int(share * total_bytes), least))


def advice(total_bytes: int) -> tuple[Fit, ...]:
    """Every model of MODELS against a machine with so much memory, the smaller ones first."""
    room = for_models(total_bytes)
    return tuple(_fit(shape, quantisation, room) for shape, quantisation in MODELS)


def _fit(shape: Shape, quantisation: str, room: int) -> Fit:
    allowed = [c for c in CONTEXTS if c <= shape.trained and shape.needs(quantisation, c) <= room]
    context = max(allowed, default=0)
    weights = shape.weights(quantisation)
    each = shape.needs(quantisation, CONTEXTS[0]) - weights
    together = max(0, (room - weights) // each) if context else 0
    needs = shape.needs(quantisation, context or CONTEXTS[0])
    return Fit(shape.name, quantisation, shape.parameters, weights, needs, context, together)


def table() -> str:
    """The models against TIERS, as a table in Markdown."""
    tiers = [advice(tier * GIB) for tier in TIERS]
    lines = [
        "| model | parameters | file | " + " | ".join(f"{tier} GB" for tier in TIERS) + " |",
        "|---|---|---|" + "---|" * len(TIERS),
    ]
    for row in zip(*tiers, strict=True):
        first = row[0]
        cells = [f"{fit.context:,} tokens" if fit.fits else "–" for fit in row]
        name = f"{first.model} {first.quantisation}"
        sizes = f"{first.parameters / 1e9:.1f} B | {first.weights / 1e9:.1f} GB"
        lines.append(f"| {name} | {sizes} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
