"""What every call takes beside its data, and what the engine tells while it works."""

from __future__ import annotations

import difflib
import json
import numbers
import operator
import os
import sys
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from plimsoll import _core, asked
from plimsoll.errors import exhausted, guarded, translate

if TYPE_CHECKING:
    from typing import Self

MIB = 1 << 20
_VARIES = 12 * MIB  # of what a process holds beside the engine, from call to call
_MOST_SEED = 1 << 62
_least_held = [1 << 62]  # by the process beside the engine, at any time


@dataclass
class Limits:
    """What of the process's memory is the engine's."""

    memory: int | None  # of the whole process; None: none was named
    held: int = 0  # by interpreter, framework and the program's arrays when the call began
    reserve: int = 0  # for what others will take

    @property
    def ours(self) -> int | None:
        return None if self.memory is None else self.memory - self.held - self.reserve

    @property
    def run(self) -> int | None:
        """The limit of the process while the engine runs."""
        return None if self.memory is None else max(self.memory - self.reserve, 1)


def size(value: int | str | None, name: str = "memory") -> int | None:
    """Bytes of "2GiB", "75%", "auto" or a number."""
    if value is None:
        return None
    if isinstance(value, numbers.Real):
        if not value >= 0:
            raise ValueError(f"{name}: expected bytes, not below 0, received {value}.")
        return int(value)
    if not isinstance(value, str):
        raise TypeError(f'{name}: expected bytes or a text such as "2GiB", received {value!r}.')
    bytes_of: int | None = guarded(
        lambda: _core.parse_memory(value) if name == "memory" else _core.parse_size(name, value)
    )
    return bytes_of


def limits_of(
    memory: int | str | None, reserve: int | str | None, beside: int = 0, handed: int = 0
) -> Limits:
    """Where the process holds more than the limit already, the engine is left nothing.

    It refuses then, and knows what would do. `beside`: what of the process's memory is neither
    interpreter's, nor framework's, nor arrays.
    `handed`: the largest variable that is handed back, of which the framework makes a copy; the
    default reserve has room for it.
    """
    whole = size(memory)
    held = max(_core.held_by_process() - beside, 1)
    _least_held[0] = min(_least_held[0], held)
    if whole is None:
        return Limits(None, held)
    kept = size(reserve, "reserve")
    usual = max(64 * MIB, whole // 10, handed)
    return Limits(whole, held, usual if kept is None else kept)


def _whole(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected a whole number, received {value!r}.") from None


def _real(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name}: expected a number, received {value!r}.")
    return float(value)


def _mib(count: int) -> str:
    return f"{count / MIB:.1f} MiB"


def _enough(count: int) -> float:
    """MiB, rounded up."""
    return -(-count * 10 // MIB) / 10


@dataclass
class Options:
    """What every call takes beside its data."""

    memory: int | str | None = None
    reserve: int | str | None = None
    threads: int = 0
    parts: int = 0  # of kernels' work: equal parts, equal bits; 0: as many as threads
    lanes: int = 0  # of the batch, a power of two: equal lanes, equal bits; 0: one
    seed: int = 0
    precision: str = ""
    backend: str = ""
    plan_time: float | None = None
    max_slowdown: float | None = None
    without: str = ""
    times: str = ""
    tune: bool = False
    spill: bool | None = None  # None: only where nothing fits without a spill file
    spill_dir: str = ""
    handed: int = field(default=0, init=False)  # bytes of the largest variable that is handed back
    ranks: _core.Group | None = field(default=None, init=False)  # that train together
    limits: Limits = field(default_factory=lambda: Limits(None), init=False)

    @property
    def asked(self) -> tuple[Any, ...]:
        """Equal where a session for the one will do for the other."""
        return (self.memory, self.reserve, self.threads, self.parts, self.lanes, self.seed,
                self.precision, self.backend, self.plan_time, self.max_slowdown, self.without,
                self.times, self.tune, self.spill, self.spill_dir)  # fmt: skip

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        """From arguments of a call. Raises TypeError for names that there are not."""
        for name in given:
            if name not in _NAMES:
                near = difflib.get_close_matches(name, [*_NAMES, *_OF_KERAS], 1)
                meant = f" Did you mean '{near[0]}'?" if near else ""
                raise TypeError(
                    f"got an unexpected keyword argument '{name}'.{meant} Beside Keras's arguments "
                    f"there are {', '.join(sorted(_NAMES))}."
                )
        return cls(**given)

    def __post_init__(self) -> None:
        self.threads = _whole("threads", self.threads)
        self.parts = _whole("parts", self.parts)
        self.lanes = _whole("lanes", self.lanes)
        self.seed = _whole("seed", self.seed)
        self.plan_time = _real("plan_time", self.plan_time)
        self.max_slowdown = _real("max_slowdown", self.max_slowdown)
        self.spill_dir = os.fspath(self.spill_dir)
        self.times = os.fspath(self.times)
        if self.precision not in ("", "f32", "bf16"):
            raise ValueError(
                f'precision: expected "f32" or "bf16", received {self.precision!r}. None named: as '
                "the model's layers say."
            )
        if self.plan_time is not None and not self.plan_time > 0:
            raise ValueError(f"plan_time: expected seconds, received {self.plan_time}.")
        if self.max_slowdown is not None and not self.max_slowdown >= 1:
            raise ValueError(f"max_slowdown: expected 1 or more, received {self.max_slowdown}.")
        for name in ("threads", "parts"):
            if not 0 <= (count := getattr(self, name)) <= 1024:
                raise ValueError(f"{name}: expected 1 to 1024, received {count}.")

        if not 0 <= self.lanes <= 4096 or self.lanes & (self.lanes - 1):
            raise ValueError(f"lanes: expected a power of two up to 4096, received {self.lanes}.")

    def measure(self, beside: int = 0, again: bool = False) -> None:
        """Once a call, before the engine takes anything but `beside`, which sessions hold."""
        if again or self.limits.held == 0:
            self.limits = limits_of(self.memory, self.reserve, beside, self.handed)

    def has_grown(self, predicted: int) -> bool:
        """Whether others have taken more than half of the reserve since the plan was made."""
        limits = self.limits
        if limits.memory is None or predicted == 0:
            return False
        return not _core.takes_at_most(predicted + limits.reserve // 2)

    def settings(self, batch: int) -> _core.Settings:
        self.measure()
        settings = _core.Settings()
        settings.batch = batch
        settings.memory = self.limits.run
        settings.given = self.limits.held
        settings.threads = self.threads
        settings.parts = self.parts
        settings.lanes = self.lanes
        settings.seed = self.seed % _MOST_SEED
        settings.precision = self.precision
        settings.backend = self.backend
        settings.plan_time = self.plan_time
        settings.max_slowdown = self.max_slowdown
        settings.without = self.without
        settings.times = self.times
        settings.tune = self.tune
        settings.spill_directory = self.spill_dir
        if self.spill is not None:
            settings.spill = _core.Spill.ALWAYS if self.spill else _core.Spill.NEVER
        if self.ranks is not None:
            self.ranks.settle(settings)
        return settings

    def explain(
        self, error: _core.EngineError, engine: _core.Engine | None = None, batch: int = 0
    ) -> BaseException:
        """The engine's error; of a limit, with who holds what of it and what would do.

        engine and batch: of the training that was refused, which is planned for its remedies.
        """
        if error.args[0] != "budget" or self.limits.memory is None:
            return translate(error)
        before = self.limits.held
        self.measure(again=True)  # what the first plan of a process has left is held from now on
        needed, why = int(error.args[2]), f"\nwhy: {error.args[1]}"
        needed += max(self.limits.held - before, 0) if needed else 0
        if engine is not None and batch:
            try:
                answer = self.planned(engine, batch)
            except _core.EngineError:
                answer = {"fits": True}
            if not answer["fits"]:
                needed, why = int(answer["needed"]), answer["refusal"].partition("\n")[2].rstrip()
        return exhausted(f"{self._shares(needed)}\n{why}")

    def planned(self, engine: _core.Engine, batch: int) -> dict[str, Any]:
        """The engine's plan of a training step, in limits as they are named here.

        The first plan of a process leaves more than others do: figures of a refusal count it.
        """
        while True:
            settings = self.settings(batch)
            answer = engine.plan(settings, Listener(), self.spelled, self.limits.memory,
                                 self._whole)  # fmt: skip
            before = self.limits.held
            if answer["fits"] or _core.held_by_process() - before <= _VARIES:
                return answer
            self.measure(again=True)
            if self.limits.held - before <= _VARIES:  # what sessions hold is no matter
                return answer

    def _shares(self, needed: int) -> str:
        """Who holds what of the limit; `needed`: bytes of the process without the reserve."""
        limits = self.limits
        assert limits.ours is not None and limits.memory is not None
        first = f"memory={_mib(limits.memory)} does not fit"
        if needed:
            whole = self._whole(needed)
            first += (f": needs {_enough(whole)} MiB, {_enough(whole - limits.memory)} MiB above "
                      f"the limit of {_mib(limits.memory)}")  # fmt: skip
        return "\n".join([
            first + ".",
            f"  interpreter, framework and the program's arrays {_mib(limits.held):>14}",
            f"  reserve for their growth (reserve=)             {_mib(limits.reserve):>14}",
            f"  left for training                               {_mib(max(limits.ours, 0)):>14}",
        ])  # fmt: skip

    def _whole(self, needed: int, enough: bool = True) -> int:
        """The limit, reserve included, within which the process may take `needed` bytes.

        Interpreter and framework do not hold the same in every call. What is to be enough has some
        room for that; what is proved to be too little (`enough` is false) is so of the least that
        they have held.
        """
        needed += _VARIES if enough else min(_least_held[0] - self.limits.held, 0)
        reserve = size(self.reserve, "reserve")
        if reserve is not None:
            return needed + reserve
        return max(needed + max(64 * MIB, self.handed), needed * 10 // 9 + 10)

    def spelled(self, option: str, value: str, left_out: bool) -> str:
        """An option of the command line as an argument of a call."""
        if option == "--memory":
            bytes_asked = size(value)
            assert bytes_asked is not None
            whole = f"{_enough(self._whole(bytes_asked))}MiB"
            if asked.by_command:
                return f"python -m plimsoll --memory {whole} …  (with the reserve)"
            return f'memory="{whole}"  # with the reserve'
        if option == "--optimizer":
            return f"model.compile(optimizer=…) with {value}"
        if option == "--batch-norm":
            return f"no argument does it; on the command line {option} {value}"
        if option == "--no-spill":
            return "without spill=False"
        name = "batch_size" if option == "--batch" else option[2:].replace("-", "_")
        return f"without {name}" if left_out else f"{name}={value.removesuffix('x')}"


_NAMES = {one.name for one in fields(Options) if one.init}
# What calls are given beside options, for those who have mistyped it.
_OF_KERAS = ("batch_size", "epochs", "verbose", "callbacks", "validation_split", "validation_data",
             "shuffle", "class_weight", "sample_weight", "initial_epoch", "steps_per_epoch",
             "validation_steps", "validation_batch_size", "validation_freq", "isolate", "steps",
             "return_dict", "input_shape")  # fmt: skip


_told: set[str] = set()  # notices


class Listener:
    """What the engine calls while it works; does nothing."""

    predicted = 0  # bytes of the whole process while the plan that was begun runs

    def notice(self, text: str) -> None:
        """What is so of a model ("[name] …") is said once."""
        if text.startswith("[") and text in _told:
            return
        _told.add(text)
        print(f"plimsoll: {text.removeprefix('plimsoll: ')}", file=sys.stderr)

    def begin(self, plan: str) -> None:
        """The plan that is about to run, as JSON."""
        told = json.loads(plan)
        self.predicted = int(told["predicted_process_bytes"])
        smaller = told["block_set"]
        if smaller:
            often = {1: "once", 2: "twice"}.get(smaller, f"{smaller} times")
            self.notice(
                "the limit is met with smaller blocks of computation only (halved "
                f"{often}): results differ from those without a limit by rounding."
            )

    def step(self, step: int, loss: float) -> None:
        pass

    def validation(self, begins: bool) -> None:
        pass

    def passed_limit(self, measured: int, limit: int) -> None:
        print(
            f"plimsoll: the process has taken {_mib(measured)}, {_mib(measured - limit)} of the "
            "reserve among them, as it may. Where neither framework nor program has grown, please "
            "report it with the model and this line.",
            file=sys.stderr,
        )
