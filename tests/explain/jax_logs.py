"""Failures of JAX and Paddle; see failure_logs.py."""

import random

from failure_logs import GIB, MIB, Failure, amount, family, size_of


@family
def jax_line(rng: random.Random) -> Failure:
    count = rng.randrange(4096, 30 * GIB)
    return Failure(
        [
            rng.choice(
                [
                    f"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory "
                    f"while trying "
                    f"to allocate "
                    f"{count} bytes.",
                    f"RuntimeError: Resource exhausted: Out of memory while trying to allocate "
                    f"{count} bytes.",
                    f"2022-05-03 10:11:12.131415: E "
                    f"external/org_tensorflow/tensorflow/compiler/xla/python/"
                    f"local_client.cc:672] Execution of replica 0 failed: Resource exhausted: "
                    f"Out of memory "
                    f"while "
                    f"trying to allocate {count} bytes.",
                ]
            )
        ],
        "gpu_memory",
        truth={"bytes": count},
    )


@family
def jax_request(rng: random.Random) -> Failure:
    count, device = rng.randrange(MIB, 30 * GIB), rng.randrange(8)
    return Failure(
        [
            "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for "
            f"{count / GIB:.2f}GiB ({count}B) on device ordinal {device}"
        ],
        "gpu_memory",
        truth={"bytes": count, "device": f"device ordinal {device}"},
    )


@family
def jax_buffers(rng: random.Random) -> Failure:
    count = rng.randrange(5 * GIB, 30 * GIB)
    total = rng.uniform(10, 60)
    lines = [
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
        "allocate "
        f"{count} bytes.",
        "BufferAssignment OOM Debugging.",
        "BufferAssignment stats:",
        "             parameter allocation:  372.76MiB",
        "              constant allocation:    48.5KiB",
        f"        maybe_live_out allocation:   {total * 0.1:6.2f}GiB",
        f"     preallocated temp allocation:   {total * 0.8:6.2f}GiB",
        "  preallocated temp fragmentation:  680.30MiB (4.60%)",
        f"                 total allocation:   {total:6.2f}GiB",
        "              total fragmentation:  680.30MiB (4.60%)",
        "Peak buffers:",
    ]
    for i in range(rng.randrange(1, 5)):
        lines += [
            f"\tBuffer {i + 1}:",
            f"\t\tSize: {rng.uniform(1, 9):.2f}GiB",
            "\t\tOperator: "
            'op_name="jit(step)/jit(main)/transpose(jvp(bhqk,bkhd->bqhd))/dot_general['
            'dimension_numbers=(((3,), (1,)), ((0, 1), (0, 2)))]" '
            'source_file="/home/u/model.py" '
            "source_line=79",
            "\t\tXLA Label: fusion",
            "\t\tShape: bf16[16,2048,8192]",
            "\t\t==========================",
        ]
    return Failure(
        lines,
        "gpu_memory",
        ("true_peak",),
        truth={"bytes": count, "op": ..., "dtype": ..., "tensor_shape": ...},
    )


@family
def jax_tpu(rng: random.Random) -> Failure:
    used, count = amount(rng, 16, 90, "GiB")
    need = used[:-3] + "G"
    return Failure(
        [
            f"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent "
            f"error. Ran "
            f"out of memory in memory space hbm. Used {need} of 15.48G hbm."
            + rng.choice([" ", "\n "])
            + f"Exceeded hbm capacity by {float(need[:-1]) - 15.48:.2f}G.",
            "",
            f"Total hbm usage >= {need}:",
            "    reserved        530.00M",
            f"    program          {need}",
            "    arguments            0B",
        ],
        "gpu_memory",
        ("true_peak",),
        truth={"bytes": count, "device": "hbm"},
    )


@family
def jax_rematerialization(rng: random.Random) -> Failure:
    below, reached = rng.randrange(8 * GIB, 15 * GIB), rng.randrange(20 * GIB, 70 * GIB)
    first = reached + rng.randrange(GIB)
    return Failure(
        [
            "W0000 00:00:1700000000.000000    5182 hlo_rematerialization.cc:3183] Can't reduce "
            "memory use "
            f"below {below / GIB:.2f}GiB ({below} bytes) by rematerialization; only reduced to "
            f"{reached / GIB:.2f}GiB ({reached} bytes), down from {first / GIB:.2f}GiB ({first} "
            f"bytes) "
            "originally"
        ],
        "gpu_memory",
        ("true_peak",),
        "warning",
        {"bytes": reached},
    )


@family
def paddle_line(rng: random.Random) -> Failure:
    gpu, count = rng.randrange(4), rng.uniform(1, 9)
    held = rng.choice(["", "7.100000GB memory has been allocated and "])
    return Failure(
        [
            "ResourceExhaustedError: ",
            "",
            f"Out of memory error on GPU {gpu}. Cannot allocate "
            f"{count:.6f}GB "
            f"memory on GPU {gpu}, {held}available memory is only 726.750000MB.",
            "",
            "Please check whether there is any other process using GPU.",
        ],
        "gpu_memory",
        ("true_peak",),
        truth={"bytes": size_of(f"{count:.6f} GB"), "device": f"GPU {gpu}"},
    )


@family
def paddle_old(rng: random.Random) -> Failure:
    count = rng.randrange(2 * GIB, 8 * GIB)
    return Failure(
        [
            f"paddle.fluid.core_avx.EnforceNotMet: enforce allocating <= available "
            f"failed, {count} > "
            f"{GIB}"
        ],
        "gpu_memory",
        ("true_peak",),
        truth={"bytes": count},
    )
