"""Kernel templates: one ``NAME.cu`` beside one ``NAME.py`` that declares parameters, constraints and launch geometry.

A template says how a problem is computed; a configuration is one choice for each of its parameters. Constraints and
geometry are written once, as plain arithmetic on the parameters' names, and serve single configurations and whole
columns of them alike::

    Constraint("threads", lambda p, problem, limits: p.BLOCK_X * p.BLOCK_Y <= limits.max_threads,
               "a block has more threads than the device allows")
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from tuner.errors import Infeasible, UsageError
from tuner.kernels.calling import Broken, Home, called, line_of, shortened
from tuner.kernels.configuration import Baseline, Configuration
from tuner.kernels.launch import MOST_BLOCKS, Launch
from tuner.kernels.limits import ANY_MAGNITUDE, CUDA, OPENCL, DeviceLimits, Dialect, Magnitudes
from tuner.kernels.parameters import Choice, Parameter
from tuner.kernels.rules import Constraint, Heuristic, Predicate, Rule
from tuner.kernels.sizes import Sizes, told
from tuner.kernels.sources import with_includes
from tuner.kernels.values import Values
from tuner.kernels.words import check_together
from tuner.problems.problem import Problem

__all__ = [  # everything that a template is written with
    "ANY_MAGNITUDE",
    "CUDA",
    "MOST_BLOCKS",
    "OPENCL",
    "Baseline",
    "Choice",
    "Configuration",
    "Constraint",
    "Derivation",
    "DeviceLimits",
    "Dialect",
    "Heuristic",
    "KernelTemplate",
    "Launch",
    "Magnitudes",
    "Parameter",
    "Predicate",
    "Rule",
    "SizesOf",
    "read_source",
]

# Functions of p and the problem; a template annotates its own kind of problem.
Derivation = Callable[[Any, Any], Mapping[str, Any]]
SizesOf = Callable[[Any, Any], Sizes | Mapping[str, Any]]
_TEMPLATE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTemplate:
    """A kernel source with everything needed to enumerate, render and launch it.

    Args:
        source: The text of the .cu file; its entry point has the name that the problem says: ``conv_forward``.
        launch: ``launch(p, problem) -> Launch`` for one configuration.
        heuristics: What is left out of a space although it would run, and why.
        sizes: ``sizes(p, problem)``: numbers derived from a configuration, by their names in the kernel;
            a class of :class:`tuner.kernels.sizes.Sizes`, or a function that returns a dictionary.
        dialects: Where it compiles; a CUDA-only template says ``(CUDA,)``.
        figures: ``figures(p, problem)``: by name, positive sizes (or columns of them) derived from a configuration
            and explain its speed better than the parameters alone; the surrogate learns from their logarithms too.
        home: Location of the Python of a user's own template; None for a built-in one, or one made by a program.
        wide_indices: It counts elements in 64 bits, so x and y may have 2^31 and more of them.
        static_memory: It has writable memory of its own from launch to launch; without this it is refused.
        problem: The kind of problem that it computes.
        magnitudes: ``magnitudes(p)``: the least and largest |x|, zeros apart, that a configuration's arithmetic holds;
            without it a check tries numbers from 2^-24 to 2^24.
    """

    name: str
    idea: str
    source: str
    parameters: tuple[Parameter, ...]
    constraints: tuple[Constraint, ...]
    launch: Callable[[Any, Any], Launch]
    baselines: tuple[Baseline, ...] = ()
    dialects: tuple[Dialect, ...] = (CUDA, OPENCL)
    figures: Derivation | None = None
    home: Home | None = None
    wide_indices: bool = False
    static_memory: bool = False
    magnitudes: Callable[[Any], Magnitudes] | None = None
    heuristics: tuple[Heuristic, ...] = ()
    sizes: SizesOf | None = None
    problem: str = "conv"

    def __post_init__(self) -> None:
        self._check_kinds()
        rules = [rule.name for rule in self.heuristics]
        if twice := {rule for rule in rules if [*rules, *(each.name for each in self.constraints)].count(rule) > 1}:
            raise UsageError(f"template {self.name}: two rules are called '{min(twice)}'; rename one")
        names = [parameter.name for parameter in self.parameters]
        if not names:
            raise UsageError(f"template {self.name}: no parameters; declare at least one")
        if len(set(names)) != len(names):
            raise UsageError(f"template {self.name}: a parameter is declared twice in {', '.join(names)}; keep one")
        check_together(self.name, (word for parameter in self.parameters for word in parameter.words().items()))
        for baseline in self.baselines:
            self.configuration(baseline.values)

    def _check_kinds(self) -> None:
        """Refuse what Python would accept but a run would fail on much later."""
        if not isinstance(self.name, str) or not _TEMPLATE_NAME.fullmatch(self.name):
            raise UsageError(f"template name {shortened(self.name)}: give letters, digits, '_', '-' and '.' alone")
        kinds = {"parameters": Parameter, "constraints": Constraint, "heuristics": Heuristic, "baselines": Baseline}
        for field, kind in kinds.items():
            given = getattr(self, field)
            if not isinstance(given, tuple | list) or not all(isinstance(each, kind) for each in given):
                raise UsageError(
                    f"template {self.name}: {field} are {shortened(given)}; give a tuple: ({kind.__name__}(...),)"
                )
            object.__setattr__(self, field, tuple(given))
        if not isinstance(self.source, str):
            raise UsageError(f"template {self.name}: source is {shortened(self.source)}; write read_source(__file__)")
        for field in ("launch", "figures", "sizes"):
            if not callable(given := getattr(self, field)) and (field == "launch" or given is not None):
                raise UsageError(f"template {self.name}: {field} is not a function; write lambda p, problem: ...")
        if not isinstance(self.dialects, tuple) or not self.dialects or set(self.dialects) - {CUDA, OPENCL}:
            raise UsageError(
                f"template {self.name}: dialects={shortened(self.dialects)}; write (CUDA,) or (CUDA, OPENCL)"
            )

    def configuration(self, values: Mapping[str, Choice]) -> Configuration:
        """Complete ``values`` with first choices.

        Raises:
            UsageError: An unknown parameter, or a value that is not among its choices.
        """
        unknown = set(values) - {parameter.name for parameter in self.parameters}
        if unknown:
            raise UsageError(
                f"template {self.name}: no parameter {', '.join(sorted(unknown))}; there are: "
                + ", ".join(parameter.name for parameter in self.parameters)
            )
        chosen = []
        for parameter in self.parameters:
            value = values.get(parameter.name, parameter.choices[0])
            if value not in parameter.choices:
                allowed = ", ".join(map(str, parameter.choices))
                raise UsageError(
                    f"template {self.name}: {parameter.name}={value} is not a choice; there are: {allowed}"
                )
            chosen.append((parameter.name, value))
        return Configuration(template=self.name, values=tuple(chosen))

    @property
    def first_choices(self) -> dict[str, Choice]:
        return {parameter.name: parameter.choices[0] for parameter in self.parameters}

    def values_of(self, configuration: Configuration) -> Values:
        """Return the configuration's values as attributes, shapes split into X and Y."""
        given = configuration.as_dict()
        merged: dict[str, Choice] = {}
        for parameter in self.parameters:
            merged |= parameter.parts(given[parameter.name])
        return Values(merged)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules for a configuration of a space: constraints, then heuristics."""
        return (*self.constraints, *self.heuristics)

    def without_heuristics(self) -> KernelTemplate:
        """Return the template without heuristics: its space is everything that would run."""
        return replace(self, heuristics=())

    def violated(self, configuration: Configuration, problem: Problem, limits: DeviceLimits) -> Rule | None:
        """Return the first violated constraint, else the first violated heuristic; None for a point of the space.

        Raises:
            UsageError: One of them fails.
        """
        values = self.values_of(configuration)
        return next((rule for rule in self.rules if not self.holds(rule, values, problem, limits)), None)

    def holds(self, rule: Rule, values: Values, problem: Problem, limits: DeviceLimits) -> Any:
        """Return a rule's answer for scalars or columns.

        Raises:
            UsageError: It fails; names the rule, the cause, and the template's line.
        """
        try:
            return called(self.home, rule.holds, values, problem, limits)
        except Broken as error:
            raise UsageError(
                f"template {self.name}: {error.where}: {rule.kind} '{rule.name}' fails: {error.why}"
            ) from None

    def sizes_of(self, configuration: Configuration, problem: Problem) -> dict[str, tuple[int, str]]:
        """Return the sizes that a configuration's kernel gets, in order: each a number and a comment.

        Raises:
            Infeasible: The template's ``sizes`` fails for it or returns something else; names the template's line.
        """
        if self.sizes is None:
            return {}
        try:
            return called(self.home, told, self.sizes, self.values_of(configuration), problem)
        except Broken as error:
            raise Infeasible(f"{error.where or line_of(self.sizes)}: sizes fails: {error.why}") from None

    def launch_of(self, configuration: Configuration, problem: Problem) -> Launch:
        """Return the geometry of a configuration.

        Raises:
            Infeasible: The template's ``launch`` fails for it or returns none; names the template's line.
        """
        try:
            launch = called(self.home, self.launch, self.values_of(configuration), problem)
        except Broken as error:
            raise Infeasible(f"{error.where}: launch fails: {error.why}") from None
        if not isinstance(launch, Launch):
            raise Infeasible(
                f"{line_of(self.launch)}: launch gives {shortened(launch)}; return Launch(grid=(...), block=(...))"
            )
        return launch

    def magnitudes_of(self, configuration: Configuration) -> Magnitudes:
        """Return the least and largest |x| for which a configuration declares that it is correct.

        Raises:
            Infeasible: The template's ``magnitudes`` fails for it or returns no two numbers; names the template's line.
        """
        if self.magnitudes is None:
            return ANY_MAGNITUDE
        try:
            given = called(self.home, self.magnitudes, self.values_of(configuration))
        except Broken as error:
            raise Infeasible(f"{error.where}: magnitudes fails: {error.why}") from None
        try:
            least, most = map(float, given)
        except (TypeError, ValueError):
            least = most = 0.0
        if not 0 < least <= most < inf:
            raise Infeasible(
                f"{line_of(self.magnitudes)}: magnitudes gives {shortened(given)}; return two positive numbers"
            )
        return least, most

    @property
    def digest(self) -> str:
        """Identity of the search space this template declares: parameters and choices in order, not the source."""
        declared = [[parameter.name, list(parameter.choices)] for parameter in self.parameters]
        return hashlib.sha256(json.dumps([self.name, declared]).encode()).hexdigest()


def read_source(python_file: str) -> str:
    """Read the .cu beside a template's .py: ``source=read_source(__file__)``.

    Files that it includes by ``#include "name"`` are inlined, so that editing one changes the source.

    Raises:
        UsageError: An included file is missing, or includes itself.
    """
    return with_includes(Path(python_file).with_suffix(".cu"))
