import pytest
from starlette.testclient import TestClient

FORM = {
    "title": "My essay",
    "prompt": "Tell me about roofs.",
    "output_tokens": "64",
    "repetitions": "3",
    "warmups": "0",
}


def test_built_in_suites_show_their_prompts_and_stay(client: TestClient) -> None:
    for key in ("triple", "lengths", "bench512"):
        assert key in client.get("/suites").text
        assert "Continue this story" in client.get(f"/suites/{key}").text
        assert client.post(f"/suites/{key}", data=FORM).status_code == 422
        assert client.post(f"/suites/{key}/archive").status_code == 422


def test_an_own_suite_gets_versions_and_an_end(client: TestClient) -> None:
    added = client.post("/suites", data=FORM, follow_redirects=False)
    assert added.headers["location"] == "/suites/my-essay"
    assert "Tell me about roofs." in client.get("/suites/my-essay").text
    client.post("/suites/my-essay", data=FORM | {"prompt": "Tell me about walls."})
    page = client.get("/suites/my-essay").text
    assert "walls" in page
    assert "version 2" in client.get("/suites").text
    client.post("/suites/my-essay/archive")
    in_use, _, archived = client.get("/suites").text.partition("<h2>Archived</h2>")
    assert "My essay" not in in_use
    assert "My essay" in archived
    assert "my-essay" not in client.get("/runs/new").text
    page = client.get("/suites/my-essay").text
    assert "walls" in page
    assert "New version" not in page
    client.post("/suites/my-essay/restore")
    page = client.get("/suites").text
    assert "version 2" in page
    assert "<h2>Archived</h2>" not in page


def test_nothing_is_restored_that_never_was(client: TestClient) -> None:
    assert client.post("/suites/nonesuch/restore").status_code == 404


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"title": ""}, "The suite needs a title."),
        ({"title": "Triple"}, "is the name of a built-in suite"),
        ({"prompt": "  "}, "The suite needs a prompt text."),
        ({"output_tokens": "many"}, "Output length must be a whole number."),
        ({"output_tokens": "0"}, "Output length must be between 1 and 100,000 tokens."),
        ({"repetitions": "0"}, "Repetitions must be between 1 and 200."),
    ],
)
def test_what_makes_no_sense_is_one_sentence(client: TestClient, wrong: dict[str, str], sentence: str) -> None:
    answer = client.post("/suites", data=FORM | wrong)
    assert answer.status_code == 422
    assert sentence in answer.text
    assert (wrong | FORM)["warmups"] in answer.text
