"""Files as modules: the scripts of tools/, programs of the tests."""

import importlib.util
import pathlib
import sys
from types import ModuleType

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"


def load(script: pathlib.Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[script.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
