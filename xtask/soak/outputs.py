#!/usr/bin/env python3
"""Outputs that are closed, or not read, while 16 clients write.

The service continues with any log level, and its exit code is 0.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

from load import Load
from service import wait_until

# Writes a line to the log for each operation.
LOG = ["--log", "trace", "--slow-query-ms", "0"]
ROWS_MIN = 200


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def run(server, folder, how):
    """Executes a run. Returns the faults."""
    port = free_port()
    url = f"sqlite:{os.path.join(folder, how.replace(' ', '-'))}"
    words = [server, url, "--listen", f"127.0.0.1:{port}", *LOG]
    if how == "closed from the start":
        words = ["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', *words]
        process = subprocess.Popen(words)
    else:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    address, faults = f"127.0.0.1:{port}", []

    def serves():
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            return process.poll() is not None
    wait_until(serves)
    load = Load(address, filler=100).start()
    time.sleep(0.5)
    if how == "closed under load":
        process.stdout.close()
    before = len(load.kept)
    if not wait_until(lambda: len(load.kept) > before + ROWS_MIN, 20):
        faults.append(f"{how}: {len(load.kept) - before} rows in 20 s")
    load.stop()
    if process.poll() is not None:
        return [f"{how}: the service ended with {process.returncode}"]
    if load.unknown or load.problems:
        faults.append(f"{how}: {len(load.unknown)} writes without a response; {load.problems[:1]}")
    faults += load.compare(address)
    process.send_signal(signal.SIGTERM)
    try:
        code = process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        code = "nothing within 20 s"
    print(f"{how}: {len(load.kept)} rows; ended with {code}")
    return faults + ([] if code == 0 else [f"{how}: the service ended with {code}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True, help="path of the example soak_server")
    given = parser.parse_args()
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        for how in ("closed under load", "closed from the start", "not read"):
            faults += run(given.server, folder, how)
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
