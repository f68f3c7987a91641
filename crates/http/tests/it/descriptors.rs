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

use super::client::{PATIENCE, bind};

/// Set for the process that serves, to how many descriptors it may have and how many it reserves.
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

#[test]
#[ignore = "a process that other tests start"]
fn serves_with_few_descriptors() {
    let numbers = std::env::var(SERVING).expect("numbers of descriptors");
    let (most, reserved) = numbers.split_once(' ').unwrap();
    let most: u64 = most.parse().unwrap();
    log::set_logger(&Print).unwrap();
    log::set_max_level(log::LevelFilter::Info);
    let few = Rlimit { current: Some(most / 2), maximum: Some(most) };
    setrlimit(Resource::Nofile, few).unwrap();
    let limits = Limits { descriptors_reserved: reserved.parse().unwrap(), ..Limits::default() };
    let metrics = Metrics::new();
    let router = Router::new()
        .get("/", |_| async { "ok" })
        .get("/open", |_| open_files())
        .metrics("/metrics", &metrics);
    match bind().listeners(2).limits(limits).metrics(&metrics).start(router) {
        Ok(server) => {
            println!("\nserving {}", server.local_addr());
            // The test's end closes the pipe.
            let _ = std::io::stdin().read(&mut [0]);
        }
        Err(error) => println!("\nrefused: {error}"),
    }
}

/// Starts the process that serves.
fn spawn(most: u64, reserved: usize, complaints: Stdio) -> (Child, BufReader<ChildStdout>) {
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture"])
        .arg(format!("{module}::serves_with_few_descriptors"))
        .env(SERVING, format!("{most} {reserved}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(complaints)
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    (child, said)
}

fn start(reserved: usize) -> Serving {
    let (child, mut said) = spawn(DESCRIPTORS, reserved, Stdio::inherit());
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

/// A connection on which nothing is waited for without end.
fn connect(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client
}

/// What a connection that stays open is answered; empty if it is refused.
fn ask(stream: &mut TcpStream, path: &str) -> String {
    let mut piece = [0; 8 * 1024];
    let _ = stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    match stream.read(&mut piece) {
        Ok(count) if piece.starts_with(b"HTTP/1.1 200") => {
            String::from_utf8_lossy(&piece[..count]).into_owned()
        }
        _ => {
            // Until its end: the server has no descriptor for it any more then.
            let _ = stream.read_to_end(&mut Vec::new());
            String::new()
        }
    }
}

/// Connects until it is refused.
fn connect_until_refused(address: SocketAddr, clients: &mut Vec<TcpStream>) {
    loop {
        let mut client = connect(address);
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
    let mut clients = vec![connect(address)];
    let with_one = number(&mut clients[0], "process_open_fds");
    for round in 0..2 {
        connect_until_refused(address, &mut clients);
        // It is told why, even one that asks for nothing.
        let mut told = String::new();
        connect(address).read_to_string(&mut told).unwrap();
        assert!(told.starts_with("HTTP/1.1 503 ") && told.contains("Retry-After: "), "{told:?}");
        for client in &mut clients {
            assert!(ask(client, "/open").ends_with("opened"), "files can be opened");
        }
        let mut said = |name: &str| number(&mut clients[0], name);
        assert_eq!(said("process_max_fds"), DESCRIPTORS, "raised as far as it may be");
        // What this process has inherited may have higher numbers, and count as well.
        let open = said("process_open_fds");
        assert!(open >= DESCRIPTORS - RESERVED as u64, "{open}");
        assert_eq!(said("marmota_http_connections_refused_total"), 2 * (round + 1));
        // Once each, and again after it has been far.
        let near = line_with(&mut serving.said, "log: ");
        assert!(near.contains("WARN 4") && near.contains("of 48 file descriptors"), "{near}");
        let full = line_with(&mut serving.said, "log: ");
        assert!(full.contains("are refused with 503"), "{full}");
        clients.truncate(1);
        let far = line_with(&mut serving.said, "log: ");
        assert!(far.contains("enough file descriptors are free again"), "{far}");
        let begun = Instant::now();
        while number(&mut clients[0], "process_open_fds") > with_one {
            assert!(begun.elapsed() < PATIENCE, "clients that have left are not closed");
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_server_whose_threads_cannot_all_serve_does_not_start() {
    let mut refused = 0;
    // At first the listeners are too many, then what a thread needs, then what the second does.
    for most in 8..DESCRIPTORS {
        let (mut child, mut said) = spawn(most, 0, Stdio::null());
        let line = loop {
            let mut line = String::new();
            let count = said.read_line(&mut line).unwrap();
            if count == 0 || line.starts_with("serving ") || line.starts_with("refused: ") {
                break line;
            }
        };
        if line.starts_with("serving ") {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
            let names = tasks.map(|task| task.unwrap().path().join("comm"));
            let names: Vec<_> = names.map(|comm| std::fs::read_to_string(comm).unwrap()).collect();
            child.kill().unwrap();
            child.wait().unwrap();
            let serving = names.iter().filter(|name| name.starts_with("marmota-http-")).count();
            assert_eq!(serving, 2, "with {most} descriptors: {names:?}");
            assert!(refused > 3, "too many descriptors to begin with: {refused} refused");
            return;
        }
        child.wait().unwrap();
        // With a few less the process does not come so far as to start a server.
        if !line.is_empty() {
            assert!(line.contains("Too many open files"), "{line}");
            refused += 1;
        }
    }
    panic!("it never starts");
}

/// How many of the clients are answered, when no others are answered for a while.
fn answered(clients: &mut [TcpStream]) -> usize {
    let begun = Instant::now();
    let mut waiting: Vec<&mut TcpStream> = clients.iter_mut().collect();
    let all = waiting.len();
    for client in &mut waiting {
        client.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    }
    loop {
        let before = waiting.len();
        waiting.retain_mut(|client| !matches!(client.read(&mut [0; 1024]), Ok(1..)));
        if (waiting.len() == before && before < all) || begun.elapsed() > PATIENCE {
            return all - waiting.len();
        }
    }
}

#[test]
fn a_server_without_descriptors_goes_on_when_clients_leave() {
    // Nothing reserved: it finds out by running out of them.
    let mut serving = start(0);
    let address = serving.address;
    for _ in 0..2 {
        let mut clients: Vec<TcpStream> = (0..DESCRIPTORS).map(|_| connect(address)).collect();
        let served = answered(&mut clients);
        assert!(served > 5 && served < DESCRIPTORS as usize, "{served} served");
        let ticks = processor_ticks(serving.child.id());
        std::thread::sleep(Duration::from_millis(500));
        let used = processor_ticks(serving.child.id()) - ticks;
        assert!(used < 20, "it spins while it cannot accept: {used} ticks of 10 ms");
        drop(clients);
        let begun = Instant::now();
        while ask(&mut connect(address), "/").is_empty() {
            assert!(begun.elapsed() < PATIENCE, "no client is served any more");
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
