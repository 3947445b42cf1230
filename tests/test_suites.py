import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BadInput, NotFound
from app.db import suites as stored
from app.db.database import Database
from app.suites import BUILT_IN, custom_suite, estimate_tokens

# Whoever changes a built-in prompt makes old and new results incomparable: these pins say so.
PINNED = {
    "triple": "941b064947a2f4f5de08e94229b481b7da0daf7fb68bd54d9ea1b6ef9482bfa9",
    "lengths": "21254423c373f8ab55ad6c83be2de6a48dab578fdd1cfe36c6cbf4ea388dff08",
    "bench512": "3fbcfafafcdff605eb7892803c2e2a55e2b704957f1036cc1ffe3312203ba92a",
    "depth": "d8adc558df24972bef7bbb1b3ddbd197160cf79140dd8833c57c954a94a565eb",
    "concurrency": "263877652714fadf36acc3eefedecc6ce3e977b10126c222277696610f6b34fb",
    "cache": "737b94148684165ccf406c7e90404b25bdb0576dcfe6c041f460936737877c21",
}


@pytest.mark.parametrize("key", BUILT_IN)
def test_built_in_prompts_never_change(key: str) -> None:
    assert BUILT_IN[key].sha256 == PINNED[key]


def test_the_built_in_suites_are_what_they_say() -> None:
    triple = BUILT_IN["triple"]
    assert (triple.cases[0].point.output_tokens, triple.warmups, triple.repetitions) == (128, 1, 5)
    assert [case.point.prompt_tokens for case in BUILT_IN["lengths"].cases] == [200, 2000, 8000]
    for suite in BUILT_IN.values():
        for case in suite.cases:
            assert case.estimated_prompt_tokens == pytest.approx(case.point.prompt_tokens, rel=0.15)


def test_identity_is_the_prompt_not_how_often_it_is_played() -> None:
    triple = BUILT_IN["triple"]
    assert triple.with_counts(10, 0).sha256 == triple.sha256
    first = custom_suite({"prompt": "Count to ten."}, "count", "Count")
    assert custom_suite({"prompt": "Count to ten.", "repetitions": 9}, "other", "Other").sha256 == first.sha256
    assert custom_suite({"prompt": "Count to ten.", "output_tokens": 64}, "count", "Count").sha256 != first.sha256


@pytest.mark.parametrize(
    ("definition", "sentence"),
    [
        ({}, "needs a prompt"),
        ({"prompt": "   "}, "needs a prompt"),
        ({"prompt": "x", "output_tokens": "many"}, "whole number"),
        ({"prompt": "x", "output_tokens": 0}, "between 1 and"),
        ({"prompt": "x", "repetitions": 0}, "between 1 and"),
        ({"prompt": "x", "repetitions": 10**9}, "between 1 and"),
        ({"prompt": "x", "warmups": -1}, "between 0 and"),
        ({"prompt": "x" * 3_000_000}, "longer than"),
    ],
)
def test_a_bad_suite_is_one_sentence(definition: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        custom_suite(definition, "mine", "Mine")


@given(st.text(min_size=1))
def test_every_text_has_tokens(text: str) -> None:
    assert estimate_tokens(text) >= 1


def test_a_new_prompt_is_a_new_version_and_old_runs_keep_theirs(database: Database) -> None:
    with database.write() as session:
        first = stored.save_suite(session, "My prompt", {"prompt": "One."})
        second = stored.save_suite(session, "My prompt", {"prompt": "Two."}, key=first.key)
    with database.read() as session:
        assert stored.suite(session, "my-prompt").cases[0].prompt == "Two."
        assert stored.suite_by_sha256(session, "my-prompt", first.sha256).cases[0].prompt == "One."
        assert (first.version, second.version) == (1, 2)


def test_other_counts_are_no_new_version(database: Database) -> None:
    with database.write() as session:
        first = stored.save_suite(session, "My prompt", {"prompt": "One."})
        again = stored.save_suite(session, "Renamed", {"prompt": "One.", "repetitions": 9}, key=first.key)
    assert (again.version, again.sha256, again.repetitions, again.title) == (1, first.sha256, 9, "Renamed")


def test_going_back_to_an_earlier_prompt_makes_it_current_again(database: Database) -> None:
    with database.write() as session:
        first = stored.save_suite(session, "Mine", {"prompt": "One."})
        stored.save_suite(session, "Mine", {"prompt": "Two."}, key=first.key)
        again = stored.save_suite(session, "Mine", {"prompt": "One.", "repetitions": 2}, key=first.key)
    with database.read() as session:
        current = stored.suite(session, "mine")
    assert (current.sha256, current.repetitions, current.version) == (first.sha256, 2, 3)
    assert again == current


def test_a_title_that_is_taken_gets_a_key_of_its_own(database: Database) -> None:
    with database.write() as session:
        keys = [stored.save_suite(session, title, {"prompt": title}).key for title in ("Mine", "mine!", "日本", "中文")]
    assert keys == ["mine", "mine-2", "unnamed", "unnamed-2"]


def test_built_in_names_are_taken(database: Database) -> None:
    with pytest.raises(BadInput, match="built-in"), database.write() as session:
        stored.save_suite(session, "Triple", {"prompt": "One."})


def test_an_unknown_suite_names_those_that_exist(database: Database) -> None:
    with database.read() as session, pytest.raises(BadInput, match="triple, lengths, bench512"):
        stored.suite(session, "nope")
    with database.read() as session, pytest.raises(NotFound, match="no longer exists"):
        stored.suite_by_sha256(session, "triple", "0" * 64)


def test_an_archived_suite_is_not_offered_but_its_runs_can_be_repeated(database: Database) -> None:
    with database.write() as session:
        made = stored.save_suite(session, "Mine", {"prompt": "One."})
        stored.archive_suite(session, made.key)
    with database.read() as session:
        assert made.key not in [suite.key for suite in stored.list_suites(session)]
        assert stored.suite_by_sha256(session, made.key, made.sha256) == made
        assert [suite.key for suite in stored.list_suites(session, archived=True)] == [made.key]
    with database.write() as session:
        stored.archive_suite(session, made.key, archived=False)
        assert stored.suite(session, made.key) == made
