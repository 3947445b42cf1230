"""Tables of text for a terminal."""

from collections.abc import Collection, Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]], numeric: Collection[int]) -> str:
    """Returns rows under their head, each column as wide as its widest cell; columns of `numeric` stand at the right.

    >>> print(table(["Model", "tok/s"], [["A", "9.5"], ["Bcdefg", "110"]], numeric={1}))
    Model   tok/s
    A         9.5
    Bcdefg    110
    """
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in numeric else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
