//! `serve --replica-of` and `promote`: a server that follows another one, and takes over.

use std::io::{BufRead as _, BufReader};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::application::Served;
use crate::program::Folder;

/// The longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client with a token.
struct Client(String);

impl Client {
    fn new(token: &str) -> Self {
        Self(format!("Bearer {token}"))
    }

    /// Writes a note, and returns the position of the write, or the status.
    fn write(&self, served: &Served, text: &str) -> Result<String, u16> {
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let request = agent.post(format!("{}/api/note", served.url));
        let request = request.header("Authorization", &self.0);
        let answer = request.send_json(json!({ "text": text })).unwrap();
        match answer.status().as_u16() {
            201 => Ok(answer.headers()["Marmota-Position"].to_str().unwrap().to_owned()),
            status => Err(status),
        }
    }

    /// Returns the notes after a position.
    fn notes_after(&self, served: &Served, position: &str) -> Vec<String> {
        let request = ureq::get(format!("{}/api/note?order=id", served.url));
        let request = request.header("Authorization", &self.0);
        let mut answer = request.header("Marmota-After", position).call().unwrap();
        let rows: Value = answer.body_mut().read_json().unwrap();
        let rows = rows["rows"].as_array().unwrap();
        rows.iter().map(|row| row["text"].as_str().unwrap().to_owned()).collect()
    }
}

fn with_app(app: &[u8]) -> Folder {
    let folder = Folder::new();
    folder.run(&["new", "."]).with(0);
    std::fs::write(folder.0.path().join("app.toml"), app).unwrap();
    folder
}

fn a_server_follows_another_one_and_takes_over(db: &str) {
    let target = tempfile::tempdir().unwrap();
    let target = format!("file://{}", target.path().join("target").display());
    let of_primary = Folder::new();
    of_primary.run(&["new", "."]).with(0);
    let app = std::fs::read(of_primary.0.path().join("app.toml")).unwrap();
    let of_replica = with_app(&app);
    let words = ["--db", db, "--changes"];
    let to = [&words[..], &["--replicate-to", &target, "--replicate-window-ms", "20"]].concat();
    let follows = [&words[..], &["--replica-of", &target, "--replica-poll-ms", "20"]].concat();

    let primary = Served::start(&of_primary, &[&to[..], &["--replicate-mode", "sync"]].concat());
    let token = primary.log_in();
    let client = Client::new(&token);
    client.write(&primary, "first").unwrap();
    let mut replica = Served::start(&of_replica, &follows);
    let position = client.write(&primary, "second").unwrap();
    assert_eq!(client.notes_after(&replica, &position), ["first", "second"]);
    assert_eq!(client.write(&replica, "refused"), Err(503));
    let began = Instant::now();
    loop {
        let (status, state) = replica.request("GET", "/api/-/replication", &token, &Value::Null);
        assert!(status == 200 && state["role"] == "replica", "{state}");
        assert!(state["error"].is_null(), "{state}");
        if state["lag_ms"].as_u64().unwrap() < 5_000 {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{state}");
    }

    // A live query of the replica gets what is written to the primary.
    let request = ureq::get(format!("{}/api/note?order=id", replica.url));
    let request = request.header("Authorization", &client.0).header("Accept", "text/event-stream");
    let events = BufReader::new(request.call().unwrap().into_body().into_reader());
    let mut events = events.lines().map(Result::unwrap);
    assert!(events.any(|line| line.contains("second")));
    client.write(&primary, "live").unwrap();
    assert!(events.any(|line| line.contains("live")));
    drop(events);

    // It continues after its own restart.
    drop(replica);
    let position = client.write(&primary, "while it was stopped").unwrap();
    replica = Served::start(&of_replica, &follows);
    assert_eq!(client.notes_after(&replica, &position).len(), 4);
    drop(replica);
    // The primary is lost, and the replica takes over: it first gets the last commits.
    client.write(&primary, "the last one").unwrap();
    let promoted = of_replica.run(&["promote", "--db", db, "--replica-of", &target]).with(0);
    assert!(promoted.contains("epoch 2"), "{promoted}");
    // In sync mode the old primary acknowledges nothing any more.
    assert_eq!(client.write(&primary, "lost"), Err(502));
    let replica = Served::start(&of_replica, &to);
    let position = client.write(&replica, "of the new primary").unwrap();
    let notes = client.notes_after(&replica, &position);
    assert_eq!(notes[4..], ["the last one", "of the new primary"]);
    drop(primary);
    let said = of_primary.run(&[&["serve", "--listen", "127.0.0.1:0"], &to[..]].concat()).with(1);
    assert!(said.contains("no longer the primary"), "{said}");
}

#[test]
fn a_sqlite_server_follows_another_one_and_takes_over() {
    a_server_follows_another_one_and_takes_over("sqlite:notes.db");
}

#[test]
fn a_memory_server_follows_another_one_and_takes_over() {
    a_server_follows_another_one_and_takes_over("memory:notes.mem?durability=full");
}

#[test]
fn a_replica_of_a_file_without_a_log_is_refused() {
    let folder = Folder::new();
    folder.run(&["new", "."]).with(0);
    let words = ["serve", "--db", "memory:notes.mem", "--replica-of", "file:///tmp"];
    let said = folder.run(&words).with(1);
    assert!(said.contains("memory:notes.mem?durability=full"), "{said}");
}
