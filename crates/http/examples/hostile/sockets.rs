//! Many WebSockets that are idle, and one message to all of them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::serving::Serving;
use crate::{MESSAGE, Outcome, UPGRADE, slow};

/// Prints what an idle socket costs the server, then how long each message takes to all.
pub(crate) fn websockets(server: &Serving, clients: usize, time: Duration) -> Outcome<()> {
    server.tell("at the start")?;
    let before = server.usage()?.0;
    let mut streams = slow(server, clients, UPGRADE)?;
    for stream in &mut streams {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        if !head.starts_with(b"HTTP/1.1 101 ") {
            return Err(format!("answered {:?}", String::from_utf8_lossy(&head)).into());
        }
    }
    std::thread::sleep(Duration::from_secs(1));
    let idle = server.usage()?.0 - before;
    println!("{clients} idle: {:.2} KiB each", idle as f64 / clients as f64);
    let begun = Instant::now();
    while begun.elapsed() < time {
        let mut asker = server.connect()?;
        let sent = Instant::now();
        asker.write_all(b"GET /say HTTP/1.1\r\nHost: a\r\n\r\n")?;
        for stream in &streams {
            take_message(stream)?;
        }
        println!("to {clients} in {:.1} ms", sent.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(Duration::from_millis(500));
    }
    server.tell("after the messages")?;
    drop(streams);
    std::thread::sleep(Duration::from_secs(3));
    server.tell("afterwards")
}

/// Reads the frames of a socket up to the message's; none is longer than 125 bytes.
fn take_message(mut stream: &TcpStream) -> Outcome<()> {
    let (mut head, mut payload) = ([0; 2], [0; 125]);
    loop {
        stream.read_exact(&mut head)?;
        let length = usize::from(head[1]);
        let Some(payload) = payload.get_mut(..length) else {
            return Err(format!("a frame of {length} bytes").into());
        };
        stream.read_exact(payload)?;
        if payload == MESSAGE {
            return Ok(());
        }
        if head[0] != 0x89 {
            return Err(format!("neither the message nor a ping: {head:02x?}").into());
        }
    }
}
