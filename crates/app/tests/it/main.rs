//! Tests of application files.
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

mod errors;
mod round_trip;
mod updates;

/// A file with every kind of value, role, rule and right.
const WHOLE: &str = r#"# The shop
[tables.customer]
audit = true
search_language = "english"
indexes = [{ fields = ["name", "born"] }, { fields = ["code"], unique = true }, { fields = ["email"], unique = true, where = "vip = true and born != null" }, { fields = ["site"], where = "site != null" }]

[tables.customer.fields]
id = { kind = "integer", role = "key" }
name = { kind = "text", max = 80, collate = "nocase", search = true, sanitizers = ["trim"], not_empty = true }
code = { kind = "text", immutable = true, length = { min = 3, max = 12 }, pattern = "[A-Z]+" }
email = { kind = "text", nullable = true, unique = true, email = true }
site = { kind = "text", nullable = true, url = true }
address = { kind = "text", nullable = true, ip = true }
secret = { kind = "text", nullable = true, count = [{ class = "digits", min = 1 }] }
born = { kind = "date", nullable = true, range = { min = "1900-01-01" } }
wakes = { kind = "time", nullable = true }
seen = { kind = "timestamp", nullable = true, index = true }
token = { kind = "uuid", nullable = true }
level = { kind = "integer", min = 1, max = 5, default = 3 }
score = { kind = "float", default = 0.5, range = { min = 0.0, max = 1.0 } }
credit = { kind = "currency", default = "9.95" }
joined = { kind = "date", default = "2026-01-01", default_expression = "@today" }
label = { kind = "text", computed = "lower(name) + ' ' + text(level)" }
state = { kind = "enum", values = ["new", "known"], stored = "integer", default = "new" }
picture = { kind = "file", bytes_max = 1000000, types = ["image/*"], nullable = true }
key = { kind = "blob", nullable = true }
embedding = { kind = "vector", dimensions = 3, nullable = true }
extra = { kind = "json", nullable = true }
vip = { kind = "boolean", default = false, was = "is_vip" }
version = { kind = "integer", role = "version" }
created = { kind = "timestamp", role = "created_at" }
changed = { kind = "timestamp", role = "updated_at" }

[tables.tag.fields]
id = { kind = "text", role = "key" }

[tables.customer_tag]
was = "labels"

[tables.customer_tag.fields]
id = { kind = "uuid", role = "key" }
customer = { kind = "reference", table = "customer", on_delete = "cascade" }
tag = { kind = "reference", table = "tag" }

[[groups.sales.grants]]
table = "customer"
rights = ["read", "update"]
rule = "level > 2"
except = ["secret"]

[[groups.sales.grants]]
table = "*"
rights = ["read"]

[webhooks.mailing]
url = "https://mail.example.org/hook"
table = "customer"
filter = "level > 2"
kinds = ["insert", "update"]
fields = ["email"]
secret_env = "MAILING_SECRET"
"#;
