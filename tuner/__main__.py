"""``tune``, which is also ``python -m tuner``: nothing is imported before Ctrl-C ends it without a word."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line in this process, which does nothing else."""
    wanted = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored, as behind `&`
    if wanted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from tuner.cli import main as command

    command()


if __name__ == "__main__":
    main()
