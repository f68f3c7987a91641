//! `export` and `import` of rows.

use std::fs;

use crate::program::Folder;

/// A table with every kind that is written in a special form.
const APP: &str = r#"
[tables.team.fields]
id = { kind = "text", role = "key" }

[tables.thing.fields]
id = { kind = "integer", role = "key" }
name = { kind = "text", not_empty = true, unique = true }
note = { kind = "text", nullable = true }
team = { kind = "reference", table = "team", nullable = true }
price = { kind = "currency", nullable = true }
weight = { kind = "float", nullable = true }
is_new = { kind = "boolean", default = true }
day = { kind = "date", nullable = true }
size = { kind = "enum", values = ["small", "large"], stored = "integer", default = "small" }
extra = { kind = "json", nullable = true }
key = { kind = "blob", nullable = true }
place = { kind = "vector", dimensions = 2, nullable = true }
created = { kind = "timestamp", role = "created_at" }
version = { kind = "integer", role = "version" }
"#;

const ROWS: &str = r#"{"id":1,"name":"a \"quoted\", name\nof two lines","note":null,"team":"7","price":12.5,"weight":0.25,"is_new":false,"day":"2026-02-28","size":"large","extra":{"a":[1,"x"]},"key":"AQID","place":[0.5,-1.0]}
{"id":2,"name":"é","team":null,"extra":"text"}

{"id":9,"name":"12"}
"#;

fn folder() -> Folder {
    let folder = Folder::new();
    fs::write(folder.0.path().join("app.toml"), APP).unwrap();
    fs::write(folder.0.path().join("teams.csv"), "id\n7\n").unwrap();
    fs::write(folder.0.path().join("things.ndjson"), ROWS).unwrap();
    folder.run(&["import", "team", "teams.csv"]).with(0);
    folder
}

#[test]
fn rows_are_the_same_after_each_format() {
    let folder = folder();
    let said = folder.run(&["import", "thing", "things.ndjson"]).with(0);
    assert_eq!(said, "things.ndjson: 3 rows imported into thing\n");
    let exported = |words: &[&str]| folder.run(&[&["export", "thing"], words].concat()).with(0);
    let without_times = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split("\"created\"").next().unwrap().to_owned()).collect()
    };
    let before = exported(&[]);
    assert_eq!(exported(&["--to", "-"]), before);
    assert_eq!(before.lines().count(), 3);
    assert!(before.starts_with(&ROWS[..ROWS.find("}\n").unwrap()]), "{before}");
    for format in ["csv", "json", "ndjson"] {
        let file = format!("again.{format}");
        let said = exported(&["--to", &file]);
        assert_eq!(said, format!("{file}: 3 rows\n"));
        let said = folder.run(&["export", "thing", "--to", &file]).with(1);
        assert!(said.contains("cannot write"), "an existing file is kept: {said}");
        for database in ["memory:other.mem", "sqlite:other.db"] {
            let with = |words: &[&str]| folder.run(&[words, &["--db", database]].concat());
            with(&["import", "team", "teams.csv"]).with(0);
            with(&["import", "thing", &file]).with(0);
            let after = with(&["export", "thing"]).with(0);
            assert_eq!(without_times(&after), without_times(&before), "{format}, {database}");
            fs::remove_file(folder.0.path().join(database.split_once(':').unwrap().1)).unwrap();
        }
    }
    assert_eq!(exported(&["--filter", "price > 20", "--format", "json"]), "[]\n");
    assert_eq!(exported(&["--filter", "name = '12'"]).lines().count(), 1);
}

#[test]
fn invalid_rows_are_named_and_nothing_is_imported() {
    let folder = folder();
    let import = |name: &str, text: &str, words: &[&str]| {
        fs::write(folder.0.path().join(name), text).unwrap();
        folder.run(&[&["import", "thing", name], words].concat())
    };
    let said = import("a.csv", "name,price\nx,1\n,2\ny,dear\n", &[]).with(1);
    assert!(said.contains("a.csv:3: name"), "{said}");
    assert!(said.contains("a.csv:4: price = "), "{said}");
    assert!(said.contains("a.csv: nothing was imported"), "{said}");
    let said = import("a.csv", "name,colour\nx,red\n", &[]).with(1);
    assert!(said.contains("a.csv:1: ") && said.contains("`colour`"), "{said}");
    let said = import("a.csv", "name,price\nx\n", &[]).with(1);
    assert!(said.contains("a.csv:2: "), "{said}");
    let said = import("a.ndjson", "{\"name\":\"x\"}\n\n{\"name\":\"x\"}\n", &[]).with(1);
    assert!(said.contains("a.ndjson:3: name"), "a unique value: {said}");
    let said = import("a.ndjson", "{\"name\":\"x\",\"team\":\"8\"}\n", &["--dry-run"]).with(1);
    assert!(said.contains("a.ndjson:1: team"), "a missing row: {said}");
    let said = import("a.ndjson", "{\"name\":\n", &[]).with(1);
    assert!(said.contains("a.ndjson:1: "), "{said}");
    let said = import("a.json", "[\n{\"name\":\"x\"},\n\n{\"nam\":\"y\"}]", &[]).with(1);
    assert!(said.contains("a.json:4: nam"), "{said}");
    let said = import("a.json", "{}", &[]).with(1);
    assert!(said.contains("not an array of objects"), "{said}");
    let many = "{\"name\":\"\"}\n".repeat(100);
    let said = import("a.ndjson", &many, &[]).with(1);
    assert!(said.contains("too many invalid rows"), "{said}");
    let said = import("a.txt", "", &[]).with(1);
    assert!(said.contains("the format of a.txt is unknown: add --format"), "{said}");
    let said = import("a.ndjson", "{\"name\":\"x\"}\n", &["--dry-run"]).with(0);
    assert!(said.contains("1 row valid; nothing was imported"), "{said}");
    assert_eq!(folder.run(&["export", "thing"]).with(0), "");
}

#[test]
fn booleans_of_other_programs_are_imported() {
    let folder = folder();
    let words = ["TRUE", "t", "1", "true", "FALSE", "f", "0", "False"];
    let lines = words.iter().enumerate().map(|(at, word)| format!("{at},{word}\n"));
    let text = format!("name,is_new\n{}", lines.collect::<String>());
    fs::write(folder.0.path().join("a.csv"), text).unwrap();
    folder.run(&["import", "thing", "a.csv"]).with(0);
    let exported = folder.run(&["export", "thing"]).with(0);
    let found: Vec<bool> = exported.lines().map(|line| line.contains("\"is_new\":true")).collect();
    assert_eq!(found, [true, true, true, true, false, false, false, false], "{exported}");
    fs::write(folder.0.path().join("b.csv"), "name,is_new\nx,yes\n").unwrap();
    let said = folder.run(&["import", "thing", "b.csv"]).with(1);
    assert!(said.contains("b.csv:2: is_new = "), "{said}");
}

#[test]
fn rows_are_updated_on_request() {
    let folder = folder();
    folder.run(&["import", "thing", "things.ndjson"]).with(0);
    fs::write(folder.0.path().join("b.csv"), "id,name\n2,E\n3,F\n").unwrap();
    let said = folder.run(&["import", "thing", "b.csv"]).with(1);
    assert!(said.contains("b.csv:2: id"), "{said}");
    folder.run(&["import", "thing", "b.csv", "--update"]).with(0);
    let names = folder.run(&["export", "thing", "--filter", "name in ('E','F')"]).with(0);
    assert_eq!(names.lines().count(), 2, "{names}");
}
