//! `marmota bench orm`: the table, and the report as JSON.

use crate::program::Folder;

#[test]
fn the_table_is_printed_as_text_and_as_json() {
    let folder = Folder::new();
    let words = "bench orm --rows 1000 --rounds 1 --limit-ms 20 --folder .";
    let out = folder.run(&words.split(' ').collect::<Vec<_>>()).with(0);
    for part in [
        "SQLite file, full",
        "memory engine, read through SQL",
        "÷ by hand",
        "÷ mORMot 2",
        "2 threads of 64 tasks",
        "JSON",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let left = std::fs::read_dir(folder.0.path()).unwrap().count();
    assert_eq!(left, 0, "no file is left");
    let words: Vec<&str> = words.split(' ').chain(["--json"]).collect();
    let json: serde_json::Value = serde_json::from_str(&folder.run(&words).with(0)).unwrap();
    let engines = json["engines"].as_array().unwrap();
    let full = engines.iter().find(|row| row["engine"] == "sqlite-full").unwrap();
    let one = &full["marmota"][0];
    assert_eq!(one["syncs"], one["rows"], "one thread waits for the disk at each row");
    assert!(engines.iter().all(|row| row["marmota"].as_array().unwrap().len() == 7));
    assert_eq!(json["durable"].as_array().unwrap().len(), 4);
    assert_eq!(json["threads"][5]["threads"], 50);
}

#[test]
fn one_engine_can_be_named_and_an_unknown_one_is_refused() {
    let folder = Folder::new();
    let words = ["bench", "orm", "--rows", "1000", "--rounds", "1", "--part", "engines"];
    let out = folder.run(&[&words[..], &["--engine", "memory"]].concat()).with(0);
    assert!(out.contains("memory engine") && !out.contains("SQLite file, full"), "{out}");
    let out = folder.run(&["bench", "orm", "--engine", "oracle"]).with(2);
    assert!(out.contains("there is no engine oracle; the engines are sqlite-full"), "{out}");
}

#[test]
fn a_database_is_measured_and_left_without_people() {
    let folder = Folder::new();
    let words = ["bench", "orm", "--rows", "1000", "--rounds", "2", "--part", "engines"];
    let own = ["--engine", "memory", "--database", "mine=sqlite:own.db"];
    let words = [&words[..], &own].concat();
    for _ in 0..2 {
        let out = folder.run(&words).with(0);
        assert!(out.contains("memory engine") && out.contains("\nmine "), "{out}");
    }
    let out = folder.run(&["bench", "orm", "--database", "postgres://ada@db/app"]).with(2);
    assert!(out.contains("use NAME=URL"), "{out}");
}

#[test]
fn servers_are_started_and_those_that_are_missing_are_named_with_the_reason() {
    let folder = Folder::new();
    let words = ["bench", "orm", "--rows", "1000", "--rounds", "1", "--part", "engines"];
    let names = ["remote", "postgres", "mariadb", "odbc-postgres", "odbc-mariadb"];
    let words = [&words[..], &["--engine", "remote", "--servers", "--json"]].concat();
    let json: serde_json::Value = serde_json::from_str(&folder.run(&words).with(0)).unwrap();
    let engines = json["engines"].as_array().unwrap();
    let measured: Vec<_> = engines.iter().map(|row| row["engine"].as_str().unwrap()).collect();
    assert_eq!(measured, names, "{json}");
    let has_rate = |cell: &serde_json::Value| cell["rows_per_second"].as_f64().unwrap() > 0.0;
    assert!(engines.iter().all(|row| row["marmota"].as_array().unwrap().iter().all(has_rate)));

    let words = ["bench", "orm", "--rows", "1000", "--rounds", "1", "--part", "engines"];
    let gone = ["--engine", "memory", "--database", "gone=mariadb://ada@127.0.0.1:9/app"];
    let out = folder.run(&[&words[..], &gone].concat()).with(1);
    assert!(out.contains("memory engine"), "{out}");
    let line = out.lines().find(|line| line.starts_with("gone ")).unwrap();
    assert!(line.contains("not measured: ") && line.contains("127.0.0.1:9"), "{line}");
}
