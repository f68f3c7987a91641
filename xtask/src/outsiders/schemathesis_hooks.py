"""Valid requests where OpenAPI cannot say what is valid: texts with a grammar, keys that depend on the
path or on other rows, and decimals. Requests that are invalid by intention are not changed."""

import schemathesis

# What a request may break although it fits the schema: it refers to a row that does not exist, has an
# amount with more than four decimals, has rows of different forms, asks for no rows and no number, or has a
# file that is not the stored one.
INEXPRESSIBLE = (
    "must be the key of a row of",
    "four decimals",
    "must all have a key, or none",
    "must set the same fields",
    "or 0 with `count=true`",
    "must be the description of a file that was uploaded",
)

# Parameters with a grammar, and those that select the members of a row.
GRAMMARS = {"filter", "order", "after", "fields", "expand", "snippet", "group", "select", "having"}


@schemathesis.hook
def before_call(context, case, kwargs):
    # In the mode `each`, an operation that is not valid is an error in the answer 200.
    if isinstance(case.body, dict) and case.operation.path.endswith("/batch"):
        case.body.pop("mode", None)
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    # Only a server knows its positions.
    (case.headers or {}).pop("Marmota-After", None)
    for name in GRAMMARS & set(case.query or {}):
        del case.query[name]
    if case.operation.method == "delete" and "{key}" not in case.operation.path:
        field = "text" if case.operation.path.endswith("/note") else "name"
        case.query["filter"] = "id = 0" if case.operation.path.endswith("/link") else f"{field} = 'x'"
    if isinstance(case.body, dict) and case.operation.method in ("put", "patch"):
        # The key is that of the path, and a version has to be the stored one.
        for name in ("id", "version", *(["name"] if "/tag/" in case.operation.path else [])):
            case.body.pop(name, None)
    if isinstance(case.body, dict) and case.operation.path.endswith("/batch"):
        for operation in case.body.get("operations", []):
            table = operation.get("patch", operation.get("update"))
            if table is not None and isinstance(operation.get("row"), dict):
                # As above: the key is a member of the operation.
                for name in ("id", "version", "photo", *(["name"] if table == "tag" else [])):
                    operation["row"].pop(name, None)
    for row in case.body if isinstance(case.body, list) else [case.body]:
        if isinstance(row, dict):
            # A file is written at the path of its field.
            row.pop("photo", None)


@schemathesis.check
def valid_data_is_accepted(context, response, case):
    """The check `positive_data_acceptance`, which knows what a schema cannot express."""
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if response.status_code in (400, 422):
        problem = response.json()
        reasons = [error["message"] for error in problem.get("errors", [])] or [problem["detail"]]
        if not all(any(known in reason for known in INEXPRESSIBLE) for reason in reasons):
            raise AssertionError(f"refused: {problem}")
