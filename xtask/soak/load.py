"""Writers that record what the service acknowledged, and readers that check it."""

import json
import random
import threading
import time
import uuid

from service import Connection

TABLE = "/api/plain_note"


class Load:
    """Clients that insert rows, each on a separate connection, until stopped."""

    def __init__(self, address, writers=16, readers=2, filler=1_000):
        self.address, self.filler = address, filler
        self.lock, self.stopping = threading.Lock(), threading.Event()
        # Names by id: acknowledged, refused, and with unknown outcome.
        self.kept, self.refused, self.unknown = {}, {}, {}
        self.problems, self.faults, self.read_ms = [], [], []
        self.threads = [threading.Thread(target=self._write) for _ in range(writers)]
        self.threads += [threading.Thread(target=self._read) for _ in range(readers)]

    def start(self):
        for thread in self.threads:
            thread.start()
        return self

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def _write(self):
        connection, numbers = Connection(self.address, timeout=30), random.Random()
        while not self.stopping.is_set():
            id, name = str(uuid.uuid4()), f"note {numbers.randint(0, 1 << 60)}"
            row = {"id": id, "owner": 1, "name": name, "done": False, "options": "o" * self.filler}
            try:
                answer = connection.ask("POST", TABLE, row)
            except Exception:
                # There is no response.
                self.unknown[id] = name
                if not self.stopping.is_set():
                    time.sleep(0.01)
                continue
            with self.lock:
                if answer.status == 201:
                    self.kept[id] = name
                else:
                    (self.unknown if answer.status in (500, 502) else self.refused)[id] = name
                    self.problems.append((answer.status, answer.headers.get("Content-Type"), answer.value))
            if answer.status != 201:
                time.sleep(0.002)

    def _read(self):
        connection, numbers = Connection(self.address, timeout=30), random.Random()
        while not self.stopping.is_set():
            time.sleep(0.005)
            with self.lock:
                ids = list(self.kept)[-1_000:]
            if not ids:
                continue
            id, begun = numbers.choice(ids), time.monotonic()
            try:
                answer = connection.ask("GET", f"{TABLE}/{id}")
            except Exception:
                continue
            self.read_ms.append((time.monotonic() - begun) * 1000)
            if answer.status != 200 or answer.value["name"] != self.kept[id]:
                self.faults.append(f"GET {id}: {answer.status} {str(answer.value)[:200]}")

    def compare(self, address):
        """Compares the rows of the service with the acknowledged ones. Returns the faults."""
        there = stored(address)
        faults = list(self.faults)
        lost = [id for id, name in self.kept.items() if there.get(id) != name]
        if lost:
            faults.append(f"{len(lost)} of {len(self.kept)} acknowledged rows are missing, such as {lost[0]}")
        back = [id for id in self.refused if id in there]
        if back:
            faults.append(f"{len(back)} rows exist whose writes were refused, such as {back[0]}")
        return faults


def stored(address):
    """The names of all rows by their ids."""
    answer = Connection(address).ask(
        "GET", f"{TABLE}?owner=1&fields=id,name", headers={"Accept": "application/x-ndjson"}
    )
    if answer.status != 200:
        raise RuntimeError(f"the rows cannot be read: {answer.status} {answer.value!r}")
    rows = [json.loads(line) for line in answer.value.splitlines()]
    return {row["id"]: row["name"] for row in rows}


def percentile(values, of):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * of))] if values else 0.0
