//! The statements that the MariaDB server executes, and the benchmark's scripts that create the
//! tables.

use std::process::{Command, Stdio};

use marmota::prelude::*;
use marmota_mariadb::{Mariadb, TemporaryMariadb};

use crate::program::Program;

/// Returns a counter of the server.
fn counter(store: &Store, name: &str) -> i64 {
    let text = "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status \
                WHERE variable_name = ?";
    store.sql(text).bind(name).value().run().unwrap().unwrap()
}

#[test]
fn each_row_is_a_statement_and_each_request_one_update() {
    let server = TemporaryMariadb::start().unwrap();
    let program = Program::on_mariadb(&server);
    let store = Store::builder(Mariadb::from_url(&program.url).unwrap()).open().unwrap();
    for family in ["", "raw", "async"] {
        for (path, rows) in [("db", 1), ("queries?queries=20", 20), ("updates?queries=20", 20)] {
            // Prepared statements are those of operations.
            let names = ["COM_STMT_EXECUTE", "COM_UPDATE"];
            let counted = || {
                let before = names.map(|name| counter(&store, name));
                program.get(&format!("/{family}{path}"));
                let [all, updates] = [0, 1].map(|at| counter(&store, names[at]) - before[at]);
                // Two of them have read the counters.
                let reads = all - 2 - updates;
                assert!(reads >= rows, "{reads} reads of /{family}{path}");
                assert_eq!(updates, i64::from(path.starts_with("updates")), "/{family}{path}");
                reads
            };
            // On a busy machine, a read without an answer after 50 ms is sent by a thread again.
            assert!((0..10).any(|_| counted() == rows), "/{family}{path}");
        }
    }
}

#[test]
fn the_server_runs_on_tables_of_the_examples_scripts() {
    let server = TemporaryMariadb::start().unwrap();
    let run_script = |arguments: &[&str], script: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), script).unwrap();
        let port = server.port().to_string();
        let made = Command::new("mariadb")
            .args(["--no-defaults", "--host=127.0.0.1", "--port", &port])
            .args(arguments)
            .stdin(Stdio::from(std::fs::File::open(file.path()).unwrap()))
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    for statement in include_str!("../../setup/create-mariadb-database.sql").split(';') {
        if !statement.trim().is_empty() {
            server.execute(statement).unwrap();
        }
    }
    let user = ["--user=benchmarkdbuser", "--password=benchmarkdbpass", "hello_world"];
    run_script(&user, include_str!("../../setup/create-mariadb.sql"));
    let port = server.port();
    let url = format!("mariadb://benchmarkdbuser:benchmarkdbpass@127.0.0.1:{port}/hello_world");
    let program = Program::start(url, None);
    for family in ["", "raw", "async"] {
        assert!(program.get(&format!("/{family}db")).body.starts_with(b"{\"id\""));
        for path in ["queries", "updates"] {
            let worlds = program.json(&format!("/{family}{path}?queries=20"));
            assert_eq!(worlds.as_array().unwrap().len(), 20);
        }
        let page = program.get(&format!("/{family}fortunes")).body;
        assert!(String::from_utf8(page).unwrap().contains("フレームワークのベンチマーク"));
    }
}
