//! A server that has run out of file descriptors goes on when clients have left. The limit is
//! a process's, so the server runs in one of its own: this test's program, started again.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use marmota_http::Router;
use rustix::process::{Resource, Rlimit, setrlimit};

use super::client::bind;

/// Set for the process that serves.
const SERVING: &str = "MARMOTA_TEST_DESCRIPTORS";
/// Descriptors that process may have; a server with two threads needs some fifteen.
const DESCRIPTORS: u64 = 48;
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Ends the serving process however the test ends.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test of its own: what the other process does.
#[test]
fn serves_with_few_descriptors() {
    if std::env::var_os(SERVING).is_none() {
        return;
    }
    let few = Some(DESCRIPTORS);
    setrlimit(Resource::Nofile, Rlimit { current: few, maximum: few }).unwrap();
    let server = bind().servers(2).start(Router::new().get("/", |_| async { "ok" })).unwrap();
    println!("\nserving {}", server.local_addr());
    // The test's end closes the pipe.
    let _ = std::io::stdin().read(&mut [0]);
}

fn start() -> (Serving, SocketAddr) {
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", &format!("{module}::serves_with_few_descriptors")])
        .env(SERVING, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("serving ")?.parse().ok())
        .unwrap();
    (Serving(child), address)
}

/// Whether the connection is answered soon.
fn is_served(stream: &mut TcpStream) -> bool {
    let mut piece = [0; 512];
    let _ = stream.write_all(REQUEST);
    matches!(stream.read(&mut piece), Ok(count) if piece[..count].starts_with(b"HTTP/1.1 200"))
}

#[test]
fn a_server_without_descriptors_goes_on_when_clients_leave() {
    let (mut serving, address) = start();
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
        let ticks = processor_ticks(serving.0.id());
        std::thread::sleep(Duration::from_millis(500));
        let used = processor_ticks(serving.0.id()) - ticks;
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
        assert!(serving.0.try_wait().unwrap().is_none(), "the server has ended");
    }
}

/// The processor time that a process has used.
fn processor_ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}
