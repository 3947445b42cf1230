"""The run page is a composition: each section is drawn by a partial that reads its own view model and nothing else."""

import inspect

import pytest
from jinja2 import meta, nodes

from app.core import files
from app.web.run_page import hardware_sections, sections, server_metrics
from app.web.run_page.sections import Section
from app.web.templates import environment

OF_EVERY_PAGE = {"url_for", "_trans"}
SECTIONS = [
    kind
    for module in (hardware_sections, sections, server_metrics)
    for kind in vars(module).values()
    if inspect.isclass(kind)
    and issubclass(kind, Section)
    and kind is not Section
    and kind.__module__ == module.__name__
]
PARTS = ["_run_head.html", "_run_hardware.html", "_run_insight.html"]


@pytest.mark.parametrize("template", sorted({*PARTS, *(kind.template for kind in SECTIONS)}))
def test_a_partial_reads_its_view_alone(template: str) -> None:
    env = environment()
    tree = env.parse((files.TEMPLATES / template).read_text(encoding="utf-8"))
    assigned = {name.name for name in tree.find_all(nodes.Name) if name.ctx == "store"}
    names = meta.find_undeclared_variables(tree) - set(env.globals) - assigned
    assert names <= {"view", *OF_EVERY_PAGE}


def test_each_section_has_a_partial_of_its_own() -> None:
    templates = [kind.template for kind in SECTIONS]
    assert len(templates) == len(set(templates)) >= 15
