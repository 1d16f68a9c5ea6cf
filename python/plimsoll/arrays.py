"""NumPy's arrays, counted by the lines that made them, and held to the limit of the process.

An array that would take the process beyond its limit is answered with NumPy's own MemoryError,
which gets a note: at which line, who holds what, and what would do. How arrays are counted is said
in src/arrays.cpp; loaded when NumPy is, and only where somebody asks for it.
"""

from __future__ import annotations

import atexit
import linecache
import os
import sys

from plimsoll import _arrays, asked

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_MIB = 1 << 20
_MOST_LINES = 8  # of a table
_LONGEST = 72  # characters of a line that is shown
_DRAWS = ("rand(", "random(", "random_sample(", "uniform(")
_DRAWS_NORMAL = ("randn(", "normal(")
_LOADS = ("np.load(", "numpy.load(")
_JOINS = ("concatenate(", "stack(", "np.append(")
_DISPLAYED = "plimsoll_note"  # attribute of an error that was explained

_before: list[Any] = []  # NumPy's handler of this thread, while ours is in front of it
_own_init: list[Any] = []
_told = [0]  # refusals that an error was made of
_limit = [0]  # bytes


def _numpy_core() -> Any:
    """The package numpy._core, which was numpy.core once."""
    import importlib

    import numpy

    is_old = int(numpy.__version__.partition(".")[0]) < 2
    return importlib.import_module("numpy.core" if is_old else "numpy._core")


def _api() -> Any:
    return _numpy_core()._multiarray_umath._ARRAY_API


def _foreign() -> tuple[str, ...]:
    """Folders of files that are not the program's own."""
    found = {os.path.dirname(os.__file__), os.path.dirname(os.path.abspath(__file__))}
    for entry in sys.path:
        if os.path.basename(entry) in ("site-packages", "dist-packages"):
            found.add(os.path.abspath(entry))
    return tuple(sorted(folder + os.sep for folder in found))


def begin(what: asked.Asked) -> None:
    """Counts what this thread makes from now on. Raises ImportError where NumPy is too old."""
    _limit[0] = what.limit or 0
    _arrays.set_limit(_limit[0])
    if not _before:
        _before.append(_arrays.begin(_api(), _foreign()))
        _explain_errors()
    if what.arrays:
        atexit.register(say_peak, os.getpid())


def end() -> None:
    """What was made until now stays counted."""
    _arrays.set_limit(0)
    if _before:
        _arrays.end(_api(), _before.pop())
        _error_class().__init__ = _own_init.pop()


def _error_class() -> Any:
    return _numpy_core()._exceptions._ArrayMemoryError


def _explain_errors() -> None:
    """Errors of NumPy's that come from a refusal get a note when they are made."""
    cls = _error_class()
    own = cls.__init__

    def init(self: Any, shape: tuple[int, ...], dtype: Any) -> None:
        own(self, shape, dtype)
        if _arrays.refusals() > _told[0] and _bytes_of(shape, dtype) == _arrays.refusal()[2]:
            _told[0] = _arrays.refusals()
            _note(self, explanation(shape, dtype))

    _own_init.append(own)
    cls.__init__ = init


def _note(error: Any, text: str) -> None:
    setattr(error, _DISPLAYED, text)
    if hasattr(error, "add_note"):  # Python 3.11
        error.add_note(text)


def has_refused(error: BaseException) -> bool:
    """Whether an error that nobody caught comes from a refusal; says the rest of it then."""
    if not isinstance(error, MemoryError):
        return False
    if not hasattr(error, _DISPLAYED):
        if _arrays.refusals() == _told[0]:
            return False
        _told[0] = _arrays.refusals()  # NumPy did not tell the shape
        print(explanation(None, None), file=sys.stderr)
    elif not hasattr(error, "add_note"):
        print(getattr(error, _DISPLAYED), file=sys.stderr)
    return True


def _bytes_of(shape: tuple[int, ...], dtype: Any) -> int:
    count = int(dtype.itemsize)
    for extent in shape:
        count *= extent
    return count


def _mib(count: int) -> str:
    return f"{count / _MIB:.1f} MiB"


def _place(file: str, line: int) -> str:
    if not file:
        return "no line of the program"
    if file.startswith("<ipython-input") or f"{os.sep}ipykernel_" in file:
        return f"cell:{line}"
    near = os.path.relpath(file) if os.path.isabs(file) else file
    return f"{file if near.startswith('..') else near}:{line}"


def _source(file: str, line: int) -> str:
    text = linecache.getline(file, line).strip() if file else ""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _names() -> Iterator[tuple[str, Any]]:
    """What the program's names stand for: of the functions that run, and of its main module."""
    frame = sys._getframe(1)
    own = os.path.dirname(os.path.abspath(__file__))
    while frame is not None:
        if not os.path.abspath(frame.f_code.co_filename).startswith(own):
            yield from list(frame.f_locals.items())
        frame = frame.f_back  # type: ignore[assignment]
    yield from list(vars(sys.modules["__main__"]).items())


def _named(blocks: list[tuple[int, int, str, int]]) -> dict[tuple[str, int], list[str]]:
    """Names, shapes and dtypes of arrays that are held, by their lines."""
    import numpy

    places = {address: (file, line) for address, _bytes, file, line in blocks}
    found: dict[tuple[str, int], list[str]] = {}
    for name, value in _names():
        if type(value) is not numpy.ndarray or name.startswith("_"):
            continue
        place = places.pop(value.__array_interface__["data"][0], None)
        if place is not None:
            found.setdefault(place, []).append(f"{name} {value.shape} {value.dtype}")
    return found


def _table(held: list[Any], named: dict[tuple[str, int], list[str]]) -> list[str]:
    rows = []
    for file, line, count, arrays, largest in held[:_MOST_LINES]:
        names = named.get((file, line), [])
        what = ", ".join(names)
        if len(names) < arrays:
            of = f"{arrays} arrays, the largest {_mib(largest)}" if arrays > 1 else "1 array"
            what = f"{of}: {what}" if what else of
        rows.append(f"  {_mib(count):>12}  {_place(file, line)}  {what}")
        source = _source(file, line)
        if source:
            rows.append(f"{'':16}{source}")
    if len(held) > _MOST_LINES:
        rest = sum(one[2] for one in held[_MOST_LINES:])
        rows.append(f"  {_mib(rest):>12}  {len(held) - _MOST_LINES} other lines")
    return rows


def _advice_of_line(place: str, source: str, count: int, shape: str) -> list[str]:
    """By what a line calls; `count`: bytes of its arrays."""
    found = []
    drawn = {"random": _DRAWS, "standard_normal": _DRAWS_NORMAL}
    for method, words in drawn.items():
        if any(word in source for word in words) and "dtype=" not in source:
            found.append(f'{place}: draw float32, half of {_mib(count)}: rng.{method}({shape}, '
                         'dtype="float32") of rng = np.random.default_rng()')  # fmt: skip
    if any(word in source for word in _LOADS) and "mmap_mode" not in source:
        found.append(f'{place}: leave the file on the disk: np.load(path, mmap_mode="r")')
    return found


def _advice(
    needed: int, count: int, lines: list[tuple[str, str, int]], shape: str, dtype: Any
) -> list[str]:
    """What would do. lines: place, source and bytes, that of the refused array first."""
    found: list[str] = []
    for number, (place, source, of_line) in enumerate(lines):
        found += _advice_of_line(place, source, of_line, "shape" if number else shape)
    place, source, _ = lines[0]
    if ".astype(" in source:
        found.append(f"{place}: astype holds both arrays while it converts: make the array as "
                     "float32, or convert batch by batch")  # fmt: skip
    if any(word in source for word in _JOINS):
        found.append(f"{place}: fill one array of the final shape in parts, where now the parts "
                     "and the whole are held")  # fmt: skip
    if dtype is not None and dtype.kind == "f" and dtype.itemsize == 8:
        if not found or not found[0].startswith(f"{place}: draw"):
            found.append(f'{place}: float32 takes half, {_mib(count // 2)}: dtype="float32" where '
                         "it is made")  # fmt: skip
    found.append(f'a file as memory: np.lib.format.open_memmap("x.npy", "w+", "float32", {shape})')
    found.append(f"a higher limit: --memory {-(-needed // _MIB)}MiB")
    return found


def explanation(shape: tuple[int, ...] | None, dtype: Any) -> str:
    """What is said of the last refusal: line, sizes, who holds what, what would do."""
    file, line, count, taken, unfilled, small, held, blocks = _arrays.refusal()
    needed = taken + unfilled + count + count // 256
    what = f"{_mib(count)} for an array" + (f" of {shape} {dtype}" if shape is not None else "")
    filled = sum(one[2] for one in held) + small - unfilled
    rows = [
        f"plimsoll: {_place(file, line)}: {what}: expected at most {_mib(_limit[0])} of the whole "
        f"process (--memory), received {_mib(needed)} with it. Held before:",
        *_table(held, _named(blocks)),
        f"  {_mib(max(taken - filled, 0)):>12}  uncounted: interpreter, libraries, tensors, other "
        "threads' arrays",
    ]
    if small >= _MIB:
        rows.insert(-1, f"  {_mib(small):>12}  smaller arrays, below 64 KiB each")
    if unfilled >= _MIB:
        rows.append(f"{'':16}of these arrays {_mib(unfilled)} are not filled yet")
    source = _source(file, line)
    # What a line drew before it converts is held when the array for the result is asked for.
    drawn = next((one[2] for one in held if one[:2] == (file, line)), 0)
    lines = [(_place(file, line), source, drawn if drawn and ".astype(" in source else count)]
    for of, at, bytes_held, *_ in held[:_MOST_LINES]:
        if (of, at) != (file, line):
            lines.append((_place(of, at), _source(of, at), bytes_held))
    advice = _advice(needed, count, lines, "shape" if shape is None else str(shape), dtype)
    return "\n".join([*rows, "What would do:", *(f"  - {one}" for one in advice)])


def say_peak(process: int) -> None:
    """The lines that held arrays when they took most."""
    if process != os.getpid():
        return
    _small, peak, _taken = _arrays.sums()
    rows = _table(_arrays.held_at_peak(), {})
    print("\n".join([f"plimsoll: arrays took {_mib(peak)} at most:", *rows]), file=sys.stderr)
