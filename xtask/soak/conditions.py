"""Random filters, and their result for a row: True, False or None (neither).

Written from the guide (docs/guide/04-queries.md), not from the service.
"""

import operator
import unicodedata

WORDS = ["alpine", "Marmot", "meadow", "dog", "snow", "été", "d'hiver", "Jean-Paul", "pine", "ÜBER"]
DAYS = ["1899-12-31", "2024-02-29", "2024-03-01", "2026-11-23", "9999-12-31"]
WEIGHTS = [-2.5, -0.25, 0.0, 0.1, 1.0, 1.75, 1e300]
COMPARE = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}
MISSING = object()
PATHS = [("a", ["a"]), ("b.c", ["b", "c"]), ("tags[0]", ["tags", 0]), ("'two words'", ["two words"])]


def text(random):
    """A name of 1 to 4 words."""
    return " ".join(random.choice(WORDS) for _ in range(random.randint(1, 4)))


def scalar(random):
    """A JSON value to compare with."""
    return random.choice([-1, 0, 1, 1.5, 2, True, False, "alpine", "Dog", "", "d'hiver"])


def document(random):
    """A value for the JSON field, not null."""
    if random.random() < 0.1:
        return random.choice([7, "alpine", [1, 2], True])
    made = {}
    if random.random() < 0.8:
        made["a"] = random.choice([scalar(random), None, {}, [3]])
    if random.random() < 0.5:
        made["b"] = random.choice([{"c": scalar(random)}, {"c": None}, {}, 5])
    if random.random() < 0.5:
        made["tags"] = [scalar(random) for _ in range(random.randint(0, 2))]
    if random.random() < 0.3:
        made["two words"] = scalar(random)
    return made


def quoted(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        mark = '"' if len(value) % 2 else "'"
        return mark + value.replace(mark, mark * 2) + mark
    return repr(value)


def folded(value):
    """Folds the case of A to Z only."""
    return "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in value)


def negated(test):
    def opposite(row):
        said = test(row)
        return None if said is None else not said
    return opposite


def either_of(one, other):
    def test(row):
        said = (one(row), other(row))
        return True if True in said else None if None in said else False
    return test


def both_of(one, other):
    def test(row):
        said = (one(row), other(row))
        return False if False in said else None if None in said else True
    return test


# -- words ------------------------------------------------------------------


def words_of(value):
    """The words of a text: sequences of letters and digits, without case and accents."""
    plain = unicodedata.normalize("NFD", value)
    plain = "".join(c for c in plain if not unicodedata.combining(c)).lower()
    return "".join(c if c.isalnum() else " " for c in plain).split()


def has_phrase(words, phrase, is_open):
    for start in range(len(words) - len(phrase) + 1):
        part = words[start:start + len(phrase)]
        if part[:-1] == phrase[:-1] and (part[-1].startswith(phrase[-1]) if is_open else part[-1] == phrase[-1]):
            return True
    return False


def search(random):
    """A search of one to three words or phrases, the first of which is required."""
    parts, terms = [], []
    for at in range(random.randint(1, 3)):
        is_excluded = at > 0 and random.random() < 0.5
        raw = " ".join(random.choice(WORDS) for _ in range(random.choice([1, 1, 2])))
        if random.random() < 0.3:
            raw = random.choice([raw.upper(), "ete", "uber", "paul", "hiver"])
        is_open = random.random() < 0.3
        if is_open:
            raw = raw[:-1] if raw[-2].isalpha() else raw
        shown = raw + ("*" if is_open else "")
        shown = f'"{shown}"' if " " in raw else shown
        parts.append(("-" if is_excluded else "") + shown)
        terms.append((is_excluded, words_of(raw), is_open))

    def test(row):
        words = words_of(row["name"])
        return all(has_phrase(words, phrase, is_open) != out for out, phrase, is_open in terms)
    field = random.choice(["", "name "])
    return f"{field}@ '" + " ".join(parts).replace("'", "''") + "'", test


# -- one field --------------------------------------------------------------


def part_of(random):
    """A part of a text for `~` and `^`, in any case."""
    word = random.choice(WORDS)
    piece = word[:random.randint(1, len(word))]
    return random.choice([piece, piece.upper(), piece.lower()])


def textual(random, field, get):
    piece, symbol = part_of(random), random.choice("~^")

    def test(row):
        value = get(row)
        if value is MISSING or value is None:
            return None
        if not isinstance(value, str):
            return False
        return folded(piece) in folded(value) if symbol == "~" else folded(value).startswith(folded(piece))
    return f"{field} {symbol} {quoted(piece)}", test


def listed(random, field, values, equals):
    """`in` and `not in`; `equals(value)` returns a test."""
    test = equals(values[0])
    for value in values[1:]:
        test = either_of(test, equals(value))
    shown = f"({', '.join(map(quoted, values))})"
    if random.random() < 0.5:
        return f"{field} in {shown}", test
    return f"{field} not in {shown}", negated(test)


def of_json(random):
    """A condition on a path into the JSON field."""
    shown, path = random.choice(PATHS)
    field = f"options.{shown}"

    def get(row):
        value = row["options"]
        if value is None:
            return MISSING
        for step in path:
            is_there = (
                isinstance(value, list) and len(value) > step if isinstance(step, int)
                else isinstance(value, dict) and step in value
            )
            if not is_there:
                return MISSING
            value = value[step]
        return value

    def comparison(symbol, wanted):
        def kind(value):
            return bool if isinstance(value, bool) else float if isinstance(value, (int, float)) else type(value)

        def test(row):
            value = get(row)
            if value is MISSING or value is None:
                return None
            if kind(value) is kind(wanted):
                return COMPARE[symbol](value, wanted)
            return {"=": False, "!=": True}.get(symbol)
        return test

    chance = random.random()
    if chance < 0.12:
        return f"{field} exists", lambda row: get(row) is not MISSING
    if chance < 0.24:
        return f"{field} = null", lambda row: get(row) in (MISSING, None)
    if chance < 0.3:
        return f"{field} != null", lambda row: get(row) not in (MISSING, None)
    if chance < 0.45:
        return textual(random, field, get)
    if chance < 0.6:
        values = [scalar(random) for _ in range(random.randint(1, 3))]
        return listed(random, field, values, lambda value: comparison("=", value))
    wanted, symbol = scalar(random), random.choice(list(COMPARE))
    return f"{field} {symbol} {quoted(wanted)}", comparison(symbol, wanted)


def of_field(random, code):
    """A condition on a field; `code` generates values of the field `code`."""
    field = random.choice(["number", "weight", "name", "code", "day", "done"])
    if field in ("code", "number", "weight", "day") and random.random() < 0.15:
        if random.random() < 0.5:
            return f"{field} = null", lambda row: row[field] is None
        return f"{field} != null", lambda row: row[field] is not None
    if field in ("name", "code") and random.random() < 0.4:
        return textual(random, field, lambda row: row[field])
    make = {
        "number": lambda: random.randint(-5, 5),
        "weight": lambda: random.choice(WEIGHTS),
        "name": lambda: text(random),
        "code": code,
        "day": lambda: random.choice(DAYS),
        "done": lambda: random.random() < 0.5,
    }[field]

    def comparison(symbol, wanted):
        return lambda row: None if row[field] is None else COMPARE[symbol](row[field], wanted)
    if random.random() < 0.2:
        values = [make() for _ in range(random.randint(1, 3))]
        return listed(random, field, values, lambda value: comparison("=", value))
    wanted = make()
    symbol = random.choice(["=", "!="] if field == "done" else list(COMPARE))
    return f"{field} {symbol} {quoted(wanted)}", comparison(symbol, wanted)


def leaf(random, code):
    chance = random.random()
    if chance < 0.15:
        return search(random)
    if chance < 0.4:
        return of_json(random)
    return of_field(random, code)


def condition(random, code, depth=0):
    """A filter's text and its test."""
    chance = random.random()
    if depth == 3 or chance < 0.4:
        return leaf(random, code)
    one, test = condition(random, code, depth + 1)
    if chance < 0.55:
        return f"{random.choice(['not ', '!'])}({one})", negated(test)
    other, other_test = condition(random, code, depth + 1)
    if chance < 0.8:
        return f"({one} {random.choice(['and', '&&'])} {other})", both_of(test, other_test)
    return f"({one} {random.choice(['or', '||'])} {other})", either_of(test, other_test)
