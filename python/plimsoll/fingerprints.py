"""By what the code of a function is known, whichever Python has compiled it."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    import types

CODE = type((lambda: None).__code__)


def names_in(code: types.CodeType) -> set[str]:
    """All names that a function's code uses, those of functions within it too."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CODE):
            found |= names_in(constant)
    return found


def fingerprint(code: types.CodeType) -> str:
    """A digest of a function's parameters and of everything that its code names.

    The same on every version of Python, other than a digest of the code itself.
    """
    import hashlib
    import inspect

    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    text = "|".join([
        f"{code.co_argcount},{code.co_kwonlyargcount}", ",".join(code.co_varnames[:count]),
        ",".join(sorted(names_in(code))),
    ])  # fmt: skip
    return hashlib.sha256(text.encode()).hexdigest()[:12]
