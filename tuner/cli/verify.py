"""``tune verify``: the networks' accuracy, beside the course's, or with a study's winner as a layer's kernel."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli.support import naming, options
from tuner.cli.support.folding import echo
from tuner.cli.support.text import echo_wrapped, plural, print_json, table
from tuner.errors import TunerError, UsageError

if TYPE_CHECKING:
    from tuner.kernels.template import KernelTemplate
    from tuner.problems.conv.dataset import Dataset
    from tuner.problems.conv.networks import Network

SAMPLE = 100  # images from which the time for all is estimated


@click.command("verify", short_help="The networks' accuracy, or a winner's class agreement.")
@click.option("--network", "names", multiple=True, metavar="NAME", help="Only this network (repeatable).")
@naming.study(required=False, metavar="[STUDY]")
@options.data
@options.templates
@options.storage
@options.as_json
def command(names: tuple[str, ...], study: str | None, data: Path | None, as_json: bool, **rest: Any) -> None:
    """Print each network's accuracy on the first 10, 100, 1,000 and 10,000 test images.

    With a STUDY: how many images get the class that the FP32 network gives them when the winner computes its layer. A
    network's name, such as sp18, means that network only.
    """
    from tuner.problems.conv.architectures import ARCHITECTURES

    if study and study.lower() in ARCHITECTURES:
        _verify_networks((study.lower(), *names), data, as_json)
    elif study:
        _verify_study(study, rest["storage"], options.chosen_templates(rest["templates"]), as_json)
    else:
        _verify_networks(names, data, as_json)


def _verify_study(study: str, storage: str, templates: tuple[KernelTemplate, ...], as_json: bool) -> None:
    """Classify the batch's images with a study's winner as its layer's kernel, and print the class agreement.

    Raises:
        UsageError: No such study, its device is not here, or its layer has no network.
        NoWinner: The study has none.
        TunerError: The winner fails.
    """
    from tuner.bench.worker import Worker
    from tuner.tuning.evaluation import build, prepare
    from tuner.tuning.stored_result import spec_of, template_of

    view = naming.read(storage, study)
    champion, spec = view.verified(), spec_of(view)
    best = champion.result
    if not spec.problem.has_whole:
        raise UsageError(
            f"study '{view.name}': a {spec.problem.noun} of your own has no network to classify with; "
            "give a named layer"
        )
    template = template_of(best, templates, view)
    with Worker(spec) as worker:
        built = build(worker, prepare(template, best.configuration, spec.problem, worker.facts))
        agreement = worker.agreement(built.task())
    if agreement is None:
        raise TunerError(f"study '{view.name}': its winner failed when run once more; tune replay says how")
    if as_json:
        print_json({"study": view.name, "trial": champion.trial, **asdict(agreement)})
    else:
        echo(f"{view.name}: trial {champion.trial}, {best.configuration.template}")
        echo_wrapped(str(agreement))


def _verify_networks(names: tuple[str, ...], data: Path | None, as_json: bool) -> None:
    """Classify the test split with every network and print the accuracies."""
    from tuner.problems.conv.architectures import ARCHITECTURES
    from tuner.problems.conv.dataset import load_test_split
    from tuner.problems.conv.networks import COUNTS, accuracy, load_network

    networks = [load_network(name) for name in names or ARCHITECTURES]
    dataset = load_test_split(data)
    rows, started = [], time.monotonic()
    if not as_json:
        seconds = _expected(networks, dataset)
        echo(f"{plural(len(networks), 'network')}, {len(dataset):,} images: about {seconds:.0f} s", err=True)
    for network in networks:
        found = accuracy(network, dataset)
        rows.append((network.architecture, found))
        if not as_json:
            shares = " ".join(f"{each.images}: {each.fraction:.4f}" for each in found)
            passed = time.monotonic() - started
            echo(f"[{passed:4.0f} s] {network.architecture.name}  {shares}", err=True)
    if as_json:
        print_json(
            [
                {
                    "network": architecture.name,
                    "course": architecture.course_accuracy,
                    "accuracy": {str(each.images): each.fraction for each in found},
                }
                for architecture, found in rows
            ]
        )
        return
    table(
        "accuracy on the first test images; ECE 408: as the course reported",
        ("network", *(f"{count:,}" for count in COUNTS), "ECE 408"),
        [
            (
                architecture.name,
                *(f"{each.fraction:.4f}" for each in found),
                *("-" for _ in COUNTS[len(found) :]),
                f"{architecture.course_accuracy:.4f}",
            )
            for architecture, found in rows
        ],
        left=("network",),
    )


def _expected(networks: Sequence[Network], dataset: Dataset) -> float:
    """Estimate the seconds for classifying the whole data set, from a few images with the first network."""
    from tuner.problems.conv.networks import classify

    def flop(network: Network) -> int:
        return sum(stage.layer.with_batch(1).flop for stage in network.architecture.stages)

    images = dataset.images[:SAMPLE]
    started = time.monotonic()
    classify(networks[0], images)
    each = (time.monotonic() - started) / (len(images) * flop(networks[0]))
    return each * len(dataset) * sum(map(flop, networks))
