"""The package as the build lays it out, in front of any that is installed."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
BUILD = Path(os.environ.get("PLIMSOLL_BUILD", Path(__file__).parents[2] / "build/dev"))
sys.path.insert(0, str(BUILD / "python"))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Where Keras is older than the one that is installed for tests, it lacks what is newer."""
    try:
        return (yield)
    except AttributeError as error:
        keras: Any = sys.modules.get("keras")
        if "module 'keras" not in str(error) or keras is None or not _is_old(keras.__version__):
            raise
        pytest.skip(f"Keras {keras.__version__}: {error}")


def _is_old(version: str) -> bool:
    from plimsoll.versions import number

    return number(version) < (3, 15)


@pytest.fixture(scope="session")
def package() -> Path:
    """Where the package is; for programs that tests start."""
    folder = BUILD / "python"
    assert (folder / "plimsoll" / "__init__.py").is_file(), "Build the target plimsoll_python."
    return folder


@pytest.fixture(scope="session")
def plimsoll_program() -> Path:
    """The command line of the same build."""
    return BUILD / "bin" / "plimsoll"


@pytest.fixture(autouse=True)
def _keras_is_its_own_afterwards() -> Iterator[None]:
    """What a test has put in place of Keras's training does not reach the next one."""
    keras: Any = sys.modules.get("keras")
    if keras is None or not hasattr(keras, "Model"):
        yield
        return
    from plimsoll import asked
    from plimsoll.replaced import keras_methods

    trainer = keras.Model.__mro__[1]
    names = [*keras_methods.NAMES, "_plimsoll_replaces"]
    before = {name: vars(trainer)[name] for name in names if name in vars(trainer)}
    current = asked.current
    yield
    asked.current = current
    for name in names:
        if name in before:
            setattr(trainer, name, before[name])
        elif name in vars(trainer):
            delattr(trainer, name)
