#!/usr/bin/env python3
"""A disk that fills while 16 clients write, and is freed again.

Every acknowledged row exists afterwards, also after the process was killed
while the disk was full. Refused writes are 503 or 507 problems that state that
the disk is full, and their rows do not exist. Reads continue. Writes work
again once there is space, without a restart. Needs root to mount a small tmpfs.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

from load import TABLE, Load, percentile
from service import NOT_RUN, Connection, Service, wait_until

DISK_MB = 24
RESERVE_MB = 10


def check_problems(problems):
    """Returns the faults in the errors of writes."""
    faults = set()
    for status, kind, value in problems:
        if status not in (502, 503, 507):
            faults.add(f"the status of a write is {status}: {str(value)[:200]}")
        elif kind != "application/problem+json" or not isinstance(value, dict):
            faults.add(f"{status} is not a problem document: {str(value)[:200]}")
        elif status != 502 and "full" not in value["detail"] and "space" not in value["detail"]:
            faults.add(f"{status} does not state that the disk is full: {value['detail']}")
    return sorted(faults)


def fill_and_free(server, url, folder, is_killed):
    """Executes a run. Returns the faults."""
    reserve = os.path.join(folder, "reserve")
    with open(reserve, "wb") as file:
        file.write(bytes(RESERVE_MB << 20))
    service = Service(server, url).wait()
    load = Load(service.address).start()
    faults = []
    try:
        if not wait_until(lambda: len(load.problems) > 200, 60):
            faults.append("the disk did not fill")
        # Under load until the end.
        reads = len(load.read_ms)
        time.sleep(3)
        if len(load.read_ms) - reads < 50:
            faults.append(f"only {len(load.read_ms) - reads} reads were answered while the disk was full")
        if is_killed:
            load.stopping.set()
            service.kill()
            load.stop()
            os.remove(reserve)
            service = Service(server, url).wait()
        else:
            os.remove(reserve)
            kept = len(load.kept)
            if not wait_until(lambda: len(load.kept) > kept + 100, 10):
                faults.append(f"writes do not work again: {load.problems[-1]}")
            load.stop()
        kinds = {}
        for status, _, value in load.problems:
            key = (status, value["detail"] if isinstance(value, dict) else str(value)[:80])
            kinds[key] = kinds.get(key, 0) + 1
        print(f"  {len(load.kept)} kept, {len(load.refused)} refused, {len(load.unknown)} unknown; reads "
              f"p50 {percentile(load.read_ms, 0.5):.1f} ms, p99 {percentile(load.read_ms, 0.99):.1f} ms")
        for (status, detail), count in sorted(kinds.items(), key=lambda kind: -kind[1])[:5]:
            print(f"  {count} × {status}: {detail}")
        faults += check_problems(load.problems)
        faults += load.compare(service.address)
        answer = Connection(service.address).ask("POST", TABLE, {"owner": 2, "name": "after", "done": True})
        if answer.status != 201:
            faults.append(f"afterwards the status of a write is {answer.status}: {answer.value}")
        code = service.end()
        if code != 0:
            faults.append(f"the service ended with {code}")
        service = Service(server, url).wait()
        faults += load.compare(service.address)
    finally:
        load.stop()
        if service.process.poll() is None:
            service.kill()
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True, help="path of the example soak_server")
    parser.add_argument("--engine", required=True, choices=["sqlite", "memory"])
    given = parser.parse_args()
    all_faults = []
    for is_killed in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", folder]
            mounted = subprocess.run(mount, capture_output=True, text=True)
            if mounted.returncode != 0:
                print(f"no file system can be mounted: {mounted.stderr.strip()}; run as root")
                sys.exit(NOT_RUN)
            try:
                name = {"sqlite": "sqlite:{}/a.db", "memory": "memory:{}/a.mem?durability=full"}
                print("killed while full" if is_killed else "freed while it runs", flush=True)
                all_faults += fill_and_free(given.server, name[given.engine].format(folder), folder, is_killed)
            finally:
                subprocess.run(["umount", "-l", folder], check=False)
    for fault in all_faults:
        print(fault)
    sys.exit(1 if all_faults else 0)


if __name__ == "__main__":
    main()
