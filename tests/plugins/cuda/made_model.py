"""A transformers model made on the spot: random weights, a tokenizer that was really trained."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

MISSING = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
WHY = f"needs the extra [cuda]: no {', '.join(MISSING)} (run .ci/models PYTHON, then tox -e models)"


def make_model(folder: Path) -> Path:
    """The folder, with a Llama of two layers in it. Needs torch and transformers."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    from apex_framework.testing.gguf import SPECIALS, TEMPLATE, own_text

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=516, special_tokens=list(SPECIALS), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator([own_text()], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", chat_template=TEMPLATE)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=516, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=8192, eos_token_id=fast.eos_token_id, bos_token_id=None,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    plain = [id for token, id in fast.get_vocab().items() if token.isascii() and token.isalpha()]
    with torch.no_grad():  # only words of letters score: no unfinished UTF-8, no early end
        rows = torch.zeros_like(model.lm_head.weight)
        rows[plain] = torch.randn(len(plain), 64)
        model.lm_head.weight.copy_(rows)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder
