"""A workload in PyTorch as its users write it: eager, channels last; prints one JSON line.

torch_peer.py steps MODEL X Y BATCH STEPS [--precision bf16] [--meet FILE]
torch_peer.py predict|evaluate MODEL X Y BATCH PASSES [--precision bf16] [--output FILE]

The network is read from pytorch.json and pytorch.npz beside MODEL (torch_files.py); of Keras
nothing is loaded, so that the process's memory is PyTorch's own. With --meet the processes that
mpirun has started find each other by that file and train together, each on its part of every batch.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import peer_side
import torch
from torch import Tensor, distributed, nn
from torch.nn import functional as F

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda x: x,
    "relu": F.relu,
    "gelu": F.gelu,
    "sigmoid": torch.sigmoid,
    "softmax": lambda x: torch.softmax(x, -1),
}
SMALLEST = 1e-7  # Keras's bound of a probability in a logarithm


def refuse(what: str) -> NoReturn:
    """Exit code 4: this side does not do it."""
    print(f"torch_peer: {what}", file=sys.stderr)
    raise SystemExit(4)


def same_padding(x: Tensor, kernel: list[int], stride: list[int]) -> Tensor:
    """Zeros as TensorFlow's `same` puts them: the odd one last."""
    total = [max(0, (-(-n // s) - 1) * s + k - n) for n, k, s in zip(x.shape[2:], kernel, stride)]
    if not any(total):
        return x
    (top, left), (height, width) = (t // 2 for t in total), total
    return F.pad(x, (left, width - left, top, height - top))


class Call(nn.Module):
    """One layer of Keras; its weights in PyTorch's layouts."""

    def __init__(self, call: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        super().__init__()
        self.kind, self.config, self.causal = call["kind"], call["config"], call["causal"]
        self.to_logits = False
        own = []
        while f"{call['name']}/{len(own)}" in arrays:
            own.append(torch.from_numpy(arrays[f"{call['name']}/{len(own)}"]))
        self.make(own)

    def parameter(self, name: str, value: Tensor | None) -> None:
        if value is not None and value.dim() == 4:
            value = value.contiguous(memory_format=torch.channels_last)
        elif value is not None:
            value = value.contiguous()
        self.register_parameter(name, None if value is None else nn.Parameter(value))

    def make(self, own: list[Tensor]) -> None:
        kind = self.kind
        if kind in ("Dense", "Conv2D", "DepthwiseConv2D", "Conv2DTranspose"):
            order = {"Dense": (1, 0), "Conv2D": (3, 2, 0, 1)}.get(kind, (2, 3, 0, 1))
            if kind == "Conv2DTranspose":
                order = (3, 2, 0, 1)
            self.parameter("weight", own[0].permute(order))
            self.parameter("bias", own[1] if len(own) > 1 else None)
        elif kind == "BatchNormalization":
            self.parameter("weight", own[0])
            self.parameter("bias", own[1])
            self.register_buffer("mean", own[2].clone())
            self.register_buffer("variance", own[3].clone())
        elif kind in ("LayerNormalization", "Embedding"):
            self.parameter("weight", own[0])
            self.parameter("bias", own[1] if len(own) > 1 else None)
        elif kind == "LSTM":
            self.inner = nn.LSTM(own[0].shape[0], own[1].shape[0], batch_first=True)
            with torch.no_grad():
                self.inner.weight_ih_l0.copy_(own[0].T)
                self.inner.weight_hh_l0.copy_(own[1].T)
                self.inner.bias_ih_l0.copy_(own[2])
                self.inner.bias_hh_l0.zero_()
            self.inner.bias_hh_l0.requires_grad_(False)  # Keras has one bias
        elif kind == "MultiHeadAttention":
            width, self.heads = own[0].shape[0], own[0].shape[1]
            joint = [own[i].reshape(width, -1).T for i in (0, 2, 4)]
            self.parameter("weight", torch.cat(joint))
            self.parameter("bias", torch.cat([own[i].reshape(-1) for i in (1, 3, 5)]))
            self.parameter("out_weight", own[6].reshape(-1, own[6].shape[-1]).T)
            self.parameter("out_bias", own[7])
        elif own:
            refuse(f"no layer {kind}")

    def forward(self, *x: Tensor) -> Tensor:
        work = getattr(self, "do_" + self.kind, None)
        if work is None:
            refuse(f"no layer {self.kind}")
        return work(*x)

    def activated(self, x: Tensor) -> Tensor:
        if self.to_logits:
            return x
        return ACTIVATIONS[self.config["activation"]](x)

    def do_Dense(self, x: Tensor) -> Tensor:
        return self.activated(F.linear(x, self.weight, self.bias))

    def convolution(self, x: Tensor, groups: int) -> Tensor:
        stride = [*self.config["strides"]]
        if self.config["padding"] == "same":
            x = same_padding(x, [*self.weight.shape[2:]], stride)
        return self.activated(F.conv2d(x, self.weight, self.bias, stride, groups=groups))

    def do_Conv2D(self, x: Tensor) -> Tensor:
        return self.convolution(x, 1)

    def do_DepthwiseConv2D(self, x: Tensor) -> Tensor:
        return self.convolution(x, x.shape[1])

    def do_Conv2DTranspose(self, x: Tensor) -> Tensor:
        stride = [*self.config["strides"]]
        if stride != [*self.config["kernel_size"]]:
            refuse("no transposed convolutions with windows that overlap")
        return self.activated(F.conv_transpose2d(x, self.weight, self.bias, stride))

    def do_BatchNormalization(self, x: Tensor) -> Tensor:
        config = self.config
        return F.batch_norm(x, self.mean, self.variance, self.weight, self.bias, self.training,
                            1 - config["momentum"], config["epsilon"])  # fmt: skip

    def do_LayerNormalization(self, x: Tensor) -> Tensor:
        width = self.weight.shape
        return F.layer_norm(x, width, self.weight, self.bias, self.config["epsilon"])

    def do_ReLU(self, x: Tensor) -> Tensor:
        most = self.config.get("max_value")
        return F.relu(x) if most is None else F.hardtanh(x, 0.0, float(most))

    def do_Activation(self, x: Tensor) -> Tensor:
        return self.activated(x)

    def do_ZeroPadding2D(self, x: Tensor) -> Tensor:
        (top, bottom), (left, right) = self.config["padding"]
        return F.pad(x, (left, right, top, bottom))

    def do_MaxPooling2D(self, x: Tensor) -> Tensor:
        return F.max_pool2d(x, self.config["pool_size"], self.config["strides"])

    def do_GlobalAveragePooling2D(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))

    def do_Flatten(self, x: Tensor) -> Tensor:
        return (x.permute(0, 2, 3, 1) if x.dim() == 4 else x).flatten(1)

    def do_Add(self, *x: Tensor) -> Tensor:
        return x[0] + x[1]

    def do_Concatenate(self, *x: Tensor) -> Tensor:
        return torch.cat(x, 1 if x[0].dim() == 4 else -1)

    def do_Embedding(self, x: Tensor) -> Tensor:
        return F.embedding(x, self.weight)

    def do_LSTM(self, x: Tensor) -> Tensor:
        return self.inner(x)[0][:, -1]

    def do_MultiHeadAttention(self, x: Tensor, _: Tensor) -> Tensor:
        batch, length = x.shape[:2]
        joint = F.linear(x, self.weight, self.bias).view(batch, length, 3, self.heads, -1)
        q, k, v = joint.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        y = y.transpose(1, 2).reshape(batch, length, -1)
        return F.linear(y, self.out_weight, self.out_bias)


class Network(nn.Module):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.about = json.loads((folder / "pytorch.json").read_text())
        arrays = dict(np.load(folder / "pytorch.npz"))
        self.layers = nn.ModuleList(Call(call, arrays) for call in self.about["calls"])
        self.constants = {
            name: torch.from_numpy(array)
            for name, array in arrays.items()
            if name.startswith("constant/")
        }

    def use_logits(self) -> None:
        """Losses from logits where a sigmoid or softmax ends the network, as Keras takes them."""
        last, entropy = self.layers[-1], "crossentropy" in self.about["loss"]
        if entropy and last.config.get("activation") in ("sigmoid", "softmax"):
            last.to_logits = True
            self.about["loss"] = self.about["loss"].removesuffix("_from_logits") + "_from_logits"

    def forward(self, x: Tensor) -> Tensor:
        known: dict[Any, Tensor] = {0: x.permute(0, 3, 1, 2) if x.dim() == 4 else x}
        for call, layer in zip(self.about["calls"], self.layers):
            inputs = [known[i] if i in known else self.constants[i] for i in call["inputs"]]
            known[call["output"]] = layer(*inputs)
            for i in call["read_last"]:
                known.pop(i, None)
        y = known[self.about["result"]]
        return y.permute(0, 2, 3, 1) if y.dim() == 4 else y

    def loss(self, y: Tensor, labels: Tensor) -> Tensor:
        kind, y = self.about["loss"], y.float()
        if kind == "binary_crossentropy_from_logits":
            return F.binary_cross_entropy_with_logits(y, labels.float().reshape(y.shape))
        if kind == "binary_crossentropy":
            y = y.clamp(SMALLEST, 1 - SMALLEST)
            return F.binary_cross_entropy(y, labels.float().reshape(y.shape))
        if kind == "mse":
            return F.mse_loss(y, labels.reshape(y.shape))
        y, labels = y.reshape(-1, y.shape[-1]), labels.reshape(-1).long()
        if kind == "sparse_categorical_crossentropy_from_logits":
            return F.cross_entropy(y, labels)
        if kind != "sparse_categorical_crossentropy":
            refuse(f"no loss {kind}")
        return F.nll_loss(y.clamp(SMALLEST, 1 - SMALLEST).log(), labels)


def tensor(rows: np.ndarray) -> Tensor:
    return torch.from_numpy(rows.astype("float32") if rows.dtype == np.float64 else rows.copy())


class Ranks:
    """Who shares the steps: this process alone, or those that have met."""

    def __init__(self, meet: str | None) -> None:
        self.rank, self.count = 0, 1
        if meet is not None:
            self.rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
            self.count = int(os.environ["OMPI_COMM_WORLD_SIZE"])
            distributed.init_process_group("gloo", f"file://{meet}", rank=self.rank,
                                           world_size=self.count)  # fmt: skip

    def around(self, model: Network) -> nn.Module:
        return model if self.count == 1 else nn.parallel.DistributedDataParallel(model)

    def part(self, begin: int, end: int) -> tuple[int, int]:
        """The rank's samples; means of parts that differ in size would not be the batch's."""
        each, rest = divmod(end - begin, self.count)
        if rest:
            refuse(f"no batch of {end - begin} samples on {self.count} ranks")
        return begin + self.rank * each, begin + (self.rank + 1) * each

    def mean(self, loss: float) -> float:
        if self.count == 1:
            return loss
        total = torch.tensor(loss)
        distributed.all_reduce(total)
        return float(total) / self.count


def train(model: Network, x: np.ndarray, y: np.ndarray, options: argparse.Namespace) -> dict:
    trained = [p for p in model.parameters() if p.requires_grad]
    about, ranks = model.about, Ranks(options.meet)
    shared = ranks.around(model)
    optimizer = torch.optim.Adam(trained, about["learning_rate"], eps=about["epsilon"])
    mixed = torch.autocast("cpu", torch.bfloat16, options.precision == "bf16")
    model.train()
    begin, seconds, losses = 0, [], []
    for _ in range(options.count):
        start = time.perf_counter()
        end = min(begin + options.batch, len(x))
        first, last = ranks.part(begin, end)
        optimizer.zero_grad()
        with mixed:
            result = shared(tensor(x[first:last]))
        loss = model.loss(result, tensor(y[first:last]))
        loss.backward()
        # Keras adds its epsilon before the second moment's correction, PyTorch after it.
        for group in optimizer.param_groups:
            group["eps"] = about["epsilon"] / (1 - group["betas"][1] ** (len(losses) + 1)) ** 0.5
        optimizer.step()
        own = float(loss.detach())
        seconds.append(time.perf_counter() - start)
        losses.append(ranks.mean(own))
        begin = 0 if end == len(x) else end
    return peer_side.result(seconds[2:] or seconds, losses)


def infer(model: Network, x: np.ndarray, y: np.ndarray, options: argparse.Namespace) -> dict:
    batch, evaluate = options.batch, options.program == "evaluate"
    mixed = torch.autocast("cpu", torch.bfloat16, options.precision == "bf16")
    model.eval()
    outputs, losses, seconds = [], [], []
    with torch.inference_mode(), mixed:
        for number in range(options.count + 1):
            start = time.perf_counter()
            for begin in range(0, len(x), batch):
                got = model(tensor(x[begin : begin + batch]))
                if evaluate:
                    losses.append(float(model.loss(got, tensor(y[begin : begin + batch]))))
                elif number == 0:
                    outputs.append(got.float().numpy())
            seconds.append((time.perf_counter() - start) / -(-len(x) // batch))
    if options.output:
        np.save(options.output, np.concatenate(outputs))
    return peer_side.result(seconds[1:], losses)


def main() -> None:
    options = peer_side.parser(__doc__).parse_args()
    model = Network(Path(options.model).parent)
    if options.program != "predict":
        model.use_logits()
    peer_side.answer(model, options, train, infer)


if __name__ == "__main__":
    main()
