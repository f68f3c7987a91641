//! An engine whose lists fail after a while: what clients see of an answer that has begun.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use marmota_memory::Memory;
use marmota_model::{Error, ErrorKind, Result, RowSink};
use marmota_store::Durability;
use marmota_store::engine::{Engine, Session, Submitted, Ticket};
use marmota_store::operation::{Operation, Outcome};

use crate::service::Service;
use crate::slow::slow;
use crate::wrapped::Wrapped;

/// Lets so many reads pass.
fn failing<E: Engine>(engine: E, lists: &Arc<AtomicUsize>) -> Wrapped<E> {
    let lists = Arc::clone(lists);
    Wrapped::new(engine, move |inner| Box::new(FailingSession(inner, Arc::clone(&lists))))
}

struct FailingSession(Box<dyn Session>, Arc<AtomicUsize>);

impl Session for FailingSession {
    fn submit(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Submitted> {
        let fewer = |left: usize| left.checked_sub(1);
        // A row is read back by its key.
        if matches!(operation, Operation::List { .. } | Operation::Get { .. })
            && self.1.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_err()
        {
            return Err(Error::new(ErrorKind::Io, "the disk went away"));
        }
        self.0.submit(durability, operation, sink, outcome)
    }

    fn poll(
        &mut self,
        ticket: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        self.0.poll(ticket, operation, sink, outcome, context)
    }

    fn cancel(&mut self, ticket: Ticket) {
        self.0.cancel(ticket);
    }
}

fn people(count: usize) -> String {
    (0..count)
        .map(|number| {
            format!("{{\"first_name\":\"A\",\"last_name\":\"N{number}\",\"year_of_birth\":1}}\n")
        })
        .collect()
}

/// Runs curl and gives its exit status and what it printed.
fn curl(service: &Service, arguments: &[&str], input: &[u8]) -> (i32, Vec<u8>) {
    let mut child = Command::new("curl")
        .args(["-sS", "--max-time", "60"])
        .args(arguments)
        .arg(format!("http://{}/api/person", service.address()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("curl is installed");
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A refused upload is not read to its end.
    let writing = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    let _ = writing.join().unwrap();
    (output.status.code().unwrap(), output.stdout)
}

const SENT: &str = "Content-Type: application/x-ndjson";
const WANTED: &str = "Accept: application/x-ndjson";

fn check(service: &Service, lists: &AtomicUsize) {
    lists.store(usize::MAX, Ordering::Relaxed);
    let upload = ["-T", "-", "-X", "POST", "-H", SENT];
    let (code, answer) = curl(service, &upload, people(5_000).as_bytes());
    assert_eq!((code, &*answer), (0, &b"{\"inserted\":5000}"[..]));
    let (code, lines) = curl(service, &["-H", WANTED], b"");
    assert_eq!((code, lines.iter().filter(|&&byte| byte == b'\n').count()), (0, 5_000));
    let broken = people(3_000) + "{\n" + &people(200_000);
    let (_, answer) = curl(service, &upload, broken.as_bytes());
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.contains("\"line\":3001,\"inserted\":3000"), "{answer}");

    // An error before anything is sent has its status.
    lists.store(0, Ordering::Relaxed);
    service.client().send("GET /api/person", &[WANTED], b"").refuses(503);
    // One that comes later ends the connection; curl's name for that is 18.
    lists.store(3, Ordering::Relaxed);
    let (code, lines) = curl(service, &["-H", WANTED], b"");
    assert_eq!(code, 18);
    assert!(lines.starts_with(b"{\"id\":1,") && lines.ends_with(b"}\n"));
    lists.store(3, Ordering::Relaxed);
    let mut stream = TcpStream::connect(service.address()).unwrap();
    write!(stream, "GET /api/person HTTP/1.1\r\nHost: localhost\r\n{WANTED}\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    assert!(!bytes.ends_with(b"0\r\n\r\n"));
}

#[test]
fn what_fails_midway_is_not_taken_for_whole() {
    let lists = Arc::new(AtomicUsize::new(0));
    check(&Service::new("failing", failing(Memory::new(), &lists)), &lists);
    check(&Service::new("slow failing", slow(failing(Memory::new(), &lists))), &lists);
}

/// A row may have a value that cannot be read, or the database may go away: what is committed
/// is answered as done.
#[test]
fn a_write_whose_row_cannot_be_read_back_is_done() {
    let reads = Arc::new(AtomicUsize::new(usize::MAX));
    for service in [
        Service::new("unreadable", failing(Memory::new(), &reads)),
        Service::new("slow unreadable", slow(failing(Memory::new(), &reads))),
    ] {
        reads.store(usize::MAX, Ordering::Relaxed);
        let row = "{\"first_name\":\"A\",\"last_name\":\"B\",\"year_of_birth\":1}";
        let mut client = service.client();
        client.json("POST /api/person", row).is(201);
        reads.store(0, Ordering::Relaxed);
        client.json("PATCH /api/person/1", "{\"last_name\":\"C\"}").is(204);
        client.get("/api/person/1").refuses(503);
        reads.store(usize::MAX, Ordering::Relaxed);
        client.get("/api/person/1").is(200).says("\"C\"");
    }
}
