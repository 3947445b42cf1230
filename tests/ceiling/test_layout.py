"""A model on several memories: the arithmetic of each placement, and what holds for all of them."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.ceiling.bytes_per_step import Step, check_tokens, step
from app.ceiling.decode import Device, Portion, Split, decode
from app.ceiling.geometry import Attention, Geometry, Part, Source, Weights, from_parameter_counts
from app.ceiling.layout import Layout, Memory
from app.ceiling.offload import ALL_LAYERS, Offload, in_ram
from app.ceiling.prefill import attention_pairs
from app.core.errors import BadInput

GIB = 1 << 30
BLOCKS = 36
MOE = Geometry(
    source=Source.GGUF,
    architecture="moe",
    weights=Weights(
        dense=Part(1_500_000_000, 1_600_000_000),
        routed=Part(114_000_000_000, 60_000_000_000),
        head=Part(580_000_000, 600_000_000),
        unread=Part(580_000_000, 600_000_000),
    ),
    attention=(Attention(36, 512, 512, 64, 64, 64),),
    blocks=BLOCKS,
    experts_total=128,
    experts_used=4,
)
DENSE_BYTES, ROUTED_READ, HEAD_BYTES = 1.6e9, 60e9 * 4 / 128, 0.6e9
DENSE = replace(
    MOE, weights=Weights(Part(8_000_000_000, 9_000_000_000), head=Part(500_000_000, 1_000_000_000)), experts_total=0
)
FAST, SLOW = Device.of("card", 448), Device.of("RAM", 80)


def read(geometry: Geometry = MOE, context: int = 0, batch: int = 1) -> Step:
    ceiling = step(geometry, context, batch=batch)
    assert ceiling is not None
    return ceiling


def speed(offload: Offload, geometry: Geometry = MOE, context: int = 0) -> float:
    ceiling = Layout((Memory(FAST),), Memory(SLOW), offload).decode(geometry, read(geometry, context))
    assert ceiling is not None
    return ceiling.tokens_per_s


def of_times(on_card: float, in_memory: float) -> float:
    return 1 / (on_card / 448e9 + in_memory / 80e9)


def test_routed_experts_of_some_layers_are_read_from_memory() -> None:
    in_memory = ROUTED_READ * 20 / 36
    read_bytes = DENSE_BYTES + ROUTED_READ + HEAD_BYTES
    assert speed(Offload(n_cpu_moe=20)) == pytest.approx(of_times(read_bytes - in_memory, in_memory))
    assert speed(Offload(n_cpu_moe=ALL_LAYERS)) == pytest.approx(of_times(DENSE_BYTES + HEAD_BYTES, ROUTED_READ))
    assert speed(Offload(n_cpu_moe=0)) == pytest.approx(448e9 / read_bytes)


def test_blocks_without_experts_do_not_count() -> None:
    """Three dense blocks come first: of the first ten blocks seven have experts."""
    geometry = replace(MOE, expert_blocks=tuple(range(3, BLOCKS)))
    in_memory = ROUTED_READ * 7 / 33
    read_bytes = DENSE_BYTES + ROUTED_READ + HEAD_BYTES
    assert speed(Offload(n_cpu_moe=10), geometry) == pytest.approx(of_times(read_bytes - in_memory, in_memory))
    assert speed(Offload(n_cpu_moe=3), geometry) == pytest.approx(448e9 / read_bytes)


@pytest.mark.parametrize(
    ("pattern", "share"),
    [
        ("exps=CPU", 1.0),
        (r"\.ffn_.*_exps\.=CPU", 1.0),
        (r"blk\.(0|1|2)\.ffn_up_exps=CPU", 3 / (36 * 3)),
        (r"blk\.([0-9]|1[0-7])\.ffn_.*_exps\.weight=CPU", 0.5),
        (r"blk\.([0-9]|1[0-7])\.ffn_.*_exps\.weight=CUDA0,exps=CPU", 0.5),
        ("ffn_up_exps=CUDA_Host", 1 / 3),
        ("exps=CUDA1", 0.0),
        ("nothing=CPU", 0.0),
    ],
)
def test_overridden_tensors(pattern: str, share: float) -> None:
    (shares,) = in_ram(MOE, Offload(override_tensor=pattern)).readings
    assert shares.routed == pytest.approx(share)
    assert (shares.dense, shares.head, shares.sequences) == (0, 0, 0)


def test_overrides_of_other_tensors() -> None:
    (shares,) = in_ram(MOE, Offload(override_tensor=r"blk\.[0-8]\.=CPU,output\.weight=CPU")).readings
    assert shares.routed == pytest.approx(0.25)
    assert shares.dense == pytest.approx(0.25)
    assert shares.head == 1
    partly = in_ram(MOE, Offload(override_tensor="attn_q=CPU"))
    assert partly.readings[0].dense == 0
    assert any("attn_q" in sentence for sentence in partly.sentences)


ENDLESS = (
    r"(a+)+$", r"(\w|\w\w)+Z", r"(?:.|.)*Z", r"((.)*)*Z", r"(.|..|...){0,}Z", r"(?P<x>(.|.))+Z", r"(a?){500}a{500}",
    ".?" * 60 + "Z", ".*" * 9, r"([^.]*\.)*Z", r"(?:(?:a|b|.)(?:a|b|.)?)+Z", r"(|.|.)+Z", r"(\()*(.|\.)*Z",
)  # fmt: skip


@pytest.mark.parametrize(
    "pattern", ["no buffer", "[=CPU", "=CPU", "exps=", "x" * 600 + "=CPU", *(f"{pattern}=CPU" for pattern in ENDLESS)]
)
def test_overrides_that_are_not_understood_are_named(pattern: str) -> None:
    ceiling = in_ram(MOE, Offload(override_tensor=pattern))
    assert any(sentence.startswith("not understood") for sentence in ceiling.sentences)
    assert all(shares.n_bytes(read()) == 0 for shares in ceiling.readings)


@pytest.mark.parametrize(
    "pattern",
    [
        r"blk\.(?:[0-9]|[12][0-9])\.(?:ffn_(?:up|gate|down)_exps)\.weight",
        r"^(?!blk\.([0-9]|1[0-9])\.).*exps", r".*\.ffn_.*_exps.*", r"blk\.[0-9]+\.(ffn_.+_exps|ffn_.+_chexps)",
        r"blk\.\d+?\.ffn_(gate|up|down)_exps", r"([0-9])+\.ffn_up_exps(\.weight)?", r"[*+?({|]*ffn_up_exps",
    ],
)  # fmt: skip
def test_overrides_that_people_write_are_understood(pattern: str) -> None:
    placed = in_ram(MOE, Offload(override_tensor=f"{pattern}=CPU"))
    assert placed.readings[0].routed > 0
    assert not any(sentence.startswith("not understood") and pattern in sentence for sentence in placed.sentences)


def test_more_overrides_than_anyone_writes_are_named() -> None:
    placed = in_ram(MOE, Offload(override_tensor=",".join(f"blk{place}.*x.*=CPU" for place in range(60))))
    assert any("blk59" in sentence and "blk39" not in sentence for sentence in placed.sentences)


def test_whole_layers() -> None:
    """Ten layers on the card, or nine and the head: whichever reads less from memory."""
    dense, head, layers = 9e9, 1e9, 10
    in_memory = min(dense * (36 - layers) / 36 + head, dense * (36 - layers + 1) / 36)
    assert speed(Offload(gpu_layers=layers), DENSE) == pytest.approx(of_times(10e9 - in_memory, in_memory))
    assert speed(Offload(gpu_layers=0), DENSE) == pytest.approx(80e9 / 10e9)
    assert speed(Offload(gpu_layers=36), DENSE) == pytest.approx(448e9 / 10e9)


def test_kv_cache_in_memory() -> None:
    kv = 8192 * 36 * 1024 * 2
    assert speed(Offload(is_kv_in_ram=True), DENSE, 8192) == pytest.approx(of_times(10e9, kv))


def test_a_share_of_the_whole_model() -> None:
    assert speed(Offload(gpu_share=0.6), DENSE) == pytest.approx(of_times(6e9, 4e9))


def test_weights_on_cards_as_logged() -> None:
    """2 GiB fewer than all: of a mixture of experts these are experts, of which a token reads 4 of 128."""
    on_cards = Offload(gpu_layers=37, gpu_weight_bytes=62_200_000_000 - 2 * GIB)
    read_bytes = DENSE_BYTES + ROUTED_READ + HEAD_BYTES
    in_memory = 2 * GIB * 4 / 128
    assert speed(on_cards) == pytest.approx(of_times(read_bytes - in_memory, in_memory), rel=1e-6)
    dense = Offload(gpu_layers=20, gpu_weight_bytes=7_000_000_000)
    assert speed(dense, DENSE) == pytest.approx(of_times(7e9, 3e9))


# --- what does not fit -----------------------------------------------------------------------------------------------


def test_65_gb_on_a_card_of_16_gib() -> None:
    """The card alone would allow 110 tok/s: with 62.8 GB on 17.2 GB most experts are in memory."""
    decode_step = read()
    layout = Layout((Memory(FAST, 16 * GIB),), Memory(SLOW))
    ceiling = layout.decode(MOE, decode_step)
    assert ceiling is not None
    room = 16 * GIB - DENSE_BYTES - HEAD_BYTES
    in_memory = ROUTED_READ * (1 - room / 60e9)
    assert ceiling.tokens_per_s == pytest.approx(of_times(decode_step.n_bytes - in_memory, in_memory))
    assert ceiling.tokens_per_s < 0.45 * 448e9 / decode_step.n_bytes
    assert "does not fit" in ceiling.assumptions[0]
    assert "17.2 GB" in ceiling.assumptions[0]
    assert "experts first" in ceiling.assumptions[1]
    assert Layout((Memory(FAST, 16 * GIB),)).decode(MOE, decode_step) is None


def test_a_context_that_does_not_fit() -> None:
    layout = Layout((Memory(FAST, 12 * GIB),), Memory(SLOW))
    assert layout.overflow(DENSE, read(DENSE, 8192)) is None
    decode_step = read(DENSE, 65_536)
    assert layout.overflow(DENSE, decode_step) is not None
    ceiling = layout.decode(DENSE, decode_step)
    assert ceiling is not None
    in_memory = 10e9 + 65_536 * 36 * 1024 * 2 - 12 * GIB
    assert ceiling.tokens_per_s == pytest.approx(of_times(12 * GIB, in_memory), rel=1e-3)


def test_five_percent_more_is_needed() -> None:
    decode_step = read(DENSE)
    needed = 10_000_000_000
    assert Layout((Memory(FAST, round(needed * 1.051)),), Memory(SLOW)).overflow(DENSE, decode_step) is None
    tight = Layout((Memory(FAST, round(needed * 1.049)),), Memory(SLOW))
    assert tight.overflow(DENSE, decode_step) is not None
    ceiling = tight.decode(DENSE, decode_step)
    assert ceiling is not None
    assert ceiling.tokens_per_s == pytest.approx(448e9 / 10e9), "what might just fit is no lower"


def test_all_layers_on_the_card_is_no_reason_to_fit() -> None:
    ceiling = Layout((Memory(FAST, 16 * GIB),), Memory(SLOW), Offload(gpu_layers=999)).decode(MOE, read())
    assert ceiling is not None
    assert "does not fit" in ceiling.assumptions[0]


def test_too_few_experts_in_memory_do_not_fit_either() -> None:
    few, enough = (Layout((Memory(FAST, 16 * GIB),), Memory(SLOW), Offload(n_cpu_moe=layers)) for layers in (5, 30))
    assert few.overflow(MOE, read()) is not None
    assert enough.overflow(MOE, read()) is None


def test_only_totals_are_spread_evenly() -> None:
    """117 B parameters of which 5.1 B are active: nothing says which of them are experts."""
    geometry = from_parameter_counts(117e9, 5.1e9, 4.25)
    decode_step = read(geometry)
    ceiling = Layout((Memory(FAST, 16 * GIB),), Memory(SLOW)).decode(geometry, decode_step)
    assert ceiling is not None
    on_card = decode_step.n_bytes * 16 * GIB / (117e9 * 4.25 / 8)
    assert ceiling.tokens_per_s == pytest.approx(of_times(on_card, decode_step.n_bytes - on_card))
    assert any("spread evenly" in sentence for sentence in ceiling.assumptions)


def test_more_than_cards_and_memory_hold() -> None:
    ceiling = Layout((Memory(FAST, 16 * GIB),), Memory(SLOW, 16 * GIB)).decode(MOE, read())
    assert ceiling is not None
    assert any("from a disk is slower" in sentence for sentence in ceiling.assumptions)


# --- several cards ---------------------------------------------------------------------------------------------------


def cards(*sizes: tuple[float, int]) -> tuple[Memory, ...]:
    return tuple(Memory(Device.of(f"GPU {place}", gb), gib * GIB) for place, (gb, gib) in enumerate(sizes))


def test_a_pipeline_of_tensor_parallel_cards() -> None:
    """Two stages of two cards: each stage reads half of the model, each card half of its stage."""
    four = cards((500, 24), (500, 24), (250, 24), (250, 24))
    ceiling = Layout(four, split=Split.TENSOR, shares=(1, 1, 1, 1), stages=2).decode(DENSE, read(DENSE))
    assert ceiling is not None
    assert ceiling.tokens_per_s == pytest.approx(1 / (2.5e9 / 500e9 + 2.5e9 / 250e9))


def test_experts_in_memory_beside_tensor_parallel_cards() -> None:
    two = cards((448, 96), (448, 96))
    layout = Layout(two, Memory(SLOW), Offload(n_cpu_moe=ALL_LAYERS), Split.TENSOR)
    ceiling = layout.decode(MOE, read())
    assert ceiling is not None
    assert ceiling.tokens_per_s == pytest.approx(1 / ((DENSE_BYTES + HEAD_BYTES) / 2 / 448e9 + ROUTED_READ / 80e9))
    assert " + " in ceiling.words
    assert "max(" in ceiling.words


def test_shares_that_one_card_cannot_hold() -> None:
    layout = Layout(cards((448, 24), (448, 5)), Memory(SLOW), split=Split.TENSOR, shares=(1, 1))
    assert "exceed the memory of one of the GPUs" in (layout.overflow(DENSE, read(DENSE, 16_384)) or "")


# --- what holds for all ----------------------------------------------------------------------------------------------

SPEEDS = st.floats(10, 4000)
OFFLOADS = st.builds(
    Offload,
    gpu_layers=st.none() | st.integers(0, 40),
    n_cpu_moe=st.none() | st.integers(0, 50),
    gpu_share=st.none() | st.floats(0, 1),
    gpu_weight_bytes=st.none() | st.integers(0, 80_000_000_000),
    is_kv_in_ram=st.booleans(),
    override_tensor=st.sampled_from(["", "exps=CPU", r"blk\.1.\.=CPU", "attn=CPU"]),
)
GEOMETRIES = st.sampled_from([MOE, DENSE, replace(MOE, expert_blocks=tuple(range(3, BLOCKS)))])


@given(GEOMETRIES, OFFLOADS, SPEEDS, SPEEDS, st.none() | st.integers(1, 100), st.integers(0, 60_000), st.integers(1, 8))
def test_between_the_slowest_and_the_fastest_memory(
    geometry: Geometry, offload: Offload, card: float, ram: float, gib: int | None, context: int, batch: int
) -> None:
    decode_step = read(geometry, context, batch)
    layout = Layout((Memory(Device.of("card", card), gib and gib * GIB),), Memory(Device.of("RAM", ram)), offload)
    ceiling = layout.decode(geometry, decode_step)
    assert ceiling is not None
    fastest, slowest = (batch * pick(card, ram) * 1e9 / decode_step.n_bytes for pick in (max, min))
    assert slowest * (1 - 1e-9) <= ceiling.tokens_per_s <= fastest * (1 + 1e-9)
    assert 0 < ceiling.expected_tokens_per_s <= ceiling.tokens_per_s * (1 + 1e-9)


@given(GEOMETRIES, st.integers(0, 40), st.integers(0, 40), SPEEDS, SPEEDS)
def test_more_layers_on_the_faster_device_are_no_slower(
    geometry: Geometry, some: int, more: int, card: float, ram: float
) -> None:
    assume(some <= more)
    assume(card >= ram)

    def allowed(offload: Offload) -> float:
        ceiling = Layout((Memory(Device.of("card", card)),), Memory(Device.of("RAM", ram)), offload).decode(
            geometry, read(geometry, 1000)
        )
        assert ceiling is not None
        return ceiling.tokens_per_s

    assert allowed(Offload(gpu_layers=some)) <= allowed(Offload(gpu_layers=more)) * (1 + 1e-9)
    assert allowed(Offload(n_cpu_moe=more)) <= allowed(Offload(n_cpu_moe=some)) * (1 + 1e-9)


@given(st.integers(1, 60), st.integers(0, 36), st.integers(0, 60_000))
def test_no_split_that_fits_beats_the_best_one(gib: int, n_cpu_moe: int, context: int) -> None:
    decode_step = read(MOE, context)
    stated = Layout((Memory(FAST, gib * GIB),), Memory(SLOW), Offload(n_cpu_moe=n_cpu_moe))
    assume(stated.overflow(MOE, decode_step) is None)
    best = Layout((Memory(FAST, gib * GIB),), Memory(SLOW)).decode(MOE, decode_step)
    ceiling = stated.decode(MOE, decode_step)
    assert ceiling is not None
    assert best is not None
    assert ceiling.tokens_per_s <= best.tokens_per_s * (1 + 1e-9)


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=6), SPEEDS)
def test_equal_shards_are_best_on_equal_cards(shares: list[float], card: float) -> None:
    def allowed(parts: list[float]) -> float:
        portions = [Portion(Device.of("card", card), part) for part in parts]
        return decode(read(DENSE), portions, Split.TENSOR).tokens_per_s

    assert allowed(shares) <= allowed([1.0] * len(shares)) * (1 + 1e-9)


@given(st.lists(st.tuples(SPEEDS, st.integers(8, 96)), min_size=2, max_size=5), SPEEDS)
def test_unlike_cards_with_too_little_room(sizes: list[tuple[float, int]], ram: float) -> None:
    decode_step = read()
    memories = cards(*sizes)
    layout = Layout(memories, Memory(Device.of("RAM", ram)))
    ceiling = layout.decode(MOE, decode_step)
    assert ceiling is not None
    rates = [gb * 1e9 / decode_step.n_bytes for gb, _ in sizes]
    assert min(*rates, ram * 1e9 / decode_step.n_bytes) * (1 - 1e-9) <= ceiling.tokens_per_s
    assert ceiling.tokens_per_s <= max(*rates, ram * 1e9 / decode_step.n_bytes) * (1 + 1e-9)
    portions = layout.portions(MOE, decode_step)
    assert portions is not None
    if layout.overflow(MOE, decode_step):
        assert sum(portion.share for portion in portions) == pytest.approx(decode_step.n_bytes)


@pytest.mark.parametrize(
    ("pattern", "percent"), [("exps=CPU", "100 %"), ("ffn_up_exps=CPU", "33 %"), ("exps=CUDA1", "0 %")]
)
def test_how_many_experts_an_override_moves_is_said(pattern: str, percent: str) -> None:
    words = f"{percent} of the routed experts are in system memory by tensor overrides"
    assert words in in_ram(MOE, Offload(override_tensor=pattern)).sentences
    assert not any("overrides" in sentence for sentence in in_ram(DENSE, Offload(override_tensor=pattern)).sentences)


@pytest.mark.parametrize(
    ("sizes", "shares"),
    [
        ((16, 16), (0.5, 0.5)),
        ((24, 8), (0.75, 0.25)),
        ((24, None), (0.5, 0.5)),  # one is unknown, so they count as equal
        ((None, None, None), (1 / 3, 1 / 3, 1 / 3)),
    ],
)
def test_cards_share_by_their_memory_where_it_is_known(
    sizes: tuple[int | None, ...], shares: tuple[float, ...]
) -> None:
    cards = tuple(Memory(FAST, None if size is None else size * GIB) for size in sizes)
    assert Layout(cards).card_shares() == pytest.approx(shares)
    assert Layout(cards[:2], shares=(3, 1)).card_shares() == (0.75, 0.25)


def test_how_much_of_the_best_split_is_read_from_memory() -> None:
    """10 GB are read; a card of 6.3 GB holds no more than that, so that 3.7 are left at best."""
    layout = Layout((Memory(FAST, 6_300_000_000),), Memory(SLOW))
    assert layout.sentences(DENSE, read(DENSE))[1] == (
        "the ceiling is that of the best split: 3.70 GB of what a token reads stay in system memory"
    )


def test_without_a_card_all_is_read_from_memory() -> None:
    read_bytes = DENSE_BYTES + ROUTED_READ + HEAD_BYTES
    ceiling = Layout((), Memory(SLOW)).decode(MOE, read())
    assert ceiling is not None
    assert ceiling.tokens_per_s == pytest.approx(80e9 / read_bytes)
    assert Layout(()).decode(MOE, read()) is None


def test_how_long_a_context_may_be() -> None:
    for count in (0, 1_000_000_000):
        check_tokens(count)
    for count in (-1, 1_000_000_001):
        with pytest.raises(BadInput, match="makes no sense"):
            check_tokens(count)


def test_a_card_slower_than_system_memory_stays_one_of_the_portions() -> None:
    slow = Memory(Device.of("slow card", 50), 6_300_000_000)
    portions = Layout((slow,), Memory(SLOW)).portions(DENSE, read(DENSE))
    assert portions is not None
    assert [(portion.device.name, portion.share) for portion in portions] == [("slow card", 0), ("RAM", 10e9)]


@pytest.mark.parametrize(("gpu_layers", "is_said"), [(None, False), (1, True), (98, True), (99, False)])
def test_settings_of_layers_that_nobody_knows_are_named(gpu_layers: int | None, is_said: bool) -> None:
    placed = in_ram(replace(MOE, blocks=0), Offload(gpu_layers=gpu_layers))
    assert any("layers are unknown" in sentence for sentence in placed.sentences) is is_said
    assert all(shares.n_bytes(read()) == 0 for shares in placed.readings)


@pytest.mark.parametrize(("tokens", "start"), [(1, 0), (4, 0), (5, 0), (11, 0), (3, 2), (9, 3), (8, 4)])
def test_pairs_in_chunks_are_those_of_each_chunk(tokens: int, start: int) -> None:
    """In chunks of four, a token sees itself and what came before it in its own chunk."""
    layers = Attention(36, 512, 512, 64, 64, 64, chunk=4)
    assert attention_pairs(layers, tokens, start) == sum(place % 4 + 1 for place in range(start, start + tokens))
