"""Limits that are no memory, or not the one they are taken for; see failure_logs.py."""

import random

from failure_logs import Failure, family


@family
def windows_1455(rng: random.Random) -> Failure:
    return Failure(
        [
            rng.choice(
                [
                    "OSError: [WinError 1455] The paging file is too small for this operation to "
                    "complete. "
                    "Error "
                    'loading "C:\\torch\\lib\\cublas64_11.dll" or one of its dependencies.',
                    "OSError: [WinError 1455] 页面文件太小，无法完成操作。 Error loading "
                    '"C:\\torch\\lib\\cudnn_ops_infer64_8.dll" or one of its dependencies.',
                    "OSError: [WinError 1455] Die Auslagerungsdatei ist zu klein, um diesen "
                    "Vorgang "
                    "durchzuführen.",
                    "safetensors_rust.SafetensorError: Error while deserializing header: memory "
                    "map (os "
                    "error 1455)",
                ]
            )
        ],
        "host_memory",
        ("windows_pagefile",),
    )


@family
def shm_full(rng: random.Random) -> Failure:
    pid = rng.randrange(100, 99999)
    return Failure(
        rng.choice(
            [
                [
                    "ERROR: Unexpected bus error encountered in worker. This might be caused by "
                    "insufficient shared "
                    "memory (shm).",
                    f"RuntimeError: DataLoader worker (pid {pid}) is killed by signal: Bus "
                    f"error. It "
                    "is possible that dataloader's workers are out of shared memory. Please try "
                    "to raise "
                    "your shared "
                    "memory limit.",
                ],
                [
                    f"RuntimeError: unable to write to file "
                    f"</torch_{pid}_{rng.randrange(99999)}_0>: No "
                    f"space left on "
                    "device (28)"
                ],
                [
                    f"RuntimeError: unable to write to file </torch_{pid}_1> at "
                    f"/opt/conda/TH/THAllocator.c:383"
                ],
                [
                    '  File "/usr/lib/python3.8/multiprocessing/synchronize.py", line 57, in '
                    "__init__",
                    "    sl = self._semlock = _multiprocessing.SemLock(",
                    "OSError: [Errno 28] No space left on device",
                ],
            ]
        ),
        "shm",
        ("shm_too_small",),
        truth={"op": ...},
    )


@family
def bus_error(rng: random.Random) -> Failure:
    pid = rng.randrange(100, 99999)
    return Failure(
        [
            f"RuntimeError: DataLoader worker (pid {pid}) is killed by signal: Bus error."
            + rng.choice(
                [
                    "",
                    " It is possible that dataloader's workers are out of shared memory. Please "
                    "try "
                    "to raise "
                    "your shared memory limit.",
                ]
            )
        ],
        "shm",
        ("ambiguous_bus_error",),
    )


@family
def descriptors(rng: random.Random) -> Failure:
    return Failure(
        [
            rng.choice(
                [
                    "OSError: [Errno 24] Too many open files: '/data/train images/n=01440764.JPEG'",
                    "tensorflow.python.framework.errors_impl.ResourceExhaustedError: "
                    "/data/größe=3/a "
                    "b.tfrecord; Too "
                    "many open files",
                    "ResourceExhaustedError; Too many open files",
                    "RuntimeError: unable to open shared memory object </torch_4242_1> in "
                    "read-write mode: "
                    "Too many "
                    "open files (24)",
                    "RuntimeError: received 0 items of ancdata",
                    "OSError: [Errno 24] Too many open files",
                ]
            )
        ],
        "file_descriptors",
        ("fd_limit",),
    )


@family
def disk_full(rng: random.Random) -> Failure:
    return Failure(
        [
            rng.choice(
                [
                    "OSError: [Errno 28] No space left on device: '/data/out.h5'",
                    "tensorflow.python.framework.errors_impl.ResourceExhaustedError: "
                    "./model/model-49.tempstate5787507096018461664; No space left on device",
                    "tensorflow.python.framework.errors_impl.ResourceExhaustedError: disk quota "
                    "exceeded",
                    "OSError: [Errno 122] Disk quota exceeded",
                    "tar: write error: No space left on device",
                ]
            )
        ],
        "disk",
        ("disk_full_or_quota",),
        truth={"op": ...},
    )


@family
def disk_path_only(rng: random.Random) -> Failure:
    number = rng.randrange(10**18, 10**19)
    return Failure(
        [
            rng.choice(
                [
                    f"ResourceExhaustedError: ./model/model-49.tempstate{number}",
                    "Could not open events file: /logs/events.out.tfevents.1: Resource exhausted: "
                    "/logs/events.out.tfevents.1",
                ]
            )
        ],
        "disk",
        ("disk_or_fd_ambiguous",),
        truth={"op": ...},
    )


@family
def restore_path_only(rng: random.Random) -> Failure:
    return Failure(
        [
            "ResourceExhaustedError: /models/ckpt-12.data-00000-of-00001",
            "\t [[Node: save/RestoreV2_33 = RestoreV2[dtypes=[DT_FLOAT], "
            '_device="/job:localhost/replica:0/task:0/cpu:0"](_recv_save/Const_0)]]',
        ],
        "file_descriptors",
        ("fd_limit",),
        truth={"op": ..., "device": ..., "dtype": ...},
    )


@family
def grpc(rng: random.Random) -> Failure:
    count, limit = rng.randrange(5 * 10**6, 9 * 10**8), 4194304
    verb = rng.choice(["Received", "Sent"])
    words = f"{verb} message larger than max ({count} vs. {limit})"
    return Failure(
        rng.choice(
            [
                [
                    "grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated "
                    "with:",
                    "\tstatus = StatusCode.RESOURCE_EXHAUSTED",
                    f'\tdetails = "{words}"',
                    f"\tdebug_error_string = "
                    f'"{{"created":"@1500000000.0","description":"{words}","grpc_status":8}}"',
                ],
                [f"tensorflow.python.framework.errors_impl.ResourceExhaustedError: {words}"],
                [f"Resource exhausted:{words}"],
                [f"RPC failed8: {words}"],
            ]
        ),
        "message_size",
        ("message_size_limit",),
        truth={"bytes": count},
    )


@family
def protobuf(rng: random.Random) -> Failure:
    count = rng.randrange(2147483648, 9 * 10**9)
    text, truth = rng.choice(
        [
            ("ValueError: Cannot create a tensor proto whose content is larger than 2GB.", None),
            ("ValueError: GraphDef cannot be larger than 2GB.", None),
            (
                f"ValueError: The model's serialized size ({count}bytes) would be larger than "
                f"the limit "
                "(2147483647 bytes)",
                count,
            ),
            (
                "[libprotobuf ERROR google/protobuf/src/google/protobuf/io/coded_stream.cc:207] A "
                "protocol message "
                "was rejected because it was too big (more than 67108864 bytes).",
                ...,
            ),
        ]
    )
    return Failure([text], "message_size", ("proto_2gb",), truth={"bytes": truth})
