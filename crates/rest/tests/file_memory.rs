//! The memory that a large file takes while it goes in and out, as the system counts it: alone in
//! its process, so that no other test is counted with it.
#![cfg(feature = "files")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use marmota_derive::Model;
use marmota_files::{File, FileStorage};
use marmota_http::Server;
use marmota_memory::Memory;
use marmota_rest::Api;
use marmota_store::Store;

/// What may be taken in addition to what an idle service takes.
const GROWTH_BYTES_MAX: u64 = 24 << 20;
const PIECE: usize = 64 * 1024;

/// The size of the file; `cargo xtask soak` sets a larger one.
fn file_bytes() -> u64 {
    std::env::var("MARMOTA_FILE_BYTES").map_or(200 << 20, |bytes| bytes.parse().unwrap())
}

#[derive(Clone, Debug, Model)]
struct Video {
    id: i64,
    #[model(bytes_max = "100 GB")]
    recording: Option<File>,
}

/// Without what is mapped from files.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn check_growth(before: u64) {
    let growth = resident_bytes().saturating_sub(before);
    assert!(growth < GROWTH_BYTES_MAX, "{growth} bytes more than before");
}

/// Sends a request, and returns the connection and the head of the answer, with the first bytes of
/// its body.
fn answer(mut stream: &TcpStream) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    let mut piece = vec![0; PIECE];
    loop {
        if let Some(end) = bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            return (String::from_utf8(bytes[..end].to_vec()).unwrap(), bytes[end + 4..].to_vec());
        }
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "the connection was closed");
        bytes.extend_from_slice(&piece[..count]);
    }
}

fn upload(address: SocketAddr, before: u64) {
    let mut stream = TcpStream::connect(address).unwrap();
    let bytes = file_bytes();
    let head = format!(
        "PUT /api/video/1/recording HTTP/1.1\r\nHost: localhost\r\nContent-Length: {bytes}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let piece = vec![7; PIECE];
    for number in 0..bytes / PIECE as u64 {
        stream.write_all(&piece).unwrap();
        if number % 100 == 0 {
            check_growth(before);
        }
    }
    let (head, _) = answer(&stream);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
}

fn download(address: SocketAddr, before: u64) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /api/video/1/recording HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let (head, body) = answer(&stream);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    // A client that reads slowly at first holds the server back.
    std::thread::sleep(std::time::Duration::from_millis(300));
    check_growth(before);
    let (mut count, mut piece, mut reads) = (body.len() as u64, vec![0; PIECE], 0);
    let sent = vec![7; PIECE];
    while count < file_bytes() {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0 && piece[..read] == sent[..read]);
        count += read as u64;
        reads += 1;
        if reads % 200 == 0 {
            check_growth(before);
        }
    }
    assert_eq!(count, file_bytes());
}

#[test]
fn a_large_file_takes_constant_memory() {
    let folder = tempfile::tempdir().unwrap();
    let storage = FileStorage::open(&folder.path().display().to_string()).unwrap();
    let store = storage.attach(Store::builder(Memory::new()).model::<Video>()).open().unwrap();
    storage.start(&store).unwrap();
    store.insert(&Video { id: 0, recording: None }).run().unwrap();
    let server = Server::bind("127.0.0.1:0").unwrap().threads_per_listener(1);
    let server = server.start(Api::new(&store).files(&storage).router()).unwrap();
    let address = server.local_addr();
    let before = resident_bytes();
    upload(address, before);
    download(address, before);
    server.shutdown().unwrap();
    storage.stop();
}
