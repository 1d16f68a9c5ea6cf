"""Training steps in a `tf.function`, by the engine and by TensorFlow."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tape_programs import NATIVE, closure
from tape_twins import distance, floor, installed, plain_function, run

LABELS = np.random.default_rng(3).normal(size=(100, 1)).astype("float32")


def _labels(name: str) -> Any:
    return LABELS if name == "globals" else None


@pytest.mark.parametrize("name", NATIVE)
def test_a_step_gives_what_tensorflow_gives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses, weights and metrics after twenty steps with short batches, for each form."""
    expected = run(NATIVE[name], plain_function, y=_labels(name))
    with installed(monkeypatch) as outcome:
        received = run(NATIVE[name], tf.function, y=_labels(name))
    assert outcome.taken == 20 and not outcome.told, outcome.told
    for one, other in zip(expected[0], received[0], strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)
    assert distance(expected, received) < 1e-3
    np.testing.assert_allclose(received[3], expected[3], rtol=1e-5)


@pytest.mark.parametrize("optimizer", ["Adam", "SGD"])
def test_many_steps_are_as_near_as_rounding_lets_them(
    optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program(function: Any) -> Any:
        return closure(function, getattr(keras.optimizers, optimizer)(0.01))

    expected = run(program, plain_function)
    weights, losses = floor(program, expected)
    with installed(monkeypatch) as outcome:
        received = run(program, tf.function)
    assert outcome.taken == 20
    print(f"{optimizer}: floor {weights:.1e}, {losses:.1e}; {distance(expected, received):.1e}")
    assert distance(expected, received) <= 4 * weights
    assert np.max(np.abs(np.subtract(expected[0], received[0]))) <= 4 * losses


def _steps(step: Any, count: int, rows: int = 16, dtype: str = "float32") -> list[float]:
    x = np.random.default_rng(1).normal(size=(rows, 8)).astype(dtype)
    y = np.random.default_rng(2).integers(0, 3, rows)
    return [float(step(x, y)) for _ in range(count)]


def _twice(program: Any, monkeypatch: pytest.MonkeyPatch, act: Any) -> tuple[Any, Any, Any]:
    """What `act` gives of a program by TensorFlow and by us, and what was taken over."""

    def made(function: Any) -> Any:
        keras.backend.clear_session()
        keras.utils.set_random_seed(7)
        return act(*program(function))

    plain = made(plain_function)
    with installed(monkeypatch) as outcome:
        return plain, made(tf.function), outcome


def _same(plain: Any, ours: Any) -> None:
    for one, other in zip(plain, ours, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)


def test_what_is_returned_is_a_function_of_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its class, methods and signature; a tensor comes back; what is no step is not touched."""
    with installed(monkeypatch):
        step, model, _ = closure(tf.function)
        genuine = type(tf.function(lambda x: x))
        assert genuine.__module__.startswith("tensorflow") and type(step).__mro__[1] is genuine
        assert isinstance(step, tf.types.experimental.PolymorphicFunction)
        assert repr(step)[:20] == repr(plain_function(lambda x: x))[:20]
        x, y = tf.ones((4, 8)), tf.constant([0, 1, 2, 0])
        loss = step(x, y)
        assert isinstance(loss, tf.Tensor) and loss.dtype == tf.float32 and loss.shape == ()
        before = model.get_weights()
        assert step.experimental_get_tracing_count() == 1
        for one, other in zip(before, model.get_weights(), strict=True):
            np.testing.assert_array_equal(other, one)  # a trace does not run
        concrete = step.get_concrete_function(x, y)
        assert step.experimental_get_tracing_count() == 1
        assert np.isfinite(float(concrete(x, y)))
        assert not np.array_equal(before[0], model.get_weights()[0])
        assert step.pretty_printed_concrete_signatures() and step.python_function.__doc__


def test_a_step_in_another_function_is_its(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a function, a tape, a strategy, and where functions run eagerly."""

    def act(step: Any, model: keras.Model, _: Any) -> list[float]:
        @plain_function
        def epoch(x: Any, y: Any) -> Any:
            loss = step(x, y)
            return loss + step(x, y)

        found = [float(epoch(tf.ones((4, 8)), tf.constant([0, 1, 2, 0])))]
        with tf.GradientTape() as tape:
            tape.watch(one := tf.constant(1.0))
            loss = one * step(tf.ones((4, 8)), tf.constant([0, 1, 2, 0]))
        assert tape.gradient(loss, one) is not None
        strategy = tf.distribute.OneDeviceStrategy("cpu:0")
        found.append(float(strategy.run(step, (tf.ones((4, 8)), tf.constant([0, 1, 2, 0])))))
        return [*found, float(loss), *model.get_weights()[0].ravel()]

    plain, ours, outcome = _twice(closure, monkeypatch, act)
    assert outcome.taken == 0
    np.testing.assert_array_equal(plain, ours)


def test_weights_are_seen_changed_and_saved_between_calls(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks, assignments, a checkpoint that is restored, fit, and another step on the model."""

    def act(step: Any, model: keras.Model, _: Any) -> list[Any]:
        found: list[Any] = _steps(step, 2)
        found += [np.sum(np.abs(one)) for one in model.get_weights()]
        checkpoint = tf.train.Checkpoint(model=model)
        path = checkpoint.save(str(tmp_path / "weights"))
        found += _steps(step, 2)
        checkpoint.restore(path)
        found += _steps(step, 2)
        model.layers[0].kernel.assign_add(tf.fill((8, 12), 0.1))
        found += _steps(step, 1)
        model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
        model.fit(np.ones((32, 8)), np.zeros(32, "int32"), shuffle=False, verbose=0)
        found += _steps(step, 2)
        return [*found, model(np.ones((1, 8), "float32"))[0, 0]]

    plain, ours, outcome = _twice(closure, monkeypatch, act)
    assert outcome.taken == 10
    _same(plain, ours)


def test_what_a_function_has_traced_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects are those of the first call with arguments of a kind, as in TensorFlow's traces."""

    def act(step: Any, model: keras.Model, _: Any) -> list[Any]:
        found: list[Any] = _steps(step, 2)
        model.layers[0].trainable = False
        first = model.layers[0].kernel.numpy().copy()
        found += _steps(step, 2)
        moved = np.abs(first - model.layers[0].kernel.numpy()).max()
        assert moved > 0  # the trace trains it
        return found

    plain, ours, outcome = _twice(closure, monkeypatch, act)
    assert outcome.taken == 4
    _same(plain, ours)


def test_names_that_are_bound_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A global that changes counts for other kinds of arguments alone."""
    import tape_programs

    def act(step: Any, model: keras.Model, _: Any) -> list[Any]:
        x, y = np.ones((8, 8), "float32"), np.ones((8, 1), "float32")
        found = [float(step(x, y)) for _ in range(2)]
        tape_programs.MODEL = keras.models.clone_model(model)
        tape_programs.MODEL.set_weights([one * 0 for one in model.get_weights()])
        tape_programs.OPTIMIZER = keras.optimizers.SGD(0.5)
        found += [float(step(x, y)) for _ in range(2)]
        found += [float(step(x[:4], y[:4])) for _ in range(2)]
        return [*found, *(np.sum(w) for w in model.get_weights()),
                *(np.sum(w) for w in tape_programs.MODEL.get_weights())]  # fmt: skip

    plain, ours, outcome = _twice(NATIVE["globals"], monkeypatch, act)
    assert outcome.taken == 6
    _same(plain, ours)


@pytest.mark.parametrize("dtype", ["float64", "int32", "uint8"])
def test_other_types_of_numbers(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, ours, outcome = _twice(closure, monkeypatch,
                                  lambda step, *_: _steps(step, 3, dtype=dtype))  # fmt: skip
    assert outcome.taken == 3
    _same(plain, ours)


def test_a_rate_that_changes_and_frozen_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    optimizers: list[Any] = []

    def program(function: Any) -> Any:
        model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(5, name="frozen"),
                                  keras.layers.Dense(3, "softmax")])  # fmt: skip
        model.layers[0].trainable = False
        optimizers.append(keras.optimizers.Adam(0.1))
        return closure(function, optimizers[-1], model)

    def act(step: Any, model: keras.Model, metrics: Any) -> list[Any]:
        found: list[Any] = _steps(step, 3)
        optimizers[-1].learning_rate.assign(0.001)
        found += [*_steps(step, 3), float(metrics[1].result()), float(metrics[0].result())]
        metrics[1].reset_state()
        return [*found, *_steps(step, 1), float(metrics[1].result()),
                *(np.sum(one) for one in model.get_weights()),
                float(optimizers[-1].iterations.numpy())]  # fmt: skip

    plain, ours, outcome = _twice(program, monkeypatch, act)
    assert outcome.taken == 7
    _same(plain, ours)


def test_data_that_the_engine_refuses_are_tensorflows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call among others; numbers that Python holds; errors are TensorFlow's."""

    def act(step: Any, model: keras.Model, _: Any) -> list[Any]:
        found: list[Any] = _steps(step, 1)
        x = np.ones((4, 8), "float32")
        found.append(float(step(tf.Variable(x), np.zeros(4, "int32"))))
        found += _steps(step, 1)
        with pytest.raises(Exception) as error:
            step(np.ones((4, 5), "float32"), np.zeros(4, "int32"))
        with pytest.raises(TypeError):
            step(x)
        return [*found, float("incompatible" in str(error.value))]

    plain, ours, outcome = _twice(closure, monkeypatch, act)
    assert outcome.taken == 2
    _same(plain, ours)


def test_a_model_that_its_first_batch_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the weights that TensorFlow's first trace would draw."""

    def program(function: Any) -> Any:
        model = keras.Sequential([keras.layers.Dense(5, "relu"), keras.layers.Dense(3, "softmax")])
        return closure(function, keras.optimizers.SGD(0.1), model)

    plain, ours, outcome = _twice(program, monkeypatch, lambda step, *_: _steps(step, 3))
    assert outcome.taken == 3
    _same(plain, ours)


SAVED_X = np.random.default_rng(0).normal(size=(12, 8)).astype("float32")
SAVED_Y = np.random.default_rng(1).normal(size=(12, 3)).astype("float32")


def _module(function: Any) -> Any:
    keras.backend.clear_session()
    keras.utils.set_random_seed(3)

    class Module(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3)])
            self.optimizer = keras.optimizers.Adam(0.01)
            self.loss_fn = keras.losses.MeanSquaredError()

        @function  # type: ignore[untyped-decorator]
        def step(self, x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = self.loss_fn(y, self.model(x, training=True))
            gradients = tape.gradient(loss, self.model.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))
            return loss

    return Module()


def _saved(function: Any, folder: str) -> tuple[list[float], list[int]]:
    """Losses before and after saving and a weight; the numbers of traces."""
    module = _module(function)
    x, y = tf.constant(SAVED_X), tf.constant(SAVED_Y)
    found = [float(module.step(x, y)), float(module.step(SAVED_X[:5], y=SAVED_Y[:5]))]
    traces = [module.step.experimental_get_tracing_count()]
    found.append(float(module.step(x, y)))
    tf.saved_model.save(module, folder)
    found.append(float(module.step(x[:7], y[:7])))
    loaded = tf.saved_model.load(folder)
    found += [float(loaded.step(x, y)), float(loaded.step(x, y)),
              float(loaded.step(tf.constant(SAVED_X[:5]), y=tf.constant(SAVED_Y[:5])))]  # fmt: skip
    traces.append(module.step.experimental_get_tracing_count())
    return [*found, float(np.sum(module.model.get_weights()[0]))], traces


def test_a_module_is_saved_with_its_step(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, traces = _saved(plain_function, str(tmp_path / "plain"))
    with installed(monkeypatch) as outcome:
        ours, our_traces = _saved(tf.function, str(tmp_path / "ours"))
    assert outcome.taken == 4 and not outcome.told, outcome.told
    np.testing.assert_allclose(ours, plain, rtol=1e-4)
    # TensorFlow traces once more where its first trace makes an optimizer's variables.
    assert our_traces == [one - 1 for one in traces] and our_traces[0] == 2


def test_calls_that_tensorflow_does_trace_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is asked for is traced: a call of another kind is one trace."""
    with installed(monkeypatch) as outcome:
        module = _module(tf.function)
        module.step(SAVED_X, SAVED_Y)
        module.step(tf.Variable(SAVED_X), SAVED_Y)
        genuine: Any = type(module.step).__mro__[1]
        assert genuine.experimental_get_tracing_count(module.step) == 1
        assert module.step.experimental_get_tracing_count() == 2
    assert outcome.taken == 1
