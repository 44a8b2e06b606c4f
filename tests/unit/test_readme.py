"""What the README shows, runs; what it names, is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkalite.protocol.api import markdown_table

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\bmake (\w+)", README))))
def test_a_make_target_exists(target: str) -> None:
    assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)


def test_ci_runs_the_readmes_test_command() -> None:
    assert "make test" in README
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_the_table_of_apis_is_the_registrys() -> None:
    assert markdown_table() in (ROOT / "ARCHITECTURE.md").read_text()


@pytest.mark.parametrize("document", ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"])
def test_no_link_leads_nowhere(document: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / document).read_text()):
        assert target.startswith("http") or (ROOT / target).exists(), target
