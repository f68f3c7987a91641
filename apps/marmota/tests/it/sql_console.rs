//! `POST /api/-/sql`: administrators read by SQL, and write if the server lets them.

use marmota_postgres::TemporaryPostgres;
use serde_json::{Value, json};

use crate::application::Served;
use crate::program::Folder;

/// Statements that would write, or reach outside of the database.
const WRITES: [&str; 14] = [
    "DELETE FROM note",
    "SELECT 1; DELETE FROM note",
    "WITH gone AS (DELETE FROM note RETURNING id) SELECT * FROM gone",
    "WITH made AS (SELECT 1) INSERT INTO note (text) SELECT 'a' FROM made",
    "INSERT INTO note (text) VALUES ('a') RETURNING id",
    "PRAGMA query_only = off",
    "ATTACH 'other.db' AS other",
    "VACUUM INTO 'copy.db'",
    "COPY note TO PROGRAM 'cat'",
    "SET TRANSACTION READ WRITE",
    "BEGIN",
    "CREATE TABLE made (id integer)",
    "EXPLAIN ANALYZE DELETE FROM note",
    "SELECT * INTO made FROM note",
];

struct Console<'s> {
    served: &'s Served,
    token: String,
}

impl Console<'_> {
    fn ask(&self, body: &Value) -> (u16, Value) {
        self.served.request("POST", "/api/-/sql", &self.token, body)
    }

    fn notes(&self) -> Value {
        self.served.request("GET", "/api/note?count=true", &self.token, &Value::Null).1
    }
}

fn reads_only(console: &Console<'_>) {
    for n in 0..5 {
        let note = json!({ "text": format!("note {n}") });
        let path = "/api/note";
        assert_eq!(console.served.request("POST", path, &console.token, &note).0, 201);
    }
    let before = console.notes();
    let sql = "SELECT text, done FROM note WHERE text > ? ORDER BY text";
    let (status, rows) = console.ask(&json!({ "sql": sql, "values": ["note 2"] }));
    assert_eq!(status, 200, "{rows}");
    assert_eq!(rows["columns"], json!(["text", "done"]));
    assert_eq!(rows["rows"], json!([["note 3", false], ["note 4", false]]));
    assert_eq!(rows["is_complete"], true);
    let (_, rows) = console.ask(&json!({ "sql": "SELECT text FROM note", "limit": 2 }));
    assert_eq!(rows["rows"].as_array().unwrap().len(), 2);
    assert_eq!(rows["is_complete"], false);
    assert_eq!(console.ask(&json!({ "sql": "SELECT 1", "limit": 0 })).0, 400);
    assert_eq!(console.ask(&json!({ "sql": "SELECT ?", "values": [[1]] })).0, 400);
    assert_eq!(console.ask(&json!({ "sql": "SELECT 1", "write": true })).0, 400);
    for sql in WRITES {
        let (status, error) = console.ask(&json!({ "sql": sql }));
        assert!((400..500).contains(&status), "{sql}: {status} {error}");
    }
    assert_eq!(console.notes(), before);
    let (_, document) =
        console.served.request("GET", "/api/openapi.json", &console.token, &Value::Null);
    let content = &document["paths"]["/api/-/sql"]["post"]["requestBody"]["content"];
    let members = &content["application/json"]["schema"]["properties"];
    assert!(members["sql"].is_object() && members["write"].is_null(), "{members}");
    let path = "/api/-/sql";
    let (status, _) = console.served.request("POST", path, "", &json!({ "sql": "SELECT 1" }));
    assert_eq!(status, 401);
    let password = "correct horse battery";
    let eve = json!({ "name": "eve", "groups": [] });
    let (_, made) = console.served.request("POST", "/api/auth/users", &console.token, &eve);
    let set = json!({ "name": "eve", "token": made["token"], "password": password });
    assert_eq!(console.served.request("POST", "/api/auth/set-password", "", &set).0, 204);
    let login = json!({ "name": "eve", "password": password });
    let (_, session) = console.served.request("POST", "/api/auth/login", "", &login);
    let token = session["token"].as_str().unwrap();
    let (status, _) = console.served.request("POST", path, token, &json!({ "sql": "SELECT 1" }));
    assert_eq!(status, 403);
}

/// Checks that an error in a statement is the client's, and has the message of the database or of the
/// server, without the methods of a program.
fn names_errors(console: &Console<'_>, cases: &[(&str, bool, u16, &str)]) {
    for &(sql, write, expected, words) in cases {
        let (status, error) = console.ask(&json!({ "sql": sql, "write": write }));
        let detail = error["detail"].as_str().unwrap_or_default();
        assert_eq!(status, expected, "{sql}: {error}");
        assert!(detail.contains(words), "{sql}: {detail}");
        for method in [".unaudited()", "`execute`", "`sql`", "store.transaction"] {
            assert!(!detail.contains(method), "{sql}: {detail}");
        }
    }
}

/// Errors that are the same on each engine, for a console that writes.
const ERRORS: [(&str, bool, u16, &str); 8] = [
    ("SELECT * FROM missing", false, 400, "missing"),
    ("SELECT missing FROM note", false, 400, "missing"),
    ("SELECT 1 +", false, 400, "input"),
    ("UPDATE note SET missing = 1", true, 400, "missing"),
    ("DELETE FROM note", false, 403, "`\"write\":true`"),
    ("SELECT 1", true, 400, "without `write`"),
    ("INSERT INTO kept DEFAULT VALUES", true, 403, "change its rows by the API"),
    ("DROP TABLE note", true, 403, "application file"),
];

#[test]
fn sql_of_administrators_only_reads_on_sqlite() {
    let folder = Folder::new();
    folder.run(&["new", "shop"]).with(0);
    let shop = folder.within("shop");
    let served = Served::start(&shop, &[]);
    let token = served.log_in();
    reads_only(&Console { served: &served, token });
    assert!(!shop.0.path().join("other.db").exists() && !shop.0.path().join("copy.db").exists());
    drop(served);
    let served = Served::start(&shop, &["--no-sql"]);
    // The path is that of a row then, which no table has.
    assert_eq!(served.request("POST", "/api/-/sql", "", &json!({ "sql": "SELECT 1" })).0, 405);
}

#[test]
fn sql_of_administrators_only_reads_on_postgresql() {
    let server = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    let folder = Folder::new();
    folder.run(&["new", "shop"]).with(0);
    let shop = folder.within("shop");
    let served = Served::start(&shop, &["--db", &server.make_database().unwrap()]);
    let token = served.log_in();
    let console = Console { served: &served, token };
    reads_only(&console);
    // No setting outlives its statement.
    for setting in ["default_transaction_read_only", "transaction_read_only"] {
        let sql = format!("SELECT set_config('{setting}','off',false)");
        console.ask(&json!({ "sql": sql }));
        for sql in [
            "WITH made AS (INSERT INTO note (text) VALUES ('x') RETURNING id) SELECT * FROM made",
            "SELECT nextval(pg_get_serial_sequence('note','id'))",
            "SELECT query_to_xml('delete from note returning id', true, true, '')",
        ] {
            let (status, error) = console.ask(&json!({ "sql": sql }));
            assert!(status >= 400, "{sql}: {status} {error}");
        }
    }
    let (_, rows) = console.ask(&json!({ "sql": "SELECT count(*) FROM note" }));
    assert_eq!(rows["rows"], json!([[5]]));
    let limit = "SELECT current_setting('statement_timeout')";
    assert_eq!(console.ask(&json!({ "sql": limit })).1["rows"], json!([["10s"]]));
    let rows = [
        ("SELECT pg_sleep(60)", false, 504, "longer than 10 s"),
        ("DELETE FROM note", false, 403, "`--sql-write`"),
    ];
    names_errors(&console, &rows);
}

/// Statements that may not be executed, even by a console that writes.
const NO_WRITES: [&str; 6] = [
    "CREATE TABLE made (id integer)",
    "DROP TABLE note",
    "PRAGMA query_only = off",
    "BEGIN",
    "DELETE FROM note; DELETE FROM note",
    "VACUUM INTO 'copy.db'",
];

fn writes(console: &Console<'_>) {
    let insert = "INSERT INTO note (text, done, created, version) VALUES (?, ?, 0, 1)";
    let insert = match console.ask(&json!({ "sql": "SELECT sqlite_version()" })).0 {
        200 => insert.to_owned(),
        _ => insert.replace(" 0,", " now(),"),
    };
    for n in 0..3 {
        let body = json!({ "sql": insert, "values": [format!("note {n}"), false], "write": true });
        let (status, answer) = console.ask(&body);
        assert_eq!((status, &answer["changed"]), (200, &json!(1)), "{answer}");
    }
    let sql = "UPDATE note SET done = ? WHERE text > ?";
    let (_, answer) =
        console.ask(&json!({ "sql": sql, "values": [true, "note 0"], "write": true }));
    assert_eq!(answer["changed"], 2, "{answer}");
    let (_, page) =
        console.served.request("GET", "/api/note?done=true", &console.token, &Value::Null);
    assert_eq!(page["rows"].as_array().unwrap().len(), 2, "{page}");

    let before = console.notes();
    for sql in NO_WRITES {
        let (status, error) = console.ask(&json!({ "sql": sql, "write": true }));
        assert!((400..500).contains(&status), "{sql}: {status} {error}");
    }
    assert_eq!(console.served.request("POST", "/api/kept", &console.token, &json!({})).0, 201);
    let (status, _) = console.ask(&json!({ "sql": "DELETE FROM kept", "write": true }));
    assert!((400..500).contains(&status), "an audited table");
    // Without `write`, the same server only reads.
    for sql in WRITES {
        let (status, error) = console.ask(&json!({ "sql": sql }));
        assert!((400..500).contains(&status), "{sql}: {status} {error}");
    }
    assert_eq!(console.notes(), before);

    let begun = std::time::Instant::now();
    let written = loop {
        let path = "/api/auth/events?kind=sql-executed";
        let (_, page) = console.served.request("GET", path, &console.token, &Value::Null);
        let events = page["events"].as_array().cloned().unwrap_or_default();
        let is_update = |event: &&Value| event["detail"]["sql"] == sql;
        if let Some(event) = events.iter().find(is_update) {
            break event["detail"].clone();
        }
        assert!(begun.elapsed().as_secs() < 20, "{page}");
    };
    assert_eq!((&written["writes"], &written["rows"]), (&json!(true), &json!(2)), "{written}");
    let path = "/api/openapi.json";
    let (_, document) = console.served.request("GET", path, &console.token, &Value::Null);
    let content = &document["paths"]["/api/-/sql"]["post"]["requestBody"]["content"];
    let members = &content["application/json"]["schema"]["properties"];
    assert_eq!(members["write"]["type"], "boolean");
    let app = &document["paths"]["/api/-/app"];
    assert!(app["get"].is_object() && app["put"].is_object(), "{app}");
}

/// Makes an application with an additional, audited table.
fn with_audited(folder: Folder) -> Folder {
    folder.run(&["new", "shop"]).with(0);
    let shop = folder.within("shop");
    let path = shop.0.path().join("app.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let kept = "[tables.kept]\naudit = true\n\n[tables.kept.fields]\n\
                id = { kind = \"integer\", role = \"key\" }\n";
    std::fs::write(&path, format!("{text}\n{kept}")).unwrap();
    shop
}

#[test]
fn sql_of_administrators_writes_on_sqlite_with_the_option() {
    let folder = Folder::new();
    let shop = with_audited(folder);
    let served = Served::start(&shop, &["--sql-write"]);
    let token = served.log_in();
    let console = Console { served: &served, token };
    writes(&console);
    names_errors(&console, &ERRORS);
    // Values that do not fit are found while the statement runs.
    let of_values = [
        ("SELECT json_extract('x', '$.a')", false, 400, "malformed JSON"),
        ("SELECT abs(-9223372036854775808)", false, 400, "integer overflow"),
    ];
    names_errors(&console, &of_values);
}

#[test]
fn sql_of_administrators_writes_on_postgresql_with_the_option() {
    let server = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    let folder = Folder::new();
    let shop = with_audited(folder);
    let url = server.make_database().unwrap();
    let served = Served::start(&shop, &["--db", &url, "--sql-write"]);
    let token = served.log_in();
    let console = Console { served: &served, token };
    writes(&console);
    names_errors(&console, &ERRORS);
    let of_values = [
        ("SELECT (SELECT 1 UNION ALL SELECT 2)", false, 400, "more than one row"),
        ("SELECT repeat('x', 2000000000)", false, 400, "requested length too large"),
        ("SELECT pg_read_file('/missing')", false, 400, "could not open file"),
        ("SELECT 1 / 0", false, 400, "division by zero"),
        ("UPDATE note SET text = repeat('x', 2000000000)", true, 400, "requested length"),
        ("UPDATE note SET text = pg_sleep(60)::text", true, 504, "longer than 10 s"),
    ];
    names_errors(&console, &of_values);
}
