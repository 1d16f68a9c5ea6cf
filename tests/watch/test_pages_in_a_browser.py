"""Pages as a browser lays them out: light and dark, on a desk and on a phone."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
WIDTHS = {"narrow": (390, 2400), "wide": (1280, 1600)}
SCHEMES = {"dark": 0, "light": 1}  # as Chromium numbers them

# Pages have no script; this one is put after a copy of the page and writes down what it sees.
PROBE = """<script>
const seen = {overflow: document.documentElement.scrollWidth - innerWidth,
              outside: [], overlaps: [], contrasts: [], labels: 0};
const luminance = (color) => {
  const parts = color.match(/[0-9.]+/g).slice(0, 3).map((c) => c / 255)
    .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
};
const ground = (node) => {
  for (; node; node = node.parentElement) {
    const color = getComputedStyle(node).backgroundColor;
    if (color.startsWith("rgb(")) return color;
  }
  return "rgb(255, 255, 255)";
};
for (const node of document.querySelectorAll("h1, h2, p, li, td, th, pre, code, data, span")) {
  const box = node.getBoundingClientRect();
  if (!node.textContent.trim() || !box.width) continue;
  if (box.left < -1 || box.right > innerWidth + 1) seen.outside.push(node.textContent.slice(0, 60));
  const style = getComputedStyle(node);
  const ink = luminance(style.color);
  const paper = luminance(ground(node));
  seen.contrasts.push((Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05));
}
for (const figure of document.querySelectorAll("figure")) {
  const boxes = [...figure.querySelectorAll("span")].filter((label) => label.textContent.trim())
    .map((label) => [label.textContent, label.getBoundingClientRect()]);
  seen.labels += boxes.length;
  boxes.forEach(([name, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
    const apart = a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
    if (!apart) seen.overlaps.push(name + " / " + other);
  }));
}
seen.paper = luminance(ground(document.body));
seen.least = Math.min(...seen.contrasts);
delete seen.contrasts;
document.title = JSON.stringify(seen);
</script>"""

LEAK = """
import time
kept = []
for i in range(40):
    kept.append(bytearray(b"x" * (2 << 20)))
    time.sleep(0.03)
    if i % 10 == 0:
        print(f"Epoch {i // 10 + 1}/4", flush=True)
    print(f"step {i}/40 loss {1 / (i + 1):.4f}", flush=True)
"""
LOG = (
    "Epoch 3/10\n1563/1563 [======] - 10s - loss: 1.5\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total "
    "capacity of 21.96 GiB of which 2.19 GiB is free. Process 7 has 19.77 GiB memory in use. Of "
    "the allocated memory 9.10 GiB is allocated by PyTorch, and 9.93 GiB is reserved by PyTorch "
    "but unallocated.\n"
)


def browse(page: Path, folder: Path, width: str, scheme: str, *words: str) -> str:
    """What Chromium prints when it opens the page."""
    columns, rows = WIDTHS[width]
    done = subprocess.run(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            "--disable-dev-shm-usage",
            f"--user-data-dir={folder / 'profile'}", f"--window-size={columns},{rows}",
            f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}", *words, page.as_uri(),
        ],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def pages(plimsoll: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "train.log").write_text(LOG)
    watch = [plimsoll, "watch", "--quiet", "--memory", "64MiB", "--html", folder / "run.html"]
    subprocess.run([*watch, "--", sys.executable, "-c", LEAK], capture_output=True, timeout=60)
    explain = [plimsoll, "explain", "--html", folder / "explain.html", folder / "train.log"]
    subprocess.run(explain, capture_output=True, timeout=60)
    return {name: folder / f"{name}.html" for name in ("run", "explain")}


@pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed")
@pytest.mark.parametrize("scheme", list(SCHEMES))
@pytest.mark.parametrize("width", list(WIDTHS))
@pytest.mark.parametrize("name", ["run", "explain"])
def test_nothing_overlaps_or_leaves_the_page(
    pages: dict[str, Path], tmp_path: Path, name: str, width: str, scheme: str
) -> None:
    probed = tmp_path / f"{name}_{width}_{scheme}.html"
    probed.write_text(pages[name].read_text().replace("</body>", PROBE + "</body>"))
    picture = tmp_path / f"{name}_{width}_{scheme}.png"
    printed = browse(probed, tmp_path, width, scheme, f"--screenshot={picture}", "--dump-dom")
    found = re.search(r"<title>(.*?)</title>", printed, re.S)
    assert found
    seen = json.loads(found[1].replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))
    assert seen["overflow"] <= 0, seen
    assert seen["outside"] == []
    assert seen["overlaps"] == []
    assert seen["labels"] >= (20 if name == "run" else 0)
    assert (seen["paper"] < 0.1) == (scheme == "dark"), seen
    assert seen["least"] >= 4.5, seen
