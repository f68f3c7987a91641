"""The expected rows of one client, and the effect of each write on them. Written
from the guide (docs/guide/08-rest.md), not from the service's code.
"""

import dataclasses
import itertools
import json

FIELDS = ("owner", "name", "number", "weight", "done", "code", "day", "options")
REQUIRED = ("owner", "name", "done")
# Number of deleted rows that are requested again.
GONE_MAX = 200
_handles = itertools.count()


@dataclasses.dataclass
class Write:
    """A write of a note, with the fields that violate a rule."""

    verb: str  # insert, update, patch, increment, delete, photo
    key: object = None
    row: dict = None
    bad: set = dataclasses.field(default_factory=set)
    on_conflict: str = "refuse"
    version: int = None
    by: int = 0
    photo: bytes = None


@dataclasses.dataclass
class Result:
    """The status of a write, and the key and effect of an executed one."""

    status: int
    key: object = None
    effect: str = None


def _differ(one, other):
    """True unless two values are the same JSON; in Python `True == 1 == 1.0`."""
    if isinstance(one, bytes) or isinstance(other, bytes):
        return one != other
    return json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True)


class Model:
    """Notes by their id, labels by their code, and each note's history."""

    def __init__(self):
        self.notes, self.labels, self.history, self.gone = {}, {}, {}, []
        # Keys without a recorded history, although a row may use them again.
        self.forgotten = set()

    def copied(self):
        other = Model()
        other.notes = {id: dict(note) for id, note in self.notes.items()}
        other.labels, other.history, other.gone = dict(self.labels), dict(self.history), list(self.gone)
        other.forgotten = set(self.forgotten)
        return other

    def become(self, other):
        self.__dict__.update(other.__dict__)

    def holder(self, code, but=None):
        """The id of the note that has a code."""
        if code is None:
            return None
        return next((id for id, note in self.notes.items() if note["code"] == code and id != but), None)

    def is_referred(self, id):
        return any(label["note"] == id for label in self.labels.values())

    def apply(self, write):
        """Executes a write, or nothing if its status is an error."""
        if write.bad:
            return Result(422)
        return getattr(self, "_" + write.verb)(write)

    def apply_all(self, writes):
        """All or nothing: the results, or the index of the first failure and its result."""
        at = next((at for at, write in enumerate(writes) if write.bad), None)
        if at is not None:
            return at, Result(422)
        tried, results = self.copied(), []
        for at, write in enumerate(writes):
            result = tried.apply(write)
            if result.status >= 400:
                return at, result
            results.append(result)
        self.become(tried)
        return None, results

    def rename(self, handle, id):
        """Adds a row whose key the service assigned."""
        if handle == id:
            return
        self.notes[id] = self.notes.pop(handle)
        self.notes[id]["id"] = id
        self.history[id] = self.history.pop(handle)

    # -- one write ----------------------------------------------------------

    def _insert(self, write):
        row, id = write.row, write.row.get("id")
        by_key = id if id in self.notes else None
        by_code = self.holder(row.get("code"))
        met = [other for other in dict.fromkeys((by_key, by_code)) if other is not None]
        if not met:
            return Result(201, self._make(id, row), "inserted")
        if write.on_conflict == "refuse":
            return Result(409)
        if write.on_conflict == "ignore":
            return Result(200, met[0], "ignored")
        if write.on_conflict == "replace":
            if any(self.is_referred(other) for other in met if other != id):
                return Result(409)
            for other in met:
                self._drop(other)
                if other == id and id in self.history:  # continues with the new row
                    self.history[id] = self.history[id][:-1]
            # A new row, even with the key of a deleted one.
            return Result(201, self._make(id, row), "replaced")
        fields = {field: value for field, value in row.items() if field != "id"}
        if self.holder(fields.get("code"), met[0]):
            return Result(409)
        self._change(met[0], fields)
        return Result(200, met[0], "updated")

    def _update(self, write):
        if write.key not in self.notes:
            if write.version is not None:
                return Result(412)
            if self.holder(write.row.get("code")):
                return Result(409)
            return Result(201, self._make(write.key, write.row), "inserted")
        return self._patch(dataclasses.replace(write, row={field: write.row.get(field) for field in FIELDS}))

    def _patch(self, write):
        note = self.notes.get(write.key)
        if note is None:
            return Result(404)
        if write.version not in (None, note["version"]):
            return Result(412)
        if self.holder(write.row.get("code"), write.key):
            return Result(409)
        self._change(write.key, write.row)
        return Result(200, write.key)

    def _photo(self, write):
        note = self.notes.get(write.key)
        if note is None:
            return Result(404)
        if write.version not in (None, note["version"]):
            return Result(412)
        self._change(write.key, {"photo": write.photo})
        return Result(204, write.key)

    def _increment(self, write):
        note = self.notes.get(write.key)
        if note is None:
            return Result(404)
        if note["number"] is None:
            return Result(422)
        self._change(write.key, {"number": note["number"] + write.by}, "increment")
        return Result(200, write.key)

    def _delete(self, write):
        note = self.notes.get(write.key)
        if note is None:
            return Result(404)
        if write.version not in (None, note["version"]):
            return Result(412)
        if self.is_referred(write.key):
            return Result(409)
        self._drop(write.key)
        return Result(204, write.key)

    def drop_all(self, ids):
        """A delete by a filter: all rows, or none if one is referred to."""
        if any(self.is_referred(id) for id in ids):
            return False
        for id in ids:
            self._drop(id)
        return True

    # -- rows ---------------------------------------------------------------

    def _make(self, id, row):
        id = id or f"?{next(_handles)}"
        note = {"id": id, **{field: row.get(field) for field in FIELDS}, "version": 1, "photo": None}
        self.notes[id] = note
        self._entered(id, "insert", 1)
        return id

    def _change(self, id, fields, action="update"):
        note = self.notes[id]
        is_changed = any(_differ(note[field], value) for field, value in fields.items())
        note.update(fields)
        note["version"] += 1
        if is_changed:
            self._entered(id, action, note["version"])

    def _drop(self, id):
        del self.notes[id]
        self.gone.append(id)
        self._entered(id, "delete", None)
        if len(self.gone) > GONE_MAX:
            forgotten = self.gone.pop(0)
            if forgotten not in self.notes and forgotten not in self.gone:
                self.history.pop(forgotten, None)
                self.forgotten.add(forgotten)

    def _entered(self, id, action, version):
        if id not in self.forgotten:
            self.history[id] = (*self.history.get(id, ()), (action, version))
