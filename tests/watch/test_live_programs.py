"""Real programs that really run out of something: each is named."""

import importlib.util
import json
import shutil
import subprocess
import sys

import pytest

MIB = 1 << 20
PYTHON = sys.executable


def need(condition: bool, reason: str) -> None:
    if not condition:
        pytest.skip(reason)


def module(name: str) -> None:
    need(importlib.util.find_spec(name) is not None, f"{name} is not installed")


def shell(line: str) -> tuple[str, ...]:
    return ("bash", "-c", line)


def test_numpy_memory_error_under_an_address_space_limit(watch):
    module("numpy")
    program = "import numpy, time; time.sleep(1); numpy.ones((4_000_000_000,))"
    done = watch(*shell(f"ulimit -v 8388608; exec {PYTHON} -c '{program}'"))
    assert done.code == 1
    assert done.kind == "out_of_memory"
    verdict = done.record["verdict"]
    assert verdict["resource"] == "host_memory"
    assert "numpy" in verdict["sentence"]
    assert any("RLIMIT_AS" in line and "8 GiB" in line for line in verdict["evidence"])
    assert done.record["explanation"]["tensor_shape"] == [4_000_000_000]


def test_bad_alloc(watch, tmp_path):
    need(shutil.which("g++") is not None, "g++ is not installed")
    source = tmp_path / "hungry.cpp"
    source.write_text(
        "#include <vector>\nint main() { std::vector<std::vector<char>> kept;"
        " for (;;) kept.emplace_back(64 << 20, 'x'); }\n"
    )
    subprocess.run(["g++", "-O1", "-o", tmp_path / "hungry", source], check=True)
    done = watch(*shell(f"ulimit -v 524288; exec {tmp_path}/hungry"))
    assert done.code == 134
    assert done.kind == "out_of_memory"
    assert "std::bad_alloc" in done.record["verdict"]["sentence"]


def test_a_worker_killed_at_the_limit(watch, own_group):
    program = """
import concurrent.futures as futures
def load(mib):
    return len(b"x" * (mib << 20))
if __name__ == "__main__":
    with futures.ProcessPoolExecutor(2) as pool:
        for size in pool.map(load, [8, 8, 8, 600]):
            print("batch", size, flush=True)
"""
    done = watch(PYTHON, "-c", program, options=("--memory", "256MiB"))
    assert done.code == 1
    assert done.kind == "worker_killed_by_limit"
    assert "exit code 1" in done.record["verdict"]["sentence"]
    assert (
        any(event["kind"] == "oom_kill" for event in done.record["events"])
        or done.record["limit_passed"]
    )


def test_descriptor_limit(watch):
    program = "kept = [open('/dev/null') for _ in range(1000)]"
    done = watch(*shell(f'ulimit -n 64; exec {PYTHON} -c "{program}"'))
    assert done.kind == "too_many_open_files"
    assert done.record["verdict"]["resource"] == "file_descriptors"


def test_a_full_disk(watch, private_mounts, tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    script = f'mount -t tmpfs -o size=4m tmpfs {folder} && exec "$@"'
    done = watch(
        PYTHON, "-c", "import sys; open(sys.argv[1], 'wb').write(b'x' * (8 << 20))", folder / "ck",
        before=(*private_mounts, "bash", "-c", script, "bash"),
    )  # fmt: skip
    assert done.kind == "disk_full"
    assert done.record["verdict"]["resource"] == "disk"


def test_full_shared_memory(watch, private_mounts):
    program = """
from multiprocessing import shared_memory
block = shared_memory.SharedMemory(create=True, size=32 << 20)
for at in range(0, 32 << 20, 4096):
    block.buf[at] = 1
"""
    script = 'mount -t tmpfs -o size=16m tmpfs /dev/shm && exec "$@"'
    done = watch(PYTHON, "-c", program, before=(*private_mounts, "bash", "-c", script, "bash"))
    assert done.code == 135  # bus error
    assert done.kind == "shared_memory_full"
    assert done.record["verdict"]["resource"] == "shm"


def test_a_plain_kill_is_not_called_a_shortage(watch):
    done = watch(PYTHON, "-c", "import os; os.kill(os.getpid(), 9)")
    assert done.code == 137
    assert done.kind == "killed"
    assert done.record["verdict"]["resource"] is None
    assert "not a shortage of memory" in done.stderr


def test_a_shell_that_reports_137_is_a_kill(watch):
    done = watch("bash", "-c", f"{PYTHON} -c 'import os; os.kill(os.getpid(), 9)'; exit $?")
    assert done.code == 137
    assert done.kind == "killed"


S0A = """
import numpy as np, tensorflow as tf
x = np.random.rand(1000, 256, 256, 3).astype("float32")
y = np.random.randint(2, size=1000)
model = tf.keras.Sequential([
    tf.keras.Input((256, 256, 3)),
    tf.keras.layers.Conv2D(32, 3, activation="relu"), tf.keras.layers.MaxPooling2D(2),
    tf.keras.layers.Conv2D(64, 3, activation="relu"), tf.keras.layers.MaxPooling2D(2),
    tf.keras.layers.Flatten(), tf.keras.layers.Dense(1, activation="sigmoid"),
])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(128).prefetch(2)
model.fit(data, epochs=5)
"""


def test_tensorflow_killed_at_two_gib_prints_nothing_and_is_named(watch, own_group):
    module("tensorflow")
    done = watch(PYTHON, "-c", S0A, options=("--memory", "2GiB"), timeout=900)
    assert done.code == 137
    assert done.kind == "killed_by_limit"
    assert "2 GiB" in done.record["verdict"]["sentence"]
    assert b"Error" not in done.stdout
    assert done.record["peak"]["group_bytes"] <= 2048 * MIB
    assert done.record["captures"], "evidence was taken before the end"


def test_tensorflow_refused_by_its_allocator(watch):
    module("tensorflow")
    program = """
import resource, tensorflow as tf
tf.ones((4, 4)) @ tf.ones((4, 4))
size = int(next(l for l in open("/proc/self/status") if l.startswith("VmSize")).split()[1]) << 10
resource.setrlimit(resource.RLIMIT_AS, (size + (256 << 20), -1))
tf.ones((64, 1024, 1024, 16)) + 1
"""
    done = watch(PYTHON, "-c", program, timeout=900)
    assert done.kind == "out_of_memory", done.stderr
    assert done.record["verdict"]["resource"] == "host_memory"


# S1b's loop: returns its activations and drops them; the twins keep something.
S1B = """
import sys, tensorflow as tf
twin = sys.argv[1]
def build():
    return tf.keras.Sequential([tf.keras.Input((10,)), tf.keras.layers.Dense(100, "relu"),
                                tf.keras.layers.Dense(10, "softmax")])
model = build()
x = tf.random.normal((1000, 10))
kept = []
history = []

@tf.function
def scaled(data, by):
    return tf.reduce_mean(model(data) * by)

for i in range(int(sys.argv[2])):
    out = model(x)
    if twin == "appended":
        kept.append(tf.tile(out, (1, 50)))
    if twin == "models":
        kept.append(build())
    if twin == "retraced":
        for j in range(5):
            scaled(x, i + j / 8)
    if twin == "history":
        for j in range(400):
            history.append({"loss": tf.reduce_mean(out) + j, "step": i})
    if i % 10 == 9:
        print("step", i + 1, flush=True)
"""


@pytest.mark.parametrize(
    ("twin", "steps"),
    [("printed", 1500), ("appended", 400), ("models", 150), ("retraced", 60), ("history", 250)],
)
def test_tensorflow_leaks_are_found_and_only_leaks(watch, twin, steps):
    module("tensorflow")
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2"}
    done = watch(PYTHON, "-c", S1B, twin, str(steps), timeout=900, environment=environment)
    assert done.code == 0, done.stderr
    growth = done.record["growth"]
    print(twin, json.dumps(growth))
    assert growth["grows"] == (twin != "printed"), growth
    if growth["grows"]:
        assert growth["bytes_per_step"] > 0
    if twin == "appended":
        assert growth["bytes_per_step"] == pytest.approx(1000 * 500 * 4, rel=0.25)


# S4's data, handed to the framework whole.
S4 = """
import sys, numpy as np, tensorflow as tf
x = np.random.rand(100_000, 1000)
y = np.random.randint(2, size=len(x))
model = tf.keras.Sequential([tf.keras.Input((1000,)), tf.keras.layers.Dense(128, "relu"),
                             tf.keras.layers.Dense(1, "sigmoid")])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(int(sys.argv[1])).prefetch(2)
model.fit(data, epochs=1, verbose=2)
"""


@pytest.mark.parametrize("batch", ["1024", "32"])
def test_data_held_three_times_are_named_and_no_smaller_batch_is_advised(watch, batch):
    module("tensorflow")
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2"}
    done = watch(PYTHON, "-c", S4, batch, timeout=900, environment=environment)
    assert done.code == 0, done.stderr
    copies = done.record["copies"]
    print(json.dumps(copies), done.record["peak"]["held_bytes"])
    assert copies["times"] == 3
    assert copies["equal"] >= 2
    assert copies["array_bytes"] == pytest.approx(100_000 * 1000 * 8, rel=0.01)
    assert "the same data are held 3 times" in done.stderr
    advice = " ".join(done.record["verdict"]["advice"]).lower()
    assert "smaller" not in advice
    assert "np.load" in advice
    assert [line.split(":")[0] for line in done.record["verdict"]["not_worth"]] == [
        "a smaller batch", "a smaller model",
    ]  # fmt: skip


def test_pytorch_refused_on_the_cpu(watch):
    module("torch")
    done = watch(PYTHON, "-c", "import torch; torch.ones(1 << 45)", timeout=900)
    assert done.kind == "out_of_memory"
    assert done.record["explanation"]["family"] == "torch_cpu"


def test_the_step_time_is_the_commands_own(watch):
    """Processor time of the watcher against the time that it watched."""
    done = watch(PYTHON, "-c", "import time\nfor i in range(30): print('step', i); time.sleep(0.1)")
    own = done.record["own"]
    assert own["cpu_seconds"] < 0.05 * done.record["seconds"]
