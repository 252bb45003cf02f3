"""One script a figure or table; `python -m plots` draws them and says which claims hold.

A script NAME.py (the name on the command line has hyphens for its underscores) holds, at its top,

    TITLE       one line
    STATEMENTS  the ledger's ids that it shows
    SETTINGS    a dict: every number that was chosen
    QUICK       the settings that --quick replaces

and a function draw(settings, seed, jobs, progress) -> (figure, claims, numbers), where progress
takes one line of text, each claim comes from plots.report.claim, and numbers is a dict for
NAME.json.
"""
