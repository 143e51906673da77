"""The study's note: what a reader of Optuna's dashboard needs to know, kept where the dashboard looks for it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.orm import Session

from tuner.problems.problem import Problem
from tuner.results import Environment, StudyKey
from tuner.storage import optuna_tables
from tuner.storage.commands import command, storage_option
from tuner.storage.location import Location
from tuner.storage.mapping import problem_of_key
from tuner.storage.note_parts import with_kept
from tuner.storage.winner import Champion

_SYSTEM = optuna_tables.STUDY_SYSTEM
_USER = optuna_tables.STUDY_USER
_VERSION = "dashboard:note_ver"
_PART = "dashboard:note_str:"
_PART_LENGTH = 2045  # the dashboard's own limit per attribute


def write_note(connection: Connection, optuna_id: int, text: str) -> None:
    """Replace the note, and raise its version so that an open dashboard page notices."""
    ours = _SYSTEM.c.study_id == optuna_id
    version = connection.scalar(select(_SYSTEM.c.value_json).where(ours, _SYSTEM.c.key == _VERSION))
    connection.execute(delete(_SYSTEM).where(ours, _SYSTEM.c.key.startswith("dashboard:note_", autoescape=True)))
    parts = [text[start : start + _PART_LENGTH] for start in range(0, len(text), _PART_LENGTH)]
    values: dict[str, object] = {_VERSION: int(json.loads(version or "0")) + 1}
    values |= {f"{_PART}{number}": part for number, part in enumerate(parts)}
    connection.execute(
        insert(_SYSTEM),
        [{"study_id": optuna_id, "key": key, "value_json": json.dumps(value)} for key, value in values.items()],
    )


def rewrite_note(connection: Connection, optuna_id: int, text: str) -> None:
    """Rewrite the tuner's part of the note, and keep what people wrote beside it."""
    write_note(connection, optuna_id, with_kept(text, _read(connection, optuna_id)))


def write_facts(connection: Connection, optuna_id: int, key: StudyKey, environment: Environment) -> None:
    """Set the study's user attributes: the problem, and the origin of the newest results."""
    facts = {
        "layer": f"{key.problem}: {problem_of_key(key).describe()}",
        "precision": key.precision,
        "device": f"{environment.device}: {environment.model}",
        "driver": environment.driver,
        "toolkit": environment.toolkit,
        "arch": environment.arch,
        "protocol": key.protocol,
    }
    connection.execute(delete(_USER).where(_USER.c.study_id == optuna_id, _USER.c.key.in_(list(facts))))
    rows = [{"study_id": optuna_id, "key": name, "value_json": json.dumps(value)} for name, value in facts.items()]
    connection.execute(insert(_USER), rows)


def read_note(session: Session, optuna_id: int) -> str:
    return _read(session.connection(), optuna_id)


def _read(connection: Connection, optuna_id: int) -> str:
    found = connection.execute(
        select(_SYSTEM.c.key, _SYSTEM.c.value_json).where(
            _SYSTEM.c.study_id == optuna_id, _SYSTEM.c.key.startswith(_PART, autoescape=True)
        )
    )
    parts = sorted((int(key.removeprefix(_PART)), json.loads(value)) for key, value in found)
    return "".join(part for _, part in parts)


def resume_command(key: StudyKey, device: str) -> str:
    """Return the command line that continues this study on ``device``."""
    whole = "" if key.heuristics else " --no-heuristics"
    return run_command(problem_of_key(key), device, key.precision, key.sources) + whole


def run_command(problem: Problem, device: str, precision: str, sources: Sequence[tuple[str, str]] = ()) -> str:
    """Return the command line that creates or continues a study of a problem."""
    wanted = "" if precision == "fp32" else f" --precision {precision}"
    chosen = "".join(f" --template {shlex.quote(path or name)}" for name, path in sources)
    what, rows = problem.words()
    return f"tune run {what} --device {device}{rows and f' {rows}'}{wanted}{chosen}"


def explain(
    key: StudyKey, environment: Environment, counts: Mapping[str, int], best: Champion | None, where: Location
) -> str:
    """Write the note: what is measured, how to read the trials, how to continue, and the winner or the fastest so far.

    Args:
        where: The store that the commands name.
    """
    problem = problem_of_key(key)
    done = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items()) or "none yet"
    return "\n".join(
        (
            f"# {key.problem} on {environment.model}",
            "",
            f"The fastest correct configuration of a {key.kind} kernel: {problem.describe()}, {key.precision}.",
            "",
            f"- **Winner:** {_best(key, best)}",
            f"- **Trials:** {done}",
            f"- **Value:** median milliseconds of one launch over all {key.shape[0]:,} "
            f"{problem.ROWS_NOUN}, by device events",
            "- **States:** Complete is correct and fully measured; Pruned is correct and clearly slower, so sampling "
            "stopped early, or reads as fast as the winner and is not, as the attribute `apart` says; Failed says why "
            "in the attribute `outcome`",
            f"- **Device:** {environment.device}, {environment.model}, driver {environment.driver}, "
            f"{environment.toolkit}, {environment.arch}",
            f"- **Templates:** {_templates(key)}; measurement protocol {key.protocol}",
            f"- **Resume:** `{resume_command(key, environment.device)}{storage_option(where)}`",
            f"- **Export the winner:** `{command('export', key.digest[:6], where=where)}`",
            "",
        )
    )


def _templates(key: StudyKey) -> str:
    files = dict(key.sources)
    return ", ".join(f"{name} (`{files[name]}`)" if files.get(name) else name for name in key.templates)


def _best(key: StudyKey, best: Champion | None) -> str:
    if best is None or best.result.measurement is None:
        return "none yet"
    low, high = best.result.measurement.interval
    gflops = problem_of_key(key).flop / best.result.seconds / 1e9
    proof = "confirmed" if best.result.may_win else "not verified yet"
    return (
        f"{'' if best.result.may_win else 'none yet; the fastest so far is '}trial {best.trial}: "
        f"{best.result.seconds * 1e3:.4g} ms ({low * 1e3:.4g} to {high * 1e3:.4g}, {gflops:,.0f} GFLOP/s, {proof}): "
        f"`{best.result.configuration}`"
    )
