//! Many connections at once: what they cost while they are idle, how many threads they take, and
//! what is left of a burst of bodies.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::serving::{Serving, normal_rate};
use crate::{GET, Outcome};

const BODY_BYTES: usize = 64 << 10;

/// Opens 1, then ever more connections; then each sends a body of 64 KB, all of them half before
/// any goes on, and leaves. `time` is given to the server to come to rest.
pub(crate) fn connections(server: &Serving, clients: usize, time: Duration) -> Outcome<()> {
    normal_rate(server, Duration::from_secs(2))?;
    std::thread::sleep(Duration::from_secs(2));
    let idle = server.usage()?.0;
    server.tell("at the start")?;
    let mut streams = Vec::with_capacity(clients);
    for step in [1, 64, 1024, 4096, clients] {
        while streams.len() < step.min(clients) {
            let mut stream = server.connect()?;
            stream.write_all(GET)?;
            take_answer(&mut stream)?;
            streams.push(stream);
        }
        server.tell(&format!("{} connections", streams.len()))?;
    }
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
    let half = vec![b'b'; BODY_BYTES / 2];
    for stream in &mut streams {
        stream.write_all(head.as_bytes())?;
        stream.write_all(&half)?;
    }
    server.tell("with half a body each")?;
    for stream in &mut streams {
        stream.write_all(&half)?;
    }
    for stream in &mut streams {
        take_answer(stream)?;
    }
    server.tell("all answered")?;
    drop(streams);
    std::thread::sleep(time);
    server.tell("afterwards")?;
    let left = server.usage()?.0 as f64 / idle as f64;
    println!("{left:.2} of the memory at the start after {} s", time.as_secs());
    Ok(())
}

fn take_answer(stream: &mut TcpStream) -> Outcome<()> {
    let mut answer = [0; 1024];
    let count = stream.read(&mut answer)?;
    match answer[..count].starts_with(b"HTTP/1.1 200 ") {
        true => Ok(()),
        false => Err(format!("answered {:?}", String::from_utf8_lossy(&answer[..count])).into()),
    }
}
