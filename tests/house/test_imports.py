"""Imports go one way, from the command line down to what is computed, and no files import each other in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from documents import ROOT

PACKAGE = ROOT / "tuner"
ORDER = (
    *("moved", "errors", "folders", "passwords", "files", "suggestions"),
    *("processes", "problems", "kernels", "results", "devices", "bench", "profiling", "search", "storage"),
    *("recordings", "tuning", "export", "compare", "report", "doctor", "cli", "api", "__main__"),
)
FILES = sorted(PACKAGE.rglob("*.py"))


def name(path: Path) -> str:
    """Return a module's name below the package: ``storage.store``; a package's own is its folder's."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name(path): path for path in FILES}


@cache
def imports(module: str) -> frozenset[tuple[str, bool]]:
    """Return the modules that one names at any depth but for type checking, and whether it needs each to be loaded."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    return frozenset(
        (named, loading) for node, loading in _statements(tree, True) for named in _named(node) if named in MODULES
    )


def _statements(node: ast.AST, loading: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, loading
        yield from _statements(child, loading and not isinstance(child, ast.FunctionDef))


def _named(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (each.name.removeprefix("tuner.") for each in node.names if each.name.startswith("tuner."))
    elif node.module == "tuner" or (node.module or "").startswith("tuner."):
        package = (node.module or "").removeprefix("tuner").removeprefix(".")
        for each in node.names:
            whole = f"{package}.{each.name}".removeprefix(".")
            yield whole if whole in MODULES else package


def folder(module: str) -> str:
    return module.partition(".")[0]


@pytest.mark.parametrize("module", [each for each in MODULES if each])
def test_folder_imports_only_what_stands_before_it(module: str) -> None:
    above = [
        imported
        for imported, _ in imports(module)
        if imported and ORDER.index(folder(imported)) > ORDER.index(folder(module))
    ]
    assert above == []


def test_no_files_need_each_other_to_be_loaded() -> None:
    graph = {module: {each for each, loading in imports(module) if loading and each != module} for module in MODULES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_one_file_knows_optunas_tables() -> None:
    """They are private to Optuna: what changes there is mended in one place."""
    knowing = [name(path) for path in FILES if "storages._rdb" in path.read_text(encoding="utf-8")]
    assert knowing == ["storage.optuna_tables"]


def test_every_folder_says_what_belongs_there() -> None:
    silent = [
        str(path.parent.relative_to(ROOT))
        for path in FILES
        if path.name == "__init__.py" and not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []
