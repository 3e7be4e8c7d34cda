"""Links between the hosts of a test that are slow, long and lossy: tc's netem, or where the kernel lacks it a relay that
does the same with frames."""
import fcntl
import heapq
import os
import random
import select
import struct
import threading
import time

import network
import runs
from network import Place

RATE = 100e6  # bits a second, of each direction of each cable
DELAY = 0.005  # seconds
LOSS = 0.005  # of frames
NEEDS = "test -c /dev/net/tun && ip tuntap add dev probe mode tap"
TUNSETIFF = 0x400454CA
TAP_OF_FRAMES_ALONE = 0x1002  # IFF_TAP | IFF_NO_PI: no offloads, so that no frame is longer than the link takes


def has_netem():
    return runs.allowed("unshare", "-Urn", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms")


def possible():
    return has_netem() or runs.allowed("unshare", "-Urn", "sh", "-c", NEEDS)


def open_tap(name):
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH", name.encode(), TAP_OF_FRAMES_ALONE))
    return tap


class Relay:
    """Carries frames between two taps as a cable would."""
    LONGEST_QUEUE = 1.0  # seconds; what comes when so much waits is dropped, as by netem's limit

    def __init__(self, taps, seed):
        self.other = {taps[0]: taps[1], taps[1]: taps[0]}
        self.free_at = {tap: 0.0 for tap in taps}
        self.under_way = []  # (when it arrives, number, tap, frame)
        self.numbers = 0
        self.lost = 0
        self.chance = random.Random(seed)
        self.wake, self.waker = os.pipe()
        self.thread = threading.Thread(target=self.carry)
        self.thread.start()

    def carry(self):
        while True:
            now = time.monotonic()
            while self.under_way and self.under_way[0][0] <= now:
                self.deliver(*heapq.heappop(self.under_way)[2:])
            patience = self.under_way[0][0] - now if self.under_way else None
            ready = select.select([*self.other, self.wake], [], [], patience)[0]
            if self.wake in ready:
                return
            for tap in ready:
                self.take(tap)

    def take(self, tap):
        try:
            frame = os.read(tap, 65536)
        except OSError:  # its interface is down
            return
        now = time.monotonic()
        start = max(now, self.free_at[tap])
        if self.chance.random() < LOSS or start - now > self.LONGEST_QUEUE:
            self.lost += 1
            return
        self.free_at[tap] = start + 8 * len(frame) / RATE
        self.numbers += 1
        heapq.heappush(self.under_way, (self.free_at[tap] + DELAY, self.numbers, self.other[tap], frame))

    def deliver(self, tap, frame):
        try:
            os.write(tap, frame)
        except OSError:  # cut off
            pass

    def close(self):
        os.write(self.waker, b".")
        self.thread.join()
        for descriptor in (*self.other, self.wake, self.waker):
            os.close(descriptor)


class FarPlace(Place):
    """A host at the end of such a cable."""
    relay = None

    def __init__(self, number, netem):
        self.netem = netem
        super().__init__(number)

    def plug_in(self):
        if self.netem:
            super().plug_in()
            self.impair(self.port)
            self.impair("eth0", *self.inside)
            return
        outer, inner = open_tap(self.port), open_tap(f"inner{self.port}")
        self.relay = Relay((outer, inner), self.port)
        network.run("ip", "link", "set", f"inner{self.port}", "netns", self.holder.pid)
        network.run(*self.inside, "ip", "link", "set", f"inner{self.port}", "name", "eth0")

    @staticmethod
    def impair(interface, *inside):
        network.run(*inside, "tc", "qdisc", "add", "dev", interface, "root", "netem", "rate", f"{RATE:.0f}bit", "delay",
                    f"{1000 * DELAY}ms", "loss", f"{100 * LOSS}%")

    def is_lossy(self):
        """Whether frames were lost on it."""
        if self.relay:
            return self.relay.lost > 0
        return " dropped 0," not in network.told_by(*self.inside, "tc", "-s", "qdisc", "show", "dev", "eth0")

    def close(self):
        super().close()
        if self.relay:
            self.relay.close()
