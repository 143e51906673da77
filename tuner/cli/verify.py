"""``tune verify``: the networks' accuracy, beside the course's."""

from __future__ import annotations

from pathlib import Path

import click

from tuner.cli.text import print_json, table
from tuner.dataset import load_test_split
from tuner.networks import ARCHITECTURES, COUNTS, accuracy, load_network


def verify_networks(names: tuple[str, ...], data: Path | None, as_json: bool) -> None:
    """Classify the test split with every network and print the accuracies."""
    networks = [load_network(name) for name in names or ARCHITECTURES]
    dataset = load_test_split(data)
    rows = []
    for network in networks:
        found = accuracy(network, dataset)
        rows.append((network.architecture, found))
        if not as_json:
            shares = " ".join(f"{each.images}: {each.fraction:.4f}" for each in found)
            click.echo(f"{network.architecture.name}  {shares}", err=True)
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
        "accuracy on the first images of the test split",
        ("network", *(f"{count:,}" for count in COUNTS), "course"),
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
