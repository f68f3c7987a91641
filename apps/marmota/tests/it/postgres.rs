//! The program on a PostgreSQL database, which only the URL selects.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use marmota::http::Backend;
use marmota::prelude::*;
use marmota_postgres::TemporaryPostgres;

use crate::odbc_servers;
use crate::program::Folder;

#[test]
fn the_url_chooses_postgresql() {
    let server = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    check_program(&server.make_database().unwrap());
}

#[test]
fn the_url_chooses_odbc() {
    check_program(&odbc_servers::postgres_url());
    let folder = Folder::new();
    let missing = "odbc:DSN=none_such;UID=ada;PWD=secret";
    let said = folder.run(&["migrate", "--db", missing]).with(1);
    assert!(said.contains("none_such") && said.contains("odbcinst -q -s"), "{said}");
    assert!(!said.contains("secret"), "{said}");
}

/// Migrates and serves a new database.
fn check_program(url: &str) {
    let folder = Folder::new();
    let said = folder.run(&["migrate", "--dry-run", "--db", url]).with(3);
    assert!(said.contains("+ add table person\n    CREATE TABLE \"person\""), "{said}");
    folder.run(&["migrate", "--db", url]).with(0);
    let said = folder.run(&["migrate", "--dry-run", "--db", url]).with(0);
    assert_eq!(said, "The database matches the models.\n");

    let mut program = folder.program(&["serve", "--listen", "127.0.0.1:0", "--db", url]);
    let mut program = program.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(program.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let address = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    let person = format!("{address}/api/person");
    let emmy = r#"{"first_name":"Emmy","last_name":"Noether","year_of_birth":1882}"#;
    let sent = ureq::post(&person).content_type("application/json").send(emmy).unwrap();
    assert_eq!(sent.status(), 201);
    let mut found = ureq::get(format!("{person}?filter=last_name~'noe'")).call().unwrap();
    let found = found.body_mut().read_to_string().unwrap();
    assert!(found.contains(r#""first_name":"Emmy","last_name":"Noether""#), "{found}");

    Command::new("kill").args(["-TERM", &program.id().to_string()]).status().unwrap();
    assert!(program.wait().unwrap().success());
    line.clear();
    said.read_to_string(&mut line).unwrap();
    assert!(line.ends_with("Closed cleanly.\n"), "{line}");
    let said = folder.run(&["migrate", "--db", "postgres://nobody@127.0.0.1:1/none"]).with(1);
    assert!(said.contains("127.0.0.1"), "{said}");
}

#[derive(Model)]
struct City {
    id: i64,
    name: String,
}

/// Returns how often each internal thread of an engine was woken, by thread number. These threads
/// wake callers without an event loop. Threads of other stores of this process are included.
fn pollers() -> BTreeMap<u64, u64> {
    let told = |task: std::io::Result<std::fs::DirEntry>| {
        // A thread that has ended has no file.
        let path = task.ok()?.path();
        let text = std::fs::read_to_string(path.join("status")).ok()?;
        let line = text.lines().find(|line| line.starts_with("voluntary_ctxt"))?;
        let wakes = line.split_whitespace().nth(1)?.parse().ok()?;
        let thread = path.file_name()?.to_str()?.parse().ok()?;
        text.starts_with("Name:\tmarmota-postgre").then_some((thread, wakes))
    };
    std::fs::read_dir("/proc/self/task").unwrap().filter_map(told).collect()
}

#[test]
fn a_servers_thread_watches_its_own_connection() {
    let server = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    for backend in [Backend::Epoll, Backend::Auto] {
        let url = server.make_database().unwrap();
        let store = marmota::open(&url).unwrap().model::<City>().open().unwrap();
        let rows: Vec<City> =
            (0..100).map(|number| City { id: 0, name: format!("city {number}") }).collect();
        store.insert_many(&rows).run().unwrap();
        let http = Server::bind("127.0.0.1:0").unwrap().backend(backend).threads_per_listener(1);
        let running = http.start(rest::api(&store)).unwrap();
        let address = format!("http://{}/api/city", running.local_addr());
        let ask = |id: usize| {
            let mut answer = ureq::get(format!("{address}/{id}")).call().unwrap();
            let body = answer.body_mut().read_to_string().unwrap();
            assert_eq!(body, format!(r#"{{"id":{id},"name":"city {}"}}"#, id - 1));
        };
        // The connection is open and watched.
        (1..10).for_each(ask);
        let before = pollers();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (1..=100).for_each(ask));
            }
        });
        let wakes = |(thread, after): (&u64, &u64)| Some(after - before.get(thread)?);
        let wakes: u64 = pollers().iter().filter_map(wakes).sum();
        assert!(wakes < 40, "{wakes} of 400 requests went by another thread");
        running.shutdown().unwrap();
        // A caller elsewhere is served by another thread.
        assert_eq!(store.get::<City>(1).run().unwrap().name, "city 0");
        store.close().unwrap();
    }
}
