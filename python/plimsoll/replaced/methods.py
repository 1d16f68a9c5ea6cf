"""The six methods of Keras's trainers that are replaced, with Keras's parameters.

What each does natively is one call of this package; how it comes back to Keras is in fallback.py.
"""

from __future__ import annotations

from plimsoll import asked
from plimsoll.replaced import keras_methods
from plimsoll.replaced.fallback import Call, Source, check_sizes, is_left
from plimsoll.surroundings import without_our_frames

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from typing import Any

_MARK = "_plimsoll_replaces"


def _options() -> dict[str, Any]:
    assert asked.current is not None
    return asked.current.of_calls


class _Shown:
    """Keras's line of progress, where the call is verbose."""

    def __init__(self, verbose: Any) -> None:
        self._verbose = 1 if verbose == "auto" else int(verbose)
        self._bar: Any = None
        if self._verbose:
            from keras.src.utils.progbar import Progbar

            self._bar = Progbar(target=None, verbose=self._verbose, unit_name="step")

    def __call__(self, steps: int, logs: dict[str, float]) -> None:
        if self._bar is not None:
            self._bar.target = steps
            self._bar.update(steps, list(logs.items()), finalize=True)


def _like(own: Any, function: Any) -> Any:
    """Name, documentation and signature are those of Keras's own.

    Of errors that pass, this function alone is in the traceback, as one of Keras's is there.
    """
    import functools

    @functools.wraps(own)
    def method(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except BaseException as error:
            without_our_frames(error)
            raise

    return method


def _planned(model: Any, x: Any, batch_size: int | None, steps: int | None) -> None:
    """In place of the first call that would train; does not return."""
    from plimsoll.replaced import planned

    planned.end_with_plan(model, x, batch_size, steps, _options())


def _fit(own: Any) -> Any:
    def fit(
        self: Any, x: Any = None, y: Any = None, batch_size: Any = None, epochs: Any = 1,
        verbose: Any = "auto", callbacks: Any = None, validation_split: Any = 0.0,
        validation_data: Any = None, shuffle: Any = True, class_weight: Any = None,
        sample_weight: Any = None, initial_epoch: Any = 0, steps_per_epoch: Any = None,
        validation_steps: Any = None, validation_batch_size: Any = None, validation_freq: Any = 1,
    ) -> Any:  # fmt: skip
        rest = (epochs, verbose, callbacks, validation_split, validation_data, shuffle,
                class_weight, sample_weight, initial_epoch, steps_per_epoch, validation_steps,
                validation_batch_size, validation_freq)  # fmt: skip
        if is_left(self, "fit"):
            return own(self, x, y, batch_size, *rest)
        source = Source(x)
        begun: list[Any] = []

        def natively() -> Any:
            from plimsoll import calls, sizes

            def built(given: Any) -> Any:
                mine = sizes.built(self, given)
                check_sizes(self, x)
                if asked.current is not None and asked.current.plans:
                    _planned(self, mine, batch_size, steps_per_epoch)
                return mine

            begun.append(calls.prepared_fit(self, source.x, y, batch_size, *rest, False, _options(),
                                            built))  # fmt: skip
            return begun[0].run()

        def in_keras() -> Any:
            passed = list(rest)
            if asked.current is not None and asked.current.restart is not None:
                from plimsoll.guard import decide

                over = decide.history_of(self, callbacks)
                if over is not None:
                    return over
                passed[1], passed[2], passed[8] = decide.fit_arguments(
                    self, verbose, callbacks, initial_epoch
                )
            return own(self, source.again(), y, batch_size, *passed)

        return Call(self, "fit", in_keras).run(
            natively, lambda: source.is_whole and not any(one.has_stepped for one in begun)
        )

    return _like(own, fit)


def _evaluate(own: Any) -> Any:
    def evaluate(
        self: Any, x: Any = None, y: Any = None, batch_size: Any = None, verbose: Any = "auto",
        sample_weight: Any = None, steps: Any = None, callbacks: Any = None,
        return_dict: Any = False, **inside: Any,
    ) -> Any:  # fmt: skip
        rest = (y, batch_size, verbose, sample_weight, steps, callbacks, return_dict)
        if inside or is_left(self, "evaluate"):  # Keras's own fit asks for its validation
            return own(self, x, *rest, **inside)
        source = Source(x)

        def natively() -> Any:
            from plimsoll import sizes
            from plimsoll.options import Options
            from plimsoll.training import inference

            mine = sizes.built(self, source.x)
            check_sizes(self, x)
            return inference.evaluate(self, mine, y, batch_size, sample_weight, steps, callbacks,
                                      verbose, return_dict, Options.of(_options()),
                                      _Shown(verbose))  # fmt: skip

        return Call(self, "evaluate", lambda: own(self, source.again(), *rest)).run(
            natively, lambda: source.is_whole
        )

    return _like(own, evaluate)


def _predict(own: Any) -> Any:
    def predict(
        self: Any, x: Any, batch_size: Any = None, verbose: Any = "auto", steps: Any = None,
        callbacks: Any = None,
    ) -> Any:  # fmt: skip
        rest = (batch_size, verbose, steps, callbacks)
        if is_left(self, "predict"):
            return own(self, x, *rest)
        source = Source(x)

        def natively() -> Any:
            from plimsoll import sizes
            from plimsoll.options import Options
            from plimsoll.training import inference

            mine = sizes.built(self, source.x)
            check_sizes(self, x)
            return inference.predict(self, mine, batch_size, steps, callbacks, verbose,
                                     Options.of(_options()), _Shown(verbose))  # fmt: skip

        return Call(self, "predict", lambda: own(self, source.again(), *rest)).run(
            natively, lambda: source.is_whole
        )

    return _like(own, predict)


def _train_on_batch(own: Any) -> Any:
    def train_on_batch(
        self: Any, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None,
        return_dict: Any = False,
    ) -> Any:  # fmt: skip
        rest = (y, sample_weight, class_weight, return_dict)
        if is_left(self, "train_on_batch"):
            return own(self, x, *rest)

        def natively() -> Any:
            from plimsoll import calls, sizes

            sizes.built(self, x)
            if asked.current is not None and asked.current.plans:
                _planned(self, x, len(x), None)
            return calls.train_on_batch(self, x, *rest, **_options())

        return Call(self, "train_on_batch", lambda: own(self, x, *rest)).run(natively)

    return _like(own, train_on_batch)


def _test_on_batch(own: Any) -> Any:
    def test_on_batch(
        self: Any, x: Any, y: Any = None, sample_weight: Any = None, return_dict: Any = False
    ) -> Any:
        rest = (y, sample_weight, return_dict)
        if is_left(self, "test_on_batch"):
            return own(self, x, *rest)

        def natively() -> Any:
            from plimsoll import calls, sizes

            sizes.built(self, x)
            return calls.test_on_batch(self, x, *rest, **_options())

        return Call(self, "test_on_batch", lambda: own(self, x, *rest)).run(natively)

    return _like(own, test_on_batch)


def _predict_on_batch(own: Any) -> Any:
    def predict_on_batch(self: Any, x: Any) -> Any:
        if is_left(self, "predict_on_batch"):
            return own(self, x)

        def natively() -> Any:
            from plimsoll import calls, sizes

            sizes.built(self, x)
            return calls.predict_on_batch(self, x, **_options())

        return Call(self, "predict_on_batch", lambda: own(self, x)).run(natively)

    return _like(own, predict_on_batch)


_REPLACING = (_fit, _evaluate, _predict, _train_on_batch, _test_on_batch, _predict_on_batch)


def are_replaced(cls: Any) -> bool:
    return _MARK in vars(cls)


def replace(cls: Any) -> None:
    """Puts ours in place of the methods of a trainer's class that are known."""
    for name, replacing in zip(keras_methods.NAMES, _REPLACING):
        setattr(cls, name, replacing(vars(cls)[name]))
    setattr(cls, _MARK, True)
