"""The pages of docs/python say what is so: the python blocks of a page run, one after the other, in one namespace."""

import pathlib
import re

import pytest

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted((DOCS / "python").glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(DOCS)  # whose agents and reports the pages name
    text = page.read_text(encoding="utf-8")
    namespace = {"__name__": page.stem}
    for block in BLOCK.finditer(text):
        # Errors then name the page's own line.
        code = "\n" * text.count("\n", 0, block.start(1)) + block.group(1)
        exec(compile(code, str(page), "exec"), namespace)
