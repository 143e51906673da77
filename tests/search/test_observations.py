"""Results as values: their order, their subsets, and that no part of the search knows the whole."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import numpy as np
import pytest

import tuner.search
from tuner.search.observations import ObservationLog, Observations

FOLDER = Path(tuner.search.__file__).parent


def many(count: int) -> Observations:
    values = np.random.default_rng(0).normal(size=count)
    return Observations.of(rows=np.arange(count) + 7, values=values, variances=np.full(count, 0.01))


def test_log_keeps_the_order_of_first_results_and_the_last_of_each() -> None:
    log = ObservationLog()
    assert len(log.observations) == len(log) == 0
    for row, value in ((5, 1.0), (2, 0.5), (9, 0.7), (5, 3.0)):
        log.record(row, value, 0.01, censored=row == 2)
    log.forget(9)
    log.forget(4)
    found = log.observations
    assert found.rows.tolist() == [5, 2]
    assert found.values.tolist() == [3.0, 0.5]
    assert found.censored.tolist() == [False, True]
    log.record(9, 0.1, 0.0, censored=False)
    assert log.observations.rows.tolist() == [5, 2, 9]
    assert len(found) == 2  # a value that was handed out stays


def test_rows_are_told_apart_and_returned_in_the_order_asked_for() -> None:
    some = many(6)
    assert some.holds([7, 3, 12, 13]).tolist() == [True, False, True, False]
    assert some.of_rows([12, 7]).values.tolist() == [some.values[5], some.values[0]]
    assert len(some.of_rows([])) == 0


def test_a_bound_is_the_fastest_only_where_nothing_was_measured() -> None:
    values, nothing = np.array([0.1, 0.3, 0.2]), np.zeros(3)
    bounds = Observations(rows=np.arange(3), values=values, variances=nothing, censored=np.ones(3, dtype=bool))
    some = Observations(rows=np.arange(3), values=values, variances=nothing, censored=np.array([True, False, False]))
    assert (bounds.fastest, some.fastest) == (0, 2)


@pytest.mark.parametrize("most", [10, 11])
def test_of_many_the_fastest_half_and_some_others_are_kept(most: int) -> None:
    whole, random = many(40), np.random.default_rng(1)
    fastest = set(whole.rows[whole.by_value[: most // 2]].tolist())
    for kept in (whole.some(most), whole.sample(most, random)):
        assert len(kept) == len(set(kept.rows.tolist())) == most
        assert fastest <= set(kept.rows.tolist())
    assert whole.some(most).rows.tolist() == whole.some(most).rows.tolist()
    assert whole.sample(most, random).rows.tolist() != whole.sample(most, random).rows.tolist()
    assert whole.some(40) is whole.sample(40, random) is whole


def imports_of(path: Path) -> set[str]:
    """Return the modules of the search that a file imports, inside functions and for type checkers as well."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tuner.search"):
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return found


def test_no_files_of_the_search_import_each_other_in_a_circle() -> None:
    names = {path: ".".join(("tuner", "search", *path.relative_to(FOLDER).with_suffix("").parts)) for path in files()}
    graph = {name: imports_of(path) & set(names.values()) - {name} for path, name in names.items()}
    assert len(graph) > 20
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def files() -> list[Path]:
    return [path for path in FOLDER.rglob("*.py") if path.name != "__init__.py"]


def test_parts_of_the_surrogate_are_made_without_a_sampler() -> None:
    knows = {path.stem for path in files() if "tuner.search.samplers.surrogate" in imports_of(path)}
    assert knows <= {"factory", "warm"}
