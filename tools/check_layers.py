#!/usr/bin/env python3
"""Checks that the folders of src/plimsoll, and of python/plimsoll, use each other only downwards.

The arrows, those between the rooms inside of a folder too, are those of ARCHITECTURE.md. Checked
are the #include lines, the DEPENDS of the CMake files, cycles among files, and that the header of
a foreign library appears in one folder only.
Prints one line per finding and exits with 1 if there is any.
"""

import argparse
import ast
import pathlib
import re
import sys

# folder -> folders it may include; what those may include comes with them.
ARROWS: dict[str, tuple[str, ...]] = {
    "base": (),
    "codec": ("base",),
    "trace": ("base",),
    "graph": ("base",),
    "ops": ("graph",),
    "layers": ("ops",),
    "plan": ("graph",),
    "backend": ("ops",),
    "exec": ("plan", "backend", "trace"),
    "ranks": ("base",),
    "formats": ("layers", "codec"),
    "data": ("trace", "codec"),
    "report": ("plan", "trace", "codec"),
    "planning": ("exec", "formats", "data", "report"),
    "train": ("planning",),
    "run": ("train",),
    "api": ("run",),
    "explain": ("formats",),
    "watch": ("explain", "report"),
    "bench": ("run",),
    "cli": ("bench", "ranks", "watch"),
}

# folder -> its rooms, and the rooms that each may include; what those may include comes with them.
# Headers beside the rooms serve all of them; sources beside them join the rooms.
ROOMS: dict[str, dict[str, tuple[str, ...]]] = {
    "backend": {
        "kernel": (),
        "reference": ("kernel",),
        "null": ("reference",),
        "cpu": ("reference",),
        "onednn": ("cpu",),
    },
    "backend/reference": {"image": (), "matrix": (), "ranks": ()},
    "backend/cpu": {
        "simd": (),
        "threads": ("simd",),
        "product": ("threads",),
        "conv": ("product",),
        "pointwise": ("product",),
        "sequence": ("product",),
    },
    "base": {"pages": (), "threads": ()},
    "codec": {"hdf5": (), "image": ()},
    "data": {
        "rows": (),
        "lookup": ("rows",),
        "csv": ("lookup",),
        "hdf5": ("rows",),
        "image": ("rows",),
        "record": ("image", "lookup"),
        "text": ("rows",),
    },
    "explain": {"read": (), "detect": ("read",), "conclude": ("detect",), "answer": ("conclude",)},
    "formats": {"keras": ()},
    "layers": {
        "config": (),
        "model": ("config",),
        "training": ("model",),
        "kinds": ("model",),
    },
    "layers/kinds": {"image": (), "operations": ("image",), "sequence": ("image",)},
    "ops": {"fuse": ("image", "training"), "image": (), "matrix": (), "norm": (), "training": ()},
    "plan": {
        "core": (),
        "facts": ("core",),
        "place": ("facts",),
        "tree": ("place",),
        "search": ("tree",),
        "validate": ("core",),
    },
    "watch": {"measure": (), "tell": ()},
}

# What must hold of the arrows themselves, whatever is added to them.
NEVER_REACHES: dict[str, tuple[str, ...]] = {
    "plan": ("ops", "backend"),
    "report": ("exec", "backend"),
    "explain": ("exec", "backend"),
    "watch": ("exec", "backend"),
}

# Pattern of <…> -> the only folder, or folder in it, where it may appear.
VENDOR_FOLDERS: tuple[tuple[str, str], ...] = (
    (r"(oneapi/)?dnnl.*", "backend/onednn"),
    (r"hwy/.*", "backend"),
    (r"(hdf5|H5\w*)\.h", "codec"),
    (r"zip\.h|zlib\.h|libdeflate\.h", "codec"),
    (r"jpeglib\.h|jerror\.h|turbojpeg\.h|png\.h|webp/.*", "codec"),
    (r"google/protobuf/.*", "codec"),
    (r"CLI/.*", "cli"),
    (r"fmt/.*", "base"),
    (r"mpi\.h", "ranks"),
)

# Anywhere, but in sources only: too heavy for headers, or not there where an installed one is used.
SOURCES_ONLY = re.compile(r"nlohmann/.*|base/format\.h")

# The standard library, the compiler's own headers and those of the operating system.
SYSTEM = re.compile(
    r"[a-z_0-9]+|(sys|linux|arpa|netinet)/\w+\.h|"
    r"(cpuid|omp|immintrin|x86intrin|xmmintrin|pmmintrin|arm_neon|cxxabi|execinfo)\.h|"
    r"(dirent|dlfcn|errno|fcntl|glob|link|malloc|poll|pthread|pwd|sched|signal|spawn|termios|time|unistd)\.h"
)

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
DEPENDS = re.compile(r"plimsoll_(?:library|program)\s*\(([^)]*)\)")


def reach(arrows: dict[str, tuple[str, ...]], folder: str) -> set[str]:
    """Every folder that `folder` may include, itself left out."""
    found: set[str] = set()
    queue = list(arrows.get(folder, ()))
    while queue:
        current = queue.pop()
        if current not in found:
            found.add(current)
            queue.extend(arrows.get(current, ()))
    return found


def check_arrows(arrows: dict[str, tuple[str, ...]]) -> list[str]:
    findings = []
    for folder in arrows:
        below = reach(arrows, folder)
        if folder in below:
            findings.append(f"{folder}: the arrows form a cycle")
        for forbidden in NEVER_REACHES.get(folder, ()):
            if forbidden in below:
                findings.append(f"{folder}: must never reach {forbidden}, but the arrows allow it")
    return findings


def check_vendor(where: str, relative: str, header: str) -> list[str]:
    if SYSTEM.fullmatch(header):
        return []
    if SOURCES_ONLY.fullmatch(header):
        if relative.endswith(".h"):
            return [f"{where}: <{header}> belongs into sources, not into headers"]
        return []
    for pattern, owner in VENDOR_FOLDERS:
        if re.fullmatch(pattern, header):
            if relative.startswith(owner + "/"):
                return []
            return [f"{where}: <{header}> may be included in {owner}/ only"]
    return [f"{where}: <{header}> is not known; name its folder in tools/check_layers.py"]


def room_of(folder: str, relative: str) -> str | None:
    """The room of `folder` that a file lies in; "" beside its rooms, None outside of the folder."""
    if not relative.startswith(folder + "/"):
        return None
    first, _, rest = relative[len(folder) + 1 :].partition("/")
    return first if rest else ""


def check_rooms(where: str, relative: str, target: str) -> list[str]:
    """The arrows inside of each folder that has rooms and holds both files."""
    findings = []
    for folder, rooms in ROOMS.items():
        room, other = room_of(folder, relative), room_of(folder, target)
        if not room or not other or room == other:
            continue
        if other not in reach(rooms, room):
            findings.append(
                f'{where}: {folder}/{room} may not include {folder}/{other} ("{target}")'
            )
    return findings


def check_room_names(source: pathlib.Path) -> list[str]:
    """Each folder in a folder is a room, and each room is there."""
    findings = []
    for folder, rooms in ROOMS.items():
        findings += [f"{folder}: the arrows form a cycle" for r in rooms if r in reach(rooms, r)]
    for path in sorted(p for p in source.rglob("*") if p.is_dir()):
        parent, _, name = path.relative_to(source).as_posix().rpartition("/")
        if parent and name not in ROOMS.get(parent, {}):
            findings.append(f"{path}: {name} is not one of the rooms of {parent}")
    return findings


def check_file(source: pathlib.Path, path: pathlib.Path) -> tuple[list[str], list[str]]:
    """Findings in one file, and the files of ours that it includes."""
    relative = path.relative_to(source).as_posix()
    folder = relative.split("/")[0]
    allowed = reach(ARROWS, folder) | {folder}
    findings, edges = [], []
    text = path.read_text()
    for match in INCLUDE.finditer(text):
        where = f"{path}:{text.count(chr(10), 0, match.start()) + 1}"
        ours, vendor = match.group(1), match.group(2)
        if vendor is not None:
            findings += check_vendor(where, relative, vendor)
            continue
        target = ours.split("/")[0]
        if not (source / ours).is_file():
            findings.append(f'{where}: "{ours}" does not exist under {source}')
        elif target not in allowed:
            findings.append(f'{where}: {folder} may not include {target} ("{ours}")')
        elif SOURCES_ONLY.fullmatch(ours) and relative.endswith(".h"):
            findings.append(f'{where}: "{ours}" belongs into sources, not into headers')
        else:
            findings += check_rooms(where, relative, ours)
            edges.append(ours)
    return findings, edges


def find_cycles(edges: dict[str, list[str]]) -> list[str]:
    """One line per cycle among files, by depth-first search."""
    findings: list[str] = []
    done: set[str] = set()
    for start in sorted(edges):
        if start in done:
            continue
        path: list[str] = [start]
        pending = [iter(edges[start])]
        while pending:
            step = next(pending[-1], None)
            if step is None:
                pending.pop()
                done.add(path.pop())
            elif step in path:
                cycle = path[path.index(step) :] + [step]
                findings.append("files include each other: " + " -> ".join(cycle))
            elif step not in done:
                path.append(step)
                pending.append(iter(edges.get(step, [])))
    return findings


def check_cmake(source: pathlib.Path, included: dict[str, set[str]]) -> list[str]:
    """DEPENDS stay inside the arrows and cover what the folder's files include."""
    declared: dict[str, tuple[str, ...]] = {}
    findings = []
    for folder in ARROWS:
        listing = source / folder / "CMakeLists.txt"
        if not listing.is_file():
            continue
        for body in DEPENDS.findall(listing.read_text()):
            words = body.split()
            depends = words[words.index("DEPENDS") + 1 :] if "DEPENDS" in words else []
            if "LIBS" in depends:
                depends = depends[: depends.index("LIBS")]
            declared[folder] = declared.get(folder, ()) + tuple(depends)
            for target in depends:
                if target not in reach(ARROWS, folder) | {folder}:
                    findings.append(f"{listing}: {folder} may not depend on {target}")
    for folder in sorted(declared):
        for target in sorted(included.get(folder, set()) - reach(declared, folder) - {folder}):
            findings.append(f"{source / folder}: includes {target}, which DEPENDS does not reach")
    return findings


def check_tree(source: pathlib.Path) -> list[str]:
    findings = check_arrows(ARROWS) + check_room_names(source)
    edges: dict[str, list[str]] = {}
    included: dict[str, set[str]] = {}
    for path in sorted(p for p in source.rglob("*") if p.suffix in (".h", ".cpp", ".cu")):
        relative = path.relative_to(source).as_posix()
        folder = relative.split("/")[0]
        if folder not in ARROWS or "/" not in relative:
            findings.append(f"{path}: {folder} is not one of the folders")
            continue
        more, targets = check_file(source, path)
        findings += more
        edges[relative] = targets
        included.setdefault(folder, set()).update(target.split("/")[0] for target in targets)
    return findings + find_cycles(edges) + check_cmake(source, included)


# What the module of the Python package may include, and what those may.
PYTHON = ("run", "ranks", "report", "explain", "watch")


def check_python(source: pathlib.Path, module: pathlib.Path) -> list[str]:
    """Includes of the package's C++: of its own, or from the folders that it stands on."""
    allowed = {folder for first in PYTHON for folder in reach(ARROWS, first) | {first}}
    findings = []
    for path in sorted(module.glob("*.h")) + sorted(module.glob("*.cpp")):
        for match in INCLUDE.finditer(path.read_text()):
            ours = match.group(1)
            if ours is None or (module / ours).is_file():
                continue
            folder = ours.split("/")[0]
            if folder not in allowed or not (source / ours).is_file():
                findings.append(f'{path}: python may not include {folder} ("{ours}")')
    return findings


# The arrows of the Python package: folder, or module beside them -> what it may import, in
# functions too; what those may comes with them. Modules of C++ may be imported anywhere.
PACKAGE: dict[str, tuple[str, ...]] = {
    "asked": (),
    "errors": (),
    "fingerprints": (),
    "interrupts": (),
    "surroundings": (),
    "_program": (),
    "answers": (),
    "options": ("asked", "errors"),
    "versions": ("errors",),
    "data": ("interrupts", "versions"),
    "sizes": ("data",),
    "arrays": ("asked",),
    "model": ("options", "sizes", "surroundings"),
    "training": ("model",),
    "isolation": ("training",),
    "calls": ("answers", "isolation"),
    "explained": ("_program", "calls"),
    "peak": ("calls",),
    "guard": ("fingerprints", "options", "surroundings"),
    "replaced": ("calls", "guard"),
    "tapes": ("replaced",),
    "programs": ("arrays", "tapes"),
    "watching": ("explained", "programs"),
    "pytest_plugin": ("watching",),
    "children": ("programs",),
    "__main__": ("programs",),
}


def imports_of(tree: ast.AST) -> list[tuple[int, str]]:
    """Line and name of what is imported from the package: `model.live`, `options.size`."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [f"{node.module}.{one.name}" for one in node.names]
        found += [
            (node.lineno, name.partition(".")[2]) for name in names if name.startswith("plimsoll.")
        ]
    return found


def check_package(package: pathlib.Path) -> list[str]:
    """The arrows among the folders of the Python package, and the modules beside them."""
    findings = [
        f"{name}: the arrows form a cycle" for name in PACKAGE if name in reach(PACKAGE, name)
    ]
    for path in sorted(package.rglob("*.py")):
        own = path.relative_to(package).with_suffix("").parts[0]
        if own == "__init__":  # of the package: its names are looked up when they are asked for
            continue
        if own not in PACKAGE:
            findings.append(f"{path}: {own} is not one of the folders")
            continue
        allowed = reach(PACKAGE, own) | {own}
        for line, name in imports_of(ast.parse(path.read_text())):
            first = name.split(".")[0]
            if first in PACKAGE and first not in allowed:
                findings.append(f"{path}:{line}: {own} may not import {first}")
    return findings


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?", type=pathlib.Path, default=root / "src" / "plimsoll")
    source = parser.parse_args().source
    if not source.is_dir():
        print(f"{source}: no such folder", file=sys.stderr)
        return 2
    python = source.parent.parent / "python"
    findings = check_tree(source) + check_python(source, python / "src")
    findings += check_package(python / "plimsoll")
    for finding in findings:
        print(finding)
    files = sum(1 for p in source.rglob("*") if p.suffix in (".h", ".cpp", ".cu"))
    print(f"check_layers: {files} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
