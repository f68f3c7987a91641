"""A client of the differential test: its connection, its model, its random values."""

import collections
import random
import re
import uuid

import conditions
from model import Model, Write
from service import Connection


# The number of recent requests that are printed with a mismatch.
TRAIL_MAX = 4_000


class Mismatch(Exception):
    """The service's answer differs from the model's."""


def canonical(value):
    """A value that equals another only if both are the same JSON: 1 is not true."""
    if isinstance(value, dict):
        return {name: canonical(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [canonical(item) for item in value]
    return ("bool", value) if isinstance(value, bool) else value


class Client:
    """A client's connection, model and random numbers."""

    def __init__(self, address, number, seed, is_plain):
        self.number, self.random = number, random.Random(seed * 1_000_003 + number)
        self.connection = Connection(address)
        self.model = Model()
        self.has_history = not is_plain and number % 2 == 1
        self.is_plain = is_plain
        prefix = "" if self.has_history else "plain_"
        self.note, self.label = f"{prefix}note", f"{prefix}label"
        self.shared, self.shared_sum, self.shared_writes, self.shared_seen = None, 0, 0, 0
        self.statuses = {}
        self.trail = collections.deque(maxlen=TRAIL_MAX)

    # -- wire ---------------------------------------------------------------

    def ask(self, method, path, body=None, headers=None):
        answer = self.connection.ask(method, path, body, headers)
        self.trail.append((method, path, body, headers, answer.status, answer.value))
        self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
        return answer

    def check(self, what, got, wanted):
        if canonical(got) != canonical(wanted):
            raise Mismatch(f"{what}:\n  service: {got!r}\n  model:   {wanted!r}")

    def check_status(self, what, answer, wanted, bad=None):
        if answer.status != wanted:
            raise Mismatch(f"{what}:\n  service: {answer.status} {answer.value!r}\n  model:   {wanted}")
        if bad:
            fields = {error["field"] for error in answer.value["errors"]}
            self.check(f"{what}: the fields at fault", sorted(fields), sorted(bad))

    def trail_of(self, text):
        """Earlier requests that name a row in the service's side of a mismatch."""
        ids = set(re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", text.partition("service:")[2]))
        lines = [repr(entry)[:2_000] for entry in self.trail]
        return [line for line in lines if any(id in line for id in ids)][-12:]

    @staticmethod
    def shown(note):
        """A row as in JSON: without the blob."""
        return {field: value for field, value in note.items() if field != "photo"}

    # -- values -------------------------------------------------------------

    def chance(self, of):
        return self.random.random() < of

    def code(self):
        return f"{self.number}-{self.random.randint(0, 40)}"

    def some_id(self):
        """The id of a note; sometimes of a deleted one, or of one that never existed."""
        if self.chance(0.05):
            return self.new_id()
        if self.model.gone and self.chance(0.1):
            return self.random.choice(self.model.gone)
        return self.random.choice(sorted(self.model.notes)) if self.model.notes else self.new_id()

    def new_id(self):
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def row(self):
        values = self.random
        row = {"owner": self.number, "name": conditions.text(values), "done": self.chance(0.5)}
        for field, make in [
            ("number", lambda: values.randint(-5, 5)),
            ("weight", lambda: values.choice(conditions.WEIGHTS)),
            ("code", self.code),
            ("day", lambda: values.choice(conditions.DAYS)),
            ("options", lambda: conditions.document(values)),
        ]:
            if self.chance(0.6):
                row[field] = make() if self.chance(0.85) else None
        return row

    def fields(self):
        """Some fields of a row, as in a PATCH."""
        return {field: value for field, value in self.row().items() if self.chance(0.5)}

    def faults(self, row):
        """Makes a row violate rules. Returns the fields."""
        faults = [
            ("name", ""), ("name", "x" * 41), ("name", 5), ("number", 1_000_001), ("number", "x"),
            ("number", 1.5), ("done", 1), ("day", "2023-02-29"), ("code", "c" * 21), ("nmae", 1),
            ("weight", "heavy"),
        ]
        bad = dict(self.random.sample(faults, self.random.choice([1, 1, 2])))
        row.update(bad)
        return set(bad)

    def write(self):
        """A random write, as in a batch."""
        verb = self.random.choice(["insert"] * 4 + ["patch"] * 3 + ["update", "increment", "delete"])
        write = Write(verb)
        if verb == "insert":
            write.row = self.row()
            if self.chance(0.2):
                write.row["id"] = self.new_id() if self.chance(0.7) else self.some_id()
            write.on_conflict = self.random.choice(["refuse", "refuse", "ignore", "replace", "update"])
        else:
            write.key = self.some_id()
        if verb in ("patch", "update"):
            write.row = self.fields() if verb == "patch" else self.row()
        if verb in ("insert", "patch", "update") and self.chance(0.08):
            write.bad = self.faults(write.row)
        if verb in ("patch", "update", "delete") and self.chance(0.3) and write.key in self.model.notes:
            write.version = self.model.notes[write.key]["version"] + (1 if self.chance(0.4) else 0)
        if verb == "increment":
            write.by = self.random.randint(-3, 3)
        return write
