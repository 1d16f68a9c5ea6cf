"""Failures of TensorFlow; see failure_logs.py."""

import random

from failure_logs import GIB, MIB, Failure, amount, family, size_of, tf_size

TF_TYPES = {
    "float": 4,
    "double": 8,
    "half": 2,
    "int32": 4,
    "int64": 8,
    "complex64": 8,
    "bool": 1,
    "bfloat16": 2,
}
TF_NODES = [
    ("model/conv2d_7/Conv2D", "Conv2D"),
    ("gradients/block3/conv/Conv2D_grad/Conv2DBackpropInput", "Conv2DBackpropInput"),
    ("concatenate_5_5/concat", "ConcatV2"),
    ("lstm_1/while/MatMul", "MatMul"),
    ("a-b/c_1", "Mul"),
    ("FeatureExtractor/cell_12/AvgPool_1", "AvgPool"),
    ("functional_1/dense/BiasAdd", "BiasAdd"),
    ("tower_0/up_sampling2d_2/ResizeNearestNeighbor", "ResizeNearestNeighbor"),
]
STAMPS = [
    "2019-04-01 10:11:12.131415: ",
    "",
    "2023-11-03 18:23:55.000001: ",
]


def tf_shape(rng: random.Random) -> list[int]:
    """Activations: a batch, an image, channels."""
    side = rng.choice([14, 28, 56, 112, 224, 254, 416, 512])
    channels = rng.choice([32, 64, 67, 96, 128, 256])
    return rng.choice(
        [
            [rng.choice([8, 16, 32, 64, 128]), side, side, channels],
            [rng.choice([8, 16, 32, 64]), channels, side, side],
        ]
    )


def shape_text(shape: list[int]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"


def full_device(rng: random.Random, kind: str = "GPU") -> str:
    task = rng.choice(["localhost/replica:0/task:0", "worker/replica:0/task:3"])
    return f"/job:{task}/device:{kind}:{rng.randrange(4) if kind == 'GPU' else 0}"


def status(rng: random.Random) -> str:
    return rng.choice(
        [
            "tensorflow.python.framework.errors_impl.ResourceExhaustedError: ",
            "ResourceExhaustedError: ",
            "ResourceExhaustedError (see above for traceback): ",
            "2021-01-02 03:04:05.678901: W tensorflow/core/framework/op_kernel.cc:1318] "
            "OP_REQUIRES "
            "failed "
            "at conv_ops.cc:673 : Resource exhausted: ",
            "W tensorflow/core/common_runtime/executor.cc:1076] 0x18ef02bb0 Compute status: "
            "Resource "
            "exhausted: ",
            "2023-11-03 18:23:55.0: I tensorflow/core/framework/local_rendezvous.cc:405] Local "
            "rendezvous "
            "is aborting with status: RESOURCE_EXHAUSTED: ",
            "tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{function_node "
            "__wrapped__Conv2D_device_/job:localhost/replica:0/task:0/device:GPU:0}} ",
        ]
    )


HINT = (
    "Hint: If you want to see a list of allocated tensors when OOM happens, add "
    "report_tensor_allocations_upon_oom to RunOptions for current allocation info."
)


@family
def tf_05_dims(rng: random.Random) -> Failure:
    shape = tf_shape(rng)
    dims = " ".join(f"dim {{ size: {n} }}" for n in shape)
    name, op = rng.choice(TF_NODES)
    device = "/job:localhost/replica:0/task:0/gpu:0"
    return Failure(
        [
            "W tensorflow/core/common_runtime/executor.cc:1027] 0x5b9b Compute status: Resource "
            "exhausted: "
            "OOM when allocating tensor with shape" + dims,
            f'\t [[Node: {name} = {op}[T=DT_FLOAT, _device="{device}"](x, y)]]',
        ],
        "gpu_memory",
        truth={"tensor_shape": shape, "op": name, "device": device, "dtype": "float"},
    )


@family
def tf_06_to_14(rng: random.Random) -> Failure:
    shape = tf_shape(rng)
    name, op = rng.choice(TF_NODES)
    device = rng.choice(["/gpu:0", "/job:localhost/replica:0/task:0/gpu:0", "/device:GPU:0"])
    tail = ['\t [[Node: add/_25 = _Recv[client_terminated=false, _device="/cpu:0"]()]]']
    return Failure(
        [
            "ResourceExhaustedError: OOM when allocating tensor with shape" + shape_text(shape),
            f'\t [[Node: {name} = {op}[T=DT_FLOAT, _device="{device}"](a, b)]]',
            *tail,
        ],
        "gpu_memory",
        truth={"tensor_shape": shape, "op": name, "device": device, "dtype": "float"},
    )


def oom_words(rng: random.Random, shape: list[int], dtype: str, device: str, name: str) -> str:
    return (
        f"OOM when allocating tensor with shape{shape_text(shape)} and type {dtype} on "
        f"{device} "
        f"by allocator {name}"
    )


@family
def tf_112_node(rng: random.Random) -> Failure:
    shape, dtype = tf_shape(rng), rng.choice(list(TF_TYPES))
    device = full_device(rng)
    allocator = f"GPU_{device[-1]}_bfc"
    name, op = rng.choice(TF_NODES)
    node = rng.choice(
        [
            f"[[node {name} (defined at train.py:190)  = {op}[T=DT_FLOAT](x, y)]]",
            f"[[{{{{node {name}}}}}]]",
            f'[[{{{{node {name}}}}} = {op}[T=DT_FLOAT, data_format="NCHW"](x, y)]]',
            f"[[node {name} (defined at C:\\code\\train.py:41) ]]",
            f"[[node {name} (defined at /usr/lib/python3/site-packages/keras/backend.py:3009) ]]",
        ]
    )
    return Failure(
        [status(rng) + oom_words(rng, shape, dtype, device, allocator), "\t " + node, HINT, ""],
        "gpu_memory",
        truth={
            "tensor_shape": shape,
            "dtype": dtype,
            "device": device,
            "allocator": allocator,
            "op": name,
        },
    )


@family
def tf_eager(rng: random.Random) -> Failure:
    shape, dtype, device = tf_shape(rng), rng.choice(list(TF_TYPES)), full_device(rng)
    op = rng.choice(["Conv2D", "AddV2", "MatMul", "Mul", "RandomUniform"])
    allocator = f"GPU_{device[-1]}_bfc"
    return Failure(
        [
            "tensorflow.python.framework.errors_impl.ResourceExhaustedError: "
            + oom_words(rng, shape, dtype, device, allocator)
            + f" [Op:{op}]"
        ],
        "gpu_memory",
        truth={
            "tensor_shape": shape,
            "dtype": dtype,
            "device": device,
            "allocator": allocator,
            "op": op,
        },
    )


@family
def tf_28_detected(rng: random.Random) -> Failure:
    shape, device = tf_shape(rng), full_device(rng)
    name, _ = rng.choice(TF_NODES)
    allocator = f"GPU_{device[-1]}_bfc"
    return Failure(
        [
            "ResourceExhaustedError: Graph execution error:",
            "",
            f"Detected at node '{name}' defined at (most recent call last):",
            '    File "/usr/lib/python3.10/runpy.py", line 196, in _run_module_as_main',
            "      return _run_code(code, main_globals, None,",
            '    File "train.py", line 32, in <module>',
            "      model.fit(x, y)",
            f"Node: '{name}'",
            oom_words(rng, shape, "float", device, allocator),
            f"\t [[{{{{node {name}}}}}]]",
            HINT + " This isn't available when running in Eager mode.",
            " [Op:__inference_train_function_3409]",
        ],
        "gpu_memory",
        truth={
            "tensor_shape": shape,
            "dtype": "float",
            "device": device,
            "allocator": allocator,
            "op": name,
        },
    )


@family
def tf_roots(rng: random.Random) -> Failure:
    shape, device = tf_shape(rng), full_device(rng)
    name, _ = rng.choice(TF_NODES)
    allocator = f"GPU_{device[-1]}_bfc"
    words = oom_words(rng, shape, "float", device, allocator)
    return Failure(
        [
            "tensorflow.python.framework.errors_impl.ResourceExhaustedError: 2 root error(s) "
            "found.",
            f"  (0) Resource exhausted: {words}",
            f"\t [[{{{{node {name}}}}}]]",
            HINT,
            "",
            "\t [[loss/mul/_17093]]",
            HINT,
            "",
            f"  (1) Resource exhausted: {words}",
            f"\t [[{{{{node {name}}}}}]]",
            HINT,
            "",
            "0 successful operations.",
            "0 derived errors ignored.",
        ],
        "gpu_memory",
        truth={
            "tensor_shape": shape,
            "dtype": "float",
            "device": device,
            "allocator": allocator,
            "op": name,
        },
    )


@family
def tf_constant(rng: random.Random) -> Failure:
    shape = [rng.randrange(512, 9000), rng.randrange(512, 9000)]
    return Failure(
        [
            "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating "
            "tensor of "
            f"shape {shape_text(shape)} and type float"
        ],
        "none",
        truth={"tensor_shape": shape, "dtype": "float"},
    )


@family
def tf_26_bare(rng: random.Random) -> Failure:
    op = rng.choice(["AddV2", "Mul", "RandomStandardNormal", "StatelessRandomUniformV2"])
    return Failure(
        [
            "tensorflow.python.framework.errors_impl.ResourceExhaustedError: failed to allocate "
            "memory "
            f"[Op:{op}]"
        ],
        "gpu_memory",
        truth={"op": op},
    )


@family
def tf_vocabulary(rng: random.Random) -> Failure:
    shape = [rng.choice([2048, 4096, 8192]), rng.choice([30522, 50257, 128256, 32000])]
    device = full_device(rng)
    name = rng.choice(
        [
            "decoder/logits/MatMul",
            "loss/softmax_cross_entropy_with_logits/xent",
            "model/lm_head/logits",
        ]
    )
    return Failure(
        [
            status(rng) + oom_words(rng, shape, "float", device, "GPU_0_bfc"),
            f"\t [[{{{{node {name}}}}}]]",
        ],
        "gpu_memory",
        ("vocab_softmax_or_one_hot",),
        truth={
            "tensor_shape": shape,
            "dtype": "float",
            "device": device,
            "allocator": "GPU_0_bfc",
            "op": name,
        },
    )


@family
def tf_weights(rng: random.Random) -> Failure:
    shape = rng.choice([[3, 3, 512, 1024], [2, 2, 2, 512, 512], [25088, 4096], [3, 3, 1024, 2048]])
    device = full_device(rng)
    name = rng.choice(
        [
            "training/Adam/Variable_12/Assign",
            "conv/kernel/Adam_1/Initializer/zeros",
            "fc1/kernel/Initializer/random_uniform/RandomUniform",
        ]
    )
    return Failure(
        [
            status(rng) + oom_words(rng, shape, "float", device, "GPU_0_bfc"),
            f"\t [[{{{{node {name}}}}}]]",
        ],
        "gpu_memory",
        ("weights_or_optimizer_state",),
        truth={
            "tensor_shape": shape,
            "dtype": "float",
            "device": device,
            "allocator": "GPU_0_bfc",
            "op": name,
        },
    )


@family
def tf_cpu(rng: random.Random) -> Failure:
    shape, device = tf_shape(rng), full_device(rng, "CPU")
    allocator = rng.choice(["cpu", "mklcpu"])
    name, _ = rng.choice(TF_NODES)
    return Failure(
        [
            status(rng) + oom_words(rng, shape, "float", device, allocator),
            f"\t [[{{{{node {name}}}}}]]",
        ],
        "host_memory",
        ("host_ram_batch_or_dataset", "single_tensor_too_large"),
        truth={
            "tensor_shape": shape,
            "dtype": "float",
            "device": device,
            "allocator": allocator,
            "op": name,
        },
    )


@family
def tf_dml_xpu(rng: random.Random) -> Failure:
    shape = tf_shape(rng)
    device, allocator = rng.choice(
        [(full_device(rng, "DML"), "DmlAllocator"), (full_device(rng, "XPU"), "XPU_0_bfc")]
    )
    return Failure(
        ["ResourceExhaustedError: " + oom_words(rng, shape, "half", device, allocator)],
        "gpu_memory",
        truth={"tensor_shape": shape, "dtype": "half", "device": device, "allocator": allocator},
    )


@family
def tf_py_function(rng: random.Random) -> Failure:
    shape = [rng.randrange(100, 4000), rng.randrange(1000, 90000)]
    text, count = amount(rng, 1, 90, " GiB", 1)
    return Failure(
        [
            "tensorflow.python.framework.errors_impl.ResourceExhaustedError: MemoryError: Unable "
            "to "
            "allocate "
            f"{text} for an array with shape ({shape[0]}, {shape[1]}) and data type float64",
            "Traceback (most recent call last):",
            '  File "/usr/lib/python3/script_ops.py", line 241, in __call__',
            "    ret = func(*args)",
        ],
        "host_memory",
        truth={"tensor_shape": shape, "dtype": "float64", "bytes": count},
    )


@family
def tf_autotune(rng: random.Random) -> Failure:
    count = rng.randrange(4 * GIB, 9 * GIB)
    return Failure(
        [
            "tensorflow.python.framework.errors_impl.NotFoundError: No algorithm worked!  Error "
            "messages:",
            f"  Profiling failure on CUDNN engine 1: RESOURCE_EXHAUSTED: Allocating {count} bytes "
            f"exceeds "
            f"the memory limit of {4 * GIB} bytes.",
        ],
        "gpu_memory",
        ("conv_workspace",),
        truth={"bytes": count},
    )


@family
def tf_zero(rng: random.Random) -> Failure:
    return Failure(
        [
            f"{rng.choice(STAMPS)}E tensorflow/core/common_runtime/bfc_allocator.cc:246] tried to "
            f"allocate "
            "0 bytes",
            f"{rng.choice(STAMPS)}W tensorflow/core/common_runtime/allocator_retry.cc:32] "
            f"Request to "
            "allocate 0 bytes",
        ],
        "none",
        ("not_memory",),
        truth={"bytes": 0},
    )


@family
def tf_pinned(rng: random.Random) -> Failure:
    count = rng.randrange(MIB, 8 * GIB)
    error = rng.choice(["CUDA_ERROR_OUT_OF_MEMORY: out of memory", "CUDA_ERROR_UNKNOWN"])
    lines = [
        f"{STAMPS[0]}E tensorflow/stream_executor/cuda/cuda_driver.cc:868] failed to alloc "
        f"{count} bytes "
        f"on host: {error}",
        f"{STAMPS[0]}W ./tensorflow/core/common_runtime/gpu/cuda_host_allocator.h:44] could not "
        f"allocate "
        f"pinned host memory of size: {count}",
    ]
    return Failure(
        rng.choice([lines, lines[::-1], lines[:1], lines[1:]]),
        "host_memory",
        ("pinned_host_pool",),
        truth={"bytes": count},
    )


@family
def tf_quiet_warnings(rng: random.Random) -> Failure:
    text = tf_size(rng.randrange(64 * MIB, 6 * GIB))
    freed = rng.choice(["", " with freed_by_count=0"])
    this = rng.choice(["", "this "])
    return Failure(
        [
            f"{STAMPS[2]}W external/local_tsl/tsl/framework/bfc_allocator.cc:296] Allocator "
            f"(GPU_0_bfc) ran "
            f"out of memory trying to allocate {text}{freed}. The caller indicates that this is "
            f"not a "
            f"failure, but {this}may mean that there could be performance gains if more memory "
            f"were "
            "available."
        ],
        "gpu_memory",
        ("conv_workspace",),
        "warning",
        {"bytes": size_of(text[:-3] + " " + text[-3:]), "allocator": "GPU_0_bfc"},
    )


@family
def tf_cpu_warning(rng: random.Random) -> Failure:
    count = rng.randrange(100 * MIB, 9 * GIB)
    free = rng.choice(["", "free "])
    return Failure(
        [
            f"{STAMPS[2]}W tensorflow/core/framework/cpu_allocator_impl.cc:81] Allocation of "
            f"{count} exceeds "
            f"10% of {free}system memory."
        ],
        "host_memory",
        (),
        "warning",
        {"bytes": count},
    )


@family
def tf_disguised(rng: random.Random) -> Failure:
    device = full_device(rng)
    count = rng.randrange(2 * GIB, 12 * GIB)
    return Failure(
        [
            f"InternalError: Failed copying input tensor from {full_device(rng, 'CPU')} to "
            f"{device} "
            f"in order "
            "to run _EagerConst: Dst tensor is not initialized.",
            f"{STAMPS[2]}I tensorflow/stream_executor/cuda/cuda_driver.cc:733] failed to allocate "
            f"{count / GIB:.2f}G ({count} bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of "
            f"memory",
        ],
        "gpu_memory",
        ("dataset_copied_to_device",),
        truth={"device": device, "op": "_EagerConst", "bytes": count},
    )


@family
def tf_libraries(rng: random.Random) -> Failure:
    line = rng.choice(
        [
            "Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED",
            "Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR",
            "failed to create cublas handle: CUBLAS_STATUS_ALLOC_FAILED",
            "Failed to get convolution algorithm. This is probably because cuDNN failed to "
            "initialize, so try "
            "looking to see if a warning log message was printed above.",
        ]
    )
    return Failure(
        [f"{rng.choice(STAMPS)}E tensorflow/stream_executor/cuda/cuda_dnn.cc:329] {line}"],
        "gpu_memory",
        ("driver_or_library_init",),
    )


@family
def tf_context(rng: random.Random) -> Failure:
    gpu = rng.randrange(8)
    return Failure(
        [
            rng.choice(
                [
                    f"tensorflow.python.framework.errors_impl.InternalError: CUDA runtime implicit "
                    f"initialization on GPU:{gpu} failed. Status: out of memory",
                    f"E tensorflow/core/common_runtime/session.cc:64] failed call to "
                    f"cuDevicePrimaryCtxRetain: "
                    f"CUDA_ERROR_OUT_OF_MEMORY: out of memory; total memory reported: {11 * GIB}",
                ]
            )
        ],
        "gpu_memory",
        ("gpu_held_by_other_process",),
        truth={"device": ...},
    )


@family
def tensor_list(rng: random.Random) -> Failure:
    device, shape = full_device(rng), tf_shape(rng)
    name, _ = rng.choice(TF_NODES)
    return Failure(
        [
            "ResourceExhaustedError: " + oom_words(rng, shape, "float", device, "GPU_0_bfc"),
            f"\t [[{{{{node {name}}}}}]]",
            "",
            f"Current usage from device: {device}, allocator: GPU_0_bfc",
            *[f"  {rng.uniform(90, 900):.2f}MiB from network/conv2d_{i}/Conv2D" for i in range(8)],
            "  Remaining 1252 nodes with 98.80MiB",
        ],
        "gpu_memory",
        ("true_peak",),
        truth={
            "tensor_shape": shape,
            "dtype": "float",
            "device": device,
            "allocator": "GPU_0_bfc",
            "op": name,
        },
    )


@family
def tf_cut(rng: random.Random) -> Failure:
    shape, device = tf_shape(rng), full_device(rng)
    start = rng.choice(
        [
            "llocating tensor with shape",
            "OM when allocating tensor with shape",
            "exhausted: OOM when allocating tensor with shape",
        ]
    )
    return Failure(
        [start + f"{shape_text(shape)} and type float on {device} by allocator GPU_0_bfc"],
        "gpu_memory",
        truth={"tensor_shape": shape, "dtype": "float", "device": device, "allocator": "GPU_0_bfc"},
    )
