"""Python processes that a program starts are run as it is (PYTHONPATH leads here).

Whatever goes wrong here must not reach the program: it then runs untouched. A sitecustomize that
would have been found without this one is run as ever.
"""

import os
import sys


def _begin() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    written = os.environ.get("PLIMSOLL_CHILDREN")
    if not written or sys.version_info < (3, 10):
        return
    root = os.path.dirname(os.path.dirname(here))
    sys.path.append(root)  # after all others
    try:
        from plimsoll import asked
        from plimsoll.programs import finder
    finally:
        sys.path.remove(root)
    what = asked.Asked.read(written)
    what.arrays = False
    finder.begin(what, says_at_end=False)
    finder.count_arrays(what)


def _chain() -> None:
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


try:
    _begin()
except Exception as error:
    print("plimsoll: this child runs untouched:", error, file=sys.stderr)
_chain()
