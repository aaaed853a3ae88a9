"""The solver's tokenizer: lossless, additive over pieces, pinned."""

from __future__ import annotations

import hashlib
from collections import Counter
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_repair.tokenizer import VOCABULARY, escape_token, load_tokenizer, split_pieces, unescape_token
from apex_repair.training import main, render_vocabulary, train

DIGEST = "a6326e6528513183108f3735473a63ec922888f8f32bc82232b2b6a374fd0ea6"


def test_data_is_the_one_that_results_were_made_with() -> None:
    data = resources.files("apex_repair").joinpath(VOCABULARY).read_bytes()
    assert len(data) < 150_000
    assert hashlib.sha256(data).hexdigest() == DIGEST
    assert load_tokenizer().size <= 256 + 8192


@given(st.binary(max_size=300))
def test_any_bytes_survive(data: bytes) -> None:
    tokenizer = load_tokenizer()
    assert tokenizer.decode_bytes(tokenizer.encode_bytes(data)) == data
    assert b"".join(split_pieces(data)) == data


@given(st.text(max_size=200))
def test_any_text_survives_and_counts_what_it_encodes(text: str) -> None:
    tokenizer = load_tokenizer()
    tokens = tokenizer.encode(text)
    assert tokenizer.decode(tokens) == text
    assert tokenizer.count(text) == len(tokens)


def test_lone_surrogates_survive() -> None:
    tokenizer = load_tokenizer()
    assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "a\ud800b"


@given(st.text(alphabet="ab Z_09\n\t(é漢", max_size=60))
def test_counts_add_up_over_pieces(text: str) -> None:
    tokenizer = load_tokenizer()
    pieces = split_pieces(text.encode())
    assert tokenizer.count(text) == sum(len(tokenizer.encode_bytes(piece)) for piece in pieces)


def test_tokens_cut_inside_a_character_lose_only_that() -> None:
    tokenizer = load_tokenizer()
    assert tokenizer.decode([*tokenizer.encode("ab"), 0xE6]) == "ab"


@given(st.binary(min_size=1, max_size=20))
def test_a_token_is_one_line_of_the_data_file(token: bytes) -> None:
    line = escape_token(token)
    assert line.isascii() and len(line.split()) == 1 and not line.startswith("# ")
    assert unescape_token(line) == token


def test_code_and_english_take_about_four_bytes_a_token() -> None:
    text = "Return the index where to insert item x in list a, assuming that a is sorted.\n    return self.value\n"
    assert len(text) / load_tokenizer().count(text) > 3


def test_a_long_run_of_one_character_is_quick() -> None:
    assert load_tokenizer().count("a" * 200_000) < 200_000


def test_training_joins_the_most_frequent_pair_first() -> None:
    assert train(Counter({b"aab": 3, b"ab": 2, b"cd": 4}), 3) == [b"ab", b"cd", b"aab"]


def test_equal_counts_are_decided_by_bytes_and_training_repeats() -> None:
    pieces = Counter({b"xy": 2, b"ab": 2, b"abxy": 1})
    first = train(pieces, 10)
    assert first[0] == b"ab"
    assert render_vocabulary(first, "0") == render_vocabulary(train(Counter(dict(reversed(pieces.items()))), 10), "0")


def test_the_script_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    assert "standard library" in capsys.readouterr().out
