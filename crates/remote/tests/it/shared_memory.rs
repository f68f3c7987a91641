//! What is shared memory's alone: processes that are killed, memory that is
//! spoilt, and servers that have none.

use std::io::{BufRead, BufReader, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use marmota_http::{Endpoint, Flow, Method, Protocol, Response, Router, Server, Step, Turn};
use marmota_model::ErrorKind;
use marmota_remote::{Remote, Service};
use rustix::fs::ftruncate;
use rustix::io::pwrite;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::place::{Place, Transport};
use crate::{Person, client, person, served};

/// Where a process of this test's finds the server.
const PLACE: &str = "MARMOTA_TEST_SHARED_MEMORY";

#[test]
fn a_client_that_is_killed_is_noticed() {
    let served = served();
    let place = Place::of(Transport::SharedMemory);
    // Long enough that nothing but the end of the client undoes its transaction.
    let server = place.serve(&Service::new(&served).lease(Duration::from_secs(3_600)));
    let mut doomed = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "shared_memory::a_client_to_be_killed", "--ignored", "--nocapture"])
        .env(PLACE, place.url())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(doomed.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("it has written")));
    doomed.kill().unwrap();
    doomed.wait().unwrap();
    let store = client(place.remote()).unwrap();
    store.insert(&person("Max")).run().unwrap();
    let names = store.list::<Person>().column(Person::NAME).run().unwrap();
    assert_eq!(names, ["Max"]);
    store.close().unwrap();
    server.shutdown().unwrap();
}

/// The client of the test above, in another process.
#[test]
#[ignore = "a process that `a_client_that_is_killed_is_noticed` starts"]
fn a_client_to_be_killed() {
    let url = std::env::var(PLACE).unwrap();
    let store = client(Remote::from_url(&url).unwrap()).unwrap();
    let transaction = store.begin_run().unwrap();
    transaction.insert(&person("Emmy")).run().unwrap();
    println!("it has written");
    loop {
        std::thread::park();
    }
}

#[test]
fn packets_larger_than_the_ring_go_both_ways() {
    let served = served();
    let place = Place::of(Transport::SharedMemory);
    let _server = place.serve(&Service::new(&served));
    let store = client(place.remote()).unwrap();
    let people: Vec<Person> = (0..50_000).map(|number| person(&format!("{number}"))).collect();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| store.insert_many(&people).run().unwrap());
        }
    });
    let come = store.list::<Person>().run().unwrap();
    assert_eq!(come.len(), 150_000);
    assert!(come.iter().step_by(777).all(|person| person.year == Some(1882)));
}

/// Asks for shared memory by hand: the socket, and the memory's file.
fn by_hand(place: &Place) -> (UnixStream, OwnedFd) {
    let mut socket = UnixStream::connect(place.path()).unwrap();
    let request = "GET /api/-/operations HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
                   Upgrade: marmota\r\nMarmota-Carrier: shared-memory\r\n\r\n";
    socket.write_all(request.as_bytes()).unwrap();
    loop {
        let mut room = [0; 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let (mut room, flags) = ([IoSliceMut::new(&mut room)], RecvFlags::empty());
        assert!(recvmsg(&socket, &mut room, &mut beside, flags).unwrap().bytes > 0);
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(mut files) = message {
                return (socket, files.next().unwrap());
            }
        }
    }
}

#[test]
fn a_client_that_spoils_the_memory_is_cut_off() {
    let served = served();
    let place = Place::of(Transport::SharedMemory);
    let _server = place.serve(&Service::new(&served));
    let before = client(place.remote()).unwrap();
    // Places as `shared/ring.rs` has them: how much is written, its first word.
    let (written, first) = (0, 32 * 8);
    for words in [
        vec![(written, u64::MAX)],
        vec![(written, 8 * 1024 + 1)],
        vec![(first, 0), (written, 2)],
        vec![(first, u64::MAX), (written, 2)],
        vec![(first, 9), (written, 2)],
        vec![(first, 8), (first + 8, u64::MAX), (written, 2)],
    ] {
        let (mut socket, file) = by_hand(&place);
        for (at, word) in words {
            assert_eq!(pwrite(&file, &word.to_ne_bytes(), at).unwrap(), 8);
        }
        // It may have looked by itself, and have gone already.
        let _ = socket.write_all(b"!");
        // Bells, perhaps, and the end, in either form.
        while socket.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
    }
    let (_socket, file) = by_hand(&place);
    assert!(ftruncate(&file, 8).is_err(), "it would end the server");
    before.insert(&person("Emmy")).run().unwrap();
    assert_eq!(served.count::<Person>().run().unwrap(), 1);
}

/// What takes no bytes and says none.
struct Silent;

impl Protocol for Silent {
    fn go_on(&mut self, turn: &mut Turn<'_>) -> Step {
        turn.used = turn.input.len();
        match turn.ended {
            true => Step::Close { linger: false },
            false => Step::Wait { hungry: true, deadline_ms: u64::MAX },
        }
    }
}

#[test]
fn a_server_without_shared_memory_is_told_from_none() {
    let place = Place::of(Transport::SharedMemory);
    let endpoint = Endpoint::direct(|_, out| {
        out.respond(Response::upgraded("marmota", Silent));
        Flow::Done
    });
    let router = Router::new().on(Method::Get, "/api/-/operations", endpoint);
    let _server = Server::bind(format!("unix:{}", place.path())).unwrap().start(router).unwrap();
    let error = client(place.remote()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(error.message().contains("shares no memory"), "{error}");
}

#[test]
fn memory_is_not_shared_over_the_network() {
    let place = Place::of(Transport::Http);
    let server = place.serve(&Service::new(&served()));
    let mut socket = std::net::TcpStream::connect(server.local_addr()).unwrap();
    let request = "GET /api/-/operations HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\n\
                   Upgrade: marmota\r\nMarmota-Carrier: shared-memory\r\n\r\n";
    socket.write_all(request.as_bytes()).unwrap();
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}
