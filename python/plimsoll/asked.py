"""What a program that runs unchanged was asked to keep to, and what has come of it so far.

One of these for the process: methods of Keras's that were replaced look here what to do. The module
loads neither the engine nor Keras, since many programs never come to need them.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from typing import Any

ENGINES = ("auto", "native", "keras")
START_AGAIN = 75  # the exit code by which a program asks for another start, with nothing wrong
CHILDREN = "PLIMSOLL_CHILDREN"  # what the Python processes that a program starts are asked for


class Restart:
    """Where the state of fits is kept for the next start of this program.

    attempt: how often it has been started again. seed: of random numbers for which the program
    names no seed, the same in each start.
    """

    def __init__(self, folder: str, attempt: int, seed: int) -> None:
        self.folder, self.attempt, self.seed = folder, attempt, seed


class Asked:
    """memory and options: as `plimsoll.fit` takes them.

    strict: what the engine does not train is refused. engine: "auto" leaves models to Keras where
    it sees a GPU, "native" does not, "keras" leaves all. plans: the first training call is planned,
    and ends the program. inexact: where Keras trains, batches are cut into parts also where it is
    not proved that parts give what the whole gives. limit: bytes of `memory`, which NumPy's arrays
    are held to. arrays: what they took is told at the end. restart: states of fits are kept, since
    the program is started again where the kernel kills it.
    """

    def __init__(
        self,
        memory: int | str | None = None,
        strict: bool = False,
        engine: str = "auto",
        plans: bool = False,
        options: dict[str, Any] | None = None,
        inexact: bool = False,
        limit: int | None = None,
        arrays: bool = False,
    ) -> None:
        if engine not in ENGINES:
            raise ValueError(f'engine: expected "auto", "native" or "keras", received {engine!r}.')
        self.memory, self.strict, self.engine, self.plans = memory, strict, engine, plans
        self.options, self.inexact = options or {}, inexact
        self.limit, self.arrays = limit, arrays
        self.restart: Restart | None = None

    @property
    def of_calls(self) -> dict[str, Any]:
        """Options for each call."""
        return {"memory": self.memory, **self.options}

    def written(self) -> str:
        import json

        return json.dumps({name: one for name, one in vars(self).items() if name != "restart"})

    @classmethod
    def read(cls, text: str) -> Asked:
        import json

        return cls(**json.loads(text))


class Outcome:
    """What the engine has done, and what it has not and why."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.taken = 0  # calls of Keras's
        self.ran = 0  # epochs and calls in the engine, whoever asked for them
        self.refused = 0  # calls, by strict
        self.found_keras = ""  # which one was imported
        self.told: set[tuple[str, str]] = set()
        self.steps: set[tuple[Any, int]] = set()  # places of steps of optimizers that were named

    def why_nothing(self) -> str:
        if not self.found_keras:
            return "the program has not imported Keras"
        if self.told:
            who = "Keras and TensorFlow themselves" if self.steps else "Keras itself"
            return f"{who} did, for the reasons in the lines above"
        return f"{self.found_keras} was imported, and no model was trained, evaluated or asked"


current: Asked | None = None  # None: nobody has asked
by_command = False  # `python -m plimsoll` has: a limit is named on its command line
outcome = Outcome()


def options_of_program() -> dict[str, Any]:
    """What calls of the program's own keep to where they name nothing else."""
    return {} if current is None else current.of_calls


def say(text: str) -> None:
    """One line to the user."""
    # As one piece, since other ranks write to the same terminal.
    print("plimsoll: " + " ".join(text.split()) + "\n", end="", file=sys.stderr, flush=True)


def say_at_end() -> None:
    """Where the engine has done nothing at all."""
    if current is None or outcome.process != os.getpid():
        return
    if outcome.taken or outcome.ran or outcome.refused:
        return
    say(f"nothing was trained by Plimsoll in this process: {outcome.why_nothing()}.")
