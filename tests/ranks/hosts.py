"""Hosts of a small network on this machine: namespaces with names of their own, joined by a bridge,
whose links carry so many bits a second (tbf), or by a relay, which also takes its time. Processes
on them reach each other by TCP alone."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ranks_job import MPI, MPIRUN

NETWORK = "10.77.0"
RELAY = Path(__file__).parent / "relay.py"
SWAP = Path(__file__).parent / "swap.py"
PORT = 5701


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def bits_of(rate: str) -> float:
    return float(rate.replace("gbit", "e9").replace("mbit", "e6"))


class Hosts:
    def __init__(self, folder: Path, count: int, rate: str, seconds: float) -> None:
        self.count, self.stem = count, f"plimsoll-{os.getpid()}"
        self.bytes_per_second, self.seconds = bits_of(rate) / 8, seconds
        self.agent = folder / "agent"
        # What mpirun starts its processes on other hosts by, as by ssh: HOST COMMAND…
        lines = ["#!/bin/sh", "host=$1", "shift",
                 f"exec ip netns exec {self.stem}-${{host##*.}} unshare --uts sh -c "
                 '"hostname host${host##*.}; $*"']  # fmt: skip
        self.agent.write_text("\n".join([*lines, ""]))
        self.agent.chmod(0o755)
        self.relay: subprocess.Popen[str] | None = None

    def make_delayed(self, rate: str, seconds: float) -> None:
        devices = [f"way{os.getpid()}-{number}" for number in range(1, self.count + 1)]
        words = [sys.executable, str(RELAY), str(bits_of(rate)), str(seconds), *devices]
        self.relay = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True)  # fmt: skip
        if self.relay.stdout.readline() != "\n":  # type: ignore[union-attr]
            raise OSError(f"the relay: {self.relay.communicate()[1]}")
        for number, device in enumerate(devices, 1):
            name = f"{self.stem}-{number}"
            self.add(name)
            ip("link", "set", "dev", device, "netns", name, "name", "wire")
            self.address(name, number, "mtu", "32000")

    def make(self, rate: str) -> None:
        self.add(self.bridge)
        ip("-n", self.bridge, "link", "add", "name", "bridge0", "type", "bridge")
        ip("-n", self.bridge, "link", "set", "bridge0", "up")
        for number in range(1, self.count + 1):
            self.join(number, rate)

    @property
    def bridge(self) -> str:
        return f"{self.stem}-0"

    def add(self, name: str) -> None:
        ip("netns", "add", name)

    def join(self, number: int, rate: str) -> None:
        name, port = f"{self.stem}-{number}", f"port{number}"
        self.add(name)
        ip("link", "add", "name", "wire", "netns", name, "type", "veth", "peer", "name", port,
           "netns", self.bridge)  # fmt: skip
        ip("-n", self.bridge, "link", "set", port, "master", "bridge0", "up")
        self.address(name, number)
        # What goes at once is small beside what is exchanged, and no less than a packet or
        # what passes from tick to tick.
        burst = max(1 << 17, int(bits_of(rate) / 8 * 0.004))
        shaped = ["tc", "-n", name, "qdisc", "add", "dev", "wire", "root", "tbf", "rate", rate,
                  "burst", f"{burst}b", "latency", "50ms"]  # fmt: skip
        done = subprocess.run(shaped, capture_output=True, text=True)
        if done.returncode != 0:
            raise OSError(f"tc: {done.stderr.strip()}")

    def address(self, name: str, number: int, *more: str) -> None:
        ip("-n", name, "addr", "add", f"{NETWORK}.{number}/24", "dev", "wire")
        ip("-n", name, "link", "set", "wire", *more, "up")
        ip("-n", name, "link", "set", "lo", "up")
        # One that paces by what it measured (bbr) sends slowly to peers that take turns, and a
        # small message waits for all that was sent before: as much as is on its way, and no more.
        # Where that may not be set, times are longer and bits the same.
        room = max(256 << 10, int(2.5 * self.seconds * self.bytes_per_second))
        for setting, value in (("tcp_congestion_control", "reno"),
                               ("tcp_wmem", f"4096 65536 {room}")):  # fmt: skip
            write = f"echo {value} > /proc/sys/net/ipv4/{setting}"
            subprocess.run(["ip", "netns", "exec", name, "sh", "-c", write], capture_output=True)

    def cut(self, number: int) -> None:
        """Nothing reaches that host any more, and nobody is told."""
        ip("-n", self.bridge, "link", "set", f"port{number}", "nomaster")

    def carries(self) -> tuple[float, float]:
        """Bytes a second and seconds of a byte's way while all hosts send each other bytes, two by
        two: processors that carry packets of all of them are a part of it."""
        runs = []
        for number in range(1, self.count + 1):
            peer = number + 1 if number % 2 == 1 else number - 1
            words = ["ip", "netns", "exec", f"{self.stem}-{number}", sys.executable, str(SWAP),
                     str(number), f"{NETWORK}.{peer}", str(PORT)]  # fmt: skip
            runs.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        told = [run.communicate(timeout=120)[0].split() for run in runs]
        rates, ways = zip(*((float(rate), float(way)) for rate, way in told))
        return sum(rates) / len(rates), sum(ways) / len(ways)

    def launcher(self) -> list[str]:
        """One rank on each host."""
        names = ",".join(f"{NETWORK}.{number}:1" for number in range(1, self.count + 1))
        over = ["--mca", "btl", "self,tcp", "--mca", "pml", "ob1", "--mca", "btl_tcp_if_include",
                f"{NETWORK}.0/24", "--mca", "oob_tcp_if_include", f"{NETWORK}.0/24"]  # fmt: skip
        by = ["--mca", "plm_rsh_agent", str(self.agent), "--mca", "plm_rsh_no_tree_spawn", "1"]
        root = ["--allow-run-as-root"] if os.getuid() == 0 else []
        return ["ip", "netns", "exec", f"{self.stem}-1", "unshare", "--uts", "sh", "-c",
                'hostname host1; exec "$0" "$@"', str(MPIRUN), *root, "--bind-to", "none", *over,
                *by, "--host", names, "-n", str(self.count)]  # fmt: skip

    def close(self) -> None:
        if self.relay is not None:
            self.relay.communicate()
        for number in range(self.count + 1):
            subprocess.run(["ip", "netns", "del", f"{self.stem}-{number}"], capture_output=True)


@contextmanager
def hosts(folder: Path, count: int, rate: str, way: float = 0) -> Iterator[Hosts]:
    """With a way of so many seconds, or none. Skips where no such network can be made."""
    if MPI != "openmpi":
        pytest.skip("the relay that starts ranks on these hosts is written for Open MPI's mpirun")
    for tool in ("ip", "tc", "unshare"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not here: install iproute2")
    made = Hosts(folder, count, rate, way)
    try:
        try:
            if way > 0:
                made.make_delayed(rate, way)
            else:
                made.make(rate)
        except OSError as error:
            pytest.skip(f"no namespaces of networks can be made here: {error}")
        yield made
    finally:
        made.close()
