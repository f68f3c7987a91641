//! What a flood of logins costs other requests: their 99th percentile without and with 1,000 logins a
//! second, in turns, in one run.
//!
//! ```text
//! cargo run --release -p marmota-rest --features auth --example login_flood -- 5 3
//! ```
//! The arguments are the seconds of each measurement and the number of rounds. Other requests read rows
//! with a token, 1,000 a second over 4 connections; a request is timed from the moment at which it was
//! due. There are two floods:
//!
//! - *refused*: from one address, which has used up its attempts, over 8 connections: each login is answered
//!   429;
//! - *hashed*: from 200 addresses with a new name for each login, so that no limit applies, 96 at a time. Two
//!   threads hash passwords (401), 64 logins wait, and the others are answered 503.
//!
//! Server and clients share the processors.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use marmota_auth::{Auth, Settings};
use marmota_http::Server;
use marmota_memory::Memory;
use marmota_model::{Field, Kind, Record, Role, Schema};
use marmota_rest::Api;
use marmota_store::Store;
use marmota_store::rights::{Grant, Right};

type Done<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const READERS: u32 = 4;
const READS_PER_SECOND: u32 = 1_000;
/// The logins of a flood at a time, if limits refuse them, and if not: more than may wait.
const CLIENTS: u32 = 8;
const HASHED_CLIENTS: u32 = 96;
const LOGINS_PER_SECOND: u32 = 1_000;
/// The addresses of a flood that no limit refuses.
const ADDRESSES: u64 = 200;
const PASSWORD: &str = "correct horse battery";

#[derive(Clone, Copy, PartialEq)]
enum Flood {
    None,
    Refused,
    Hashed,
}

/// What was measured with a flood.
#[derive(Default)]
struct Measured {
    /// The 99th percentile of each round.
    p99: Vec<Duration>,
    reads: usize,
    /// The logins, by status.
    logins: BTreeMap<u16, u64>,
    seconds: f64,
}

fn main() -> Done<()> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(5), |seconds| seconds.parse())?;
    let rounds: usize = arguments.next().map_or(Ok(3), |rounds| rounds.parse())?;
    let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("text", Kind::TEXT)];
    let builder = Store::builder(Memory::new()).schema(Schema::new("note", fields));
    let store = marmota_auth::models(builder).open()?;
    let note = store.table("note")?;
    for number in 0..1_000 {
        let mut row = Record::new(note.clone());
        row.set("text", format!("note {number}"))?;
        store.insert_record(&row).run()?;
    }
    // The cost of passwords is the default one.
    let everyone = Settings::default().everyone([Grant::new("note", &[Right::Read])]);
    let auth = Auth::new(&store, everyone)?;
    let (_, once) = auth.add_user("ann", &[], false)?;
    auth.set_password("ann", &once, PASSWORD, None)?;
    let token = auth.login("ann", PASSWORD, None)?.token;
    let server = Server::bind("127.0.0.1:0")?.start(Api::new(&store).auth(&auth).router())?;
    let address = server.local_addr();
    // Uses up the attempts of the address of the first flood.
    let mut client = Client::from(IpAddr::V4(Ipv4Addr::LOCALHOST), address)?;
    for number in 0..110 {
        client.login(&format!("user{number}"))?;
    }
    let mut all =
        [Flood::None, Flood::Refused, Flood::Hashed].map(|flood| (flood, Measured::default()));
    let time = Duration::from_secs(seconds);
    for _ in 0..rounds {
        for (flood, measured) in &mut all {
            measure(address, &token, *flood, time, measured)?;
        }
    }
    println!("build: {}", if cfg!(debug_assertions) { "debug" } else { "release" });
    println!("{:10} {:>10} {:>10} {:>9}  logins/s by status", "flood", "p99", "of none", "reads/s");
    let none = median(&mut all[0].1.p99);
    for (flood, measured) in &mut all {
        let p99 = median(&mut measured.p99);
        let name = match flood {
            Flood::None => "none",
            Flood::Refused => "refused",
            Flood::Hashed => "hashed",
        };
        let logins: Vec<String> = measured
            .logins
            .iter()
            .map(|(status, count)| format!("{status}: {:.0}", *count as f64 / measured.seconds))
            .collect();
        println!(
            "{name:10} {:>7} µs {:>9.0}% {:>9.0}  {}",
            p99.as_micros(),
            100.0 * p99.as_secs_f64() / none.as_secs_f64(),
            measured.reads as f64 / measured.seconds,
            logins.join(", ")
        );
    }
    server.shutdown()?;
    Ok(())
}

const fn clients_of(flood: Flood) -> u32 {
    match flood {
        Flood::None => 0,
        Flood::Refused => CLIENTS,
        Flood::Hashed => HASHED_CLIENTS,
    }
}

/// Measures other requests for some time, with a flood.
fn measure(
    address: SocketAddr,
    token: &str,
    flood: Flood,
    time: Duration,
    measured: &mut Measured,
) -> Done<()> {
    let ends = AtomicBool::new(false);
    let next = AtomicU64::new(0);
    let (times, logins) = std::thread::scope(|scope| {
        let clients = clients_of(flood);
        let floods: Vec<_> = (0..clients)
            .map(|_| scope.spawn(|| send_logins(address, flood, &ends, &next)))
            .collect();
        // The flood has begun, and its queue is full.
        std::thread::sleep(Duration::from_millis(500));
        let readers: Vec<_> =
            (0..READERS).map(|_| scope.spawn(|| send_reads(address, token, time))).collect();
        let times: Done<Vec<_>> = readers
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a reader failed")?)
            .collect();
        ends.store(true, Ordering::Relaxed);
        let logins: Done<Vec<_>> = floods
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a client failed")?)
            .collect();
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((times?, logins?))
    })?;
    let mut times: Vec<Duration> = times.into_iter().flatten().collect();
    times.sort();
    measured.p99.push(times[times.len() * 99 / 100]);
    measured.reads += times.len();
    measured.seconds += time.as_secs_f64();
    for (status, count) in logins.into_iter().flatten() {
        *measured.logins.entry(status).or_default() += count;
    }
    Ok(())
}

/// Reads rows at a fixed rate, and returns the time of each from when it was due.
fn send_reads(address: SocketAddr, token: &str, time: Duration) -> Done<Vec<Duration>> {
    let mut client = Client::from(IpAddr::V4(Ipv4Addr::LOCALHOST), address)?;
    let every = Duration::from_secs(1) * READERS / READS_PER_SECOND;
    let begun = Instant::now();
    let mut times = Vec::new();
    for number in 0.. {
        let due = every * number;
        if due >= time {
            break;
        }
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        let path = format!("/api/note/{}", number % 1_000 + 1);
        let status = client.send(
            &format!("GET {path}"),
            &format!("Authorization: Bearer {token}\r\n"),
            "",
        )?;
        if status != 200 {
            return Err(format!("a read was answered {status}").into());
        }
        times.push(begun.elapsed().saturating_sub(due));
    }
    Ok(times)
}

/// Sends logins at a fixed rate, as far as they are answered, and returns their number by status.
fn send_logins(
    address: SocketAddr,
    flood: Flood,
    ends: &AtomicBool,
    next: &AtomicU64,
) -> Done<BTreeMap<u16, u64>> {
    let mut clients: BTreeMap<u64, Client> = BTreeMap::new();
    let every = Duration::from_secs(1) * clients_of(flood) / LOGINS_PER_SECOND;
    let begun = Instant::now();
    let mut counts = BTreeMap::new();
    let mut number = 0;
    while !ends.load(Ordering::Relaxed) {
        std::thread::sleep((every * number).saturating_sub(begun.elapsed()));
        number += 1;
        let login = next.fetch_add(1, Ordering::Relaxed);
        let from = if flood == Flood::Hashed { 1 + login % ADDRESSES } else { 0 };
        let client = match clients.entry(from) {
            std::collections::btree_map::Entry::Occupied(there) => there.into_mut(),
            std::collections::btree_map::Entry::Vacant(free) => {
                let source = Ipv4Addr::from(u32::from(Ipv4Addr::LOCALHOST) + u32::try_from(from)?);
                free.insert(Client::from(IpAddr::V4(source), address)?)
            }
        };
        *counts.entry(client.login(&format!("user{login}"))?).or_default() += 1;
    }
    Ok(counts)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// A connection.
struct Client(BufReader<TcpStream>);

impl Client {
    /// Connects from an address of this machine.
    fn from(source: IpAddr, to: SocketAddr) -> Done<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let stream = runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4()?;
            socket.bind(SocketAddr::new(source, 0))?;
            socket.connect(to).await?.into_std()
        })?;
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends a login with a wrong password, and returns the status.
    fn login(&mut self, name: &str) -> Done<u16> {
        let body = format!(r#"{{"name":"{name}","password":"wrong"}}"#);
        self.send("POST /api/auth/login", "Content-Type: application/json\r\n", &body)
    }

    fn send(&mut self, request: &str, headers: &str, body: &str) -> Done<u16> {
        let length = body.len();
        let text = format!(
            "{request} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        );
        self.0.get_mut().write_all(text.as_bytes())?;
        let (mut status, mut length) = (0, 0);
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line)? == 0 {
                return Err("the server closed the connection".into());
            }
            if status == 0 {
                status = line.split(' ').nth(1).unwrap_or_default().parse()?;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
            if line == "\r\n" {
                let mut rest = vec![0; length];
                self.0.read_exact(&mut rest)?;
                return Ok(status);
            }
        }
    }
}
