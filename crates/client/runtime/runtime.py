"""The parts of the client that do not depend on the tables."""

from __future__ import annotations

import base64
import datetime
import decimal
import http.client
import json
import random
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Generic, Literal, TypeAlias, TypedDict, TypeVar, cast, overload

JsonValue: TypeAlias = "None | bool | int | float | str | list[JsonValue] | dict[str, JsonValue]"
Effect: TypeAlias = Literal["inserted", "replaced", "updated", "ignored"]
OnConflict: TypeAlias = Literal["refuse", "ignore", "replace", "update"]

PAGE_ROWS = 100
PART_BYTES = 4 << 20
SILENCE_MAX = 45.0
KEPT_MAX = 10.0


class FileInfo(TypedDict):
    """The description of a file, in its row."""

    id: str
    name: str
    type: str
    bytes: int
    sha256: str
    created: str


@dataclass(frozen=True)
class Violation:
    """A rule that a value breaks."""

    field: str
    value: str
    rule: str
    message: str


class Problem(Exception):
    """An answer with an error: a problem document (RFC 9457)."""

    def __init__(self, document: Mapping[str, Any], status: int) -> None:
        detail = document.get("detail") or document.get("title")
        super().__init__(detail or f"The server answered {status}")
        self.status = status
        self.type: str = document.get("type", "about:blank")
        self.title: str = document.get("title", "")
        self.document = document
        self.violations = [
            Violation(*(str(one.get(name, "")) for name in ("field", "value", "rule", "message")))
            for one in document.get("errors", ())
        ]

    @property
    def needs_code(self) -> bool:
        """True if the sign-in needs the code of an authenticator app."""
        return any((one.field, one.rule) == ("code", "required") for one in self.violations)


# Conditions

V = TypeVar("V")
N = TypeVar("N")
C = TypeVar("C")
Relatives = TypeVar("Relatives")


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _literal(value: object) -> str:
    sent = _encoded(value)
    if isinstance(value, decimal.Decimal):
        return str(sent)
    return _quoted(sent) if isinstance(sent, str) else json.dumps(sent)


class Condition:
    """A condition on rows, as text. `&`, `|` and `~` combine conditions."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __and__(self, other: Condition) -> Condition:
        return Condition(f"({self.text}) and ({other.text})")

    def __or__(self, other: Condition) -> Condition:
        return Condition(f"({self.text}) or ({other.text})")

    def __invert__(self) -> Condition:
        return Condition(f"not ({self.text})")

    def __bool__(self) -> bool:
        raise TypeError("combine conditions with &, | and ~ instead of and, or and not")

    def __str__(self) -> str:
        return self.text


def search(words: str) -> Condition:
    """The search fields of a table together have these words."""
    return Condition(f"@ {_quoted(words)}")


class Column:
    """A field in a condition."""

    def __init__(self, path: str) -> None:
        self._path = path

    def _compare(self, sign: str, value: object) -> Condition:
        return Condition(f"{self._path} {sign} {_literal(value)}")

    __hash__ = None  # type: ignore[assignment]


class NullColumn(Column):
    """A field that is compared with null only."""

    def __eq__(self, value: None) -> Condition:  # type: ignore[override]
        return self._compare("=", value)

    def __ne__(self, value: None) -> Condition:  # type: ignore[override]
        return self._compare("!=", value)


class ValueColumn(Column, Generic[N, V]):
    """A field whose values are compared: `N`, or `V` where it may be null."""

    def __eq__(self, value: V) -> Condition:  # type: ignore[override]
        return self._compare("=", value)

    def __ne__(self, value: V) -> Condition:  # type: ignore[override]
        return self._compare("!=", value)

    def __lt__(self, value: N) -> Condition:
        return self._compare("<", value)

    def __le__(self, value: N) -> Condition:
        return self._compare("<=", value)

    def __gt__(self, value: N) -> Condition:
        return self._compare(">", value)

    def __ge__(self, value: N) -> Condition:
        return self._compare(">=", value)

    def is_in(self, values: Iterable[N]) -> Condition:
        return Condition(f"{self._path} in ({', '.join(map(_literal, values))})")

    def not_in(self, values: Iterable[N]) -> Condition:
        return Condition(f"{self._path} not in ({', '.join(map(_literal, values))})")


class RangeColumn(ValueColumn[N, V]):
    """A field with a lowest and a highest value."""

    def min(self) -> Aggregate[N, N | None]:
        """The lowest value of a group."""
        return Aggregate("min", self._path)

    def max(self) -> Aggregate[N, N | None]:
        """The highest value of a group."""
        return Aggregate("max", self._path)


class NumberColumn(RangeColumn[N, V]):
    """A number in a condition."""

    def sum(self) -> Aggregate[N, N | None]:
        """The sum of a group."""
        return Aggregate("sum", self._path)

    def avg(self) -> Aggregate[float, float | None]:
        """The mean of a group."""
        return Aggregate("avg", self._path)


class Aggregate(ValueColumn[N, V]):
    """A value that is computed for each group. Conditions on groups compare it."""

    def __init__(self, function: str, column: str | None = None) -> None:
        super().__init__(function if column is None else f"{function}_{column}")
        self._function = function
        self._column = column

    @property
    def name(self) -> str:
        """The name in an order, such as `sum_price`."""
        return self._path

    def _selected(self) -> str:
        return self._function if self._column is None else f"{self._function}({self._column})"

    def _kind(self, kinds: Mapping[str, str]) -> str | None:
        if self._function == "avg":
            return "float"
        return None if self._function == "count" else kinds.get(self._column or "")


def count() -> Aggregate[int, int]:
    """The number of rows in a group."""
    return Aggregate("count")


def count_of(column: Column) -> Aggregate[int, int]:
    """The number of rows in a group with a value in this field."""
    return Aggregate("count", column._path)


Coordinate: TypeAlias = NumberColumn[float, float] | NumberColumn[float, float | None]


def _place(name: str, latitude: Coordinate, longitude: Coordinate, *numbers: float) -> Condition:
    """A function of two fields of one row, which may be a related row."""
    row, dot, field = latitude._path.rpartition(".")
    of_row, _, other = longitude._path.rpartition(".")
    if row != of_row:
        raise ValueError(f"{latitude._path} and {longitude._path} are not fields of one row")
    return Condition(f"{row}{dot}{name}({', '.join([field, other, *map(str, numbers)])})")


def near(
    latitude_field: Coordinate,
    longitude_field: Coordinate,
    latitude: float,
    longitude: float,
    radius: float,
) -> Condition:
    """The point of two fields is within a distance of another point, in metres."""
    return _place("near", latitude_field, longitude_field, latitude, longitude, radius)


def within(
    latitude_field: Coordinate,
    longitude_field: Coordinate,
    south: float,
    west: float,
    north: float,
    east: float,
) -> Condition:
    """The point of two fields is in a box, in degrees. West is greater than east in a box that
    contains the meridian of 180 degrees."""
    return _place("within", latitude_field, longitude_field, south, west, north, east)


class TextTests(Column):
    """The tests of texts."""

    def contains(self, text: str) -> Condition:
        """Contains this text; the case of A to Z is ignored."""
        return self._compare("~", text)

    def starts_with(self, text: str) -> Condition:
        """Begins with this text; the case of A to Z is ignored."""
        return self._compare("^", text)

    def matches(self, words: str) -> Condition:
        """Has these words, in a field with a search index."""
        return self._compare("@", words)


class TextColumn(RangeColumn[N, V], TextTests):
    """A text in a condition."""


Scalar: TypeAlias = str | int | float | bool | None


class JsonPath(ValueColumn[Scalar, Scalar], TextTests):
    """A value inside a JSON field."""

    def exists(self) -> Condition:
        return Condition(f"{self._path} exists")


class JsonColumn(NullColumn):
    """A JSON field in a condition."""

    def at(self, *path: str | int) -> JsonPath:
        """Selects a value inside the JSON: members by name, elements by number."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{_quoted(step)}" for step in path)
        return JsonPath(self._path + "".join(steps))


class Columns:
    """The fields and relations of a table, in a condition."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix


class ManyRelation(Generic[C]):
    """A relation with any number of rows."""

    def __init__(self, path: str, columns: Callable[[str], C]) -> None:
        self._relation = path
        self._columns = columns

    def _related(self, word: str, where: Where[C] | None) -> str:
        inner = "" if where is None else ", " + _text_of(where, self._columns)
        return f"{word}({self._relation}{inner})"

    def any(self, where: Where[C] | None = None) -> Condition:
        return Condition(self._related("any", where))

    def none(self, where: Where[C] | None = None) -> Condition:
        return Condition(self._related("none", where))

    def count(self, where: Where[C] | None = None) -> ValueColumn[int, int]:
        return ValueColumn[int, int](self._related("count", where))


class OneRelation(ManyRelation[C]):
    """A relation with at most one row."""

    @property
    def to(self) -> C:
        """The fields of the related row."""
        return self._columns(self._relation + ".")

    def field(self, select: Callable[[C], ValueColumn[N, Any]]) -> ValueColumn[N, N | None]:
        """A field of the related row to group by; `None` for rows without one."""
        return ValueColumn[N, N | None](select(self.to)._path)


class ReferenceColumn(ValueColumn[N, V], OneRelation[C], Generic[N, V, C]):
    """A reference: its key, and the row to which it refers."""

    def __init__(self, path: str, columns: Callable[[str], C]) -> None:
        ValueColumn.__init__(self, path)
        OneRelation.__init__(self, path, columns)


Where: TypeAlias = Callable[[C], Condition] | Condition | str


def _text_of(where: Where[C], columns: Callable[[str], C]) -> str:
    if isinstance(where, (str, Condition)):
        return str(where)
    return where(columns("")).text


# Values

#: The fields of a table whose values are not those of JSON, and the tables of its relations.
@dataclass(frozen=True)
class TableInfo(Generic[C]):
    name: str
    columns: Callable[[str], C]
    kinds: Mapping[str, str] = field(default_factory=dict)
    relations: Mapping[str, str] = field(default_factory=dict)


def _encoded(value: object) -> object:
    """Returns a value that JSON does not have in its JSON form."""
    match value:
        case decimal.Decimal():
            return format(value, "f")
        case datetime.datetime():
            moment = value.replace(tzinfo=value.tzinfo or datetime.timezone.utc)
            return moment.astimezone(datetime.timezone.utc).isoformat().replace("+00:00", "Z")
        case datetime.date() | datetime.time():
            return value.isoformat()
        case uuid.UUID():
            return str(value)
        case bytes():
            return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
        case Handle():
            return value._sent()
    return value


def _refused(value: object) -> object:
    encoded = _encoded(value)
    if encoded is value:
        raise TypeError(f"{type(value).__name__} has no JSON form")
    return encoded


def _dumped(value: object) -> bytes:
    return json.dumps(value, default=_refused, allow_nan=False).encode()


def _floats(value: Any) -> Any:
    match value:
        case decimal.Decimal():
            return float(value)
        case list():
            return [_floats(one) for one in value]
        case dict():
            return {name: _floats(one) for name, one in value.items()}
    return value


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "currency": decimal.Decimal,
    "float": float,
    "json": _floats,
    "vector": _floats,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "timestamp": datetime.datetime.fromisoformat,
    "uuid": uuid.UUID,
    "blob": lambda text: base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)),
}


class _Json:
    """Rows from JSON, by the kinds of their fields."""

    def __init__(self, tables: Mapping[str, TableInfo[Any]]) -> None:
        self.tables = tables

    def row(self, table: str, row: dict[str, Any]) -> dict[str, Any]:
        info = self.tables[table]
        for name, kind in info.kinds.items():
            if row.get(name) is not None:
                row[name] = _DECODERS[kind](row[name])
        for name, related in row.get("expand", {}).items():
            to = info.relations.get(name)
            if to is None or related is None:
                continue
            rows = related if isinstance(related, list) else [related]
            for one in rows:
                self.row(to, one)
        return row

    def keys(self, table: str, keys: dict[str, Any]) -> dict[str, Any]:
        """Converts the keys of a row and of the rows in it."""
        info = self.tables[table]
        for name, value in keys.items():
            if isinstance(value, (dict, list)):
                for one in value if isinstance(value, list) else [value]:
                    self.keys(info.relations[name], one)
            elif name in info.kinds:
                keys[name] = _DECODERS[info.kinds[name]](value)
        return keys


def _parsed(text: bytes) -> Any:
    return json.loads(text, parse_float=decimal.Decimal)


# Requests


def _delay(attempt: int) -> float:
    return float(min(0.1 * 2**attempt, 10.0) * random.uniform(0.5, 1.0))


def _tag(version: int | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": f'"v{version}"'}


def _lowered(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers}


class Response:
    """A response with its body; the names of headers are in lower case."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body


class Client:
    """The connection to a server, with the requests that concern no single table.

    - `url`: the server, such as `https://shop.example.org`.
    - `token`: a session token or an API key. Default: none.
    - `prefix`: the path of the API. Default: `/api`.
    - `attempts`: how often a request is sent, if nothing was written by the earlier ones.
    - `idempotency`: sends inserts and batches with an `Idempotency-Key`, so that they are repeated.
    - `timeout`: how long to wait for a response, in seconds.

    A client can be used by several threads, each of which has a connection.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        prefix: str = "/api",
        attempts: int = 4,
        idempotency: bool = True,
        timeout: float = 30.0,
        tables: Mapping[str, TableInfo[Any]],
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not the URL of a server: use http://… or https://…")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._base = parts.path.rstrip("/") + prefix
        self.token = token
        self._attempts = attempts
        self._keys = idempotency
        self._timeout = timeout
        self._json = _Json(tables)
        self._local = threading.local()

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=timeout)

    def _connection(self) -> http.client.HTTPConnection:
        kept: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        # A server closes idle connections, and a request on a closed one cannot be sent again safely.
        if kept is None or time.monotonic() - self._local.used > KEPT_MAX:
            if kept is not None:
                kept.close()
            kept = self._connect(self._timeout)
        self._local.connection = kept
        return kept

    def close(self) -> None:
        """Closes the connection of this thread."""
        kept: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if kept is not None:
            kept.close()
        self._local.connection = None

    def _target(self, path: str, query: Mapping[str, object]) -> str:
        whole = path if path.startswith("/") else f"{self._base}/{path}"
        sent = {name: value for name, value in query.items() if value is not None}
        if not sent:
            return whole
        return whole + ("&" if "?" in whole else "?") + urllib.parse.urlencode(sent)

    def _head(self, headers: Mapping[str, str] | None) -> dict[str, str]:
        head = dict(headers or {})
        if self.token:
            head["Authorization"] = f"Bearer {self.token}"
        return head

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        once: bool = False,
    ) -> Response:
        """Sends a request, and again after failures in which nothing was written."""
        target = self._target(path, query or {})
        head = self._head(headers)
        if once and self._keys:
            head["Idempotency-Key"] = str(uuid.uuid4())
        attempt = 1
        while True:
            repeats = method in ("GET", "HEAD") or "Idempotency-Key" in head
            connection = self._connection()
            try:
                connection.request(method, target, body, head)
                received = connection.getresponse()
                response = Response(received.status, _lowered(received.getheaders()), received.read())
                self._local.used = time.monotonic()
            except (OSError, http.client.HTTPException):
                self.close()
                if not repeats or attempt >= self._attempts:
                    raise
                time.sleep(_delay(attempt))
                attempt += 1
                continue
            if response.status < 300:
                return response
            if response.status == 501 and "Idempotency-Key" in head:
                # The server does not keep answers, and has done nothing.
                self._keys = False
                del head["Idempotency-Key"]
                continue
            after = response.headers.get("retry-after")
            if after is not None and response.status in (429, 503) and attempt < self._attempts:
                wait = float(after) if after.isdigit() else 0.0
                time.sleep(min(max(wait, _delay(attempt)), 10.0))
                attempt += 1
                continue
            raise _problem(response.status, response.body)

    def json(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        json: object = None,
        headers: Mapping[str, str] | None = None,
        once: bool = False,
    ) -> Any:
        """Sends JSON, and returns the JSON of the response."""
        head = dict(headers or {})
        body = None
        if json is not None:
            head["Content-Type"] = "application/json"
            body = _dumped(json)
        response = self.request(method, path, query=query, body=body, headers=head, once=once)
        return _parsed(response.body) if response.body else None

    def sign_in(self, name: str, password: str, *, code: str | None = None) -> None:
        """Signs in with a name and a password, and the code of an authenticator app."""
        sent = {"name": name, "password": password, **({} if code is None else {"code": code})}
        session = self.json("POST", "auth/login", json=sent)
        self.token = session["token"]

    def sign_out(self, *, everywhere: bool = False) -> None:
        """Ends the session, or all sessions of the user."""
        self.request("POST", "auth/logout-everywhere" if everywhere else "auth/logout")
        self.token = None

    def me(self) -> dict[str, Any]:
        """Returns the caller and their sessions."""
        return cast(dict[str, Any], self.json("GET", "auth/me"))

    def set_password(self, name: str, token: str, password: str) -> None:
        """Sets a password with a token that is valid once."""
        sent = {"name": name, "token": token, "password": password}
        self.json("POST", "auth/set-password", json=sent)

    def change_password(self, old: str, new: str) -> None:
        """Changes the password and ends all sessions of the user."""
        self.json("POST", "auth/password", json={"old": old, "new": new})


def _problem(status: int, body: bytes) -> Problem:
    try:
        document = json.loads(body)
    except ValueError:
        document = {}
    return Problem(document if isinstance(document, dict) else {}, status)


# Lists

Row = TypeVar("Row")
Part = TypeVar("Part")
Insert = TypeVar("Insert")
Patch = TypeVar("Patch")
Key = TypeVar("Key")
FieldName = TypeVar("FieldName", bound=str)
Order = TypeVar("Order", bound=str)
Expand = TypeVar("Expand")
FileName = TypeVar("FileName", bound=str)
BlobName = TypeVar("BlobName", bound=str)
NumberName = TypeVar("NumberName", bound=str)
TableName = TypeVar("TableName", bound=str)
BatchInsert = TypeVar("BatchInsert")
BatchPatch = TypeVar("BatchPatch")
NestedInsert = TypeVar("NestedInsert")
Nested = TypeVar("Nested")
NestedKeys = TypeVar("NestedKeys")
Values = TypeVar("Values", bound="tuple[Any, ...]")
A1 = TypeVar("A1")
A2 = TypeVar("A2")
A3 = TypeVar("A3")
A4 = TypeVar("A4")
A5 = TypeVar("A5")


@dataclass
class Page(Generic[Row]):
    """A page of rows."""

    rows: list[Row]
    #: The URL of the next page.
    next: str | None = None
    #: The number of all rows, if it was requested.
    count: int | None = None


def _names(names: str | Sequence[str] | None) -> str | None:
    return names if names is None or isinstance(names, str) else ",".join(names)


class Rows(Generic[Row]):
    """A list of rows, which is read page by page while it is iterated."""

    def __init__(
        self,
        client: Client,
        path: str,
        query: dict[str, object],
        limit: int | None,
        page_rows: int,
        decode: Callable[[dict[str, Any]], Row],
    ) -> None:
        self._client = client
        self._path = path
        self._query = query
        self._limit = limit
        self._page_rows = page_rows
        self._decode = decode

    def _page(self, path: str, query: Mapping[str, object]) -> Page[Row]:
        page = self._client.json("GET", path, query=query)
        rows = [self._decode(row) for row in page["rows"]]
        return Page(rows, page["next"], page.get("count"))

    def page(self) -> Page[Row]:
        """Reads the first page."""
        rows = self._page_rows if self._limit is None else min(self._limit, self._page_rows)
        return self._page(self._path, {**self._query, "limit": rows})

    def pages(self) -> Iterator[list[Row]]:
        left = self._limit
        if left is not None and left <= 0:
            return
        page = self.page()
        while True:
            rows = page.rows if left is None else page.rows[:left]
            yield rows
            if left is not None:
                left -= len(rows)
            if page.next is None or left == 0:
                return
            page = self._page(page.next, {})

    def __iter__(self) -> Iterator[Row]:
        for rows in self.pages():
            yield from rows

    def all(self) -> list[Row]:
        return list(self)

    def first(self) -> Row | None:
        rows = Rows(self._client, self._path, self._query, 1, 1, self._decode).page().rows
        return rows[0] if rows else None


class Live(Generic[Row]):
    """A list that is kept up to date: an iterable of pages, the newest one after each change.

    `close` ends the iteration, also from another thread.
    """

    def __init__(self, client: Client, table: str, query: dict[str, object]) -> None:
        self._client = client
        self._table = table
        self._query = query
        self._closed = threading.Event()
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Live[Row]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._closed.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            try:
                connection.sock.shutdown(2)
            except OSError:
                pass

    def __iter__(self) -> Iterator[Page[Row]]:
        document: Any = None
        position: str | None = None
        attempt = 0
        while not self._closed.is_set():
            headers = {"Accept": "text/event-stream"}
            if position is not None:
                headers["Last-Event-ID"] = position
            try:
                for kind, position, data in self._events(headers):
                    attempt = 0
                    if kind == "error":
                        raise Problem(data, int(data.get("status", 500)))
                    document = data if kind == "snapshot" else patched(document, data)
                    rows = [
                        cast(Row, self._client._json.row(self._table, _copied(row)))
                        for row in document["rows"]
                    ]
                    yield Page(rows, document["next"], document.get("count"))
            except (OSError, http.client.HTTPException, ValueError):
                pass
            except Problem as problem:
                if (problem.status < 500 and problem.status != 429) or problem.status == 501:
                    raise
            finally:
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None
            self._closed.wait(_delay(attempt))
            attempt += 1

    def _events(self, headers: dict[str, str]) -> Iterator[tuple[str, str, Any]]:
        # The server sends a comment after 15 seconds of silence.
        connection = self._client._connect(SILENCE_MAX)
        self._connection = connection
        target = self._client._target(self._table, self._query)
        connection.request("GET", target, headers=self._client._head(headers))
        response = connection.getresponse()
        if response.status != 200:
            raise _problem(response.status, response.read())
        event: dict[str, str] = {}
        for line in response:
            name, _, value = line.decode().rstrip("\r\n").partition(":")
            if name:
                event[name] = value.removeprefix(" ")
                continue
            if value == "" and "data" in event:
                yield event.get("event", ""), event.get("id", ""), _parsed(event["data"].encode())
            if value == "":
                event = {}


def _copied(value: Any) -> Any:
    return json.loads(_dumped_exactly(value), parse_float=decimal.Decimal)


def _dumped_exactly(value: Any) -> str:
    return json.dumps(value, default=str)


def patched(document: Any, patch: Iterable[Mapping[str, Any]]) -> Any:
    """Applies a JSON Patch (RFC 6902) with the operations add, remove and replace, in place."""
    for change in patch:
        steps = [
            step.replace("~1", "/").replace("~0", "~") for step in change["path"][1:].split("/")
        ]
        part = document
        for step in steps[:-1]:
            part = part[int(step)] if isinstance(part, list) else part[step]
        last = steps[-1]
        if isinstance(part, list):
            at = len(part) if last == "-" else int(last)
            if change["op"] == "add":
                part.insert(at, change["value"])
            elif change["op"] == "remove":
                del part[at]
            else:
                part[at] = change["value"]
        elif change["op"] == "remove":
            del part[last]
        else:
            part[last] = change["value"]
    return document


# Groups and history

Value: TypeAlias = ValueColumn[Any, V]
Computed: TypeAlias = Aggregate[Any, V]


class Groups(Generic[C, Values]):
    """Rows in groups, of which `select` computes values."""

    def __init__(self, client: Client, info: TableInfo[C], query: dict[str, object]) -> None:
        self._client = client
        self._info = info
        self._query = query

    @overload
    def select(self, values: Callable[[C], tuple[Computed[A1]]]) -> list[tuple[Values, tuple[A1]]]: ...
    @overload
    def select(
        self, values: Callable[[C], tuple[Computed[A1], Computed[A2]]]
    ) -> list[tuple[Values, tuple[A1, A2]]]: ...
    @overload
    def select(
        self, values: Callable[[C], tuple[Computed[A1], Computed[A2], Computed[A3]]]
    ) -> list[tuple[Values, tuple[A1, A2, A3]]]: ...
    @overload
    def select(
        self, values: Callable[[C], tuple[Computed[A1], Computed[A2], Computed[A3], Computed[A4]]]
    ) -> list[tuple[Values, tuple[A1, A2, A3, A4]]]: ...
    @overload
    def select(
        self,
        values: Callable[
            [C], tuple[Computed[A1], Computed[A2], Computed[A3], Computed[A4], Computed[A5]]
        ],
    ) -> list[tuple[Values, tuple[A1, A2, A3, A4, A5]]]: ...
    @overload
    def select(
        self, values: Callable[[C], tuple[Computed[Any], ...]]
    ) -> list[tuple[Values, tuple[Any, ...]]]: ...

    def select(self, values: Callable[[C], tuple[Any, ...]]) -> list[Any]:
        """Reads the groups: each with the fields by which rows are grouped, and these values."""
        selected: tuple[Aggregate[Any, Any], ...] = values(self._info.columns(""))
        query = {**self._query, "select": ",".join(one._selected() for one in selected)}
        return [(keys, of_group) for keys, of_group in self._read(query, selected)]

    def keys(self) -> list[Values]:
        """Reads the different values of the fields."""
        return [cast(Values, keys) for keys, _ in self._read(self._query, ())]

    def _kind(self, path: str) -> str | None:
        *steps, name = path.split(".")
        info: TableInfo[Any] = self._info
        for step in steps:
            info = self._client._json.tables[info.relations[step]]
        return info.kinds.get(name)

    def _read(
        self, query: dict[str, object], selected: tuple[Aggregate[Any, Any], ...]
    ) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        kinds = self._info.kinds
        by = str(query["group"] or "").split(",") if query["group"] else []
        decoders = [(path.replace(".", "_"), self._kind(path)) for path in by]
        decoders += [(one.name, one._kind(kinds)) for one in selected]
        for row in self._client.json("GET", self._info.name, query=query)["rows"]:
            values = tuple(
                row[name] if kind is None or row[name] is None else _DECODERS[kind](row[name])
                for name, kind in decoders
            )
            yield values[: len(by)], values[len(by) :]


class HistoryEntry(TypedDict, Generic[Part]):
    """An entry of the history: a write to a row."""

    id: int
    of_table: str
    of_key: str
    action: Literal["insert", "update", "increment", "delete"]
    #: The fields that have changed, of a blob its number of bytes; `None` for a delete.
    fields: Part | None
    at: datetime.datetime
    version: int | None
    actor: str | None


# Tables


class Keys(TypedDict, Generic[Key], total=False):
    """The keys of inserted rows, and what happened to each."""

    keys: list[Key]
    effects: list[Effect]


class Table(
    Generic[
        Row,
        Part,
        Insert,
        Patch,
        Key,
        C,
        FieldName,
        Order,
        Expand,
        FileName,
        BlobName,
        NumberName,
        NestedInsert,
        Nested,
        NestedKeys,
    ]
):
    """A table."""

    def __init__(self, client: Client, info: TableInfo[C]) -> None:
        self._client = client
        self._info = info

    def _path(self, key: object, *rest: str) -> str:
        parts = [self._info.name, str(_encoded(key)), *rest]
        return "/".join(urllib.parse.quote(part, safe="") for part in parts)

    def _row(self, row: Any) -> Row:
        return cast(Row, self._client._json.row(self._info.name, row))

    def _query(
        self,
        where: Where[C] | None,
        order: str | Sequence[str] | None,
        expand: Mapping[str, Any] | None = None,
        fields: Sequence[str] | None = None,
        count: bool = False,
    ) -> dict[str, object]:
        return {
            "filter": None if where is None else _text_of(where, self._info.columns),
            "order": _names(order),
            "fields": _names(fields),
            "expand": None if expand is None else self._expansion(self._info, expand),
            "count": "true" if count else None,
        }

    def _expansion(self, info: TableInfo[Any], expand: Mapping[str, Any]) -> str:
        parts = []
        for name, options in expand.items():
            if options is False:
                continue
            related = self._client._json.tables[info.relations[name]]
            inner = [] if options is True else self._expand_options(related, options)
            parts.append(f"{name}({','.join(inner)})" if inner else name)
        return ",".join(parts)

    def _expand_options(self, related: TableInfo[Any], options: Mapping[str, Any]) -> list[str]:
        inner = []
        if "fields" in options:
            inner.append(f"fields={_names(options['fields'])}")
        if "where" in options:
            inner.append(f"filter={_text_of(options['where'], related.columns)}")
        if "order" in options:
            inner.append(f"order={_names(options['order'])}")
        if "limit" in options:
            inner.append(f"limit={options['limit']}")
        if "expand" in options:
            inner.append(f"expand={self._expansion(related, options['expand'])}")
        return inner

    def list(
        self,
        *,
        where: Where[C] | None = None,
        order: Order | Sequence[Order] | None = None,
        limit: int | None = None,
        expand: Expand | None = None,
        page_rows: int = PAGE_ROWS,
        count: bool = False,
    ) -> Rows[Row]:
        """Lists rows. `limit` is the maximum number of all rows, `page_rows` that of a page."""
        expanded = cast("Mapping[str, Any] | None", expand)
        query = self._query(where, order, expanded, count=count)
        return Rows(self._client, self._info.name, query, limit, page_rows, self._row)

    def select(
        self,
        fields: Sequence[FieldName],
        *,
        where: Where[C] | None = None,
        order: Order | Sequence[Order] | None = None,
        limit: int | None = None,
        page_rows: int = PAGE_ROWS,
    ) -> Rows[Part]:
        """Lists some fields of rows; blobs too, if they are named."""
        query = self._query(where, order, fields=fields)
        part = cast("Callable[[Any], Part]", self._row)
        return Rows(self._client, self._info.name, query, limit, page_rows, part)

    def live(
        self,
        *,
        where: Where[C] | None = None,
        order: Order | Sequence[Order] | None = None,
        limit: int = PAGE_ROWS,
        count: bool = False,
    ) -> Live[Row]:
        """Lists rows, and again after each change."""
        query = self._query(where, order, count=count)
        return Live(self._client, self._info.name, {**query, "limit": limit})

    def count(self, where: Where[C] | None = None) -> int:
        query = {**self._query(where, None, count=True), "limit": 0}
        return int(self._client.json("GET", self._info.name, query=query)["count"])

    def get(self, key: Key, *, expand: Expand | None = None) -> Row:
        query = self._query(None, None, cast("Mapping[str, Any] | None", expand))
        return self._row(self._client.json("GET", self._path(key), query=query))

    def insert(self, row: Insert, *, on_conflict: OnConflict | None = None) -> Row:
        """Inserts a row, and returns it as it is stored."""
        query = {"on_conflict": on_conflict}
        once = on_conflict is None
        stored = self._client.json("POST", self._info.name, query=query, json=row, once=once)
        # The kept answer of a table with hooks or files is the key alone.
        if len(stored) > 1 or list(stored) == list(cast("Mapping[str, object]", row)):
            return self._row(stored)
        try:
            path = self._path(*stored.values())
            return self._row(self._client.json("GET", path))
        except Problem as problem:
            if problem.status not in (401, 403, 404):
                raise
            return self._row(stored)

    @overload
    def group_by(
        self,
        fields: Callable[[C], tuple[Value[A1]]],
        *,
        where: Where[C] | None = None,
        having: Where[C] | None = None,
        order: str | Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Groups[C, tuple[A1]]: ...
    @overload
    def group_by(
        self,
        fields: Callable[[C], tuple[Value[A1], Value[A2]]],
        *,
        where: Where[C] | None = None,
        having: Where[C] | None = None,
        order: str | Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Groups[C, tuple[A1, A2]]: ...
    @overload
    def group_by(
        self,
        fields: Callable[[C], tuple[Value[A1], Value[A2], Value[A3]]],
        *,
        where: Where[C] | None = None,
        having: Where[C] | None = None,
        order: str | Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Groups[C, tuple[A1, A2, A3]]: ...
    @overload
    def group_by(
        self,
        fields: Callable[[C], tuple[Value[Any], ...]],
        *,
        where: Where[C] | None = None,
        having: Where[C] | None = None,
        order: str | Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Groups[C, tuple[Any, ...]]: ...

    def group_by(
        self,
        fields: Callable[[C], tuple[Any, ...]],
        *,
        where: Where[C] | None = None,
        having: Where[C] | None = None,
        order: str | Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Groups[C, Any]:
        """Groups rows by fields. `having` is a condition on computed values, which `order` names.

        Default of `limit`: 100.
        """
        columns: tuple[Column, ...] = fields(self._info.columns(""))
        query = {
            **self._query(where, order),
            "group": ",".join(column._path for column in columns) or None,
            "having": None if having is None else _text_of(having, self._info.columns),
            "limit": limit,
        }
        return Groups(self._client, self._info, query)

    def aggregate(
        self, value: Callable[[C], Aggregate[Any, V]], *, where: Where[C] | None = None
    ) -> V:
        """Computes a value of all rows."""
        query = {**self._query(where, None), "group": None}
        groups = Groups[C, tuple[()]](self._client, self._info, query)
        [(_, (computed,))] = groups.select(lambda columns: (value(columns),))
        return cast(V, computed)

    def history(
        self,
        key: Key,
        *,
        order: Literal["id", "-id"] | None = None,
        limit: int | None = None,
        page_rows: int = PAGE_ROWS,
    ) -> Rows[HistoryEntry[Part]]:
        """Lists the writes of a row of an audited table; the row may be deleted."""
        path, table = self._path(key, "history"), self._info.name

        def entry(row: dict[str, Any]) -> HistoryEntry[Part]:
            row["at"] = datetime.datetime.fromisoformat(row["at"])
            if row["fields"] is not None:
                kinds = self._info.kinds
                blobs = {name: row["fields"].pop(name) for name in [*row["fields"]] if kinds.get(name) == "blob"}
                row["fields"] = {**self._client._json.row(table, row["fields"]), **blobs}
            return cast("HistoryEntry[Part]", row)

        return Rows(self._client, path, {"order": order}, limit, page_rows, entry)

    def insert_nested(self, row: NestedInsert) -> NestedKeys:
        """Inserts a row with related rows, all or none, and returns the keys of all rows."""
        answer = self._client.json("POST", self._info.name, json=row, once=True)
        return cast(NestedKeys, self._client._json.keys(self._info.name, answer))

    def patch_nested(self, key: Key, row: Nested, *, version: int | None = None) -> NestedKeys:
        """Writes some fields and related rows, all or none, and returns the keys of these rows."""
        answer = self._client.json("PATCH", self._path(key), json=row, headers=_tag(version))
        return cast(NestedKeys, self._client._json.keys(self._info.name, answer))

    def insert_many(
        self, rows: Sequence[Insert], *, on_conflict: OnConflict | None = None
    ) -> Keys[Key]:
        """Inserts rows, all or none."""
        query = {"on_conflict": on_conflict}
        once = on_conflict is None
        answer = self._client.json("POST", self._info.name, query=query, json=[*rows], once=once)
        return cast("Keys[Key]", answer)

    def update(self, key: Key, row: Insert, *, version: int | None = None) -> Row:
        """Writes the whole row: fields that are missing get their defaults."""
        answer = self._client.json("PUT", self._path(key), json=row, headers=_tag(version))
        return self._row(answer)

    def patch(self, key: Key, row: Patch, *, version: int | None = None) -> Row:
        """Writes some fields."""
        answer = self._client.json("PATCH", self._path(key), json=row, headers=_tag(version))
        return self._row(answer)

    def delete(self, key: Key, *, version: int | None = None) -> None:
        self._client.request("DELETE", self._path(key), headers=_tag(version))

    def delete_where(self, where: Where[C]) -> int:
        """Deletes the rows with a condition, and returns their number."""
        query = {"filter": _text_of(where, self._info.columns)}
        return int(self._client.json("DELETE", self._info.name, query=query)["deleted"])

    def increment(
        self, key: Key, field: NumberName, by: int | decimal.Decimal = 1
    ) -> int | decimal.Decimal:
        """Adds to a number in the database, and returns the sum."""
        answer = self._client.json("POST", self._path(key, field, "increment"), json={"by": by})
        return cast("int | decimal.Decimal", self._client._json.row(self._info.name, answer)[field])

    def upload(
        self,
        key: Key,
        field: FileName,
        data: bytes,
        *,
        name: str | None = None,
        type: str = "application/octet-stream",
        version: int | None = None,
    ) -> FileInfo:
        """Writes the bytes of a file field."""
        headers = {"Content-Type": type, **_tag(version)}
        if name is not None:
            encoded = urllib.parse.quote(name, safe="")
            headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{encoded}"
        answer = self._client.request("PUT", self._path(key, field), body=data, headers=headers)
        return cast(FileInfo, json.loads(answer.body))

    def upload_in_parts(
        self,
        key: Key,
        field: FileName,
        data: BinaryIO,
        *,
        name: str | None = None,
        type: str = "application/octet-stream",
        part_bytes: int = PART_BYTES,
        url: str | None = None,
        on_progress: Callable[[str, int, int], None] | None = None,
    ) -> FileInfo:
        """Writes the bytes of a file field in several requests, and continues after a lost connection.

        `on_progress` gets the URL of the upload, the bytes that were sent, and their number. With
        `url`, an upload that was begun earlier continues.
        """
        size = data.seek(0, 2)
        head = {"Tus-Resumable": "1.0.0"}
        if url is None:
            encoded = [
                f"{what} {base64.b64encode(value.encode()).decode()}"
                for what, value in (("filename", name), ("filetype", type))
                if value
            ]
            begin = {**head, "Upload-Length": str(size), "Upload-Metadata": ",".join(encoded)}
            path = self._path(key, field, "uploads")
            url = self._client.request("POST", path, headers=begin).headers["location"]
        sent: int | None = None
        attempt, is_last = 1, False
        while size > 0:
            try:
                if sent is None:
                    answer = self._client.request("HEAD", url, headers=head)
                    sent = int(answer.headers["upload-offset"])
                if on_progress is not None:
                    on_progress(url, sent, size)
                if sent >= size:
                    break
                is_last = sent + part_bytes >= size
                data.seek(sent)
                more = {
                    **head,
                    "Upload-Offset": str(sent),
                    "Content-Type": "application/offset+octet-stream",
                }
                part = data.read(part_bytes)
                answer = self._client.request("PATCH", url, body=part, headers=more)
                sent = int(answer.headers["upload-offset"])
                attempt = 1
            except (OSError, http.client.HTTPException, Problem) as error:
                status = error.status if isinstance(error, Problem) else 500
                # The last part may have arrived: the server has forgotten the upload then.
                if status == 404 and is_last and attempt > 1:
                    file = self._file(key, field)
                    if file is not None and file["bytes"] == size:
                        return file
                if (status < 500 and status != 409) or attempt >= self._client._attempts:
                    raise
                sent = None
                time.sleep(_delay(attempt))
                attempt += 1
        file = self._file(key, field)
        if file is None:
            raise Problem({"detail": "the file was removed while it was uploaded"}, 404)
        return file

    def _file(self, key: Key, field: FileName) -> FileInfo | None:
        row = self._client.json("GET", self._path(key), query={"fields": field})
        return cast("FileInfo | None", row[field])

    def write_blob(self, key: Key, field: BlobName, data: bytes) -> None:
        """Writes the bytes of a blob field."""
        headers = {"Content-Type": "application/octet-stream"}
        self._client.request("PUT", self._path(key, field), body=data, headers=headers)

    def download(self, key: Key, field: FileName | BlobName, *, thumbnail: str | None = None) -> bytes:
        """Reads the bytes of a file or blob field."""
        query = {"thumbnail": thumbnail}
        return self._client.request("GET", self._path(key, field), query=query).body

    def remove_file(self, key: Key, field: FileName) -> None:
        self._client.request("DELETE", self._path(key, field))

    def signed_url(self, key: Key, field: FileName, *, expires_in: int | None = None) -> str:
        """Returns a URL of a file that needs no other authentication."""
        path = self._path(key, field, "signed-url")
        return str(self._client.json("POST", path, query={"expires_in": expires_in})["url"])


# Batches


class Handle(Generic[TableName, Key]):
    """The result of a write in a batch. In other writes it stands for the key of the row."""

    def __init__(self, index: int, decode: Callable[[Any], Any]) -> None:
        self._index = index
        self._decode = decode
        self.result: Mapping[str, Any] | None = None

    @property
    def key(self) -> Key:
        """The key of an inserted row, once the batch was sent."""
        if self.result is None:
            raise RuntimeError("the batch of this handle has not been sent")
        return cast(Key, self._decode(self.result["key"]))

    @property
    def error(self) -> Problem | None:
        """The error of a write, in the mode `each`."""
        if self.result is None or "error" not in self.result:
            return None
        return Problem(self.result["error"], self.result["status"])

    def _sent(self) -> object:
        return {"$result": self._index} if self.result is None else self.result["key"]


class BatchTable(Generic[TableName, Key, BatchInsert, BatchPatch, NumberName]):
    """The writes to a table in a batch."""

    def __init__(self, batch: Batch, name: str, decode: Callable[[Any], Any] = lambda key: key) -> None:
        self._batch = batch
        self._name = name
        self._decode = decode

    def _add(self, verb: str, **members: object) -> Handle[TableName, Key]:
        sent = {name: value for name, value in members.items() if value is not None}
        handle = Handle[TableName, Key](len(self._batch._handles), self._decode)
        self._batch._operations.append({verb: self._name, **sent})
        self._batch._handles.append(handle)
        return handle

    def insert(
        self, row: BatchInsert, *, on_conflict: OnConflict | None = None
    ) -> Handle[TableName, Key]:
        return self._add("insert", row=row, on_conflict=on_conflict)

    def update(
        self, key: Key | Handle[TableName, Key], row: BatchInsert, *, version: int | None = None
    ) -> Handle[TableName, Key]:
        return self._add("update", key=key, row=row, version=version)

    def patch(
        self, key: Key | Handle[TableName, Key], row: BatchPatch, *, version: int | None = None
    ) -> Handle[TableName, Key]:
        return self._add("patch", key=key, row=row, version=version)

    def increment(
        self,
        key: Key | Handle[TableName, Key],
        field: NumberName,
        by: int | decimal.Decimal = 1,
    ) -> Handle[TableName, Key]:
        return self._add("increment", key=key, field=field, by=by)

    def delete(
        self, key: Key | Handle[TableName, Key], *, version: int | None = None
    ) -> Handle[TableName, Key]:
        return self._add("delete", key=key, version=version)


class Batch:
    """Writes that are sent together, in one transaction unless the mode is `each`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._operations: list[dict[str, object]] = []
        self._handles: list[Handle[Any, Any]] = []

    def run(self, *, mode: Literal["all", "each"] = "all") -> list[Handle[Any, Any]]:
        """Sends the writes: all or none by default; with `each`, a write that fails stops no other."""
        sent = {"mode": mode, "operations": self._operations}
        answer = self._client.json("POST", "batch", json=sent, once=True)
        for handle, result in zip(self._handles, answer["results"], strict=True):
            handle.result = result
        return self._handles
