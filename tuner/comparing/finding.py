"""Our side's entries: the best verified configuration of the store, and the two kernels to be beaten."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.errors import TunerError
from tuner.layers import ConvLayer
from tuner.reference import Precision
from tuner.results import Environment, Result
from tuner.storage import Store, StudyHandle
from tuner.storage.location import find_location
from tuner.storage.notes import run_command
from tuner.templates import Configuration, DeviceLimits, KernelTemplate, builtin_templates

NAIVE, FINAL_2017 = "naive 32x32 (B,M,1)", "2017 final kernel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A verified configuration of a study."""

    study: str
    trial: int | None
    model: str
    result: Result


def best_found(
    storage: str, layer: ConvLayer, precision: Precision, device: str, templates: tuple[KernelTemplate, ...]
) -> list[Found]:
    """Return the verified winners of every study of this layer, batch, precision and kind of device, fastest first.

    Raises:
        TunerError: There is none; names the ``tune run`` that makes one.
        UsageError, StorageError: The store cannot be read.
    """
    found: list[Found] = []
    path = find_location(storage).path
    if path is None or path.exists():
        with Store.open(storage, create=False) as store:
            for summary in store.studies():
                key = summary.key
                same = key.layer == layer.name and key.shape == _shape(layer) and key.precision == precision
                if same and key.device_kind == _kind(device, key.device_kind):
                    found += _winner(store.find_study(summary.name), templates)
    if not found:
        wanted = run_command(layer, device, precision)
        raise TunerError(f"{storage} has no verified trial of {layer.name} to compare; {wanted} makes one")
    return sorted(found, key=lambda each: each.result.seconds)


def _shape(layer: ConvLayer) -> tuple[int, int, int, int, int, int]:
    return layer.B, layer.C, layer.H, layer.W, layer.M, layer.K


def _kind(device: str, stored: str) -> str:
    """Return the kind a device's name stands for; ``opencl:N`` may be of either, so it takes what is stored."""
    return "cuda" if device.startswith("cuda") else "cpu" if device == "cpu" else stored


def _winner(handle: StudyHandle, templates: tuple[KernelTemplate, ...]) -> list[Found]:
    best = handle.best()
    if best is None or not any(_fits(best.configuration, template) for template in templates):
        return []
    number = handle.trial_number(best.configuration)
    return [Found(study=handle.name, trial=number, model=handle.key.device_model, result=best)]


def _fits(configuration: Configuration, template: KernelTemplate) -> bool:
    """Whether a stored configuration is still one of the template's."""
    choices = {parameter.name: parameter.choices for parameter in template.parameters}
    given = configuration.as_dict()
    return (
        template.name == configuration.template
        and given.keys() == choices.keys()
        and all(value in choices[name] for name, value in given.items())
    )


def fittest(found: list[Found], environment: Environment) -> Found:
    """Return the fastest that was measured on this model, else the fastest of any."""
    return next((each for each in found if each.model == environment.model), found[0])


def baseline(name: str, layer: ConvLayer, limits: DeviceLimits) -> tuple[KernelTemplate, Configuration]:
    """Return a named baseline of the built-in templates.

    Raises:
        TunerError: It is not valid for this layer and device; says why.
    """
    for template in builtin_templates().values():
        for each in template.baselines:
            if each.name == name:
                configuration = template.configuration(each.values)
                if broken := template.violated(configuration, layer, limits):
                    raise TunerError(f"not valid for this layer: {broken.reason}")
                return template, configuration
    raise TunerError(f"no template has a baseline '{name}'")
