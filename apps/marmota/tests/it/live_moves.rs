//! A running server moves to another engine and back while clients write: no request fails, and no
//! row is lost. Killed servers continue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use marmota_postgres::TemporaryPostgres;
use serde_json::{Value, json};

use crate::application::Served;
use crate::program::Folder;

/// Clients that write.
struct Clients {
    ends: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<(Vec<String>, Duration)>>,
}

impl Clients {
    fn start(served: &Served, token: &str) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let threads = (0..3).map(|client| {
            let (url, token, ends) = (served.url.clone(), token.to_owned(), Arc::clone(&ends));
            std::thread::spawn(move || write(client, &url, &token, &ends))
        });
        Self { threads: threads.collect(), ends }
    }

    /// Ends them. Returns the texts that were acknowledged, and the longest request.
    fn stop(self) -> (Vec<String>, Duration) {
        self.ends.store(true, Ordering::Relaxed);
        let mut written = (Vec::new(), Duration::ZERO);
        for thread in self.threads {
            let (texts, longest) = thread.join().unwrap();
            written.0.extend(texts);
            written.1 = written.1.max(longest);
        }
        written
    }
}

fn write(client: usize, url: &str, token: &str, ends: &AtomicBool) -> (Vec<String>, Duration) {
    let agent = ureq::Agent::new_with_defaults();
    let (mut written, mut longest) = (Vec::new(), Duration::ZERO);
    for number in 0.. {
        if ends.load(Ordering::Relaxed) {
            break;
        }
        let begun = std::time::Instant::now();
        let text = format!("{client}-{number}");
        let bearer = format!("Bearer {token}");
        let insert = agent.post(format!("{url}/api/note")).header("Authorization", &bearer);
        let row = insert.send_json(json!({ "text": text }));
        let row: Value = row.unwrap().body_mut().read_json().unwrap();
        let read = agent.get(format!("{url}/api/note/{}", row["id"]));
        let read = read.header("Authorization", &bearer).call();
        let read: Value = read.unwrap().body_mut().read_json().unwrap();
        assert_eq!(read["text"], json!(text));
        longest = longest.max(begun.elapsed());
        written.push(text);
        // The follower applies one change after the other.
        std::thread::sleep(Duration::from_millis(30));
    }
    (written, longest)
}

fn state(served: &Served, token: &str) -> Value {
    let (status, state) = served.request("GET", "/api/-/move", token, &Value::Null);
    assert_eq!(status, 200, "{state}");
    state
}

fn all_texts(served: &Served, token: &str) -> Vec<String> {
    let mut texts: Vec<String> = served
        .lines("/api/note?fields=text", token)
        .iter()
        .map(|row| row["text"].as_str().unwrap().to_owned())
        .collect();
    texts.sort_unstable();
    texts
}

#[test]
fn a_server_moves_to_postgresql_and_back_under_load() {
    let server = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    let postgres = server.make_database().unwrap();
    let folder = Folder::new();
    folder.run(&["new", "."]).with(0);
    let served = Served::start(&folder, &[]);
    let token = served.log_in();
    let run = |words: &[&str]| {
        let live = ["move", "--live", "--server", &served.url, "--token", &token];
        folder.run(&[&live, words].concat())
    };
    assert!(run(&[]).with(0).contains("no move is in progress"));
    let refused = run(&["--flip"]).with(1);
    assert!(refused.contains("name the new database with --to"), "{refused}");
    let refused = run(&["--to", "memory:"]).with(1);
    assert!(refused.contains("in memory only"), "{refused}");
    run(&["--end"]).with(0);

    let clients = Clients::start(&served, &token);
    let said = run(&["--to", &postgres]).with(0);
    assert!(said.contains(" 0 different"), "{said}");
    let mut longest_pause = 0;
    for primary in ["postgres://", "sqlite:", "postgres://"] {
        let said = run(&["--flip"]).with(0);
        assert!(said.starts_with(primary), "{said}");
        let state = state(&served, &token);
        assert_eq!(state["state"], "following", "{state}");
        longest_pause = longest_pause.max(state["pause_ms"].as_u64().unwrap());
    }
    let said = run(&["--compare"]).with(0);
    assert!(said.contains(" 0 different"), "{said}");
    let (mut written, longest) = clients.stop();
    println!(
        "{} inserts; longest pause {longest_pause} ms, longest request {} ms",
        written.len(),
        longest.as_millis()
    );
    written.sort_unstable();
    assert_eq!(all_texts(&served, &token), written);
    drop(served);

    // The old database is refused, and names the new one.
    let refused = folder.run(&["serve", "--listen", "127.0.0.1:0"]).with(1);
    assert!(refused.contains("the primary is postgres://"), "{refused}");
    let served = Served::start(&folder, &["--db", &postgres]);
    assert_eq!(state_of(&served, &token), "interrupted");
    assert_eq!(all_texts(&served, &token), written);
    let live = ["move", "--live", "--server", &served.url, "--token", &token];
    // The way back is open after a restart too.
    let said = folder.run(&[&live[..], &["--to", "sqlite:data/marmota.db", "--flip"]].concat());
    assert!(said.with(0).starts_with("sqlite:"));
    assert_eq!(all_texts(&served, &token), written);
    folder.run(&[&live[..], &["--end"]].concat()).with(0);
    assert_eq!(state_of(&served, &token), "none");
    drop(served);
    let served = Served::start(&folder, &[]);
    assert_eq!(all_texts(&served, &token), written);
}

fn state_of(served: &Served, token: &str) -> String {
    state(served, token)["state"].as_str().unwrap().to_owned()
}

#[test]
fn a_killed_server_continues_its_move() {
    let folder = Folder::new();
    folder.run(&["new", "."]).with(0);
    let mut served = Served::start(&folder, &[]);
    let token = served.log_in();
    let mut written = Vec::new();
    for round in 0..4 {
        for number in 0..100 {
            let text = format!("{round}-{number}");
            let note = json!({ "text": text });
            assert_eq!(served.request("POST", "/api/note", &token, &note).0, 201);
            written.push(text);
        }
        let to = json!({ "to": "memory:data/other.mem?durability=full" });
        let (status, begun) = served.request("POST", "/api/-/move", &token, &to);
        assert_eq!(status, 200, "{begun}");
        if round < 3 {
            // Some time into the move, which differs by the round.
            std::thread::sleep(Duration::from_millis(40 * round));
            drop(served);
            served = Served::start(&folder, &[]);
            // The first kill may come before the databases are a pair.
            let state = state_of(&served, &token);
            assert!(matches!(&*state, "none" | "interrupted"), "{state}");
        }
    }
    let live = ["move", "--live", "--server", &served.url, "--token", &token];
    let said = folder.run(&[&live[..], &["--flip"]].concat()).with(0);
    assert!(said.starts_with("memory:"), "{said}");
    written.sort_unstable();
    assert_eq!(all_texts(&served, &token), written);
}

#[test]
fn a_read_that_differs_is_found() {
    let server = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    let postgres = server.make_database().unwrap();
    let folder = Folder::new();
    folder.run(&["new", "."]).with(0);
    let served = Served::start(&folder, &[]);
    let token = served.log_in();
    let live = ["move", "--live", "--server", &served.url, "--token", &token];
    let refused = folder.run(&[&live[..], &["--to", &postgres, "--compare-reads", "2"]].concat());
    assert!(refused.with(1).contains("use a number from 0 to 1"));
    let said = folder.run(&[&live[..], &["--to", &postgres, "--compare-reads", "1"]].concat());
    assert!(said.with(0).contains(" 0 different"));
    let insert = |text: &str| {
        let (_, row) = served.request("POST", "/api/note", &token, &json!({ "text": text }));
        row["id"].as_i64().unwrap()
    };
    // Reads the row, and waits until the read was compared.
    let read = |key: i64| {
        let before = state(&served, &token)["reads"]["compared"].as_u64().unwrap();
        for _ in 0..6_000 {
            served.request("GET", &format!("/api/note/{key}"), &token, &Value::Null);
            let reads = &state(&served, &token)["reads"];
            if reads["compared"].as_u64().unwrap() > before + 10 {
                return reads.clone();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no read was compared");
    };
    let (key, other) = (insert("a"), insert("b"));
    let reads = read(key);
    assert_eq!((&reads["different"], &reads["failed"]), (&json!(0), &json!(0)), "{reads}");
    let sql = format!("UPDATE note SET text='planted' WHERE id={key}");
    marmota_postgres::Postgres::from_url(&postgres).unwrap().execute(&sql).unwrap();
    assert_eq!(read(other)["different"], 0);
    let reads = read(key);
    assert!(reads["different"].as_u64().unwrap() > 0, "{reads}");
    let first = &reads["differences"][0];
    assert_eq!((&first["table"], &first["what"]), (&json!("note"), &json!("the values differ")));
    assert!(first["key"].as_str().unwrap().contains(&key.to_string()), "{first}");
    let said = folder.run(&[&live[..], &["--compare"]].concat()).with(1);
    assert!(said.contains("reads compared"), "{said}");
}

#[test]
fn a_second_process_over_a_postgres_database_is_found() {
    let server = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    a_second_process_is_found(&server.make_database().unwrap(), "PostgreSQL process");
}

#[cfg(target_os = "linux")]
#[test]
fn a_second_process_over_a_file_is_found() {
    a_second_process_is_found("sqlite:data/app.db", "the database");
}

/// `named` is in the name of the process.
fn a_second_process_is_found(db: &str, named: &str) {
    let folder = Folder::new();
    folder.run(&["new", "."]).with(0);
    let served = Served::start(&folder, &["--db", db]);
    let token = served.log_in();
    let run = |words: &[&str]| {
        let live = ["move", "--live", "--server", &served.url, "--token", &token];
        folder.run(&[&live, words].concat())
    };
    let to = "sqlite:data/other.db";
    let second = Served::start(&folder, &["--db", db]);
    let refused = run(&["--to", to]).with(1);
    assert!(refused.contains("other processes use the database"), "{refused}");
    assert!(refused.contains(named), "{refused}");
    drop(second);
    assert!(run(&["--to", to]).with(0).contains(" 0 different"));

    let second = Served::start(&folder, &["--db", db]);
    let refused = run(&["--flip"]).with(1);
    assert!(refused.contains("other processes use the database"), "{refused}");
    // Both continue.
    for one in [&served, &second] {
        assert_eq!(one.request("POST", "/api/note", &token, &json!({ "text": "a" })).0, 201);
    }
    drop(second);
    assert!(run(&["--flip"]).with(0).starts_with("sqlite:"));
    assert_eq!(all_texts(&served, &token), ["a", "a"]);
}

#[test]
fn an_unreachable_database_is_named() {
    let folder = Folder::new();
    folder.run(&["new", "."]).with(0);
    let served = Served::start(&folder, &[]);
    let token = served.log_in();
    let live = ["move", "--live", "--server", &served.url, "--token", &token];
    for url in ["postgres://ann:secret@127.0.0.1:1/app", "mariadb://ann:secret@127.0.0.1:1/app"] {
        let refused = folder.run(&[&live[..], &["--to", url]].concat()).with(1);
        assert!(refused.contains(&url.replace(":secret", "")), "{refused}");
        assert!(!refused.contains("secret"), "{refused}");
    }
}
