//! Clients that mean harm, or are just many, against a server in a process of its own: what normal
//! load is left, and what the server's memory, files and threads come to.
//!
//! ```text
//! cargo run --release -p marmota-http --example hostile -- slow-heads 10000 30
//! cargo run --release -p marmota-http --example hostile -- slow-readers 10000 30
//! cargo run --release -p marmota-http --example hostile -- churn 200 600
//! cargo run --release -p marmota-http --example hostile -- websockets 10000 10
//! cargo run --release -p marmota-http --example hostile -- connections 16384 10
//! cargo run --release -p marmota-http --example hostile -- resets 8 30
//! cargo run --release -p marmota-http --example hostile -- continuations 8 30
//! cargo run --release -p marmota-http --example hostile -- pings 8 30
//! cargo run --release -p marmota-http --example hostile -- priorities 8 30
//! cargo run --release -p marmota-http --example hostile -- windows 8 30
//! cargo run --release -p marmota-http --example hostile -- bodies 50 10
//! cargo run --release -p marmota-http --example hostile -- answers 50 10
//! cargo run --release -p marmota-http --example hostile -- unread 5000 10
//! ```
//! The first number is of clients, the second of seconds.

mod churn;
mod crowd;
mod floods;
mod serving;
mod sockets;
mod streams;

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::LazyLock;
use std::time::Duration;

use marmota_http::{Broadcast, Request, Response, Router, Server};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serving::{Serving, normal_rate};

type Outcome<T> = Result<T, Box<dyn Error>>;

pub(crate) const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const UPGRADE: &[u8] = b"GET /room HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
/// One for all, since what is measured is what the server keeps for each reader.
static LARGE: LazyLock<String> = LazyLock::new(|| "x".repeat(1 << 20));
pub(crate) const MESSAGE: [u8; 100] = [b'm'; 100];

fn main() -> Outcome<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["serve"] => serve(),
        [what, clients, seconds] => {
            let (clients, time) = (clients.parse()?, Duration::from_secs(seconds.parse()?));
            let server = Serving::start()?;
            match what {
                "slow-heads" => beside(&server, time, || slow(&server, clients, b"GET / HT")),
                "slow-readers" => {
                    let ask = b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n";
                    beside(&server, time, || slow(&server, clients, ask))
                }
                "churn" => churn::churn(&server, clients, time),
                "websockets" => sockets::websockets(&server, clients, time),
                "connections" => crowd::connections(&server, clients, time),
                "resets" => floods::flood(&server, clients, time, floods::Kind::Resets),
                "continuations" => {
                    floods::flood(&server, clients, time, floods::Kind::Continuations)
                }
                "pings" => floods::flood(&server, clients, time, floods::Kind::Pings),
                "priorities" => floods::flood(&server, clients, time, floods::Kind::Priorities),
                "windows" => floods::flood(&server, clients, time, floods::Kind::Windows),
                "bodies" => streams::hold(&server, clients, time, streams::Kind::Bodies),
                "answers" => streams::hold(&server, clients, time, streams::Kind::Answers),
                "unread" => streams::hold(&server, clients, time, streams::Kind::Unread),
                _ => Err("say slow-heads, slow-readers, churn, websockets, connections, resets, \
                          continuations, pings, priorities, windows, bodies, answers or unread"
                    .into()),
            }
        }
        _ => Err("say what, how many clients, how many seconds".into()),
    }
}

fn serve() -> Outcome<()> {
    // Not to be taken for what the clients have the server keep.
    LazyLock::force(&LARGE);
    let room = Broadcast::new();
    let said = room.clone();
    let router = Router::new()
        .get("/", |_| async { "ok" })
        .get("/large", |_| async { Response::text(LARGE.as_str()) })
        .get("/page", |_| async { "p".repeat(100_000) })
        .post("/", |request: Request| async move { request.body().len().to_string() })
        .get("/say", move |_| {
            said.send(&MESSAGE[..]);
            async { "said" }
        })
        .websocket("/room", move |socket| {
            let room = room.clone();
            async move {
                socket.join(&room);
                while socket.receive().await.is_some() {}
                Ok(())
            }
        });
    let server = Server::bind("127.0.0.1:0")?.start(router)?;
    println!("{}", server.local_addr());
    // The parent's end closes the pipe.
    let _ = std::io::stdin().read(&mut [0]);
    Ok(server.shutdown()?)
}

/// Normal load alone, and beside what `attack` opens.
fn beside(
    server: &Serving,
    time: Duration,
    attack: impl FnOnce() -> Outcome<Vec<TcpStream>>,
) -> Outcome<()> {
    server.tell("at the start")?;
    let alone = normal_rate(server, time / 3)?;
    println!("normal load alone: {alone:.0} requests/s");
    let attackers = attack()?;
    server.tell("under attack")?;
    let attacked = normal_rate(server, time)?;
    println!("normal load beside: {attacked:.0} requests/s, {:.0} %", attacked / alone * 100.0);
    drop(attackers);
    std::thread::sleep(Duration::from_secs(3));
    server.tell("afterwards")
}

/// Clients that send this, and neither go on nor read.
fn slow(server: &Serving, clients: usize, bytes: &[u8]) -> Outcome<Vec<TcpStream>> {
    let mut streams = Vec::with_capacity(clients);
    for _ in 0..clients {
        let mut stream = server.connect()?;
        stream.write_all(bytes)?;
        streams.push(stream);
    }
    Ok(streams)
}
