"""The pages of docs/python, and the notebook, say what is so: their Python runs, block after block, in one namespace."""

import json
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


def test_the_cells_of_the_notebook_run(monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    pytest.importorskip("pandas")
    notebook = json.loads((DOCS.parent / "examples/python/tour.ipynb").read_text(encoding="utf-8"))
    namespace = {"__name__": "tour"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), namespace)
    assert namespace["result"].final_evaluation.success > 0.9 and namespace["losses"][-1] < 0.01
