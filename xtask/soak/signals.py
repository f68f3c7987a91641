#!/usr/bin/env python3
"""Signals under load: 16 clients write, two read, and lists stream.

SIGHUP, SIGUSR1, SIGUSR2 and SIGPIPE are ignored. SIGTERM ends the service with
exit code 0, and a second one ends it at once. Neither loses acknowledged writes,
nor does SIGKILL, which is sent repeatedly.
"""

import argparse
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time

from load import TABLE, Load
from service import Connection, Service

KILLS = 20
ENDS = 5
HARMLESS = ["SIGHUP", "SIGUSR1", "SIGUSR2", "SIGPIPE"]


class Streams:
    """Clients that read all rows as NDJSON repeatedly."""

    def __init__(self, address, load, number=2):
        self.address, self.load = address, load
        self.stopping, self.whole, self.faults = threading.Event(), 0, []
        self.threads = [threading.Thread(target=self._read) for _ in range(number)]
        for thread in self.threads:
            thread.start()

    def _read(self):
        while not self.stopping.is_set():
            with self.load.lock:
                known = set(self.load.kept)
            try:
                answer = Connection(self.address, timeout=30).ask(
                    "GET", f"{TABLE}?owner=1&fields=id", headers={"Accept": "application/x-ndjson"}
                )
            except Exception:
                # Cut off, which the client noticed.
                time.sleep(0.01)
                continue
            if answer.status != 200:
                continue
            there = {json.loads(line)["id"] for line in answer.value.splitlines()}
            self.whole += 1
            if known - there:
                self.faults.append(f"a complete list lacks {len(known - there)} rows")

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()


def harmless(server, url):
    """Sends signals that the service ignores, then SIGTERM."""
    service = Service(server, url).wait()
    load = Load(service.address, filler=100).start()
    streams, faults = Streams(service.address, load), []
    for at in range(100):
        service.signal(getattr(signal, HARMLESS[at % len(HARMLESS)]))
        time.sleep(0.03)
        if service.process.poll() is not None:
            return [f"a signal ended the service with {service.process.returncode}"]
    if load.unknown or load.problems:
        faults.append(f"signals prevented {len(load.unknown)} responses; {load.problems[:1]}")
    load.stopping.set()
    load.stop()
    streams.stop()
    faults += streams.faults + load.compare(service.address)
    code = service.end()
    print(f"  {len(load.kept)} rows, {streams.whole} whole lists; SIGTERM ended it with {code}")
    return faults + ([] if code == 0 else [f"the service ended with {code}"])


def ended(server, url, numbers, wanted, earlier):
    """Signals under load end it; all acknowledged rows exist after the next start."""
    service = Service(server, url).wait()
    load = Load(service.address, filler=100)
    load.kept.update(earlier)
    load.start()
    streams = Streams(service.address, load)
    time.sleep(0.5)
    begun = time.monotonic()
    for number in numbers:
        service.signal(number)
    try:
        code = service.process.wait(30)
    except Exception:
        service.kill()
        code = "nothing within 30 s"
    took = time.monotonic() - begun
    load.stopping.set()
    load.stop()
    streams.stop()
    faults = list(streams.faults)
    if code != wanted:
        faults.append(f"after {numbers} the service ended with {code}, wanted {wanted}")
    # A service that shuts down refuses requests with 503.
    faults += [f"during shutdown: {p[0]} {str(p[2])[:200]}" for p in load.problems if p[0] not in (503,)][:3]
    service = Service(server, url).wait()
    faults += load.compare(service.address)
    if service.end() != 0:
        faults.append("the service did not end with 0")
    return faults, load.kept, took


def second_ends_at_once(server, url):
    """An endless upload delays the shutdown; a second SIGTERM ends the service at once."""
    service = Service(server, url).wait()
    host, port = service.address.split(":")
    with socket.create_connection((host, int(port))) as upload:
        upload.sendall(
            f"POST {TABLE} HTTP/1.1\r\nHost: {service.address}\r\nContent-Type: application/x-ndjson\r\n"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        stop, sent = threading.Event(), [0]

        def feed():
            line = b'{"owner":3,"name":"fed","done":true}\n'
            while not stop.wait(0.05):
                try:
                    upload.sendall(b"%x\r\n%s\r\n" % (len(line), line))
                    sent[0] += 1
                except OSError:
                    return
        feeder = threading.Thread(target=feed)
        feeder.start()
        time.sleep(0.3)
        service.signal(signal.SIGTERM)
        time.sleep(0.5)
        waited = service.process.poll() is None
        begun = time.monotonic()
        service.signal(signal.SIGTERM)
        try:
            code = service.process.wait(5)
        except Exception:
            code = None
        took = time.monotonic() - begun
        stop.set()
        feeder.join()
    if service.process.poll() is None:
        service.kill()
    print(f"  the first SIGTERM waited for the upload: {waited}; the second ended it with {code} in {took * 1000:.0f} ms")
    if waited and (code != 128 + signal.SIGTERM or took > 1):
        return [f"the second SIGTERM ended it with {code} after {took:.1f} s"]
    return [] if waited or code == 0 else [f"SIGTERM ended it with {code}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True, help="path of the example soak_server")
    parser.add_argument("--engine", required=True, choices=["sqlite", "memory"])
    given = parser.parse_args()
    all_faults = []
    with tempfile.TemporaryDirectory() as folder:
        name = {"sqlite": "sqlite:{}", "memory": "memory:{}?durability=full"}[given.engine]
        url = lambda file: name.format(os.path.join(folder, file))
        print(", ".join(HARMLESS))
        all_faults += harmless(given.server, url("harmless"))
        print("a second SIGTERM")
        all_faults += second_ends_at_once(given.server, url("second"))
        for what, number, wanted, times in [
            ("SIGTERM", signal.SIGTERM, 0, ENDS), ("SIGKILL", signal.SIGKILL, -signal.SIGKILL, KILLS),
        ]:
            kept, longest = {}, 0.0
            for _ in range(times):
                faults, kept, took = ended(given.server, url(what), [number], wanted, kept)
                longest = max(longest, took)
                all_faults += faults
            print(f"{what} {times} times: {len(kept)} rows kept; ended within {longest:.1f} s")
    for fault in all_faults:
        print(fault)
    sys.exit(1 if all_faults else 0)


if __name__ == "__main__":
    main()
