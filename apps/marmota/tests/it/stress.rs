//! `marmota stress`: its output and exit code, and that it removes its files.

use marmota_postgres::TemporaryPostgres;

use crate::application::Served;
use crate::program::Folder;

fn run(folder: &Folder, words: &str, code: i32) -> String {
    let mut program = folder.program(&words.split(' ').collect::<Vec<_>>());
    let output = program.env("TMPDIR", folder.0.path()).output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
    let out = out.unwrap() + &err.unwrap();
    assert_eq!(output.status.code(), Some(code), "{out}");
    out
}

#[track_caller]
fn is_empty(folder: &Folder) {
    let left: Vec<_> = std::fs::read_dir(folder.0.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Returns the number of passed assertions.
fn passed(out: &str) -> u64 {
    let before = out.split(" assertions passed").next().unwrap();
    before.rsplit('\n').next().unwrap().parse().unwrap()
}

#[test]
fn every_transport_is_used_and_every_field_compared() {
    let folder = Folder::new();
    let out = run(&folder, "stress --rows 200 --threads 1,4", 0);
    for part in ["in process", "Unix socket", "HTTP", "WebSocket", " 0 failed"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    // Each row is checked when it is read back, and again with all others.
    assert!(passed(&out) > 4 * 2 * 200 * 10, "{out}");
    is_empty(&folder);
}

#[test]
fn its_own_server_speaks_tls() {
    let folder = Folder::new();
    let words = "stress --rows 100 --threads 1,4 --transport https,wss --bind 127.0.0.2";
    let out = run(&folder, words, 0);
    for part in ["HTTPS", "WSS", " 0 failed"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    is_empty(&folder);
    let out = run(&folder, "stress --chaos 1 --transport wss", 1);
    assert!(out.contains("without TLS"), "{out}");
}

#[test]
fn kills_and_cut_connections_lose_no_acknowledged_row() {
    for transport in ["unix", "http", "websocket"] {
        let folder = Folder::new();
        let words = format!("stress --chaos 3 --threads 4 --seed 7 --transport {transport}");
        let out = run(&folder, &words, 0);
        assert!(out.contains("3 rounds, 4 threads, "), "{out}");
        assert!(!out.contains(" 0 connections cut"), "{out}");
        assert!(!out.contains(": 0 rows acknowledged") && out.contains(" 0 failed"), "{out}");
        is_empty(&folder);
    }
}

#[test]
fn several_processes_execute_one_run() {
    let postgres = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    let (folder, url) = (Folder::new(), postgres.make_database().unwrap());
    let words = format!(
        "stress --servers 3 --client-processes 3 --clients-in-all 300 --rows 2400 --threads 4 \
         --runs 2 --durability full --db {}",
        url.replace(' ', "%20")
    );
    let out = run(&folder, &words, 0);
    for part in
        ["3 server and 3 client processes, 300 clients", "KB idle", "inserts: median", " 0 failed"]
    {
        assert!(out.contains(part), "{part}: {out}");
    }
    // Each row is checked by the client that reads it, and again with all others.
    assert!(passed(&out) > 2 * 2_400 * 2 * 10, "{out}");
    // A single server does not need a database that it shares with others.
    let out = run(&folder, "stress --servers 1 --clients-in-all 40 --rows 400 --threads 4", 0);
    assert!(out.contains(" 0 failed") && passed(&out) > 400 * 2 * 10, "{out}");
    is_empty(&folder);
}

#[test]
fn clients_connect_from_the_given_addresses() {
    let folder = Folder::new();
    let words = "stress --transport http --bind 127.0.0.2,127.0.0.3 --clients-in-all 20 \
                 --threads 2,4 --rows 100";
    assert!(run(&folder, words, 0).contains(" 0 failed"));
    is_empty(&folder);
}

#[test]
fn invalid_arguments_are_refused() {
    let folder = Folder::new();
    for (words, part) in [
        ("stress --server http://127.0.0.1:1/api --rows 1 --threads 1", "127.0.0.1:1"),
        ("stress --server unix:nobody --rows 1 --threads 1", "nobody"),
        ("stress --server http://127.0.0.1:1/api --chaos", "leave --server out"),
        ("stress --db nothing: --rows 1", "nothing"),
        ("stress --bind 127.0.0.2 --rows 1", "add --transport http"),
        ("stress --bind 192.0.2.1 --transport http --rows 1 --threads 1", "192.0.2.1"),
        ("stress --server unix:nobody --bind 127.0.0.2 --rows 1", "http://HOST:PORT/api"),
        ("stress --clients-in-all 3 --threads 4", "lower --threads"),
        ("stress --servers 2 --rows 1", "name one with --db"),
        ("stress --servers 2 --rows 1 --db memory:", "name one with --db"),
        ("stress --servers 1 --clients-in-all 3", "lower --threads"),
        ("stress --servers 1 --db nothing: --rows 1", "did not start"),
    ] {
        let out = run(&folder, words, 1);
        assert!(out.contains(part), "{words}: {out}");
    }
    for (words, part) in [
        ("stress --servers 1 --server http://127.0.0.1:1/api", "--server"),
        ("stress --servers 1 --transport unix", "--transport"),
        ("stress --server http://127.0.0.1:1/api --transport http", "--transport"),
        ("stress --client-processes 2", "--servers"),
        ("stress --reuse-port", "--serve"),
        ("stress --seconds 1", "--server"),
        ("stress --server http://127.0.0.1:1/api --rate 5", "--seconds"),
        ("stress --clients 2 --clients-in-all 2", "--clients-in-all"),
        ("stress --bind nowhere", "nowhere"),
    ] {
        let out = run(&folder, words, 2);
        assert!(out.contains(part), "{words}: {out}");
    }
    is_empty(&folder);
}

#[test]
fn a_server_that_demands_a_login_is_loaded_with_a_token() {
    let folder = Folder::new();
    folder.run(&["new", "."]).with(0);
    let table = "[tables.stress_sample.fields]
id = { kind = \"integer\", role = \"key\" }
run = { kind = \"integer\", index = true }
thread = \"integer\"
number = \"integer\"
name = \"text\"
note = { kind = \"text\", nullable = true }
flag = \"boolean\"
ratio = \"float\"
amount = \"currency\"
day = \"date\"
at = \"timestamp\"
token = \"uuid\"
bytes = \"blob\"
";
    std::fs::write(folder.0.path().join("app.toml"), table).unwrap();
    let served = Served::start(&folder, &[]);
    let token = served.log_in();
    let words = format!("stress --server {}/api --rows 200 --threads 4", served.url);
    let out = run(&folder, &words, 1);
    assert!(out.contains("send a token"), "{out}");
    let out = run(&folder, &format!("{words} --token {token}"), 0);
    assert!(out.contains(" 0 failed"), "{out}");
    let words = format!("stress --server {}/api --token {token} --threads 4", served.url);
    let out = run(&folder, &format!("{words} --seconds 1 --clients 2 --rate 400"), 0);
    assert!(out.contains("8 clients of 4 threads are connected"), "{out}");
    assert!(out.contains(" requests, ") && !out.contains("failed: "), "{out}");
    assert!(passed(&out) > 0, "{out}");
}
