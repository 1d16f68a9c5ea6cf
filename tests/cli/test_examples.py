"""The command lines of examples/data_sets: each runs on its files, for a few steps."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from data_place import corpus

__all__ = ["corpus"]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "data_sets"


def commands() -> dict[str, list[str]]:
    """Lines after `$ ` of console blocks that train, by the name of their network."""
    found = {}
    for block in re.findall(
        r"^```console\n(.*?)^```", (FOLDER / "README.md").read_text(), re.S | re.M
    ):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("$ plimsoll fit"):
                words = shlex.split(line[2:])
                found[Path(words[2]).stem] = words
    return found


def test_every_network_has_a_command() -> None:
    networks = {path.stem for path in FOLDER.glob("*.json")}
    assert set(commands()) == networks | {"fashion_mnist"}


@pytest.mark.parametrize("name", sorted(commands()))
def test_command(name: str, plimsoll: Path, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "data").mkdir()
    for source in corpus.iterdir():
        (tmp_path / "data" / source.name).symlink_to(source)
    test = (corpus / "adult-test.csv").read_text().replace("K.", "K")
    (tmp_path / "data" / "adult-test.csv").unlink()
    (tmp_path / "data" / "adult-test.csv").write_text(test)
    words = [str(plimsoll), *commands()[name][1:], "--steps", "2"]
    words = [word for word in words if word != "--validation-split=0.2"]  # whole, and slow
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "\ndata: " in done.stderr, done.stderr
    shutil.rmtree(tmp_path, ignore_errors=True)
