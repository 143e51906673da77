"""The tuner's own tables, beside Optuna's in the same database.

A study here points at Optuna's study and a result at Optuna's trial; deleting those deletes these (cascade). Times are
seconds since the epoch, durations seconds.
"""

from __future__ import annotations

from sqlalchemy import ForeignKey, Index, MetaData, Table, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from tuner.storage import optuna_tables

SCHEMA_VERSION = 7

_OPTUNA_STUDY = optuna_tables.STUDY.c.study_id
_OPTUNA_TRIAL = optuna_tables.TRIAL.c.trial_id


class Base(DeclarativeBase):
    metadata = MetaData()


def table(model: type[Base]) -> Table:
    """Return a model's table, for plain inserts and updates without the ORM's bookkeeping."""
    return Base.metadata.tables[model.__tablename__]


class SchemaRow(Base):
    """One row: the version of the tuner's tables, and the last Optuna version that fits its own."""

    __tablename__ = "tuner_schema"
    id: Mapped[int] = mapped_column(primary_key=True)
    version: Mapped[int]
    optuna_version: Mapped[str]


class EnvironmentRow(Base):
    """A device with its driver and compiler; results point at the one they were measured in."""

    __tablename__ = "tuner_environment"
    id: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(unique=True)
    device: Mapped[str]
    kind: Mapped[str]
    model: Mapped[str]
    driver: Mapped[str]
    toolkit: Mapped[str]
    arch: Mapped[str]
    host: Mapped[str]
    peak_flops: Mapped[float | None]
    peak_bytes: Mapped[float | None]
    peak_tf32: Mapped[float | None]
    peak_fp16: Mapped[float | None]


class StudyRow(Base):
    """A study's identity (``StudyKey``, field by field) and the parameters as Optuna sees them."""

    __tablename__ = "tuner_study"
    id: Mapped[int] = mapped_column(primary_key=True)
    optuna_id: Mapped[int] = mapped_column(ForeignKey(_OPTUNA_STUDY, ondelete="CASCADE"), unique=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey(EnvironmentRow.id))
    name: Mapped[str] = mapped_column(unique=True)
    digest: Mapped[str] = mapped_column(unique=True)
    kind: Mapped[str]
    problem: Mapped[str]  # its name
    sizes: Mapped[str] = mapped_column(Text)  # JSON object, in the kind's order
    device_kind: Mapped[str]
    device_model: Mapped[str]
    precision: Mapped[str]
    protocol: Mapped[str]
    space_digest: Mapped[str]
    templates: Mapped[str] = mapped_column(Text)  # JSON array of names
    sources: Mapped[str | None] = mapped_column(Text, default=None)  # JSON: [template, user's file or ""], ...
    distributions: Mapped[str] = mapped_column(Text)  # JSON object: parameter to its array of choices
    heuristics: Mapped[bool | None] = mapped_column(default=None)  # None, of older studies: they narrowed the space
    winner: Mapped[str | None] = mapped_column(Text, default=None)  # key of the configuration that won the last finals
    settled: Mapped[float | None] = mapped_column(default=None)  # when it won
    created: Mapped[float]


class ResultRow(Base):
    """The end of one trial; one row per configuration of a study."""

    __tablename__ = "tuner_result"
    __table_args__ = (UniqueConstraint("study_id", "key"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    study_id: Mapped[int] = mapped_column(ForeignKey(StudyRow.id, ondelete="CASCADE"))
    trial_id: Mapped[int] = mapped_column(ForeignKey(_OPTUNA_TRIAL, ondelete="CASCADE"), unique=True)
    environment_id: Mapped[int] = mapped_column(ForeignKey(EnvironmentRow.id))
    number: Mapped[int]
    key: Mapped[str] = mapped_column(Text)
    template: Mapped[str]
    configuration: Mapped[str] = mapped_column(Text)  # JSON array of [name, value], in the template's order
    outcome: Mapped[str]
    fingerprint: Mapped[str] = mapped_column(index=True)
    median: Mapped[float | None]
    interval_low: Mapped[float | None]
    interval_high: Mapped[float | None]
    sample_count: Mapped[int] = mapped_column(default=0)
    pruned: Mapped[bool]
    canary: Mapped[float | None]
    clock_mhz: Mapped[float | None]
    temperature_c: Mapped[float | None]
    power_w: Mapped[float | None]
    throttle: Mapped[str]
    registers: Mapped[int | None]
    local_bytes: Mapped[int | None]
    shared_bytes: Mapped[int | None]
    occupancy: Mapped[float | None]
    spill_bytes: Mapped[int | None]
    compile_seconds: Mapped[float]
    check_seconds: Mapped[float]
    measure_seconds: Mapped[float]
    max_error: Mapped[float | None]
    baseline: Mapped[str]
    reused: Mapped[bool]
    confirmed: Mapped[bool]
    settled: Mapped[float | None] = mapped_column(
        default=None
    )  # when its pass of the finals began; none: not in the finals
    searched: Mapped[float | None] = mapped_column(default=None)  # seconds by the search, before the finals
    suspect: Mapped[bool] = mapped_column(default=False)  # in flight when its process died; not tried again since
    interrupted: Mapped[int] = mapped_column(default=0)  # how many times that happened
    started: Mapped[float]
    finished: Mapped[float]


class SampleRow(Base):
    """Every timed launch of a result, in order: a JSON array of seconds."""

    __tablename__ = "tuner_sample"
    result_id: Mapped[int] = mapped_column(ForeignKey(ResultRow.id, ondelete="CASCADE"), primary_key=True)
    seconds: Mapped[str] = mapped_column(Text)


class FailureRow(Base):
    """The full text of a failure: compiler log, CUDA error, first wrong element."""

    __tablename__ = "tuner_failure"
    result_id: Mapped[int] = mapped_column(ForeignKey(ResultRow.id, ondelete="CASCADE"), primary_key=True)
    text: Mapped[str] = mapped_column(Text)


class ClaimRow(Base):
    """A configuration in flight, and the process that has it."""

    __tablename__ = "tuner_claim"
    __table_args__ = (UniqueConstraint("study_id", "key"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    study_id: Mapped[int] = mapped_column(ForeignKey(StudyRow.id, ondelete="CASCADE"))
    key: Mapped[str] = mapped_column(Text)
    template: Mapped[str]
    configuration: Mapped[str] = mapped_column(Text)
    stage: Mapped[str]
    host: Mapped[str]
    boot: Mapped[str]
    pid: Mapped[int]
    process_started: Mapped[int]
    claimed: Mapped[float]


class RunRow(Base):
    """A run from its start, before it has anything in flight; its study once known."""

    __tablename__ = "tuner_run"
    id: Mapped[int] = mapped_column(primary_key=True)
    study_id: Mapped[int | None] = mapped_column(ForeignKey(StudyRow.id, ondelete="CASCADE"), default=None)
    problem: Mapped[str]
    sizes: Mapped[str] = mapped_column(Text)
    precision: Mapped[str]
    host: Mapped[str]
    boot: Mapped[str]
    pid: Mapped[int]
    process_started: Mapped[int]
    begun: Mapped[float]


Index("ix_tuner_result_best", ResultRow.study_id, ResultRow.outcome, ResultRow.median)
