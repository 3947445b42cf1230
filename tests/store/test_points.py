"""The columns of a history say what its points said."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from app.results.hardware import HardwareChange
from app.results.history.table import HistoryPoint, HistoryTable

START = datetime(2026, 9, 1, 12, tzinfo=UTC)

numbers = st.none() | st.floats(0, 1e6)
points = st.builds(
    HistoryPoint,
    public_id=st.uuids().map(lambda uuid: uuid.hex[:10]),
    started_at=st.integers(0, 10**12).map(lambda us: START + timedelta(microseconds=us)),
    config_id=st.integers(1, 3),
    server_id=st.integers(1, 2),
    suite_sha256=st.sampled_from("pq"),
    labels=st.sampled_from(["[]", '["night"]', '["夜"]']),
    readings=st.tuples(*[numbers] * 6),
)
some = st.lists(points, max_size=40, unique_by=lambda point: point.public_id)


@given(some)
def test_points_come_back_in_order_of_time(given_points: list[HistoryPoint]) -> None:
    columns = HistoryTable.of(given_points)
    assert list(columns) == sorted(given_points, key=lambda point: (point.started_at, point.public_id))
    assert columns.used_configs == {point.config_id for point in given_points}
    assert columns.has_values == any(point.value(0) is not None or point.value(1) is not None for point in given_points)


@given(some)
def test_stretches_hold_each_run_once_with_its_like(given_points: list[HistoryPoint]) -> None:
    change = HardwareChange(START + timedelta(days=4), "RTX 3090 → 2 × RTX 3090")
    columns = HistoryTable.of(given_points)
    segments = [segment.tolist() for segment in columns.segments({1: [change]}, by_labels=True)]
    assert sorted(place for segment in segments for place in segment) == list(range(len(columns)))
    assert all(segment == sorted(segment) for segment in segments)
    assert [segment[0] for segment in segments] == sorted(segment[0] for segment in segments)

    def kind(point: HistoryPoint) -> tuple[object, ...]:
        is_later = point.server_id == 1 and point.started_at >= change.at
        return point.config_id, point.suite_sha256, point.labels, is_later

    kinds = [{kind(columns[place]) for place in segment} for segment in segments]
    assert all(len(segment_kinds) == 1 for segment_kinds in kinds)
    assert len(set.union(set(), *kinds)) == len(segments)


@given(some)
def test_steps_are_what_two_neighbours_on_a_server_differ_in(given_points: list[HistoryPoint]) -> None:
    columns = HistoryTable.of(given_points)
    expected: list[tuple[int, int]] = []
    before: dict[int, int] = {}
    for place, point in enumerate(columns):
        then = before.get(point.server_id)
        before[point.server_id] = place
        if then is not None and (columns[then].config_id, point.config_id) in {(1, 2), (3, 1)}:
            expected.append((then, place))
    assert columns.steps({}, lambda old, new: (old, new) in {(1, 2), (3, 1)}) == expected


@given(some, st.integers(2, 7))
def test_a_spread_holds_every_run_of_its_steps(given_points: list[HistoryPoint], limit: int) -> None:
    measured = [point for point in given_points if point.value(0) is not None and point.deviation(0) is not None]
    if len(measured) < 2:
        return
    columns = HistoryTable.of(measured)
    (everything,) = [columns.with_public_ids(point.public_id for point in measured)]
    spread = columns.spread(0, everything, limit)
    assert spread is not None
    assert len(spread.places) == min(limit, len(measured))
    assert (spread.places[0], spread.places[-1]) == (0, len(measured) - 1)
    assert min(spread.lows) == max(0, min((point.value(0) or 0) - (point.deviation(0) or 0) for point in measured))
    assert max(spread.highs) == max((point.value(0) or 0) + (point.deviation(0) or 0) for point in measured)


def test_moments_may_be_texts_as_sqlite_stores_them() -> None:
    rows = [
        ("run1", "2026-09-01 12:00:00.000001", 1, 1, "p", "[]"),
        ("run0", "2026-08-31 00:00:00.000000", 1, 1, "p", "[]"),
    ]
    columns = HistoryTable.of_rows([rows], 0)
    assert [point.started_at for point in columns] == [
        datetime(2026, 8, 31, tzinfo=UTC),
        START + timedelta(microseconds=1),
    ]
    assert columns.stamps([1]) == ["2026-09-01 12:00:00"]
    assert not columns.has_values
