"""What commands print: results on standard output, progress and errors on standard error."""

import json
from typing import Annotated, Any
from unicodedata import category

import typer

Json = Annotated[bool, typer.Option("--json", help="Print only the JSON document.")]


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Prints a text without control characters: names and notes come from servers and people."""
    typer.echo(printable(text), err=err, nl=nl)


def printable(text: str) -> str:
    """Replaces control characters, which could move the cursor or recolour a terminal; line breaks and tabs stay.

    >>> printable("Qwen\\x1b[2J\\n3")
    'Qwen�[2J\\n3'
    """
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if category(letter) == "Cc" and letter not in "\n\t" else letter for letter in text
    )


def print_json(document: dict[str, Any] | list[dict[str, Any]]) -> None:
    """Prints a document as UTF-8, whatever the encoding of the terminal. Raises ValueError for NaN and infinity."""
    typer.echo(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False).encode())
