"""What a network carries: two hosts send each other bytes at once, by plain sockets.

    swap.py OWN_NUMBER PEER_ADDRESS PORT

The one with the odd number listens. Prints bytes a second (each way) and the seconds of a byte's
way, half of there and back.
"""

import socket
import sys
import threading
import time

BYTES = 4 << 20
ROUNDS = 6
BYTES_THERE_AND_BACK = 200


def connected(number: int, peer: str, port: int) -> socket.socket:
    if number % 2 == 1:
        with socket.create_server(("", port)) as server:
            return server.accept()[0]
    deadline = time.monotonic() + 20
    while True:
        try:
            return socket.create_connection((peer, port))
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def take(link: socket.socket, count: int) -> None:
    while count > 0:
        count -= len(link.recv(min(count, 1 << 20)))


def swap(link: socket.socket) -> float:
    began = time.monotonic()
    sender = threading.Thread(target=link.sendall, args=(bytes(BYTES),))
    sender.start()
    take(link, BYTES)
    sender.join()
    return time.monotonic() - began


def way(link: socket.socket, first: bool) -> float:
    began = time.monotonic()
    for _ in range(BYTES_THERE_AND_BACK):
        if first:
            link.sendall(b"x")
        take(link, 1)
        if not first:
            link.sendall(b"x")
    return (time.monotonic() - began) / BYTES_THERE_AND_BACK / 2


def main() -> None:
    number, peer, port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    with connected(number, peer, port) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        swap(link)  # windows grow
        seconds = sorted(swap(link) for _ in range(ROUNDS))[ROUNDS // 2]
        print(BYTES / seconds, way(link, number % 2 == 1))


if __name__ == "__main__":
    main()
