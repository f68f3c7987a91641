//! The program's output, and its behavior when an output is closed or not read.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::Folder;

/// A pipe without a reader.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    Stdio::from(writer)
}

/// Sends a request to the socket in the folder as soon as the server accepts connections.
fn ask(folder: &Folder, head: &str, body: &str) -> String {
    let (file, until) = (folder.0.path().join("s"), Instant::now() + Duration::from_secs(60));
    let mut stream = loop {
        match UnixStream::connect(&file) {
            Ok(stream) => {
                stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
                break stream;
            }
            Err(error) => assert!(Instant::now() < until, "no server: {error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let (kind, length) = ("application/json", body.len());
    let request = format!(
        "{head}\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {kind}\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn serve(folder: &Folder, words: &[&str]) -> Command {
    let all = ["serve", "--listen", "unix:s", "--db", "sqlite:a.db"];
    folder.program(&[&all, words].concat())
}

fn interrupt(child: &Child) {
    let process = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &process]).status().unwrap().success());
}

#[test]
fn a_server_continues_after_its_output_is_closed() {
    let folder = Folder::new();
    let mut child =
        serve(&folder, &["--log", "info"]).stdout(closed()).stderr(closed()).spawn().unwrap();
    for _ in 0..2 {
        let answer = ask(&folder, "GET /api/person?limit=1 HTTP/1.1", "");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn an_unread_log_blocks_no_request() {
    let folder = Folder::new();
    let mut child = serve(&folder, &["--log", "trace", "--slow-query-ms", "0"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Each request logs at least one line; a pipe holds up to 64 KiB of whole lines.
    for _ in 0..600 {
        let answer = ask(&folder, "GET /api/person?limit=1 HTTP/1.1", "");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut log = Vec::new();
    child.stderr.take().unwrap().read_to_end(&mut log).unwrap();
    assert!(log.len() >= 48 << 10, "the pipe was not full: {} bytes", log.len());
}

#[test]
fn a_closed_output_ends_a_report_without_a_panic() {
    let folder = Folder::new();
    for words in [
        &["migrate", "--dry-run", "--db", "sqlite:a.db"][..],
        &["prove", "--seeds", "1000000"],
        &["stress", "--rows", "10", "--transport", "in-process"],
    ] {
        let output =
            folder.program(words).stdout(closed()).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(141), "{words:?}: {said}");
        assert!(!said.contains("panicked") && !said.contains("Broken pipe"), "{words:?}: {said}");
    }
    // The migration was executed.
    let migrate = folder.program(&["migrate", "--db", "sqlite:a.db"]).stdout(closed()).status();
    assert_eq!(migrate.unwrap().code(), Some(0));
    assert!(folder.0.path().join("a.db").is_file());
}

#[test]
fn the_version_lists_features_and_the_sqlite_version() {
    let folder = Folder::new();
    let short = folder.run(&["-V"]).with(0);
    assert_eq!(short, format!("marmota {}\n", env!("CARGO_PKG_VERSION")));
    let long = folder.run(&["--version"]).with(0);
    assert!(long.starts_with(short.trim_end()), "{long}");
    for part in ["library: marmota ", "features: sqlite, ", "remote", "\nSQLite 3.", "\ntarget: "] {
        assert!(long.contains(part), "{long}");
    }
    assert_eq!(folder.run(&["version", "--verbose"]).with(0), long);
    assert_eq!(folder.run(&["--version", "--verbose"]).with(0), long);
}

#[test]
fn start_and_end_of_the_server_are_logged() {
    let folder = Folder::new();
    let child = serve(&folder, &["--log", "info"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    ask(&folder, "GET /api HTTP/1.1", "");
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    let mut rest = &*log;
    for part in ["starting: version ", "listening on ", "shutdown: ", "closed cleanly"] {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part} in its place: {log}"));
        rest = &rest[at..];
    }
}

#[test]
fn idempotency_keys_work_if_the_option_is_set() {
    let folder = Folder::new();
    let post = || {
        let body = r#"{"first_name":"E","last_name":"N","year_of_birth":1882}"#;
        ask(&folder, "POST /api/person HTTP/1.1\r\nIdempotency-Key: a", body)
    };
    let mut without = serve(&folder, &[]).stdout(Stdio::null()).spawn().unwrap();
    let answer = post();
    assert!(answer.starts_with("HTTP/1.1 501") && answer.contains("--idempotency"), "{answer}");
    interrupt(&without);
    assert!(without.wait().unwrap().success());

    let mut with = serve(&folder, &["--idempotency"]).stdout(Stdio::null()).spawn().unwrap();
    let first = post();
    assert!(first.starts_with("HTTP/1.1 201"), "{first}");
    let again = post();
    assert!(again.to_ascii_lowercase().contains("idempotent-replayed: true"), "{again}");
    interrupt(&with);
    assert!(with.wait().unwrap().success());
}

#[test]
fn changes_are_recorded_if_the_option_is_set() {
    let folder = Folder::new();
    let post = |name: &str| {
        let body = format!(r#"{{"first_name":"{name}","last_name":"N","year_of_birth":1882}}"#);
        ask(&folder, "POST /api/person HTTP/1.1", &body)
    };
    let mut without = serve(&folder, &[]).stdout(Stdio::null()).spawn().unwrap();
    let answer = post("A");
    assert!(!answer.to_ascii_lowercase().contains("marmota-position"), "{answer}");
    let answer = ask(&folder, "GET /api/person HTTP/1.1\r\nAccept: text/event-stream", "");
    assert!(answer.contains("serve --changes"), "{answer}");
    interrupt(&without);
    assert!(without.wait().unwrap().success());

    // The same database, with rows of before.
    let mut with = serve(&folder, &["--changes"]).stdout(Stdio::null()).spawn().unwrap();
    let answer = post("B").to_ascii_lowercase();
    assert!(
        answer.starts_with("http/1.1 201") && answer.contains("\r\nmarmota-position: "),
        "{answer}"
    );
    interrupt(&with);
    assert!(with.wait().unwrap().success());
}
