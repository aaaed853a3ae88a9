"""The ``apex`` program. One small file per command; none is imported before it is called.

A new command is one line in ``COMMANDS``: name -> ("module:attribute of the click command", one line of help).
``--json`` is added to each of them; the command takes ``@click.pass_obj`` and gets a ``cli.context.Context``.
"""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str]] = {
    "bench": ("apex_framework.cli.bench:bench", "Measure a part beside its peers in the same run."),
    "compare": ("apex_framework.cli.compare:compare", "Paired lifts of finished runs, and the verdict."),
    "config": ("apex_framework.cli.config:config", "Show the settings in force and where each came from."),
    "doctor": ("apex_framework.cli.doctor:doctor", "Is everything there that a run needs, and the model well?"),
    "experiment": (
        "apex_framework.cli.experiment:experiment",
        "Run a plan of many arms to the decision it registered.",
    ),
    "explain": ("apex_framework.cli.explain:explain", "What an error's code means, and what to do about it."),
    "export": ("apex_framework.cli.export:export", "Finished runs as tables for other programs: Parquet."),
    "plugins": ("apex_framework.cli.plugins:plugins", "List plugins: what they bring, their status and load time."),
    "power": ("apex_framework.cli.power:power", "What so many tasks can show, before they are run."),
    "report": ("apex_framework.cli.report:report", "Finished runs as something to read: table, markdown, ..."),
    "resume": ("apex_framework.cli.resume:resume", "Go on with an interrupted run."),
    "run": ("apex_framework.cli.run:run", "Run teams on tasks and compare their controllers: the main job."),
    "slo": ("apex_framework.cli.slo:slo", "Did a run keep its targets? Every number made again from its lines."),
    "suite": ("apex_framework.cli.suite:suite", "Look at sets of tasks: list, show, check."),
    "train": ("apex_framework.cli.train:train", "Teach a controller on a suite's training split."),
    "value": ("apex_framework.cli.value:value", "What a controller that was not run would be worth, from a log."),
    "verify": ("apex_framework.cli.verify:verify", "Are the files of finished runs what they were?"),
}
"""The kernel's commands, in alphabetical order. Plugins add theirs by the hook ``apex_commands``."""

OPEN = frozenset({"suite"})
"""Groups of the kernel that plugins add to: what they register as ``suite.make`` is ``apex suite make``."""


def main() -> None:
    """Run ``apex`` and exit with its status."""
    import sys

    from .boundary import run

    sys.exit(run(sys.argv[1:]))
