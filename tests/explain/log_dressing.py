"""What stands around a failure's own lines in a log: prefixes of loggers and clusters, wrapped and
cut lines, glued progress bars, escapes. None of it changes what the log says."""

import json
import random
from collections.abc import Callable

Lines = list[str]


def clock(rng: random.Random) -> str:
    return f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}"


def day(rng: random.Random) -> str:
    return f"20{rng.randrange(17, 27)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"


def stamped(mark: Callable[[random.Random], str]) -> Callable[[random.Random, Lines], Lines]:
    """A mark of its own before each line."""
    return lambda rng, lines: [mark(rng) + line for line in lines]


def fixed(mark: Callable[[random.Random], str]) -> Callable[[random.Random, Lines], Lines]:
    """One mark, the same before all lines."""

    def dress(rng: random.Random, lines: Lines) -> Lines:
        text = mark(rng)
        return [text + line for line in lines]

    return dress


def docker_json(rng: random.Random, lines: Lines) -> Lines:
    return [
        json.dumps(
            {"log": line + "\n", "stream": "stderr", "time": f"{day(rng)}T{clock(rng)}.123456789Z"}
        )
        for line in lines
    ]


def structured(rng: random.Random, lines: Lines) -> Lines:
    """One record of a structured logger holds the whole text."""
    level = rng.choice(["ERROR", "error", "critical"])
    key = rng.choice(["msg", "message", "exc_info", "exception"])
    record = {"ts": f"{day(rng)}T{clock(rng)}Z", "level": level, key: "\n".join(lines)}
    return [
        json.dumps({"ts": "0", "level": "info", "msg": "started"}),
        json.dumps(record, separators=rng.choice([(",", ":"), (", ", ": ")])),
    ]


def structured_each(rng: random.Random, lines: Lines) -> Lines:
    key = rng.choice(["msg", "message", "textPayload", "MESSAGE", "line"])
    return [
        json.dumps({"level": "error", key: line, "pid": rng.randrange(2, 99999), "logger": "train"})
        for line in lines
    ]


def logfmt(rng: random.Random, lines: Lines) -> Lines:
    return [
        f"time={day(rng)}T{clock(rng)}Z level=error msg={json.dumps(line)} job=train"
        for line in lines
    ]


PREFIXES: dict[str, Callable[[random.Random, Lines], Lines]] = {
    "plain": lambda rng, lines: lines,
    "quoted": fixed(lambda rng: rng.choice(["> ", "# > ", "    ", "\t", ">> "])),
    "pytest": fixed(lambda rng: "E   "),
    "rank": fixed(lambda rng: f"[rank{rng.randrange(64)}]: "),
    "mpirun": fixed(lambda rng: f"[1,{rng.randrange(64)}]<stderr>:"),
    "srun": fixed(lambda rng: f"{rng.randrange(16)}: "),
    "ray": fixed(lambda rng: f"\x1b[36m(train pid={rng.randrange(99999)}, ip=10.0.0.7)\x1b[0m "),
    "ray_lost": fixed(lambda rng: f"[2m[36m(Worker pid={rng.randrange(99999)})[0m "),
    "compose": fixed(
        lambda rng: rng.choice(["trainer-1  | ", "web_trainer_1 | ", "gpu-0      | "])
    ),
    "pod": fixed(lambda rng: "[pod/trainer-0/main] "),
    "stern": fixed(lambda rng: "trainer-5c9f4b-x2x7z main "),
    "cri": stamped(lambda rng: f"{day(rng)}T{clock(rng)}.123456789Z stderr F "),
    "docker_t": stamped(lambda rng: f"{day(rng)}T{clock(rng)}.123456789Z "),
    "actions": stamped(lambda rng: f"{day(rng)}T{clock(rng)}.1234567Z "),
    "docker_json": docker_json,
    "structured": structured,
    "structured_each": structured_each,
    "logfmt": logfmt,
    "syslog": stamped(
        lambda rng: f"May {rng.randrange(1, 31):2} {clock(rng)} gpu-host train[712]: "
    ),
    "syslog_iso": stamped(
        lambda rng: f"{day(rng)}T{clock(rng)}.{rng.randrange(10**6):06}+02:00 host python3[88]: "
    ),
    "syslog_docker": stamped(
        lambda rng: f"May {rng.randrange(1, 31):2} {clock(rng)} n1 dockerd[9]: "
    ),
    "python_logging": stamped(
        lambda rng: f"{day(rng)} {clock(rng)},{rng.randrange(1000):03} - root - ERROR - "
    ),
    "bracket_time": stamped(lambda rng: f"[{day(rng)} {clock(rng)}] "),
    "bracket_level": stamped(lambda rng: f"[{day(rng)} {clock(rng)},123][trainer][ERROR] - "),
    "pipe_level": stamped(lambda rng: f"{day(rng)} {clock(rng)}.123 | ERROR    | train:fit:77 - "),
    "plain_time": stamped(lambda rng: f"{day(rng)} {clock(rng)} "),
    "clock": stamped(lambda rng: f"[{clock(rng)}] "),
    "moreutils": stamped(lambda rng: f"May 04 {clock(rng)} "),
    "vllm": stamped(lambda rng: f"ERROR 03-23 {clock(rng)} [engine.py:430] "),
    "glog": stamped(lambda rng: f"E0501 {clock(rng)}.123456   140 train.py:33] "),
    "level": fixed(lambda rng: rng.choice(["ERROR:root:", "[ERROR] ", "stderr: ", "INFO: "])),
    "lightning": fixed(lambda rng: "[rank: 0] "),
    "colour": lambda rng, lines: ["\x1b[31m" + line + "\x1b[0m" for line in lines],
    "colour_words": lambda rng, lines: [
        line.replace("Error", "Error\x1b[39m\x1b[49m").replace("memory", "\x1b[1mmemory\x1b[0m")
        for line in lines
    ],
}

BARS = [
    "Epoch 3/10:  45%|████▌     | 1174/2610 [12:01<14:42,  1.63it/s, loss=0.412]",
    " 57/782 [=>............................] - ETA: 3:12 - loss: 2.1371",
    "100%|██████████| 938/938 [00:12<00:00, 76.03it/s]",
    "  0%|          | 0/2538 [00:00<?, ?it/s]",
    "step 1200 | loss 2.3141 | lr 3.0e-04 | norm 0.9811",
]


def wrap(lines: Lines, width: int) -> Lines:
    """A terminal's hard wrap, wherever the line is full."""
    return [line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width)]


def spread(rng: random.Random, lines: Lines) -> Lines:
    """A run of blanks for one blank of each long line, as pasted tables have it."""
    result = []
    for line in lines:
        blanks = [i for i, c in enumerate(line) if c == " " and 0 < i < len(line) - 1]
        if len(line) > 60 and blanks:
            at = rng.choice(blanks)
            line = line[:at] + " " * rng.randrange(20, 80) + line[at + 1 :]
        result.append(line)
    return result


def glue(rng: random.Random, lines: Lines) -> Lines:
    """A progress bar that was not finished stands in front of the first line."""
    return [rng.choice(BARS) + lines[0], *lines[1:]]


def returned(rng: random.Random, lines: Lines) -> Lines:
    return ["\r".join(rng.sample(BARS, 3)) + "\r" + lines[0], *lines[1:]]


def html(rng: random.Random, lines: Lines) -> Lines:
    return [
        line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
        for line in lines
    ]


def twice(rng: random.Random, lines: Lines) -> Lines:
    """Every rank, every root error and the coordinator print the same."""
    return lines * rng.randrange(2, 6)


CHANGES: dict[str, Callable[[random.Random, Lines], Lines]] = {
    "": lambda rng, lines: lines,
    "wrapped": lambda rng, lines: wrap(lines, 80),
    "wrapped_wide": lambda rng, lines: wrap(lines, rng.choice([100, 120, 132])),
    "spread": spread,
    "glued": glue,
    "returned": returned,
    "html": html,
    "repeated": twice,
    "lower": lambda rng, lines: [line.lower() for line in lines],
}

BEFORE: list[Lines] = [
    [],
    ["Epoch 1/10", "  1/782 [..............................] - ETA: 41:02 - loss: 0.6931"],
    ["[INFO] loading data", "[INFO] 50000 samples", "model has 23,587,712 parameters"],
    ["+ python train.py --config conf.yaml", "using device: cuda:0", ""],
    ["peak memory so far 5.2 GiB, limit 8 GiB", "step 40 loss 0.71", "step 50 loss 0.70"],
]
AFTER: list[Lines] = [
    [],
    ["", "cleaning up"],
    ["make: *** [Makefile:12: train] Error 1"],
    ["wandb: You can sync this run to the cloud by running:", "wandb: wandb sync /tmp/run-1"],
    ["Traceback ends here", "see the manual"],
]
