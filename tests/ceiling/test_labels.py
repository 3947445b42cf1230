"""Bits per weight from the label of a quantization alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ceiling.number_formats import GGML_BLOCKS, USUAL_BITS, bits_of_label


@pytest.mark.parametrize("label", USUAL_BITS)
def test_usual_labels_have_their_usual_bits(label: str) -> None:
    assert bits_of_label(label) == bits_of_label(label.lower()) == bits_of_label(f"UD-{label}") == USUAL_BITS[label]


@pytest.mark.parametrize("label", sorted(GGML_BLOCKS.keys() - USUAL_BITS.keys()))
def test_block_types_have_the_bits_of_their_blocks(label: str) -> None:
    elements, size = GGML_BLOCKS[label]
    assert bits_of_label(label) == 8 * size / elements


@pytest.mark.parametrize(
    ("label", "bits"),
    [
        ("GPTQ-Int4", 4), ("AWQ-4bit", 4), ("8-bit", 8), ("4.25bpw", 4.25), ("fp8", 8), ("fp8_e4m3", 8), ("W4A16", 4),
        ("nf4", 4), ("int8", 8), ("fp16", 16), ("Q4_K - Medium", 4.5), ("q4f16_1", 4),
    ],
)  # fmt: skip
def test_other_labels_say_it_themselves(label: str, bits: float) -> None:
    assert bits_of_label(label) == bits


@pytest.mark.parametrize("label", ["", "AWQ", "unknown", "99999bit", "v2", "0bit"])
def test_a_label_that_does_not_tell_is_unknown(label: str) -> None:
    assert bits_of_label(label) is None


def test_sizes_of_a_family_are_in_order() -> None:
    ladder = ["IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_M", "IQ3_XXS", "IQ3_M", "Q3_K_L", "Q4_K_S", "Q4_K_M", "Q4_K_XL"]
    ladder += ["Q5_K_M", "Q5_K_L", "Q6_K", "Q8_0", "F16"]
    assert sorted(ladder, key=lambda label: bits_of_label(label) or 0) == ladder


@given(st.text(max_size=40))
def test_any_text_is_a_sane_number_or_unknown(label: str) -> None:
    bits = bits_of_label(label)
    assert bits is None or 0 < bits <= 64
