//! Clients of HTTP/2 with a hundred streams each: whose bodies never end, or who take nothing of
//! the answers. And clients of HTTP/1.1 who read no answer.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use crate::Outcome;
use crate::floods::{PREFACE, REQUEST, frame};
use crate::serving::{Serving, normal_rate};

/// `POST http://a/` by the static table of HPACK.
const POST: [u8; 6] = [0x83, 0x86, 0x84, 0x41, 0x01, b'a'];
/// `GET /page`, which is 100 KB.
const PAGE: &[u8] = b"\x82\x86\x44\x05/page\x41\x01a";
const STREAMS: u32 = 100;
const PIECE: [u8; 16 << 10] = [b'b'; 16 << 10];

/// What each client does.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// Bodies of HTTP/2, all but their ends.
    Bodies,
    /// Answers of HTTP/2 whose windows stay closed.
    Answers,
    /// Answers of HTTP/1.1 that are not read.
    Unread,
}

impl Kind {
    fn open(self, server: &Serving) -> std::io::Result<TcpStream> {
        let mut client = server.connect()?;
        client.set_write_timeout(Some(Duration::from_millis(200)))?;
        if self == Kind::Unread {
            client.write_all(b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n")?;
            return Ok(client);
        }
        client.write_all(PREFACE)?;
        client.write_all(&frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]))?;
        for number in 0..STREAMS {
            let stream = number * 2 + 1;
            let head = match self {
                Kind::Bodies => frame(1, 4, stream, &POST),
                _ => frame(1, 5, stream, if number == 0 { &REQUEST } else { PAGE }),
            };
            client.write_all(&head)?;
        }
        for _ in 0..4 {
            for number in 0..STREAMS {
                if self == Kind::Bodies {
                    // Beyond its windows the server ends it, which is one of the ways to be held.
                    client.write_all(&frame(0, 0, number * 2 + 1, &PIECE))?;
                }
            }
        }
        Ok(client)
    }
}

/// Prints what the server's memory becomes while the clients are there and after they have gone.
pub(crate) fn hold(server: &Serving, clients: usize, time: Duration, kind: Kind) -> Outcome<()> {
    normal_rate(server, Duration::from_secs(1))?;
    server.tell("at the start")?;
    let held: Vec<_> = (0..clients).map(|_| kind.open(server)).collect();
    server.tell("while they hold")?;
    let rate = normal_rate(server, time)?;
    println!("normal load beside: {rate:.0} requests/s");
    server.tell("after that")?;
    drop(held);
    std::thread::sleep(Duration::from_secs(10));
    server.tell("10 s after they have gone")
}
