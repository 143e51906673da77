"""Train the networks' weights: ``python -m tuner.problems.conv.train --images DIR``. Needs ``tuner[train]``."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from tuner.errors import TunerError, UsageError
from tuner.problems.conv.architectures import ARCHITECTURES, Architecture
from tuner.problems.conv.dataset import Dataset, load_split, load_test_split, resize_bilinear
from tuner.problems.conv.networks import WEIGHTS, Accuracy, Network, accuracy

BATCH = 64
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 1e-2

Tensor = Any  # torch is not installed where the rest is checked


def train(architecture: Architecture, data: Dataset, epochs: int, seed: int) -> Network:
    """Train one network on the CPU: Adam, cross-entropy, learning rate falling to 0 along a cosine.

    The same seed, data, torch and number of threads give the same weights.
    """
    torch = _torch()
    torch.manual_seed(seed)
    parameters = {name: _initial(torch, shape) for name, shape in architecture.shapes.items()}
    optimizer = torch.optim.AdamW(parameters.values(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    steps = epochs * -(-len(data) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for images, labels in _batches(data, architecture, epochs, seed):
        scores = _scores(torch, architecture, parameters, torch.from_numpy(images)[:, None])
        loss = torch.nn.functional.cross_entropy(scores, torch.from_numpy(labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return Network(architecture=architecture, weights={name: p.detach().numpy() for name, p in parameters.items()})


def write_network(network: Network, rows: tuple[Accuracy, ...], path: Path) -> None:
    """Write weights and test-set counts to an npz file: to a temporary name first, so that none is half written."""
    arrays: dict[str, Any] = {**network.weights, "correct": [row.correct for row in rows]}
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".npz")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(file, **arrays)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise UsageError("training needs PyTorch, which is not installed; pip install 'tuner[train]'") from None
    return torch


def _initial(torch: Any, shape: tuple[int, ...]) -> Tensor:
    """Draw from +-1/sqrt(inputs), as torch's own layers do; biases start at 0."""
    bound = np.prod(shape[1:]) ** -0.5 if len(shape) > 1 else 0.0
    return ((torch.rand(shape) * 2 - 1) * float(bound)).requires_grad_()


def _scores(torch: Any, architecture: Architecture, parameters: dict[str, Tensor], x: Tensor) -> Tensor:
    """Do what :func:`tuner.problems.conv.networks.forward` does, in torch."""
    activations = {"tanh": torch.tanh, "relu": torch.relu, "none": lambda y: y}
    for stage in architecture.stages:
        y = torch.nn.functional.conv2d(x, parameters[stage.key])
        x = torch.nn.functional.max_pool2d(activations[stage.activation](y), stage.pool)
    x = x.flatten(1)
    for i in range(1, len(architecture.hidden) + 2):
        x = x if i == 1 else torch.relu(x)
        x = torch.nn.functional.linear(x, parameters[f"dense{i}"], parameters[f"bias{i}"])
    return x


def _batches(data: Dataset, architecture: Architecture, epochs: int, seed: int) -> Iterator[tuple[Any, Any]]:
    """Yield shuffled batches, resized as the test images will be."""
    order = np.random.default_rng(seed)
    first = architecture.stages[0].layer
    for _ in range(epochs):
        shuffled = order.permutation(len(data))
        for start in range(0, len(data), BATCH):
            part = shuffled[start : start + BATCH]
            yield resize_bilinear(data.images[part], first.H, first.W), data.labels[part].astype(np.int64)


@click.command(help="Train the networks' weights on the CPU and write them to the package.")
@click.option(
    "--images", required=True, type=click.Path(path_type=Path), help="Directory of Fashion-MNIST's IDX files."
)
@click.option("--network", "names", multiple=True, type=click.Choice(list(ARCHITECTURES)), help="Default: all six.")
@click.option("--epochs", default=2, show_default=True, type=click.IntRange(min=1))
@click.option("--seed", default=1708, show_default=True, type=click.IntRange(min=0))
@click.option("--output", default=WEIGHTS, type=click.Path(path_type=Path), help="Directory of the npz files.")
def main(images: Path, names: tuple[str, ...], epochs: int, seed: int, output: Path) -> None:
    try:
        data, test = load_split(images, "train"), load_test_split()
        for name in names or ARCHITECTURES:
            network = train(ARCHITECTURES[name], data, epochs, seed)
            rows = accuracy(network, test)
            write_network(network, rows, output / f"{name}.npz")
            click.echo(f"{name}: " + ", ".join(f"{row.correct} of {row.images}" for row in rows))
    except TunerError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
