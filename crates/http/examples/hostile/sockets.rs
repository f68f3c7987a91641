//! Many WebSockets that are idle, and one message to all of them.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::serving::Serving;
use crate::{MESSAGE, Outcome, UPGRADE, slow};

/// Prints what an idle socket costs the server, then how long each message takes to all.
pub(crate) fn websockets(server: &Serving, clients: usize, time: Duration) -> Outcome<()> {
    let before = server.usage()?.0;
    let mut streams = slow(server, clients, UPGRADE)?;
    for stream in &mut streams {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
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
        let frame = 2 + MESSAGE.len();
        let mut got = vec![0; frame];
        for mut stream in &streams {
            stream.read_exact(&mut got)?;
        }
        println!("to {clients} in {:.1} ms", sent.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(Duration::from_millis(500));
    }
    server.tell("afterwards")
}
