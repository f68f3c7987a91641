//! A server near the limit on descriptors says so, refuses new connections, keeps the old ones
//! and goes on when clients have left. The limit is a process's, so the server runs in one of its
//! own: this test's program, started again.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use marmota_http::{Limits, Metrics, Router, Status};
use rustix::process::{Resource, Rlimit, setrlimit};

use super::client::bind;

/// Set for the process that serves, to how many descriptors it reserves.
const SERVING: &str = "MARMOTA_TEST_DESCRIPTORS";
/// Descriptors that process may have; a server with two threads needs some fifteen.
const DESCRIPTORS: u64 = 48;
/// Of them kept for handlers.
const RESERVED: usize = 3;

/// A process that serves, ended however the test ends.
struct Serving {
    child: Child,
    address: SocketAddr,
    /// What it prints: what it logs among it.
    said: BufReader<ChildStdout>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints what is logged.
struct Print;

impl log::Log for Print {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        println!("log: {} {}", record.level(), record.args());
    }

    fn flush(&self) {}
}

/// Opens as many files at once as a server keeps descriptors for.
async fn open_files() -> Result<&'static str, Status> {
    let opened: Result<Vec<_>, _> = (0..RESERVED).map(|_| File::open("/dev/null")).collect();
    opened.map(|_| "opened").map_err(|_| Status::INTERNAL_SERVER_ERROR)
}

/// Not a test of its own: what the other process does.
#[test]
fn serves_with_few_descriptors() {
    let Some(reserved) = std::env::var_os(SERVING) else { return };
    log::set_logger(&Print).unwrap();
    log::set_max_level(log::LevelFilter::Info);
    let few = Some(DESCRIPTORS);
    setrlimit(Resource::Nofile, Rlimit { current: Some(DESCRIPTORS / 2), maximum: few }).unwrap();
    let limits = Limits {
        descriptors_reserved: reserved.to_str().unwrap().parse().unwrap(),
        ..Limits::default()
    };
    let metrics = Metrics::new();
    let router = Router::new()
        .get("/", |_| async { "ok" })
        .get("/open", |_| open_files())
        .metrics("/metrics", &metrics);
    let server = bind().servers(2).limits(limits).metrics(&metrics).start(router).unwrap();
    println!("\nserving {}", server.local_addr());
    // The test's end closes the pipe.
    let _ = std::io::stdin().read(&mut [0]);
}

fn start(reserved: usize) -> Serving {
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", &format!("{module}::serves_with_few_descriptors")])
        .env(SERVING, reserved.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let line = line_with(&mut said, "serving ");
    let address = line.trim().strip_prefix("serving ").unwrap().parse().unwrap();
    Serving { child, address, said }
}

/// The next line with this in it.
fn line_with(said: &mut impl BufRead, part: &str) -> String {
    loop {
        let mut line = String::new();
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended without {part}");
        if line.contains(part) {
            return line;
        }
    }
}

/// What a connection that stays open is answered; empty if it is refused.
fn ask(stream: &mut TcpStream, path: &str) -> String {
    let mut piece = [0; 8 * 1024];
    let _ = stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    match stream.read(&mut piece) {
        Ok(count) if piece.starts_with(b"HTTP/1.1 200") => {
            String::from_utf8_lossy(&piece[..count]).into_owned()
        }
        _ => String::new(),
    }
}

/// Connects until it is refused.
fn connect_until_refused(address: SocketAddr, clients: &mut Vec<TcpStream>) {
    loop {
        let mut client = TcpStream::connect(address).unwrap();
        if ask(&mut client, "/").is_empty() {
            return;
        }
        clients.push(client);
        assert!(clients.len() < DESCRIPTORS as usize, "more than there are descriptors");
    }
}

/// What the server's metrics say.
fn number(client: &mut TcpStream, name: &str) -> u64 {
    let numbers = ask(client, "/metrics");
    let line = numbers.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} in {numbers}")).parse().unwrap()
}

#[test]
fn a_server_near_its_limit_refuses_new_connections_and_keeps_the_old() {
    let mut serving = start(RESERVED);
    let address = serving.address;
    let mut clients = vec![TcpStream::connect(address).unwrap()];
    let with_one = number(&mut clients[0], "process_open_fds");
    for round in 0..2 {
        connect_until_refused(address, &mut clients);
        // It is told why, even one that asks for nothing.
        let mut told = String::new();
        TcpStream::connect(address).unwrap().read_to_string(&mut told).unwrap();
        assert!(told.starts_with("HTTP/1.1 503 ") && told.contains("Retry-After: "), "{told:?}");
        for client in &mut clients {
            assert!(ask(client, "/open").ends_with("opened"), "files can be opened");
        }
        let mut said = |name: &str| number(&mut clients[0], name);
        assert_eq!(said("process_max_fds"), DESCRIPTORS, "raised as far as it may be");
        // What this process has inherited may have higher numbers.
        let open = said("process_open_fds");
        assert!((DESCRIPTORS - RESERVED as u64..DESCRIPTORS).contains(&open), "{open}");
        assert_eq!(said("marmota_http_connections_refused_total"), 2 * (round + 1));
        // Once each, and again after it has been far.
        let near = line_with(&mut serving.said, "log: ");
        assert!(near.contains("WARN 4") && near.contains("of the 48 descriptors"), "{near}");
        let full = line_with(&mut serving.said, "log: ");
        assert!(full.contains("are refused with 503"), "{full}");
        clients.truncate(1);
        let far = line_with(&mut serving.said, "log: ");
        assert!(far.contains("is not near any more"), "{far}");
        while number(&mut clients[0], "process_open_fds") > with_one {
            std::thread::yield_now();
        }
    }
}

/// Whether the connection is answered soon.
fn is_served(stream: &mut TcpStream) -> bool {
    !ask(stream, "/").is_empty()
}

#[test]
fn a_server_without_descriptors_goes_on_when_clients_leave() {
    // Nothing reserved: it finds out by running out of them.
    let mut serving = start(0);
    let address = serving.address;
    for _ in 0..2 {
        let mut clients: Vec<TcpStream> = (0..DESCRIPTORS)
            .map(|_| {
                let stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                stream
            })
            .collect();
        let served = clients.iter_mut().filter_map(|c| is_served(c).then_some(())).count();
        assert!(served > 5 && served < DESCRIPTORS as usize, "{served} served");
        let ticks = processor_ticks(serving.child.id());
        std::thread::sleep(Duration::from_millis(500));
        let used = processor_ticks(serving.child.id()) - ticks;
        assert!(used < 20, "it spins while it cannot accept: {used} ticks of 10 ms");
        drop(clients);
        let begun = Instant::now();
        loop {
            let mut client = TcpStream::connect(address).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            if is_served(&mut client) {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "no client is served any more");
        }
        assert!(serving.child.try_wait().unwrap().is_none(), "the server has ended");
    }
}

/// The processor time that a process has used.
fn processor_ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}
