"""Reuse results of other studies in the store whose fingerprint is the same here."""

from __future__ import annotations

from dataclasses import replace

from tuner.bench.protocol import BenchFacts, BenchSpec
from tuner.kernels.space import Space
from tuner.results import Result
from tuner.storage import Store, StudyHandle
from tuner.tuning.fingerprint import fingerprint


def carry_over(store: Store, handle: StudyHandle, space: Space, spec: BenchSpec, facts: BenchFacts) -> list[str]:
    """Copy results of sibling studies (same problem and device) that are valid here; return lines to show the user.

    A sibling with nothing new is mentioned only when the study is created.
    """
    news: list[str] = []
    taken = {result.configuration.key for result in handle.results()}
    begins = not taken
    for summary in store.studies():
        if summary.name == handle.name or summary.key.problem != spec.problem.name:
            continue
        sibling = store.find_study(summary.name)
        if sibling.key.device_kind != facts.environment.kind or sibling.key.shape != handle.key.shape:
            continue
        results = sibling.results()
        valid = [each for each in results if _valid(each, space, spec, facts) and each.configuration.key not in taken]
        taken |= {each.configuration.key for each in valid}
        if valid:
            handle.record_all([replace(each, reused=True, settled=0.0, searched=None) for each in valid])
        if valid or begins:
            news.append(
                f"study '{sibling.name}' was made for other templates, choices or tools: "
                f"{len(valid)} of its {len(results)} results carry over"
            )
    return news


def _valid(result: Result, space: Space, spec: BenchSpec, facts: BenchFacts) -> bool:
    if not result.ok or space.find(result.configuration) is None:
        return False
    template = space.template(result.configuration.template)
    return result.fingerprint == fingerprint(template, result.configuration, spec, facts)
