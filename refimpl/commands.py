"""What both command lines share: one line and exit 2 for bad arguments, one line and exit 1 for failed work."""

import argparse
import difflib
import io
import os
import sys


class Parser(argparse.ArgumentParser):
    """argparse with its errors on one line."""

    def __init__(self, **options):
        super().__init__(allow_abbrev=False, **options)

    def error(self, message):
        self.exit(2, f"{self.prog}: {' '.join(message.split())}\n")


def integer(least, most=None):
    """An argparse type: a text as an integer in a range, or an error that says the range.

    least, most : the range, both ends in it; most may be None.  Returns a function of the text.
    """
    span = f">= {least}" if most is None else f"from {least} to {most}"

    def convert(text):
        try:
            value = int(text)
        except ValueError:
            value = None
        if value is None or value < least or (most is not None and value > most):
            raise argparse.ArgumentTypeError(f"must be an integer {span}, got {text!r}")
        return value

    return convert


def unknown(kind, name, known):
    """The line for a name that is none of the known ones, with the nearest of them.

    kind : what it is a name of.  name : the unknown one.  known : all names.  Returns the line.
    """
    lower = {one.lower(): one for one in known}
    near = [one for one in lower if one.startswith(name.lower())]  # the parts of a statement first
    near += [one for one in difflib.get_close_matches(name.lower(), lower, n=3, cutoff=0.3) if one not in near]
    near = [lower[one] for one in near[:3]]
    return f"unknown {kind} {ascii(name)}" + (f"; nearest: {', '.join(map(repr, near))}" if near else "")


def run(prog, main):
    """Call main() and exit: 0 or what it returns, 1 with one line for failed work, 130 for Ctrl-C.

    prog : the name before that line.  main : a function without arguments.
    Failed work is an OSError, a ValueError, or a FloatingPointError (divergence). Anything else
    is a bug and keeps its traceback.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: nobody listens
            setattr(sys, name, io.StringIO())
        else:  # a terminal may know fewer letters than a path has
            getattr(sys, name).reconfigure(errors="backslashreplace")
    try:
        code = main() or 0
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except (OSError, ValueError, FloatingPointError) as error:
        print(f"{prog}: {' '.join(str(error).split())}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        print(f"{prog}: interrupted", file=sys.stderr)
        code = 130
    sys.exit(code)
