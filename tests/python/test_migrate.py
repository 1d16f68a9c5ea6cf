"""`python -m plimsoll migrate`: what it makes of loops, that results stay, and what it refuses."""

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from plimsoll.tapes import migrate
from plimsoll.tapes.rewritten import Script

HEAD = """\
import numpy as np
import tensorflow as tf
from tensorflow import keras

x = np.random.default_rng(0).normal(size=(120, 8)).astype("float32")
y = np.random.default_rng(1).normal(size=(120, 2)).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)


def build():
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(6, "relu"),
                              keras.layers.Dense(2)])
    return model


model = build()
optimizer = keras.optimizers.Adam(0.01)
loss_fn = keras.losses.MeanSquaredError()
steps_of_one = 4
found = []
"""
EAGER = """
for epoch in range(2):
    for x_batch, y_batch in dataset:
        with tf.GradientTape() as tape:
            predictions = model(x_batch, training=True)
            loss = loss_fn(y_batch, predictions)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        found.append(loss.numpy())
"""
IN_A_FUNCTION = """
mae = keras.metrics.MeanAbsoluteError()


@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        outputs = model(images)
        loss = tf.reduce_mean(keras.losses.MSE(labels, outputs))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    mae.update_state(labels, outputs)
    return loss


for x_batch, y_batch in dataset:
    found.append(float(train_step(x_batch, y_batch)))
found.append(float(mae.result()))
"""
# The remainder of an epoch is dropped.
SUMS = """
for epoch in range(2):
    accumulated = [tf.zeros_like(v) for v in model.trainable_variables]
    for step, (x_batch, y_batch) in enumerate(dataset):
        with tf.GradientTape() as tape:
            predictions = model(x_batch, training=True)
            loss = loss_fn(y_batch, predictions)
        gradients = tape.gradient(loss, model.trainable_variables)
        accumulated = [a + g for a, g in zip(accumulated, gradients)]
        if (step + 1) % steps_of_one == 0:
            optimizer.apply_gradients(zip(accumulated, model.trainable_variables))
            accumulated = [tf.zeros_like(v) for v in model.trainable_variables]
        found.append(float(loss))
"""
# A file in pieces, a mean over calls, in a function of its own.
PIECES = """
np.save("large.npy", np.concatenate([x, y], axis=1))


def chunks(path, size):
    data = np.load(path, mmap_mode="r")
    for begin in range(0, len(data), size):
        yield data[begin:begin + size]


def train(epochs):
    for epoch in range(epochs):
        for chunk in chunks("large.npy", 48):
            sums = None
            for begin in range(0, len(chunk), 16):
                part = chunk[begin:begin + 16]
                with tf.GradientTape() as tape:
                    loss = loss_fn(part[:, 8:], model(part[:, :8], training=True)) / 3
                gradients = tape.gradient(loss, model.trainable_variables)
                if sums is None:
                    sums = gradients
                else:
                    sums = [s + g for s, g in zip(sums, gradients)]
                found.append(float(loss))
            optimizer.apply_gradients(zip(sums, model.trainable_variables))


train(2)
"""
# As printed in many places: it is called accumulation, and every batch is applied.
EVERY_BATCH = """
for x_batch, y_batch in dataset:
    with tf.GradientTape() as tape:
        loss = loss_fn(y_batch, model(x_batch, training=True)) / steps_of_one
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    found.append(float(loss))
"""
VARIABLES = """
sums = [tf.Variable(tf.zeros_like(v), trainable=False) for v in model.trainable_variables]
for step, (x_batch, y_batch) in enumerate(dataset):
    with tf.GradientTape() as tape:
        loss = loss_fn(y_batch, model(x_batch, training=True))
        loss += sum(model.losses)
    gradients = tape.gradient(loss, model.trainable_variables)
    for s, g in zip(sums, gradients):
        s.assign_add(g)
    if step % 3 == 2:
        optimizer.apply([s / 3 for s in sums], model.trainable_variables); found.append(0.0)
        for s in sums:
            s.assign(tf.zeros_like(s))
"""
LOOPS = {"eager": EAGER, "function": IN_A_FUNCTION, "sums": SUMS, "pieces": PIECES,
         "every batch": EVERY_BATCH, "variables": VARIABLES}  # fmt: skip
GOLDEN = {
    "eager": """
trainer = plimsoll.Trainer(model, optimizer, loss_fn, reduce="sum", losses=False)
for epoch in range(2):
    for x_batch, y_batch in dataset:
        # As before, gradients are applied on every batch.
        loss = tf.constant(trainer.accumulate(x_batch, y_batch))
        trainer.apply()
        found.append(loss.numpy())
""",
    "function": """
mae = keras.metrics.MeanAbsoluteError()


trainer = plimsoll.Trainer(model, optimizer, keras.losses.MeanSquaredError(), reduce="sum", \
losses=False, training=False, updates=[mae])
def train_step(images, labels):
    # As before, gradients are applied on every batch.
    loss = tf.constant(trainer.accumulate(images, labels))
    trainer.apply()
    return loss


for x_batch, y_batch in dataset:
    found.append(float(train_step(x_batch, y_batch)))
found.append(float(mae.result()))
""",
    "sums": """
trainer = plimsoll.Trainer(model, optimizer, loss_fn, reduce="sum", losses=False)
for epoch in range(2):
    trainer.clear()
    for step, (x_batch, y_batch) in enumerate(dataset):
        # As before, gradients are added up over calls and applied as their sum.
        loss = tf.constant(trainer.accumulate(x_batch, y_batch))
        if (step + 1) % steps_of_one == 0:
            trainer.apply()
        found.append(float(loss))
""",
}


def _run(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[float], Any]:
    monkeypatch.chdir(folder)
    keras.backend.clear_session()
    keras.utils.set_random_seed(5)
    names: dict[str, Any] = {}
    (folder / "script.py").write_text(text)
    exec(compile(text, str(folder / "script.py"), "exec"), names)
    return names["found"], [*names["model"].get_weights(), names["optimizer"].iterations.numpy()]


@pytest.mark.parametrize("name", LOOPS)
def test_a_migrated_script_gives_what_it_gave(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(HEAD + LOOPS[name], "script.py")
    assert not script.refused and len(script.loops) == 1
    text = script.written()
    if name in GOLDEN:
        assert text == HEAD.replace("import keras\n", "import keras\nimport plimsoll\n",
                                    1) + GOLDEN[name]  # fmt: skip
    plain = _run(HEAD + LOOPS[name], tmp_path, monkeypatch)
    ours = _run(text, tmp_path, monkeypatch)
    np.testing.assert_allclose(ours[0], plain[0], rtol=1e-4)
    for one, other in zip(plain[1], ours[1], strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-4)


def test_what_is_said_of_divisors() -> None:
    pieces = Script(HEAD + PIECES, "s").written()
    assert "applied as their sum, divided by 3." in pieces
    assert "trainer.apply([None if g is None else g / 3 for g in trainer.gradients()])" in pieces
    assert pieces.index("trainer = plimsoll.Trainer") < pieces.index("def train(epochs)")
    every = Script(HEAD + EVERY_BATCH, "s").written()
    assert "applied on every batch, divided by steps_of_one: they are not added up." in every


def test_a_quotient_that_is_only_told() -> None:
    """Gradients are of the loss itself; then nothing is divided."""
    told = SUMS.replace("        gradients =", "            part = loss / 4\n        gradients =")
    told = told.replace("found.append(float(loss))", "found.append(float(part))")
    script = Script(HEAD + told, "s")
    assert not script.refused
    text = script.written()
    assert "part = loss / 4\n" in text and "trainer.apply()\n" in text
    divided = Script(HEAD + told.replace("tape.gradient(loss", "tape.gradient(part"), "s").written()
    assert "g / 4 for g in trainer.gradients()" in divided
    division = "            accumulated = [g / steps_of_one for g in accumulated]\n"
    before = SUMS.replace("            optimizer.apply", division + "            optimizer.apply")
    before = Script(HEAD + before, "s").written()
    assert "g / steps_of_one for g in trainer.gradients()" in before


def test_lines_with_more_on_them_stay_whole() -> None:
    script = Script(HEAD + VARIABLES, "s")
    assert not script.refused
    text = script.written()
    ast.parse(text)
    assert "for g in trainer.gradients()]); found.append(0.0)\n" in text
    assert "zeros_like" not in text and "losses=False" not in text


Change = Callable[[str], str]
REFUSED: dict[str, tuple[str, str, str, str]] = {
    "predictions": (EAGER, "found.append(loss.numpy())", "found.append(predictions[0, 0].numpy())",
                    "found.append(predictions[0, 0].numpy())"),
    "print of gradients": (EAGER, "found.append(loss.numpy())", "print(gradients)",
                           "print(gradients)"),
    "clipping": (EAGER, "        optimizer", "        gradients = [tf.clip_by_norm(g, 1.0) for g "
                 "in gradients]\n        optimizer", "clip_by_norm"),
    "an own loss": (EAGER, "loss_fn(y_batch, predictions)", "tf.norm(y_batch - predictions)",
                    "what tf.norm does"),
    "two models": (EAGER, "predictions = model", "model = build(); predictions = model", "build()"),
    "no new beginning": (SUMS, "            accumulated = [tf.zeros_like(v) for v in "
                         "model.trainable_variables]\n        found", "        found",
                         "begin anew after it"),
    "a look at sums": (SUMS, "found.append(float(loss))", "found.append(accumulated[0][0, 0])",
                       "what it does with accumulated"),
    "half of the sums": (SUMS, "zip(accumulated, gradients)", "zip(accumulated, gradients[1:])",
                         "gradients[1:]"),
    "a parameter": (PIECES, "def train(epochs):", "def train(epochs, model=model):", "model"),
    "another function": (IN_A_FUNCTION, "for x_batch", "@tf.function\ndef twice(a, b):\n"
                         "    return train_step(a, b)\n\n\nfor x_batch", "by no tf.function"),
    "print in a function": (IN_A_FUNCTION, "    with tf", "    print('traced')\n    with tf",
                            "print('traced')"),
    "some variables": (EAGER, "tape.gradient(loss, model.trainable_variables)",
                       "tape.gradient(loss, model.layers[0].trainable_variables)", "layers[0]"),
    "a rate of mixing": (EAGER, "for epoch", "keras.mixed_precision.set_global_policy('float32')\n"
                         "for epoch", "without mixed_"),
    "a division of every batch": (
        SUMS, "        if (step + 1)", "        accumulated = [g / 4 for g in accumulated]\n"
        "        if (step + 1)", "right before a step"),
    "a metric that is reset": (
        IN_A_FUNCTION.replace("@tf.function\n", ""), "    mae.update",
        "    mae.reset_state()\n    mae.update", "before it"),
    "sums of another": (
        PIECES, "    for epoch", "    global sums\n    for epoch", "names of the loop"),
    "a class that is ignored": (
        EAGER, "loss_fn(y_batch, predictions)", "tf.reduce_mean(keras.losses."
        "sparse_categorical_crossentropy(y_batch, predictions, ignore_class=0))",
        "and not with ignore_class=0"),
    "a loss without a reduction": (
        EAGER.replace("loss_fn(", "each("), "\nfor epoch",
        "\neach = keras.losses.MeanSquaredError(None)\nfor epoch", "received values"),
    "momentum that begins at 0": (
        IN_A_FUNCTION.replace("optimizer.apply(", "free.apply("), "@tf.function",
        "free = keras.optimizers.ScheduleFreeAdamW(0.01)\n\n\n@tf.function", "begins otherwise"),
    "a global": (EAGER, "for epoch", "def other():\n    global model\n    model = 1\n\n\n"
                 "for epoch", "what model does"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_proved_stays(name: str, tmp_path: Path, capsys: Any) -> None:
    """Exit code 4, with the place and the statement; nothing is written."""
    loop, old, new, expected = REFUSED[name]
    assert old in loop
    path = tmp_path / "script.py"
    path.write_text(HEAD + loop.replace(old, new))
    assert migrate.main([str(path)]) == 4
    told = capsys.readouterr()
    assert told.out == "" and expected in told.err and f"{path}:" in told.err, told.err
    assert migrate.main(["--write", str(path)]) == 4
    assert path.read_text() == HEAD + loop.replace(old, new)
    assert not (tmp_path / "script.py.orig").exists()


def test_writing(tmp_path: Path, capsys: Any) -> None:
    """With a copy that is never written over; a script without loops is told of."""
    path = tmp_path / "script.py"
    source = HEAD + EAGER
    path.write_bytes(source.replace("\n", "\r\n").encode())
    assert migrate.main([str(path)]) == 0
    diff = capsys.readouterr().out
    assert diff.startswith(f"--- {path}") and "+        trainer.apply()" in diff
    assert migrate.main(["--write", str(path)]) == 0
    assert (tmp_path / "script.py.orig").read_bytes() == source.replace("\n", "\r\n").encode()
    assert b"trainer.apply()\r\n" in path.read_bytes()
    assert migrate.main([str(path)]) == 0
    assert "no training loop" in capsys.readouterr().out
    path.write_text(source)
    assert migrate.main(["--write", str(path)]) == 6
    assert path.read_text() == source


def test_usage(tmp_path: Path, capsys: Any) -> None:
    for words, expected in (([], "expected one script"), (["a", "b"], "received 2"),
                            (["--writ", "a"], "Did you mean --write"),
                            ([str(tmp_path / "none.py")], "expected a script")):  # fmt: skip
        assert migrate.main(words) == 2
        assert expected in capsys.readouterr().err
    (tmp_path / "wrong.py").write_text("1 +")
    assert migrate.main([str(tmp_path / "wrong.py")]) == 2
    assert migrate.main(["--help"]) == 0 and "--write" in capsys.readouterr().out


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """The loop that the page shows, and what it says that is printed of it."""
    page = (Path(__file__).parents[2] / "docs/reference/scripts.md").read_text()
    loop = re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)[-1]
    diff = re.findall(r"^```diff\n(.*?)^```", page, re.S | re.M)[0]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop.py").write_text(loop)
    assert migrate.main(["loop.py"]) == 0
    assert capsys.readouterr().out == diff
