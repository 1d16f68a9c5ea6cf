"""Options of losses and metrics that Keras leaves out of its own description of them."""

import inspect
import json
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

import plimsoll
from plimsoll import Refused
from plimsoll.model import live

# Values that are no option's default, by the option's name; what other options ask for goes along.
OTHER: dict[str, Any] = {
    "alpha": 0.3, "apply_class_balancing": True, "average": "macro", "axis": 1, "beta": 0.75,
    "class_aggregation": "variance_weighted_average", "class_id": 1, "curve": "PR", "delta": 0.5,
    "from_logits": True, "from_sorted_ids": True, "gamma": 1.5, "ignore_class": 1, "k": 2,
    "label_smoothing": 0.1, "label_weights": [0.5, 2.0], "margin": 0.3, "multi_label": True,
    "num_classes": 3, "num_labels": 2, "num_regressors": 1, "num_thresholds": 9, "precision": 0.4,
    "q": 0.7, "recall": 0.4, "reduction": "sum", "remove_diagonal": False, "sensitivity": 0.4,
    "sparse_y_pred": False, "sparse_y_true": False, "specificity": 0.4,
    "summation_method": "minoring", "target_class_ids": [1], "threshold": 0.25,
    "thresholds": [0.2, 0.7], "top_k": 2, "dtype": "float32", "name": "other",
}  # fmt: skip
NEEDS: dict[str, dict[str, Any]] = {
    "num_labels": {"multi_label": True}, "label_weights": {"multi_label": True, "num_labels": 2}
}  # fmt: skip
# Bases, and what is given no targets and predictions.
NO_KINDS = ("Loss", "Mean", "MeanMetricWrapper", "Metric", "Sum")


def options_of(cls: type) -> dict[str, inspect.Parameter]:
    parameters = dict(inspect.signature(cls.__init__).parameters)
    del parameters["self"]
    return parameters


def with_one_option() -> Iterator[tuple[str, type, str]]:
    for what, module in (("loss", keras.losses), ("metrics", keras.metrics)):
        for name, cls in vars(module).items():
            if inspect.isclass(cls) and name not in NO_KINDS:
                for option in options_of(cls):
                    yield what, cls, option


def made_with(cls: type, option: str) -> Any:
    needed = {
        key: OTHER[key]
        for key, parameter in options_of(cls).items()
        if parameter.default is inspect.Parameter.empty
    }
    return cls(**{**needed, **NEEDS.get(option, {}), option: OTHER[option]})


def read(what: str, value: Any) -> dict[str, Any]:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile("sgd", **({"loss": value} if what == "loss" else {"loss": "mse", what: [value]}))
    told = json.loads(live.serialized(model))["compile_config"][what]
    told = told if what == "loss" else told[0]
    options: dict[str, Any] = told["config"]
    return options


def test_every_option_of_every_loss_and_metric_is_read() -> None:
    wrong = []
    for what, cls, option in with_one_option():
        told = read(what, made_with(cls, option)).get(option, "nothing")
        if isinstance(told, dict) and told["class_name"] == "__tensor__":
            told = told["config"]["value"]
        if told != OTHER[option] and not (option == "dtype" and "float32" in json.dumps(told)):
            wrong.append(f"{cls.__name__}: {option}={OTHER[option]!r} is read as {told!r}")
    assert not wrong, "\n".join(wrong)


def test_defaults_are_read_as_defaults() -> None:
    for what, cls, option in with_one_option():
        default = options_of(cls)[option].default
        if default is inspect.Parameter.empty or option in ("name", "dtype"):
            continue
        needed = {k: OTHER[k] for k, p in options_of(cls).items()
                  if p.default is inspect.Parameter.empty}  # fmt: skip
        told = read(what, cls(**needed)).get(option, default)
        assert told == (list(default) if isinstance(default, tuple) else default), (cls, option)


FITS = {
    "Huber": (keras.losses.Huber(delta=0.25), []),
    "in a list for each output": ([keras.losses.Huber(delta=0.25)], []),
    "a metric": ("mse", [keras.metrics.AUC(thresholds=[0.3, 0.35, 0.8])]),
}


@pytest.mark.parametrize("name", FITS)
def test_training_goes_by_them(name: str) -> None:
    loss, metrics = FITS[name]
    x = np.random.default_rng(1).normal(size=(32, 3)).astype("float32")
    y = (x[:, :1] > 0).astype("float32")
    keras.utils.set_random_seed(2)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, "sigmoid", name="value")])
    model.compile(keras.optimizers.SGD(0.0), loss, metrics=metrics)
    expected = model.evaluate(x, y * 3, return_dict=True, verbose=0)
    got = plimsoll.fit(model, x, y * 3, batch_size=32, epochs=1, verbose=0).history
    assert {k: v[0] for k, v in got.items()} == pytest.approx(expected, rel=1e-5)


def test_an_option_that_cannot_be_read_is_refused_by_name() -> None:
    loss = keras.losses.Huber(delta=0.5)
    del loss._fn_kwargs["delta"]
    with pytest.raises(Refused, match=r"loss Huber: .*delta"):
        read("loss", loss)


def test_metrics_of_several_numbers_are_arrays() -> None:
    x = np.random.default_rng(1).normal(size=(32, 3)).astype("float32")
    y = np.eye(3, dtype="float32")[np.random.default_rng(2).integers(0, 3, 32)]
    keras.utils.set_random_seed(2)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3, "softmax")])
    metrics = [keras.metrics.F1Score(), keras.metrics.Precision([0.3, 0.4]), "mae"]
    model.compile(keras.optimizers.SGD(0.0), "categorical_crossentropy", metrics=metrics)
    expected = model.evaluate(x, y, return_dict=True, verbose=0)
    got = plimsoll.evaluate(model, x, y, return_dict=True, verbose=0)
    assert list(got) == list(expected)
    for isolate in (False, True):
        logs = plimsoll.fit(model, x, y, batch_size=32, verbose=0, isolate=isolate).history
        for key, value in expected.items():
            np.testing.assert_allclose(got[key], value, rtol=1e-5)
            np.testing.assert_allclose(logs[key][0], value, rtol=1e-5)
            assert np.shape(logs[key][0]) == np.shape(value)


def test_one_metric_in_two_places_has_one_state() -> None:
    first = keras.Input((3,))
    model = keras.Model(first, [keras.layers.Dense(1, name=name)(first) for name in "ab"])
    shared = keras.metrics.MeanAbsoluteError(name="shared")
    model.compile(keras.optimizers.SGD(0.0), "mse", metrics=[[shared], [shared, "mae"]])
    draw = np.random.default_rng(1)
    x = draw.normal(size=(32, 3)).astype("float32")
    y = [draw.normal(size=(32, 1)).astype("float32") for _ in "ab"]
    expected = model.evaluate(x, y, return_dict=True, verbose=0)
    assert expected["a_shared"] == expected["b_shared"] != expected["b_mae"]
    got = plimsoll.evaluate(model, x, y, return_dict=True, verbose=0)
    assert got == pytest.approx(expected, rel=1e-5)
