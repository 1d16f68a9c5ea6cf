"""Where the program called from, what of a traceback is ours, and whether Keras sees a GPU."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    import types
    from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _frames(error: BaseException) -> list[types.TracebackType]:
    found, trace = [], error.__traceback__
    while trace is not None:
        found.append(trace)
        trace = trace.tb_next
    return found


def _is_ours(code: types.CodeType) -> bool:
    return os.path.abspath(code.co_filename).startswith(_HERE)


def raised_here(error: BaseException) -> bool:
    """Whether the package itself raised it, and not the program's code that it called."""
    frames = _frames(error)
    return bool(frames) and _is_ours(frames[-1].tb_frame.f_code)


def without_our_frames(error: BaseException) -> BaseException:
    """The same error, whose traceback shows the program's frames; what led to it likewise."""
    import types

    seen: set[int] = set()
    stack: list[BaseException | None] = [error]
    while stack:
        one = stack.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        kept: types.TracebackType | None = None
        for trace in reversed(_frames(one)):
            if not _is_ours(trace.tb_frame.f_code):
                kept = types.TracebackType(kept, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)
        one.__traceback__ = kept
        stack += [one.__cause__, one.__context__]
    return error


def call_site() -> str:
    """File and line of the program's call."""
    inside: Any = sys.modules["keras.src"]
    keras = os.path.dirname(os.path.abspath(inside.__path__[0])) + os.sep
    frame = sys._getframe(1)
    file = frame.f_code.co_filename
    while frame.f_back is not None and (
        file.startswith("<") or os.path.abspath(file).startswith((_HERE, keras))
    ):
        frame = frame.f_back
        file = frame.f_code.co_filename
    near = os.path.relpath(file) if os.path.isabs(file) else file
    return f"{file if near.startswith('..') else near}:{frame.f_lineno}"


_gpu: list[bool] = []  # whether Keras sees one, once that is known


def sees_gpu() -> bool:
    if not _gpu:
        _gpu.append(_finds_gpu())
    return _gpu[0]


def _finds_gpu() -> bool:
    tensorflow, jax = sys.modules.get("tensorflow"), sys.modules.get("jax")
    keras: Any = sys.modules["keras"]
    if keras.backend.backend() == "tensorflow" and tensorflow is not None:
        return bool(tensorflow.config.get_visible_devices("GPU"))
    if keras.backend.backend() == "torch":  # one of NVIDIA, Apple or another, by torch's names
        core: Any = sys.modules.get("keras.src.backend.torch.core")
        return not str(getattr(core, "DEFAULT_DEVICE", "cpu")).startswith("cpu")
    return jax is not None and jax.default_backend() != "cpu"
