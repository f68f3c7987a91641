"""The service that the soak runs start, and connections to it."""

import http.client
import json
import os
import re
import signal
import subprocess
import threading
import time

NOT_RUN = 77


class Service:
    """A process of `soak_server`, which ends with this program."""

    def __init__(self, program, url, *arguments, stdout=None, stderr=None):
        """Starts it; `stdout` and `stderr` replace the pipe and the list of lines."""
        self.lines, self.started = [], threading.Event()
        self.address = None
        self.process = subprocess.Popen(
            [program, url, *arguments], stdin=subprocess.DEVNULL,
            stdout=stdout or subprocess.PIPE, stderr=stderr or subprocess.STDOUT, text=True,
        )
        if stdout is None:
            threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            found = re.match(r"Serves http://([^/]+)/api", line)
            if found:
                self.address = found[1]
                self.started.set()
        self.started.set()

    def wait(self, seconds=300):
        """Waits until it accepts connections."""
        self.started.wait(seconds)
        if self.address is None:
            self.process.kill()
            raise RuntimeError("the service did not start: " + " | ".join(self.lines[-5:]))
        return self

    def signal(self, number):
        self.process.send_signal(number)

    def end(self, seconds=60):
        """Ends it with SIGTERM. Returns its exit code."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"the service did not end within {seconds} s of SIGTERM")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def resident_mb(self):
        """Its resident memory."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


class Answer:
    """A status, the body's JSON value (or its bytes), and the headers."""

    def __init__(self, status, value, headers):
        self.status, self.value, self.headers = status, value, headers


class Connection:
    """A persistent connection; opened again after an error."""

    def __init__(self, address, timeout=60):
        self.address, self.timeout = address, timeout
        self.http = http.client.HTTPConnection(address, timeout=timeout)

    def ask(self, method, path, body=None, headers=None):
        """Sends a value as JSON, or bytes unchanged."""
        sent = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        try:
            self.http.request(method, path, body, sent)
            answer = self.http.getresponse()
            value = answer.read()
        except Exception:
            self.http.close()
            raise
        if "json" in answer.headers.get("Content-Type", "") and "ndjson" not in answer.headers["Content-Type"]:
            value = json.loads(value) if value else None
        return Answer(answer.status, value, answer.headers)


def wait_until(condition, seconds=30):
    """Waits for a condition. Returns True if it became true in time."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if condition():
            return True
        time.sleep(0.02)
    return condition()
