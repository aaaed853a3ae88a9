"""What the pages with experiments say in numbers, made of what is kept of the experiments: a module per page.

``claims(home)`` yields sentences, lines and table rows that the page has to hold, made in the folder ``home``.
``GIVEN`` is what the page says in numbers that nobody makes again: settings, dates, times, thresholds, history.
``figures(home)``, where there are any: file under ``figures`` -> what is drawn of what is kept. ``PLANTED`` are edits of the page that have to be found.
"""

from __future__ import annotations

from types import ModuleType

from . import ablations, denials, first_experiment, gate, headline, humaneval, ladder, native, replay

PAGES: dict[str, ModuleType] = {
    "headline": headline,
    "humaneval": humaneval,
    "ablations": ablations,
    "native": native,
    "first-experiment": first_experiment,
    "gate": gate,
    "ladder": ladder,
    "replay": replay,
    "denials": denials,
}
