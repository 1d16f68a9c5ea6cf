"""Carries packets between hosts, each as long as its bytes take at a rate and then a time on the
way: what the kernel's netem does where it is built in.

    relay.py BITS_PER_SECOND SECONDS NAME…

makes a device for each name, whose host has the address that ends with its place from 1 on, says so
by an empty line, and carries until its input ends.
"""

import fcntl
import heapq
import itertools
import os
import select
import struct
import sys
import time

SET_NAME = 0x400454CA  # TUNSETIFF
PACKETS_ALONE = 0x1001  # IFF_TUN, IFF_NO_PI
LONGEST = 1 << 16
DESTINATION = 19  # the last byte of it, in a header of IPv4
AHEAD = 0.002  # what waits for the wire beyond that is left with its sender


def open_device(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, SET_NAME, struct.pack("16sH14x", name.encode(), PACKETS_ALONE))
    return device


class Relay:
    def __init__(self, rate: float, way: float, devices: list[int]) -> None:
        self.seconds_per_byte, self.way, self.devices = 8 / rate, way, devices
        self.free = dict.fromkeys(devices, 0.0)  # when the wire of a sender is
        self.on_the_way: list[tuple[float, int, int, bytes]] = []
        self.order = itertools.count()

    def take(self, device: int) -> None:
        packet = os.read(device, LONGEST)
        host = packet[DESTINATION] - 1 if packet[0] >> 4 == 4 else -1
        if not 0 <= host < len(self.devices):
            return  # to all, or of another protocol: nobody here waits for it
        begin = max(time.monotonic(), self.free[device])
        self.free[device] = begin + len(packet) * self.seconds_per_byte
        arrival = self.free[device] + self.way
        heapq.heappush(self.on_the_way, (arrival, next(self.order), self.devices[host], packet))

    def deliver(self, now: float) -> None:
        while self.on_the_way and self.on_the_way[0][0] <= now:
            _, _, device, packet = heapq.heappop(self.on_the_way)
            try:
                os.write(device, packet)
            except OSError:
                continue  # the host is not up, or gone: so is the packet

    def carry(self) -> None:
        while True:
            now = time.monotonic()
            self.deliver(now)
            ready = [device for device in self.devices if self.free[device] < now + AHEAD]
            until = [at - AHEAD for at in self.free.values() if at >= now + AHEAD]
            until += [self.on_the_way[0][0]] if self.on_the_way else []
            wait = max(0.0, min(until) - now) if until else None
            readable, _, _ = select.select([0, *ready], [], [], wait)
            if 0 in readable and not os.read(0, 1):
                return
            for device in readable:
                if device != 0:
                    self.take(device)


def main() -> None:
    rate, way, *names = sys.argv[1:]
    relay = Relay(float(rate), float(way), [open_device(name) for name in names])
    print(flush=True)
    relay.carry()


if __name__ == "__main__":
    main()
