"""One script a figure or table; `python -m plots` draws them and says which claims hold.

A script NAME.py (the name on the command line has hyphens for its underscores) holds, at its top,

    TITLE       one line
    STATEMENTS  the ledger's ids that it shows
    SETTINGS    a dict: every number that was chosen; each of them reaches the run
    QUICK       the settings that --quick replaces
    CAPTION     one or two sentences: what is shown, what to see

and four functions, of which the first alone runs anything:

    measure(settings, seed, jobs, progress) -> found     progress takes one line of text
    numbers(found, settings) -> dict                     for NAME.json
    claims(found, settings) -> list                      each from plots.report.claim
    picture(found, settings) -> figure                   from plots.style.figure
"""

FORMATS = ("png", "pdf", "svg")  # of a picture; the first without --format


def sizes(kind, settings):
    """A NamedTuple of the class `kind`: the fields that the settings name from there, the others by default."""
    return kind(**{name: settings[name] for name in kind._fields if name in settings})
