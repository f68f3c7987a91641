#!/usr/bin/env python3
"""Abuses of a service's REST interface while a light normal load is measured:
filters of 100 KB, bodies with 330,000 faults, damaged cursors, certificate files
that block when they are read.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

from load import TABLE, percentile
from service import Connection, Service, wait_until

ROWS = 2_000
SECONDS = 4
ATTACKERS = 8
# The 99th percentile of the normal load.
NORMAL_MS_MAX = 20
# The median time of a refusal.
REFUSED_MS_MAX = 500
MB_MORE_MAX = 40


class Normal:
    """A request every 10 ms on a separate connection."""

    def __init__(self, address, path, wanted):
        self.wanted = wanted
        self.took_ms, self.faults, self.stopping = [], [], threading.Event()
        self.address, self.path = address, path
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        connection = Connection(self.address)
        while not self.stopping.wait(0.01):
            begun = time.monotonic()
            try:
                status = connection.ask("GET", self.path).status
            except Exception as error:
                status = repr(error)
            self.took_ms.append((time.monotonic() - begun) * 1000)
            if status != self.wanted:
                self.faults.append(status)

    def stop(self):
        self.stopping.set()
        self.thread.join()


def attacked(service, name, attack, *arguments, **options):
    """Runs the attack, up to three times if the machine is too busy. Returns the faults."""
    for _ in range(3):
        faults = attacked_once(service, name, attack, *arguments, **options)
        if not any("waited" in fault for fault in faults):
            break
    return faults


def attacked_once(service, name, attack, wanted, path=f"{TABLE}?limit=1", wanted_of_normal=200):
    """Runs the attack on several connections for a while. Returns the faults. `attack(connection)`
    returns a status."""
    faults, took, seen = [], [], {}
    before = service.resident_mb()
    stopping = threading.Event()

    def run():
        connection = Connection(service.address)
        while not stopping.is_set():
            begun = time.monotonic()
            try:
                status = attack(connection)
            except Exception as error:
                status = type(error).__name__
            took.append((time.monotonic() - begun) * 1000)
            seen[status] = seen.get(status, 0) + 1
            time.sleep(0.05)
    normal = Normal(service.address, path, wanted_of_normal)
    threads = [threading.Thread(target=run) for _ in range(ATTACKERS)]
    for thread in threads:
        thread.start()
    peak = 0.0
    for _ in range(SECONDS * 10):
        time.sleep(0.1)
        peak = max(peak, service.resident_mb())
    stopping.set()
    for thread in threads:
        thread.join()
    normal.stop()
    wait_until(lambda: service.resident_mb() < before + MB_MORE_MAX, 15)
    after = service.resident_mb()
    print(f"{name}: {seen}, p50 {percentile(took, 0.5):.0f} ms, p99 {percentile(took, 0.99):.0f} ms; "
          f"normal p50 {percentile(normal.took_ms, 0.5):.1f} ms, p99 {percentile(normal.took_ms, 0.99):.1f} ms, "
          f"max {max(normal.took_ms):.0f} ms; {before:.0f} / {peak:.0f} / {after:.0f} MB", flush=True)
    if set(seen) - set(wanted):
        faults.append(f"{name}: answers {seen}, wanted {wanted}")
    if percentile(took, 0.5) > REFUSED_MS_MAX:
        faults.append(f"{name}: refused after {percentile(took, 0.5):.0f} ms")
    if normal.faults:
        faults.append(f"{name}: the normal load got {normal.faults[:3]}")
    if percentile(normal.took_ms, 0.99) > NORMAL_MS_MAX:
        faults.append(f"{name}: the normal load waited {percentile(normal.took_ms, 0.99):.0f} ms")
    if after > before + MB_MORE_MAX:
        faults.append(f"{name}: {after:.0f} MB afterwards, {before:.0f} before")
    return faults


def long_filter(kind, size=100_000):
    """A filter of about this number of characters for a URL."""
    return {
        "terms": " or ".join(f"number={at}" for at in range(size // 20)),
        "text": f"name ~ '{'x' * size}'",
        "nested": "(" * (size // 6) + "number = 1" + ")" * (size // 6),
        "not": "not " * (size // 6) + "number = 1",
        "list": f"number in ({','.join(map(str, range(size // 8)))})",
        "search": f"@ '{'word ' * (size // 7)}'",
        "path": "options." + "a." * (size // 2) + "b = 1",
        "junk": "(" * (size // 3),
    }[kind]


KINDS = ["terms", "text", "nested", "not", "list", "search", "path", "junk"]


def filters_in_urls(service):
    faults = []
    for kind in KINDS:
        text = urllib.parse.quote(long_filter(kind))
        path = f"{TABLE}?filter={text}"
        faults += attacked(
            service, f"filter in a URL, {kind}", lambda connection: connection.ask("GET", path).status,
            [400, 414, 431],
        )
        # The maximum length of a request's head.
        short = f"{TABLE}?filter={urllib.parse.quote(long_filter(kind, 6_000))}"
        faults += attacked(
            service, f"filter of {len(short)} bytes in a URL, {kind}",
            lambda connection: connection.ask("GET", short).status, [200, 400],
        )
    return faults


def filters_in_bodies(service, token):
    """A grant's rule is a filter in a request's body."""
    connection = Connection(service.address)
    answer = connection.ask("POST", "/api/auth/set-password", {"name": "admin", "token": token, "password": "long enough for it"})
    login = connection.ask("POST", "/api/auth/login", {"name": "admin", "password": "long enough for it"})
    if login.status >= 300:
        return [f"no login: {answer.status} {answer.value} {login.status} {login.value}"]
    headers = {"Authorization": f"Bearer {login.value['token']}"}
    faults = []
    for kind in KINDS:
        for size in (100_000, 50_000):
            rule = long_filter(kind, size)
            grants = {"grants": [{"table": "plain_note", "rights": ["read"], "rule": rule}]}
            faults += attacked(
                service, f"filter of {len(rule)} bytes in a body, {kind}",
                lambda connection: connection.ask("PUT", "/api/auth/groups/all", grants, headers).status,
                [204, 400, 413, 422], path="/healthz/none", wanted_of_normal=404,
            )
    return faults


def violations(service):
    """A1: 2 MB of duplicate members."""
    body = ("{" + ",".join(['"a":1'] * 330_000) + "}").encode()
    headers = {"Content-Type": "application/json"}
    sizes = []

    def attack(connection):
        answer = connection.ask("POST", TABLE, body, headers)
        sizes.append(len(json.dumps(answer.value)))
        return answer.status
    faults = attacked(service, "330,000 faults in a body", attack, [413, 422])
    if max(sizes) > 100_000:
        faults.append(f"a response of {max(sizes)} bytes to faults in a body")
    return faults


def cursors(service):
    """A8: cursors with one changed bit."""
    connection = Connection(service.address)
    page = connection.ask("GET", f"{TABLE}?limit=1&order=number").value
    cursor = urllib.parse.parse_qs(urllib.parse.urlsplit(page["next"]).query)["after"][0]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    taken, faults = 0, []
    for at in range(len(cursor)):
        for bit in range(6):
            changed = alphabet[alphabet.index(cursor[at]) ^ 1 << bit]
            damaged = cursor[:at] + changed + cursor[at + 1:]
            status = connection.ask("GET", f"{TABLE}?limit=1&order=number&after={damaged}").status
            taken += status == 200
            if status not in (200, 400):
                faults.append(f"the status for a damaged cursor is {status}")
    print(f"damaged cursors: {taken} of {len(cursor) * 6} were accepted")
    return faults + ([f"{taken} damaged cursors were accepted"] if taken else [])


def certificates(server, folder):
    """A5: the certificate file is replaced by a FIFO. The service continues, and SIGTERM ends it."""
    names = [os.path.join(folder, name) for name in ("cert.pem", "key.pem")]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", names[1], "-out", names[0], "-days", "2", "-subj", "/CN=localhost"],
        check=True, capture_output=True,
    )
    service = Service(server, "memory:", "--tls-cert", names[0], "--tls-key", names[1], "--threads", "2")
    wait_until(lambda: any("https://" in line for line in service.lines), 30)
    port = int(next(line for line in service.lines if "https://" in line).split("://")[1].split("/")[0].split(":")[1])
    os.remove(names[0])
    os.mkfifo(names[0])
    faults = []
    for _ in range(3):
        service.signal(signal.SIGHUP)
        time.sleep(1)
    for _ in range(8):
        done = subprocess.run(
            ["curl", "-sk", "-m", "5", "-o", "/dev/null", "-w", "%{http_code}", f"https://127.0.0.1:{port}{TABLE}"],
            capture_output=True, text=True,
        )
        if done.stdout != "200":
            faults.append(f"with a FIFO as the certificate, the status of a request is {done.stdout}")
    begun = time.monotonic()
    try:
        code = service.end(20)
    except RuntimeError as error:
        code = str(error)
    print(f"a FIFO as the certificate: SIGTERM ended the service with {code} in {time.monotonic() - begun:.1f} s")
    return faults + ([] if code == 0 else [f"with a FIFO as the certificate: {code}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True, help="path of the example soak_server")
    parser.add_argument("--only", default="", help="one of filters, bodies, violations, cursors, certificates")
    given = parser.parse_args()
    faults = []
    service = Service(given.server, "sqlite::memory:", "--threads", "2").wait()
    try:
        rows = [{"owner": 1, "name": f"note {at}", "done": True, "number": at, "options": {"a": at}} for at in range(ROWS)]
        made = Connection(service.address).ask("POST", TABLE, rows)
        if made.status != 201:
            raise RuntimeError(f"{made.status} {made.value}")
        for name, run in [("filters", filters_in_urls), ("violations", violations), ("cursors", cursors)]:
            if name.startswith(given.only):
                faults += run(service)
    finally:
        if service.end() != 0:
            faults.append("the exit code of the service is not 0")
    if "bodies".startswith(given.only):
        service = Service(given.server, "sqlite::memory:", "--threads", "2", "--auth").wait()
        try:
            wait_until(lambda: any("token" in line for line in service.lines), 10)
            line = next(line for line in service.lines if '"token":"' in line)
            faults += filters_in_bodies(service, line.split('"token":"')[1].split('"')[0])
        finally:
            service.end()
    if "certificates".startswith(given.only):
        with tempfile.TemporaryDirectory() as folder:
            faults += certificates(given.server, folder)
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
