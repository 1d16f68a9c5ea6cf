"""Dumps of TensorFlow's and JAX's allocators; see failure_logs.py."""

import random
from typing import Any

from failure_logs import GIB, KIB, MIB, Failure, family, tf_size
from tensorflow_logs import HINT, STAMPS


def bin_of(size: int) -> int:
    """An allocator's bins hold sizes from a power of two up; the last one everything larger."""
    return min(max(size.bit_length() - 1, 8), 28)


def chunk_sizes(in_use: int, free: int, largest: int) -> tuple[list[int], list[int]]:
    pieces: list[int] = []
    while sum(pieces) < free and len(pieces) < 40:
        pieces.append(min(largest, free - sum(pieces)))
    return [in_use - 2 * (in_use // 3), in_use // 3, in_use // 3], pieces


PATHS = {
    "old": "tensorflow/core/common_runtime/bfc_allocator.cc:660",
    "1.14": "tensorflow/core/common_runtime/bfc_allocator.cc:793",
    "2": "external/local_xla/xla/tsl/framework/bfc_allocator.cc:1083",
}


def bin_lines(era: str, used: list[int], pieces: list[int]) -> list[str]:
    """What each bin holds."""
    lines = []
    for exponent in range(8, 29):
        held = [size for size in used if bin_of(size) == exponent]
        idle = [size for size in pieces if bin_of(size) == exponent]
        allocated, taken = tf_size(sum(held) + sum(idle)), tf_size(sum(held))
        amounts = (
            f" {allocated} allocated for chunks. {taken} client-requested for chunks. "
            f"{taken} in use in "
            if era == "old"
            else f". {allocated} allocated for chunks. {taken} in use in "
        )
        lines.append(
            f"Bin ({1 << exponent}): \tTotal Chunks: {len(held) + len(idle)}, Chunks in use: "
            f"{len(held)}{amounts}bin. {taken} client-requested in use in bin."
        )
    return lines


def chunk_lines(era: str, used: list[int], pieces: list[int]) -> list[str]:
    """Every chunk with its address."""
    lines, address = [], 0x7F0000000000
    for i, size in enumerate([*used, *pieces]):
        state = "InUse" if i < len(used) else "Free "
        if era == "old":
            word = "Chunk" if i < len(used) else "Free"
            lines.append(f"{word} at 0x{address:x} of size {size}")
        elif era == "1.14":
            lines.append(f"{state} at 0x{address:x} next {i + 1} of size {size}")
        else:
            lines.append(f"{state} at {address:x} of size {size} next {i + 1}")
        address += size
    return lines


def stats_lines(era: str, limit: int, in_use: int, allocs: int, largest: int) -> list[str]:
    """The counters, which stand without a stamp."""
    lines = [
        f"{label:<14}{value:>20}"
        for label, value in (
            ("Limit:", limit),
            ("InUse:", in_use),
            ("MaxInUse:", in_use),
            ("NumAllocs:", allocs),
            ("MaxAllocSize:", largest),
        )
    ]
    if era == "2":
        lines += [
            f"{'Reserved:':<18}{0:>16}",
            f"{'PeakReserved:':<18}{0:>16}",
            f"{'LargestFreeBlock:':<18}{0:>16}",
        ]
    return lines


def bfc_dump(
    rng: random.Random,
    head: list[str],
    request: int,
    limit: int,
    in_use: int,
    region: int,
    largest: int,
    allocs: int,
    holder: int = 0,
) -> list[str]:
    """An allocator's dump in one of its eras; its sums agree with each other."""
    era = rng.choice(["old", "1.14", "2"])
    path = PATHS[era]
    if rng.random() < 0.2:
        path = "C:\\tf_jenkins\\workspace\\tensorflow\\core\\common_runtime\\bfc_allocator.cc:275"
    stamp = "" if era == "old" and rng.random() < 0.5 else STAMPS[0]
    used, pieces = chunk_sizes(in_use, region - in_use, largest)
    stamped = [
        *(["BFCAllocator dump for GPU_0_bfc"] if era == "2" else []),
        *bin_lines(era, used, pieces),
        f"Bin for {tf_size(request)} was 256.00MiB, Chunk State: ",
        *chunk_lines(era, used, pieces),
        "     Summary of in-use Chunks by size: ",
        *[f"1 Chunks of size {size} totalling {tf_size(size)}" for size in used],
        f"Sum Total of in-use chunks: {tf_size(in_use)}",
    ]
    if era != "old":
        stamped.append(
            f"total_region_allocated_bytes_: {region} memory_limit_: {limit} available "
            f"bytes: {limit - region} curr_region_allocation_bytes_: {2 * limit}"
        )
    lines = [f"{stamp}I {path}] {line}" for line in [*stamped, "Stats: "]]
    stars = "*" * 40 + "_" * 3 + "x" * 2 + "*" * 55
    stats = stats_lines(era, limit, in_use, allocs, max(used))
    return [*head, *lines, *stats, "", f"{stamp}W {path}] {stars}"]


def refusal_head(rng: random.Random, request: int) -> tuple[list[str], int, bool]:
    """The line that opens a dump; bytes that it states, and whether it names the allocator."""
    text = tf_size(request)
    shown = int(float(text.rstrip("KMGiB")) * {"K": KIB, "M": MIB, "G": GIB}.get(text[-3], 1) + 0.5)
    mark = f"{STAMPS[0]}W tensorflow/core/common_runtime/bfc_allocator.cc:273] "
    era = rng.randrange(4)
    if era == 0:
        return (
            [mark + f"Ran out of memory trying to allocate {text}.  See logs for memory state."],
            shown,
            False,
        )
    if era == 1:
        return (
            [
                mark + f"Allocator (GPU_0_bfc) ran out of memory trying to allocate {text}.  "
                f"Current "
                "allocation summary follows."
            ],
            shown,
            True,
        )
    lines = [
        mark + f"Allocator (GPU_0_bfc) ran out of memory trying to allocate {text} (rounded "
        f"to "
        f"{request})requested by op Mul"
    ]
    if era == 3:
        lines.append(
            "If the cause is memory fragmentation maybe the environment variable "
            "'TF_GPU_ALLOCATOR=cuda_malloc_async' will improve the situation. "
        )
    return (
        [*lines, "Current allocation summary follows.", "Current allocation summary follows."],
        request,
        True,
    )


def bfc_failure(
    rng: random.Random, cause: tuple[str, ...], request: int, **figures: int
) -> Failure:
    head, shown, named = refusal_head(rng, request)
    lines = bfc_dump(rng, head, request, **figures)
    in_dump = any("dump for" in line for line in lines)
    truth: dict[str, Any] = {"bytes": shown, "op": ...}
    truth["allocator"] = "GPU_0_bfc" if named or in_dump else None
    return Failure(lines, "gpu_memory", cause, truth=truth)


def aligned(value: float) -> int:
    return int(value) // 256 * 256


@family
def bfc_full(rng: random.Random) -> Failure:
    limit = aligned(rng.uniform(8, 40) * GIB)
    in_use = aligned(limit * rng.uniform(0.95, 0.99))
    request = aligned(rng.uniform(0.06, 0.2) * limit)
    return bfc_failure(
        rng,
        ("true_peak",),
        request,
        limit=limit,
        in_use=in_use,
        region=limit,
        largest=aligned((limit - in_use) * 0.9),
        allocs=rng.randrange(1000, 99999),
    )


@family
def bfc_fragmented(rng: random.Random) -> Failure:
    limit = aligned(rng.uniform(8, 40) * GIB)
    request = aligned(rng.uniform(0.05, 0.1) * limit)
    in_use = limit - aligned(request * rng.uniform(1.5, 2.5))
    return bfc_failure(
        rng,
        ("fragmentation",),
        request,
        limit=limit,
        in_use=in_use,
        region=limit,
        largest=aligned(request * 0.6),
        allocs=rng.randrange(1000, 99999),
    )


@family
def bfc_small_limit(rng: random.Random) -> Failure:
    limit = aligned(rng.uniform(50, 80) * MIB)
    in_use = aligned(limit * 0.8)
    return bfc_failure(
        rng,
        ("memory_limit_too_small",),
        aligned(18 * MIB),
        limit=limit,
        in_use=in_use,
        region=limit,
        largest=limit - in_use,
        allocs=1714,
    )


@family
def bfc_stats_only(rng: random.Random) -> Failure:
    limit = rng.randrange(9 * GIB, 30 * GIB)
    in_use = int(limit * rng.uniform(0.95, 0.995))
    return Failure(
        [
            f"Limit:        {limit:>20}",
            f"InUse:        {in_use:>20}",
            f"MaxInUse:     {in_use:>20}",
            f"NumAllocs:    {rng.randrange(1000, 9999):>20}",
            f"MaxAllocSize: {limit // 9:>20}",
            HINT,
        ],
        "gpu_memory",
        ("true_peak",),
    )


@family
def bfc_many_allocations(rng: random.Random) -> Failure:
    limit = rng.randrange(6 * GIB, 12 * GIB)
    return Failure(
        [
            f"{STAMPS[0]}W tensorflow/core/common_runtime/bfc_allocator.cc:273] Allocator "
            f"(GPU_0_bfc) ran out "
            "of memory trying to allocate 64.00MiB.  Current allocation summary follows.",
            f"Limit:        {limit:>20}",
            f"InUse:        {int(limit * 0.99):>20}",
            f"MaxInUse:     {int(limit * 0.99):>20}",
            f"NumAllocs:    {rng.randrange(2 * 10**7, 10**8):>20}",
            f"MaxAllocSize: {limit // 100:>20}",
        ],
        "gpu_memory",
        ("leak_over_time",),
        truth={"bytes": 64 * MIB, "allocator": "GPU_0_bfc"},
    )


@family
def cuda_malloc_async(rng: random.Random) -> Failure:
    count, total = rng.randrange(GIB, 4 * GIB), 11 * GIB
    free = rng.randrange(10 * MIB, 200 * MIB)
    mark = "E1103 18:23:55.123456    4242 gpu_cudamallocasync_allocator.cc:"
    return Failure(
        [
            f"{mark}288] gpu_async_0 cuMemAllocAsync failed to allocate {count} bytes: INTERNAL: : "
            "CUDA_ERROR_OUT_OF_MEMORY: out of memory",
            f" Reported by CUDA: Free memory/Total memory: {free}/{total}",
            f"{mark}293] Stats: Limit: {total}",
            f"InUse: {total - free:>24}",
            f"MaxInUse: {total - free:>20}",
            "NumAllocs:                        8123",
            f"MaxAllocSize: {2 * GIB:>20}",
            f"{mark}40] Histogram of current allocation: (allocation_size_in_bytes, "
            "nb_allocation_of_that_sizes), ...;",
            f"{mark}45] 4, 12",
            f"{mark}45] 9437184, 3",
        ],
        "gpu_memory",
        ("true_peak",),
        truth={"bytes": count, "allocator": "gpu_async_0"},
    )
