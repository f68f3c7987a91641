//! How `serve` ends, and which mistakes of clients are not logged as warnings.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::Folder;
use crate::serve::{Serving, line_with};

#[test]
fn signals_that_do_not_end_it_leave_it_running() {
    let mut serving = Serving::start(&[]);
    for signal in ["-HUP", "-USR1", "-USR2", "-HUP"] {
        serving.signal(signal);
        assert_eq!(serving.ask("GET /api/person", "", None).0, 200, "after {signal}");
    }
    serving.signal("-TERM");
    line_with(&mut serving.said, "Closed cleanly.");
    assert!(serving.child.wait().unwrap().success());
}

#[test]
fn a_server_that_has_printed_its_address_ends_cleanly() {
    for _ in 0..5 {
        let mut serving = Serving::start(&[]);
        serving.signal("-TERM");
        line_with(&mut serving.said, "Closed cleanly.");
        assert!(serving.child.wait().unwrap().success());
    }
}

/// A request that does not end delays the exit of a server until its drain timeout or a second
/// signal.
#[test]
fn a_second_signal_ends_it_at_once() {
    let mut serving = Serving::start(&[]);
    let mut stream = TcpStream::connect(serving.url.strip_prefix("http://").unwrap()).unwrap();
    let head = "POST /api/person HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{";
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(serving.ask("GET /api/person", "", None).0, 200);
    serving.signal("-TERM");
    let begun = Instant::now();
    // The first signal has been received when connections are no longer accepted.
    let address = serving.url.strip_prefix("http://").unwrap().to_owned();
    while TcpStream::connect(&address).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(5), "the first signal was not received");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(serving.child.try_wait().unwrap(), None, "it did not wait for the request");
    serving.signal("-TERM");
    let status = serving.child.wait().unwrap();
    assert!(status.code() == Some(143) || status.signal() == Some(15), "{status:?}");
    assert!(begun.elapsed() < Duration::from_secs(9), "it ended by its drain timeout");
}

/// Clients that do not speak TLS or HTTP cause no warnings.
#[test]
fn mistakes_of_clients_are_no_warnings() {
    let folder = Folder::new();
    let words = ["serve", "--listen", "127.0.0.1:0", "--db", "memory:", "--log", "warn"];
    for tls in [&["--tls", "self-signed"][..], &[]] {
        let mut program = folder.program(&[&words, tls].concat());
        let program = program.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = program.spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let line = line_with(&mut said, "://");
        let url = line.split_whitespace().find(|word| word.contains("://")).unwrap();
        let address = url.split("://").nth(1).unwrap();
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08";
        // Garbage, plain HTTP, a fatal alert, a truncated hello, and broken HTTP/2.
        let alert = b"\x15\x03\x03\0\x02\x02\x28";
        let hello = b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03";
        for bytes in
            [&b"\xff\xff\xff\xff\r\n\r\n"[..], b"GET / HTTP/1.1\r\n\r\n", alert, hello, preface]
        {
            for _ in 0..4 {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(bytes).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
                let mut answer = Vec::new();
                let _ = stream.read_to_end(&mut answer);
            }
        }
        let process = child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
        let ended = child.wait_with_output().unwrap();
        let log = String::from_utf8_lossy(&ended.stderr);
        assert!(!log.contains("WARN") && !log.contains("ERROR"), "{tls:?}: {log}");
        assert!(ended.status.success(), "{tls:?}: {log}");
    }
}
