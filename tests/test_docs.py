"""README.md and docs/ say what the code does: each fact that a page lists is held against the code's own list."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from app import engines
from app.cli import COMMANDS, app, load_command
from app.core import errors
from app.core.settings import Settings
from app.metrics import metrics
from app.results.run_filter import PARAMETERS
from app.share.options import Option
from app.stats.verdict import Verdict
from app.suites import BUILT_IN
from app.web import create_app
from app.web.api import NewRun, RunChange
from tests.cli.test_ceiling import KEYS

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text() for path in (README, *sorted((ROOT / "docs").glob("*.md")))
}
MOST_README_LINES = 120
CLI: dict[str, Any] = {name: load_command(name) for name in COMMANDS}
CODE_BLOCK = re.compile(r"(?:^ {4,}\S.*\n)+", re.MULTILINE)
ANY_PAGE = pytest.mark.parametrize("name", PAGES)


def cells(name: str, heading: str) -> list[list[str]]:
    """The rows of the table of a page whose first title is `heading`, without its head."""
    (table,) = re.findall(rf"^\| {heading} \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGES[name], re.MULTILINE)
    return [[cell.strip() for cell in row.strip("|\n ").split(" |")] for row in table.splitlines()]


def codes(cell: str) -> list[str]:
    """What a cell has between backticks."""
    return re.findall(r"`([^`]+)`", cell)


# --- the README ------------------------------------------------------------------------------------------------------


def test_the_readme_is_short_and_opens_with_a_picture_and_the_two_commands() -> None:
    opening = PAGES["README.md"][: PAGES["README.md"].index("## ")]
    assert "](docs/" in opening
    assert "make demo" in opening
    assert "make test" in opening
    assert len(PAGES["README.md"].splitlines()) <= MOST_README_LINES


def test_the_readme_lists_every_page_once() -> None:
    listed = [link for row in cells("README.md", "page") for link in re.findall(r"\]\(([^)]+)\)", row[0])]
    assert sorted(listed) == sorted(PAGES.keys() - {"README.md"})


# --- what a page lists -----------------------------------------------------------------------------------------------


def test_every_setting_is_there_once_with_its_default_and_meaning() -> None:
    rows = cells("docs/settings.md", "variable")
    fields = {f"`ROOFMARK_{name.upper()}`": field for name, field in Settings.model_fields.items()}
    assert [row[0] for row in rows] == list(fields)
    for variable, default, meaning in rows:
        field = fields[variable]
        assert meaning == field.description
        if field.default_factory is None:  # others say in words what is made
            assert default == {None: "none", "": "empty"}.get(field.default, f"`{field.default}`")


@ANY_PAGE
def test_a_page_names_only_settings_that_there_are(name: str) -> None:
    variables = {f"ROOFMARK_{field.upper()}" for field in Settings.model_fields} | {"ROOFMARK_API_KEY"}
    assert set(re.findall(r"ROOFMARK_\w+", PAGES[name])) <= variables


def test_every_engine_is_there_once() -> None:
    rows = [row[:2] for row in cells("docs/engines.md", "engine")]
    assert sorted(rows) == sorted([engine.title, f"`{engine.key}`"] for engine in engines.all())


def test_every_metric_is_there_once() -> None:
    rows = [row[:2] for row in cells("docs/methodology.md", "metric")]
    assert sorted(rows) == sorted([metric.title, f"`{key}`"] for key, metric in metrics().items())


def test_every_suite_is_there_once_with_its_lengths_and_counts() -> None:
    def listed(numbers: Iterator[int]) -> str:
        return ", ".join(f"{number:,}" for number in dict.fromkeys(numbers))

    expected = [
        [
            f"`{key}`",
            listed(case.point.prompt_tokens for case in suite.cases),
            listed(case.point.output_tokens for case in suite.cases),
            listed(case.point.concurrency for case in suite.cases),
            str(suite.repetitions),
            str(suite.warmups),
        ]
        for key, suite in BUILT_IN.items()
    ]
    assert cells("docs/suites.md", "suite") == expected


def test_every_verdict_is_explained() -> None:
    rows = cells("docs/comparing.md", "verdict")
    explained = {code for row in rows for code in codes(row[0])}
    assert explained | {"mixed"} == set(Verdict)
    assert "the verdict is `mixed`" in PAGES["docs/comparing.md"]


def test_every_option_of_a_share_is_there_once() -> None:
    assert [codes(row[0]) for row in cells("docs/sharing.md", "option")] == [[option] for option in Option]


def test_the_keys_of_a_ceilings_document_are_there_once() -> None:
    listed = [code for row in cells("docs/ceilings.md", "key") for code in codes(row[0])]
    assert sorted(listed) == sorted(KEYS)


def test_every_extra_is_there_once() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {codes(row[0])[0] for row in cells("docs/deployment.md", "extra")} == extras.keys() - {"test", "lint"}
    named = re.findall(r"(?:roofmark|\.)\[(\w+)\]", "".join(PAGES.values()))
    assert named
    assert set(named) <= extras.keys()


# --- the API ---------------------------------------------------------------------------------------------------------


def test_every_route_of_the_api_is_there_once(settings: Settings) -> None:
    paths = create_app(settings).openapi()["paths"]
    routes = [f"`{method.upper()} {path}`" for path, methods in paths.items() for method in methods]
    assert sorted(row[0] for row in cells("docs/api.md", "route")) == sorted(routes)


def test_every_field_and_filter_of_the_api_is_there() -> None:
    new_run, change = (
        [code for line in re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE) for code in codes(line)]
        for table in re.findall(r"^\| field \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGES["docs/api.md"], re.MULTILINE)
    )
    assert sorted(new_run) == sorted(NewRun.model_fields)
    assert sorted(change) == sorted(RunChange.model_fields)
    filters = [code for row in cells("docs/api.md", "filter") for code in codes(row[0])]
    assert sorted(filters) == sorted(PARAMETERS)


def test_every_schema_is_there_once() -> None:
    literals = {
        schema
        for path in (ROOT / "app").rglob("*.py")
        for schema in re.findall(r'"(roofmark\.\w+/\d+)"', path.read_text())
    }
    rows = [code for row in cells("docs/api.md", "schema") for code in codes(row[0])]
    assert sorted(rows) == sorted(literals)


def error_types() -> list[type[errors.RoofmarkError]]:
    return [
        value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.RoofmarkError)
    ]


def test_every_exit_code_and_status_of_an_error_is_there_once() -> None:
    exit_codes = [int(row[0]) for row in cells("docs/cli.md", "code")]
    assert exit_codes == sorted({0, *(error.exit_code for error in error_types())})
    statuses = [int(row[0]) for row in cells("docs/api.md", "status")]
    assert statuses == sorted({401, *(error.http_status for error in error_types())})


# --- the command line ------------------------------------------------------------------------------------------------


def commands(group: dict[str, Any] = CLI, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that `--help` shows, with the words that call it."""
    for name, command in group.items():
        if hasattr(command, "commands"):
            yield from commands(command.commands, (*path, name))
        elif not command.hidden:
            yield (*path, name), command


def options(command: Any) -> list[str]:
    """The long name of each option."""
    names = [[name for name in parameter.opts if name.startswith("--")] for parameter in command.params]
    return sorted(long[0] for long in names if long and long[0] != "--help")


def test_every_command_is_there_once_with_all_of_its_options() -> None:
    rows = re.findall(r"^\| `roofmark ([^`]+)` \|([^|]*)\|", PAGES["docs/cli.md"], re.MULTILINE)
    shown = [(tuple(word for word in usage.split() if word.islower()), sorted(codes(listed))) for usage, listed in rows]
    assert sorted(shown) == sorted((path, options(command)) for path, command in commands())


@pytest.mark.parametrize(
    ("path", "option", "listed"),
    [
        ("run", "--suite", BUILT_IN),
        ("run", "--engine", [engine.key for engine in engines.all()]),
        ("compare", "--fail-on", Verdict),
        ("compare", "--metric", metrics()),
        ("share", "--include", Option),
    ],
)
def test_help_lists_what_the_code_knows(path: str, option: str, listed: Any) -> None:
    command = CLI[path]
    (parameter,) = (parameter for parameter in command.params if option in parameter.opts)
    assert {*listed} <= set(re.findall(r"[\w.-]*\w", parameter.help))


@pytest.mark.parametrize("path", [" ".join(path) for path, _ in commands()])
def test_help_is_one_imperative_sentence(path: str) -> None:
    command = dict(commands())[tuple(path.split())]
    assert re.fullmatch(r"[A-Z][a-z]+ [^\n]+\.", command.help)
    assert not command.help.split()[0].endswith("s"), command.help
    for parameter in command.params:
        assert (parameter.help or "").endswith("."), parameter.name


def test_the_list_of_commands_says_what_each_command_says_of_itself() -> None:
    entries = {name: (entry.help, entry.is_hidden) for name, entry in COMMANDS.items()}
    assert entries == {name: (command.help, command.hidden) for name, command in CLI.items()}


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that some words call, and its arguments among them; a command that there is not is a KeyError."""
    command: Any = get_command(app)
    group: Any = CLI
    while group and words and not words[0].startswith("-"):
        command, words = group[words[0]], words[1:]
        group = getattr(command, "commands", None)
    return command, words


def command_lines(name: str) -> list[str]:
    blocks = "".join(CODE_BLOCK.findall(PAGES[name]))
    return re.findall(r"^ +(?:\.venv/bin/)?roofmark +(.*)$", blocks, re.MULTILINE)


COMMAND_LINES = [(name, line) for name in PAGES for line in command_lines(name)]


@pytest.mark.parametrize(("name", "line"), COMMAND_LINES)
def test_a_command_line_in_a_code_block_can_be_typed(name: str, line: str) -> None:
    command, words = command_of(shlex.split(line, comments=True))
    command.make_context(command.name, words)  # parses, and runs nothing


@ANY_PAGE
def test_a_command_in_the_text_is_one_that_there_is(name: str) -> None:
    for usage in re.findall(r"`roofmark ([^`]+)`", PAGES[name]):
        command, words = command_of(usage.split())
        options_of_command = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= options_of_command, usage


def test_every_make_target_in_a_code_block_is_one_that_there_is() -> None:
    blocks = "".join(block for text in PAGES.values() for block in CODE_BLOCK.findall(text))
    targets = re.findall(r"^ +make (\w+)", blocks, re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
    assert set(targets) <= set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


# --- links -----------------------------------------------------------------------------------------------------------


def anchors(text: str) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", CODE_BLOCK.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@ANY_PAGE
def test_every_link_leads_somewhere(name: str) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", PAGES[name]):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / name).parent / path if path else ROOT / name
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text()), link
