"""Failures of PyTorch; see failure_logs.py."""

import random

from failure_logs import GIB, MIB, Failure, amount, family, printed

FRAMES = [
    [],
    [
        "Traceback (most recent call last):",
        '  File "train.py", line 41, in <module>',
        "    main()",
        '  File "train.py", line 30, in main',
        "    total = model(x)",
    ],
]


def torch_error(rng: random.Random) -> str:
    return rng.choice(
        [
            "RuntimeError: ",
            "torch.cuda.OutOfMemoryError: ",
            "torch.OutOfMemoryError: ",
            "OutOfMemoryError: ",
        ]
    )


def bracket(rng: random.Random, asked: str, card: float, used: float, free: str, held: str) -> str:
    gpu = rng.randrange(8)
    tail = rng.choice([f"{held} cached)", f"{held} reserved in total by PyTorch)"])
    if tail.endswith("cached)"):
        number, unit = held.split()
        tail = f"{max(float(number) - used, 0.01):.2f} {unit} cached)"
    else:
        tail += rng.choice(
            [
                "",
                " If reserved memory is >> allocated memory try setting "
                "max_split_size_mb "
                "to avoid fragmentation.  See documentation for Memory Management and "
                "PYTORCH_CUDA_ALLOC_CONF",
            ]
        )
    return (
        f"CUDA out of memory. Tried to allocate {asked} (GPU {gpu}; {card:.2f} GiB total "
        f"capacity; "
        f"{used:.2f} GiB already allocated; {free} free; {tail}"
    )


def gpu_of(text: str) -> str:
    return "GPU " + text.split("(GPU ")[1].split(";")[0]


@family
def torch_1x_full(rng: random.Random) -> Failure:
    card = rng.choice([10.92, 15.9, 23.7, 31.75, 39.59, 79.35])
    used = card * rng.uniform(0.9, 0.94)
    asked, count = amount(rng, 100, 999, " MiB")
    text = bracket(
        rng,
        asked,
        card,
        used,
        printed(rng.uniform(5, 60), "MiB"),
        printed(used + rng.uniform(0.01, 0.03) * card, "GiB"),
    )
    return Failure(
        [torch_error(rng) + text],
        "gpu_memory",
        ("true_peak",),
        truth={"bytes": count, "device": gpu_of(text)},
    )


@family
def torch_1x_fragmented(rng: random.Random) -> Failure:
    card = rng.choice([10.92, 15.9, 23.7, 31.75, 39.59, 79.35])
    used, held = card * rng.uniform(0.5, 0.6), card * rng.uniform(0.92, 0.95)
    asked, count = amount(rng, 0.1 * card, 0.2 * card, " GiB")
    text = bracket(rng, asked, card, used, printed(rng.uniform(5, 60), "MiB"), printed(held, "GiB"))
    return Failure(
        [torch_error(rng) + text],
        "gpu_memory",
        ("fragmentation",),
        truth={"bytes": count, "device": gpu_of(text)},
    )


@family
def torch_1x_enough_free(rng: random.Random) -> Failure:
    card = rng.choice([10.92, 15.9, 23.7])
    used = card * rng.uniform(0.05, 0.2)
    asked, count = amount(rng, 20, 400, " MiB")
    text = bracket(rng, asked, card, used, printed(card * 0.5, "GiB"), printed(used + 0.1, "GiB"))
    return Failure(
        [torch_error(rng) + text],
        "gpu_memory",
        ("free_exceeds_request",),
        truth={"bytes": count, "device": gpu_of(text)},
    )


@family
def torch_1x_small_card(rng: random.Random) -> Failure:
    card = rng.choice([1.96, 2.0, 3.95, 4.0])
    used = card * rng.uniform(0.78, 0.82)
    asked, count = amount(rng, 100, 400, " MiB")
    text = bracket(
        rng, asked, card, used, printed(rng.uniform(5, 60), "MiB"), printed(used + 0.05, "GiB")
    )
    return Failure(
        [torch_error(rng) + text],
        "gpu_memory",
        ("gpu_too_small",),
        truth={"bytes": count, "device": gpu_of(text)},
    )


@family
def torch_1x_beyond(rng: random.Random) -> Failure:
    card = rng.choice([10.92, 15.9, 23.7])
    asked, count = amount(rng, 100, 9000, " GiB")
    text = bracket(rng, asked, card, 1.2, printed(card - 3, "GiB"), printed(1.3, "GiB"))
    return Failure(
        [torch_error(rng) + text],
        "gpu_memory",
        ("single_tensor_too_large",),
        truth={"bytes": count, "device": gpu_of(text)},
    )


def sentences(
    rng: random.Random,
    asked: str,
    card: float,
    free: str,
    used: float,
    idle: str,
    processes: list[str],
    word: str = "CUDA",
) -> tuple[str, str]:
    """The message of 2.1 and later, and the device it names."""
    gpu = rng.randrange(8)
    spelling = rng.choice(["capacity", "capacty"])
    rng.shuffle(processes)
    private = rng.choice(["", "with 46.00 MiB allocated in private pools (e.g., CUDA Graphs), "])
    tail = rng.choice(
        [
            " If reserved but unallocated memory is large try setting max_split_size_mb to avoid "
            "fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
            " If reserved but unallocated memory is large try setting "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
            "documentation "
            "for Memory Management  "
            "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)",
        ]
    )
    text = (
        f"{word} out of memory. Tried to allocate {asked}. GPU {gpu} has a total {spelling} of "
        f"{card:.2f} GiB of which {free} is free. "
        f"{' '.join(processes)}{' ' if processes else ''}Of the "
        f"allocated memory {used:.2f} GiB is allocated by PyTorch, {private}and {idle} is "
        f"reserved by "
        f"PyTorch but unallocated.{tail}"
    )
    return text, f"GPU {gpu}"


def own(bytes_gib: float) -> str:
    return f"Including non-PyTorch memory, this process has {bytes_gib:.2f} GiB memory in use."


def other(rng: random.Random, bytes_gib: float) -> str:
    return f"Process {rng.randrange(100, 4000000)} has {bytes_gib:.2f} GiB memory in use."


@family
def torch_2x_full(rng: random.Random) -> Failure:
    card = rng.choice([15.77, 21.96, 23.69, 47.5, 79.15, 139.8])
    used = card * rng.uniform(0.9, 0.93)
    asked, count = amount(rng, 0.03 * card, 0.2 * card, " GiB")
    text, gpu = sentences(
        rng,
        asked,
        card,
        printed(rng.uniform(2, 90), "MiB"),
        used,
        printed(rng.uniform(20, 200), "MiB"),
        rng.choice([[], [own(used + 0.6)]]),
    )
    return Failure(
        [*rng.choice(FRAMES), torch_error(rng) + text],
        "gpu_memory",
        ("true_peak",),
        truth={"bytes": count, "device": gpu, "op": ...},
    )


@family
def torch_2x_in_container(rng: random.Random) -> Failure:
    """The listed process is this one, by a number that a container does not know."""
    card = rng.choice([15.77, 23.69, 79.15])
    used = card * 0.92
    asked, count = amount(rng, 0.05 * card, 0.2 * card, " GiB")
    text, gpu = sentences(
        rng,
        asked,
        card,
        printed(rng.uniform(2, 90), "MiB"),
        used,
        printed(120, "MiB"),
        [other(rng, used + 0.12 + 0.5)],
    )
    return Failure(
        [torch_error(rng) + text],
        "gpu_memory",
        ("true_peak",),
        truth={"bytes": count, "device": gpu},
    )


@family
def torch_2x_fragmented(rng: random.Random) -> Failure:
    card = rng.choice([15.77, 21.96, 47.5, 79.15])
    used, idle = card * 0.55, card * rng.uniform(0.3, 0.36)
    asked, count = amount(rng, 0.1 * card, 0.2 * card, " GiB")
    text, gpu = sentences(
        rng,
        asked,
        card,
        printed(rng.uniform(2, 90), "MiB"),
        used,
        printed(idle, "GiB"),
        [own(used + idle + 0.6)],
    )
    return Failure(
        [torch_error(rng) + text],
        "gpu_memory",
        ("fragmentation",),
        truth={"bytes": count, "device": gpu},
    )


@family
def torch_2x_shared(rng: random.Random) -> Failure:
    card = rng.choice([15.77, 23.69, 47.5, 79.15])
    used, theirs = card * 0.2, card * rng.uniform(0.6, 0.7)
    asked, count = amount(rng, 0.1 * card, 0.2 * card, " GiB")
    text, gpu = sentences(
        rng,
        asked,
        card,
        printed(rng.uniform(2, 90), "MiB"),
        used,
        printed(30, "MiB"),
        [other(rng, theirs), own(used + 0.5)],
    )
    return Failure(
        [torch_error(rng) + text],
        "gpu_memory",
        ("gpu_held_by_other_process",),
        truth={"bytes": count, "device": gpu},
    )


@family
def torch_hip(rng: random.Random) -> Failure:
    card = rng.choice([15.98, 19.94, 63.98])
    asked, count = amount(rng, 0.05 * card, 0.2 * card, " GiB")
    text, gpu = sentences(
        rng,
        asked,
        card,
        printed(rng.uniform(2, 90), "MiB"),
        card * 0.93,
        printed(90, "MiB"),
        [],
        "HIP",
    )
    return Failure(
        ["torch.OutOfMemoryError: " + text.replace("CUDA_ALLOC", "HIP_ALLOC")],
        "gpu_memory",
        ("true_peak",),
        truth={"bytes": count, "device": gpu},
    )


@family
def torch_xpu(rng: random.Random) -> Failure:
    asked, count = amount(rng, 4.1, 9, " GiB")
    return Failure(
        [
            rng.choice(
                [
                    f"torch.OutOfMemoryError: XPU out of memory. Tried to allocate {asked}. GPU "
                    f"0 has a "
                    f"total capacity "
                    "of 15.11 GiB. Of the allocated memory 0 bytes is allocated by PyTorch, and "
                    "0 bytes is "
                    "reserved "
                    "by PyTorch but unallocated. Please use `empty_cache` to release all "
                    "unoccupied cached "
                    "memory.",
                    "RuntimeError: Current platform can NOT allocate memory block with size "
                    "larger than 4GB! "
                    "Tried to "
                    f"allocate {asked} (GPU  0; 15.56 GiB total capacity; 4.05 GiB already "
                    f"allocated; 4.36 GiB "
                    "reserved in total by PyTorch)",
                ]
            )
        ],
        "gpu_memory",
        ("single_allocation_limit",),
        truth={"bytes": count, "device": "GPU 0"},
    )


@family
def torch_npu(rng: random.Random) -> Failure:
    asked, count = amount(rng, 60, 900, " MiB")
    npu = rng.randrange(8)
    return Failure(
        [
            f"RuntimeError: NPU out of memory. Tried to allocate {asked} (NPU {npu}; 61.27 GiB "
            f"total capacity; "
            "56.05 GiB already allocated; 56.05 GiB current active; 5.04 MiB free; 58.39 GiB "
            "reserved in "
            "total by PyTorch)" + rng.choice([".", ""]) + "If reserved memory is >> allocated "
            "memory try "
            "setting max_split_size_mb to avoid fragmentation."
        ],
        "gpu_memory",
        truth={"bytes": count, "device": f"NPU {npu}"},
    )


@family
def torch_mps(rng: random.Random) -> Failure:
    gib, mib = rng.choice([(" GB", " MB"), (" GiB", " MiB")])
    asked, count = amount(rng, 60, 900, mib)
    limit = rng.choice([9.07, 18.13, 27.2, 45.9])
    return Failure(
        [
            f"RuntimeError: MPS backend out of memory (MPS allocated: {limit * 0.9:.2f}{gib}, "
            f"other "
            f"allocations: {limit * 0.09:.2f}{gib}, max allowed: {limit:.2f}{gib}). Tried to "
            f"allocate {asked} "
            "on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for "
            "memory "
            "allocations (may cause system failure)."
        ],
        "gpu_memory",
        ("true_peak",),
        truth={"bytes": count, "device": "MPS"},
    )


@family
def torch_async(rng: random.Random) -> Failure:
    asked, count = amount(rng, 60, 900, " MiB")
    return Failure(
        [
            "torch.cuda.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out "
            "of memory)",
            "Currently allocated     : 21.89 GiB",
            f"Requested               : {asked}",
            "Device limit            : 23.69 GiB",
            "Free (according to CUDA): 2.94 MiB",
            "PyTorch limit (set by user-supplied memory fraction)",
            "                        : 17179869184.00 GiB",
        ],
        "gpu_memory",
        truth={"bytes": count, "device": "device 0"},
    )


@family
def torch_old(rng: random.Random) -> Failure:
    return Failure(
        [
            rng.choice(
                [
                    "RuntimeError: cuda runtime error (2) : out of memory at "
                    "/pytorch/aten/src/THC/generic/"
                    "THCStorage.cu:58",
                    "THCudaCheck FAIL file=/pytorch/aten/src/THC/generic/THCStorage.cu line=58 "
                    "error=2 : out "
                    "of memory",
                ]
            )
        ],
        "gpu_memory",
    )


@family
def torch_plain(rng: random.Random) -> Failure:
    return Failure(
        rng.choice(
            [
                ["RuntimeError: CUDA error: out of memory"],
                [
                    "RuntimeError: CUDA error: out of memory",
                    "CUDA kernel errors might be asynchronously reported at some other API call, "
                    "so the "
                    "stacktrace "
                    "below might be incorrect.",
                    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1.",
                ],
                ["torch.AcceleratorError: CUDA error: out of memory"],
            ]
        ),
        "gpu_memory",
    )


@family
def torch_cublas(rng: random.Random) -> Failure:
    return Failure(
        [
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
            "`cublasCreate(handle)`"
        ],
        "gpu_memory",
        ("driver_or_library_init",),
    )


@family
def torch_cpu(rng: random.Random) -> Failure:
    count = rng.randrange(100 * MIB, 60 * GIB)
    text, causes, allocator = rng.choice(
        [
            (
                f"RuntimeError: [enforce fail at alloc_cpu.cpp:73] . DefaultCPUAllocator: can't "
                f"allocate memory: "
                f"you tried to allocate {count} bytes. Error code 12 (Cannot allocate memory)",
                ("host_ram_batch_or_dataset", "single_tensor_too_large"),
                "DefaultCPUAllocator",
            ),
            (
                f"RuntimeError: [enforce fail at alloc_cpu.cpp:66] err == 0. "
                f"DefaultCPUAllocator: can't "
                f"allocate "
                f"memory: you tried to allocate {count} bytes. Error code 12 (Cannot allocate "
                f"memory)",
                ("host_ram_batch_or_dataset", "single_tensor_too_large"),
                "DefaultCPUAllocator",
            ),
            (
                f"RuntimeError: [enforce fail at ..\\c10\\core\\impl\\alloc_cpu.cpp:72] data. "
                f"DefaultCPUAllocator: not enough memory: you tried to allocate {count} bytes.",
                ("windows_pagefile", "host_ram_batch_or_dataset", "single_tensor_too_large"),
                "DefaultCPUAllocator",
            ),
            (
                f"RuntimeError: [enforce fail at "
                f"C:\\w\\b\\windows\\pytorch\\c10\\core\\impl\\alloc_cpu.cpp:81] "
                f"data. DefaultCPUAllocator: not enough memory: you tried to allocate {count} "
                f"bytes. "
                f"Buy new RAM!",
                ("windows_pagefile", "host_ram_batch_or_dataset", "single_tensor_too_large"),
                "DefaultCPUAllocator",
            ),
        ]
    )
    return Failure([text], "host_memory", causes, truth={"bytes": count, "allocator": allocator})


@family
def torch_03_cpu(rng: random.Random) -> Failure:
    count = rng.randrange(2, 90)
    return Failure(
        [
            f"RuntimeError: $ Torch: not enough memory: you tried to allocate {count}GB. "
            f"Buy new "
            "RAM! at /pytorch/torch/lib/TH/THGeneral.c:246"
        ],
        "host_memory",
        truth={"bytes": count * GIB},
    )


@family
def torch_cut(rng: random.Random) -> Failure:
    asked, count = amount(rng, 1, 9, " GiB")
    rest = (
        "23.69 GiB total capacity; 21.80 GiB already allocated; 20.31 MiB free; 22.10 GiB "
        "reserved in "
        "total by PyTorch)"
    )
    kind = rng.randrange(3)
    if kind == 0:
        return Failure(
            [f"Tried to allocate {asked} (GPU 1; {rest}"],
            "gpu_memory",
            ("true_peak",),
            truth={"bytes": count, "device": "GPU 1"},
        )
    if kind == 1:
        return Failure([f"(GPU 1; {rest}"], "gpu_memory", truth={"device": "GPU 1"})
    return Failure([f"iB (GPU 1; {rest}"], "gpu_memory", truth={"device": "GPU 1"})


@family
def torch_lm_head(rng: random.Random) -> Failure:
    asked, count = amount(rng, 3, 20, " GiB")
    text, gpu = sentences(rng, asked, 79.15, "1.52 GiB", 70.3, "2.91 GiB", [own(77.0)])
    code, op = rng.choice(
        [
            ("logprobs = logits.log_softmax(-1)", "log_softmax"),
            (
                "loss = F.cross_entropy(logits.view(-1, vocab_size), labels.view(-1))",
                "cross_entropy",
            ),
            ("y = torch.nn.functional.one_hot(ids, num_classes=vocab)", "one_hot"),
        ]
    )
    return Failure(
        [
            "Traceback (most recent call last):",
            '  File "/home/u/train.py", line 88, in compute_loss',
            "    " + code,
            torch_error(rng) + text,
        ],
        "gpu_memory",
        ("vocab_softmax_or_one_hot",),
        truth={"bytes": count, "device": gpu, "op": op},
    )
