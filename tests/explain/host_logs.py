"""Failures on the host: refused there, or killed from outside; see failure_logs.py."""

import random

from failure_logs import GIB, Failure, amount, family

NUMPY_TYPES = ["float64", "float32", "uint8", "int64", "complex128", "object", "bool"]


@family
def numpy_array(rng: random.Random) -> Failure:
    shape = [rng.randrange(1000, 9000) for _ in range(rng.randrange(2, 5))]
    dtype = rng.choice(NUMPY_TYPES)
    digits = rng.choice([0, 1, 2])
    text = {
        0: f"{rng.randrange(100, 999)}. MiB",
        1: f"{rng.uniform(10, 99):.1f} GiB",
        2: f"{rng.uniform(1, 9):.2f} TiB",
    }[digits]
    number, unit = text.split()
    count = int(float(number) * {"MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}[unit] + 0.5)
    name = rng.choice(
        [
            "numpy.core._exceptions._ArrayMemoryError: ",
            "MemoryError: ",
            "numpy._core._exceptions._ArrayMemoryError: ",
            "numpy.core._exceptions.MemoryError: ",
        ]
    )
    return Failure(
        [
            f"{name}Unable to allocate {text} for an array with shape "
            f"({', '.join(map(str, shape))}) and data "
            f"type {dtype}"
        ],
        "host_memory",
        ("host_ram_batch_or_dataset", "single_tensor_too_large"),
        truth={"bytes": count, "tensor_shape": shape, "dtype": dtype},
    )


@family
def numpy_old(rng: random.Random) -> Failure:
    shape = [rng.randrange(10**6, 10**8), rng.randrange(2, 90)]
    blank = rng.choice(["", " "])
    return Failure(
        [
            f"MemoryError:{blank}Unable to allocate array with shape "
            f"({shape[0]},{blank}{shape[1]}) "
            f"and data "
            "type float64"
        ],
        "host_memory",
        ("host_ram_batch_or_dataset", "single_tensor_too_large"),
        truth={"tensor_shape": shape, "dtype": "float64"},
    )


@family
def numpy_one_axis(rng: random.Random) -> Failure:
    count = rng.randrange(10**9, 10**11)
    return Failure(
        [
            f"numpy._core._exceptions._ArrayMemoryError: Unable to allocate {count * 8 / GIB:.1f} "
            f"GiB for an "
            f"array with shape ({count},) and data type float64"
        ],
        "host_memory",
        truth={
            "tensor_shape": [count],
            "dtype": "float64",
            "bytes": int(float(f"{count * 8 / GIB:.1f}") * GIB + 0.5),
        },
    )


@family
def numpy_cut(rng: random.Random) -> Failure:
    shape = [rng.randrange(1000, 90000), rng.randrange(1000, 90000)]
    text, count = amount(rng, 10, 99, " GiB", 1)
    return Failure(
        [
            f"ryError: Unable to allocate {text} for an array with shape ({shape[0]}, {shape[1]}) "
            f"and data type "
            "float64"
        ],
        "host_memory",
        truth={"bytes": count, "tensor_shape": shape, "dtype": "float64"},
    )


@family
def bare_memory_error(rng: random.Random) -> Failure:
    shape = [rng.randrange(1000, 90000), rng.choice([224, 256]), 3]
    name, dtype = rng.choice(
        [("np.zeros", "float32"), ("np.empty", "float64"), ("np.ones", "uint8")]
    )
    return Failure(
        [
            "Traceback (most recent call last):",
            '  File "load.py", line 12, in <module>',
            f"    images = {name}(({shape[0]}, {shape[1]}, {shape[2]}), dtype=np.{dtype})",
            "MemoryError",
        ],
        "host_memory",
        truth={"tensor_shape": shape, "dtype": dtype, "op": name},
    )


@family
def bare_memory_error_alone(rng: random.Random) -> Failure:
    return Failure(
        [
            "Traceback (most recent call last):",
            '  File "load.py", line 12, in read_all',
            "    rows = list(reader)",
            "MemoryError",
        ],
        "host_memory",
        truth={"op": ...},
    )


@family
def bad_alloc(rng: random.Random) -> Failure:
    return Failure(
        [
            "terminate called after throwing an instance of 'std::bad_alloc'",
            "  what():  std::bad_alloc",
            rng.choice(["Aborted", "Aborted (core dumped)"]),
        ],
        "host_memory",
    )


KERNEL_MARKS = [
    "[594646.252242] ",
    "Jan  3 04:05:06 host kernel: [594646.252242] ",
    "[Tue May  2 10:11:12 2023] ",
    "2024-05-06T07:08:09.101112+02:00 host kernel: ",
    "kern  :err   : [  412.120001] ",
    "May 02 10:11:12 gpu-host kernel: ",
]


@family
def kernel_report(rng: random.Random) -> Failure:
    pid, name = (
        rng.randrange(100, 99999),
        rng.choice(["python", "python3", "pt_data_worker", "ray::IDLE"]),
    )
    mark = rng.choice(KERNEL_MARKS)
    group = rng.random() < 0.5
    rss = rng.randrange(10**6, 10**8)
    constraint = (
        "CONSTRAINT_MEMCG,nodemask=(null),cpuset=docker,mems_allowed=0,oom_memcg=/docker/abc,"
        "task_memcg=/docker/abc"
        if group
        else "CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/user"
    )
    lines = [
        mark + "gsd-color invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, "
        "oom_score_adj=0",
        mark + "CPU: 3 PID: 812 Comm: gsd-color Not tainted 5.15.0-71-generic",
        mark + f"oom-kill:constraint={constraint},task={name},pid={pid},uid=1000",
        mark + f"{'Memory cgroup out' if group else 'Out'} of memory: Killed process {pid} "
        f"({name}) "
        f"total-vm:{rss * 2}kB, anon-rss:{rss}kB, file-rss:0kB, shmem-rss:0kB, UID:1000 "
        f"pgtables:9000kB "
        "oom_score_adj:0",
        mark + f"oom_reaper: reaped process {pid} ({name}), now anon-rss:0kB, file-rss:0kB, "
        f"shmem-rss:0kB",
    ]
    return Failure(
        lines,
        "host_memory",
        ("host_ram_container_limit",) if group else ("host_ram_batch_or_dataset",),
    )


@family
def kernel_old(rng: random.Random) -> Failure:
    mark = rng.choice(KERNEL_MARKS)
    group = rng.random() < 0.5
    return Failure(
        [
            mark + f"{'Memory cgroup out' if group else 'Out'} of memory: Kill process 4242 "
            f"(python) score 1004 "
            "or sacrifice child",
            mark
            + "Killed process 4242 (python)"
            + rng.choice([" ", ", UID 1000, "])
            + "total-vm:90000000kB, anon-rss:80000000kB, file-rss:0kB",
        ],
        "host_memory",
        ("host_ram_container_limit",) if group else ("host_ram_batch_or_dataset",),
    )


@family
def killed_alone(rng: random.Random) -> Failure:
    return Failure([rng.choice(["Killed", "Killed", "Killed: 9"])], "host_memory", ("unknown",))


@family
def killed_after_bar(rng: random.Random) -> Failure:
    return Failure(
        [
            rng.choice(
                [
                    " 57/782 [=>............................] - ETA: 3:12 - loss: 2.1371Killed",
                    "100%|██████████| 938/938 [00:12<00:00, 76.03it/s]Killed",
                    "step 3: mean_io_u: 0.9811Killed",
                ]
            )
        ],
        "host_memory",
        ("unknown",),
        whole=True,
    )


@family
def killed_job(rng: random.Random) -> Failure:
    pid = rng.randrange(100, 99999)
    return Failure(
        [
            rng.choice(
                [
                    f"./run.sh: line 28: {pid} Killed                  python3 main.py --config "
                    f"big.yaml",
                    f"/var/spool/slurmd/job81/slurm_script: line 14: {pid} Killed   srun python "
                    f"train.py",
                    "[1]+  Killed                  python train.py",
                    f"[1]    {pid} killed     python train.py",
                    "zsh: killed     python train.py",
                    "Process finished with exit code 137 (interrupted by signal 9: SIGKILL)",
                    "subprocess.CalledProcessError: Command '['python', 'train.py']' died with "
                    "<Signals.SIGKILL: 9>.",
                    f"RuntimeError: DataLoader worker (pid {pid}) is killed by signal: Killed.",
                    f"RuntimeError: DataLoader worker (pid(s) {pid}) exited unexpectedly",
                    'ERROR: process "/bin/sh -c python train.py" did not complete successfully: '
                    "exit code: "
                    "137",
                    "Command terminated by signal 9",
                    "train.service: Main process exited, code=killed, status=9/KILL",
                    "command terminated with exit code 137",
                    f"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "
                    f"exitcode  : -9 "
                    f"(pid: {pid})",
                    "concurrent.futures.process.BrokenProcessPool: A process in the process pool "
                    "was "
                    "terminated "
                    "abruptly while the future was running or pending.",
                    "srun: error: node17: task 0: Killed",
                    "make: *** [Makefile:3: train] Killed",
                    "Error: Process completed with exit code 137.",
                ]
            )
        ],
        "host_memory",
        ("unknown",),
    )


@family
def killed_translated(rng: random.Random) -> Failure:
    pid = rng.randrange(100, 99999)
    word, line = rng.choice(
        [
            ("Getötet", "Zeile"),
            ("已杀死", "行"),
            ("Убито", "строка"),
            ("Убит", "строка"),
            ("Processus arrêté", "ligne"),
            ("Tué", "ligne"),
            ("強制終了", "行"),
            ("Ucciso", "riga"),
            ("Matado", "línea"),
            ("Terminado (killed)", "línea"),
            ("Morto", "linha"),
            ("Unicestwiony", "linia"),
            ("죽었음", "줄"),
            ("Zabit (SIGKILL)", "řádek"),
            ("Dödad", "rad"),
            ("Abgebrochen (Killed)", "Zeile"),
            ("Вбито", "рядок"),
            ("Geëlimineerd", "regel"),
        ]
    )
    return Failure(
        [rng.choice([word, f"./run.sh: {line} 28: {pid} {word}              python3 main.py"])],
        "host_memory",
        ("unknown",),
    )


@family
def slurm(rng: random.Random) -> Failure:
    job, count = rng.randrange(10**5, 10**7), rng.randrange(1, 9)
    return Failure(
        rng.choice(
            [
                [
                    f"slurmstepd: error: Detected {count} oom-kill event(s) in step {job}.batch "
                    f"cgroup."
                ],
                [
                    f"slurmstepd: error: Detected {count} oom_kill events in StepId={job}.batch. "
                    f"Some of "
                    f"the step tasks "
                    "have been OOM Killed."
                ],
                [
                    f"slurmstepd: error: Detected {count} oom-kill event(s) in StepId={job}.0 "
                    f"cgroup. Some "
                    f"of your "
                    "processes may have been killed by the cgroup out-of-memory handler.",
                    "srun: error: gpu07: task 0: Out Of Memory",
                ],
                [f"srun: error: gpu07: task {count}: Out Of Memory"],
                ["slurmstepd: error: Exceeded job memory limit at some point."],
            ]
        ),
        "host_memory",
        ("host_ram_container_limit",),
    )


@family
def kubernetes(rng: random.Random) -> Failure:
    return Failure(
        rng.choice(
            [
                [
                    "    State:          Terminated",
                    "      Reason:       OOMKilled",
                    "      Exit Code:    137",
                ],
                ["trainer-0   0/1     OOMKilled   3 (41s ago)   12m"],
                ['{"reason":"OOMKilled","exitCode":137,"containerID":"containerd://1f"}'],
                [
                    "Status:  Failed",
                    "Reason:  Evicted",
                    "Message: The node was low on resource: memory. "
                    "Threshold "
                    "quantity: 100Mi, available: 76Mi. Container main was using 31Gi, request is "
                    "0, has "
                    "larger "
                    "consumption of memory.",
                ],
            ]
        ),
        "host_memory",
        ("host_ram_container_limit",),
        truth={f: ... for f in ("bytes",)},
    )


@family
def ray(rng: random.Random) -> Failure:
    used = rng.uniform(28, 31)
    kind = rng.choice(["task ID: ffff01", "actor ID: ffff02"])
    bracket = rng.choice(["", f"({kind}, name=train.<locals>.step, pid=4331, memory used=2.22GB) "])
    return Failure(
        [
            "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on "
            "memory.",
            f"Memory on the node (IP: 10.0.0.7, ID: 5f1c) where the task {bracket}was running was "
            f"{used:.2f}GB "
            f"/ 31.03GB ({used / 31.03:.6f}), which exceeds the memory usage threshold of 0.95.",
        ],
        "host_memory",
        ("host_ram_batch_or_dataset",),
        truth={"bytes": int(float(f"{used:.2f}") * GIB + 0.5), "op": ...},
    )


@family
def colab(rng: random.Random) -> Failure:
    return Failure(
        [
            "Your session crashed after using all available RAM."
            + rng.choice(
                [
                    "",
                    " If you are interested in access to high-RAM runtimes, you may want to "
                    "check out "
                    "Colab Pro.",
                    " As a Colab Pro user you have access to high-RAM runtimes.",
                ]
            )
        ],
        "host_memory",
        ("host_ram_batch_or_dataset",),
    )


@family
def fork(rng: random.Random) -> Failure:
    return Failure(
        ["    self.pid = os.fork()", "OSError: [Errno 12] Cannot allocate memory"],
        "host_memory",
        truth={"op": "os.fork"},
    )
