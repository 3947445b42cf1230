"""A snapshot made by hand."""

from app.charts import Figure, LegendEntry, Table
from app.share import (
    CeilingShare,
    Chart,
    Column,
    DataTable,
    Fact,
    MetricBar,
    MetricBars,
    Snapshot,
    Tile,
    UserText,
    VerdictLine,
)

COMPARED = Snapshot(
    kind="comparison",
    title="Qwen3-8B: Q8_0 against Q4_K_M",
    description="Q8_0 against Q4_K_M: decode 51 % slower.",
    warnings=("No verdict can rest on Q8_0: this machine was busy before the run (53 %).",),
    verdicts=(VerdictLine("Q8_0 against Q4_K_M", "worse", "decode 51 % slower"),),
    metric_bars=tuple(
        MetricBars(
            title,
            "tok/s",
            "higher is better",
            (MetricBar("Q4_K_M", 71.2, 1, is_best=True), MetricBar("Q8_0", 34.9, 0.49, "51 % slower", "worse")),
        )
        for title in ("TTFT", "Prefill", "Decode")
    ),
)

FIGURE = Figure(
    data=[{"type": "scatter", "x": [1, 2.5], "y": [3, None], "meta": {"series": 0}, "name": "Ceiling"}],
    layout={"xaxis": {"title": {"text": "Tokens"}}, "yaxis": {"title": {"text": "tok/s"}}},
    summary="It rises.",
    table=Table(("Tokens",), (("1",),)),
    legend=(LegendEntry(0, "This run"),),
)

SNAPSHOT = Snapshot(
    kind="run",
    title="Gemma Q4_K_M on GeForce RTX 3090",
    description="Decode 71.2 tok/s.",
    subtitle="llama.cpp b6400",
    tiles=(
        Tile("TTFT", 520.31, "ms", 9.1, 510, 530, 5, "Timed by Roofmark"),
        Tile("Prefill", None, "tok/s", reason="No sample gave it."),
        Tile("Decode", 71.23, "tok/s", 1.9, 70, 73, 5, "Timed by Roofmark"),
    ),
    bars=(CeilingShare("Decode ceiling", 0.62, 114.7, "tok/s", "115 tok/s = 936 GB/s / 8.16 GB"),),
    facts=(Fact("Model", "Gemma"),),
    figures=(
        DataTable("Points", (Column("Prompt tokens"), Column("Decode", "tok/s")), ((512, 71.23), (8192, None)), True),
    ),
    charts=(Chart("Decode against context", FIGURE),),
    remarks=("Medians of the samples.",),
    prose=(UserText("Note", "Fans at 80 %"),),
)
