"""The headless twin of the workbench: ``rknntui VERB``."""

from rknntui.cli.verbs import VERBS

__all__ = ["VERBS", "main"]


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    from rknntui.cli.root import run

    return run(argv)
