//! The statements that the PostgreSQL server executes: one per row read, one UPDATE per request, no
//! deadlock. Also the benchmark's scripts that create the tables.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use marmota::prelude::*;
use marmota_postgres::{Postgres, TemporaryPostgres};

use crate::program::{Connection, Program};

#[derive(Model)]
struct World {
    id: i64,
    randomnumber: i32,
}

fn open(url: &str) -> Store {
    marmota::open(url).unwrap().model::<World>().open().unwrap()
}

/// Returns and resets the number of executions of each statement on `world`, by its first word.
fn statements(store: &Store) -> BTreeMap<String, (i64, i64)> {
    let text = "SELECT query, calls, rows FROM pg_stat_statements \
                WHERE query ILIKE '%world%' AND query NOT ILIKE '%pg_stat%'";
    let mut counts = BTreeMap::new();
    let read = |row: &marmota::store::sql::SqlRow<'_>| {
        let query: String = row.read("query")?;
        assert!(!query.contains(" IN ") && !query.contains("ANY"), "{query}");
        let verb = if query.contains("UPDATE") { "UPDATE" } else { "SELECT" };
        let count: &mut (i64, i64) = counts.entry(verb.to_owned()).or_default();
        count.0 += row.read::<i64>("calls")?;
        count.1 += row.read::<i64>("rows")?;
        Ok(())
    };
    store.sql(text).map(read).run().unwrap();
    store.sql("SELECT pg_stat_statements_reset()::text AS done").rows().run().unwrap();
    counts
}

#[test]
fn each_row_is_a_statement_and_each_request_one_update() {
    let server =
        TemporaryPostgres::start(&["fsync=off", "shared_preload_libraries=pg_stat_statements"])
            .unwrap();
    let program = Program::on_postgres(&server);
    let engine = Postgres::from_url(&program.url).unwrap();
    engine.execute("CREATE EXTENSION pg_stat_statements").unwrap();
    let store = open(&program.url);
    statements(&store);
    for family in ["", "raw", "async"] {
        program.get(&format!("/{family}db"));
        assert_eq!(statements(&store), BTreeMap::from([("SELECT".to_owned(), (1, 1))]));
        program.get(&format!("/{family}queries?queries=20"));
        assert_eq!(statements(&store), BTreeMap::from([("SELECT".to_owned(), (20, 20))]));
        program.get(&format!("/{family}updates?queries=20"));
        let counts = statements(&store);
        assert_eq!(counts["SELECT"], (20, 20), "{family}");
        assert_eq!(counts["UPDATE"].0, 1, "{family}");
    }
    // Cached queries execute no statement.
    for path in ["/cached-queries?count=100", "/rawcached?count=100", "/asynccached?count=100"] {
        program.get(path);
    }
    assert_eq!(statements(&store), BTreeMap::new());
}

#[test]
fn updates_of_many_connections_never_deadlock() {
    let server = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    let program = Program::on_postgres(&server);
    let mut connections: Vec<Connection> = (0..512).map(|_| program.connect()).collect();
    for family in ["", "raw", "async"] {
        let path = format!("/{family}updates?queries=20");
        for connection in &mut connections {
            connection.send(&path);
        }
        for connection in &mut connections {
            assert!(!connection.receive(&path).body.is_empty());
        }
    }
    let store = open(&program.url);
    let text = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(store.sql(text).value::<i64>().run().unwrap(), Some(0));
}

/// The tables as the benchmark's scripts create them: created by an administrator, each twice, in a
/// database with a language's collation, with rights for the benchmark's user.
fn public_script() -> String {
    let mut script = String::from("BEGIN;\nCREATE EXTENSION IF NOT EXISTS pg_stat_statements;\n");
    for (world, fortune) in [("World", "Fortune"), ("\"World\"", "\"Fortune\"")] {
        script.push_str(&format!(
            "CREATE TABLE {world} (id integer NOT NULL, randomNumber integer NOT NULL default 0, \
             PRIMARY KEY (id));\n\
             GRANT ALL PRIVILEGES ON {world} to benchmarkdbuser;\n\
             INSERT INTO {world} (id, randomnumber) SELECT x.id, \
             least(floor(random() * 10000 + 1), 10000) FROM generate_series(1,10000) as x(id);\n\
             CREATE TABLE {fortune} (id integer NOT NULL, message varchar(2048) NOT NULL, \
             PRIMARY KEY (id));\n\
             GRANT ALL PRIVILEGES ON {fortune} to benchmarkdbuser;\n"
        ));
        for id in 1..=11 {
            script.push_str(&format!("INSERT INTO {fortune} VALUES ({id}, 'fortune {id}');\n"));
        }
        script.push_str(&format!(
            "INSERT INTO {fortune} VALUES (12, 'フレームワークのベンチマーク');\n"
        ));
    }
    script + "COMMIT;\n"
}

fn run_script(url: &str, script: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), script).unwrap();
    let made = Command::new("psql")
        .args(["--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--file"])
        .arg(file.path())
        .arg(url)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

fn serves_every_route(program: &Program) {
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

#[test]
fn the_server_runs_on_tables_of_the_public_scripts() {
    let server = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    let administrator = server.url("postgres");
    run_script(
        &administrator,
        "CREATE USER benchmarkdbuser WITH PASSWORD 'benchmarkdbpass';\n\
         CREATE DATABASE hello_world WITH TEMPLATE template0 ENCODING 'UTF8' \
         LOCALE_PROVIDER icu ICU_LOCALE 'en-US';\n\
         GRANT ALL PRIVILEGES ON DATABASE hello_world to benchmarkdbuser;\n",
    );
    run_script(&server.url("hello_world"), &public_script());
    let port = server.port();
    let url = format!("postgres://benchmarkdbuser:benchmarkdbpass@127.0.0.1:{port}/hello_world");
    let program = Program::start(url, None);
    serves_every_route(&program);
    // The tables are as the scripts created them.
    let engine = Postgres::from_url(&server.url("hello_world")).unwrap();
    let store = Store::builder(engine).open().unwrap();
    let types = "SELECT string_agg(format_type(atttypid,atttypmod),',' ORDER BY attrelid::regclass::text,\
                 attnum) FROM pg_attribute WHERE attnum>0 AND attrelid IN \
                 ('world'::regclass,'fortune'::regclass)";
    let found = store.sql(types).value::<String>().run().unwrap().unwrap();
    assert_eq!(found, "integer,character varying(2048),integer,integer");
}

#[test]
fn the_server_runs_on_tables_of_the_examples_scripts() {
    let server = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    let url = server.make_database().unwrap();
    run_script(&url, include_str!("../../setup/create-postgres.sql"));
    serves_every_route(&Program::start(url, None));
}

#[test]
fn init_db_fills_a_database_and_exits() {
    let server = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    let url = server.make_database().unwrap();
    for _ in 0..2 {
        let output = Command::new(env!("CARGO_BIN_EXE_techempower"))
            .args(["--db", &url, "--init-db"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(open(&url).count::<World>().run().unwrap(), 10_000);
    }
}
