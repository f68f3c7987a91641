//! A proxy between clients and their server that cuts each connection after a number of bytes that
//! depends on the seed: within a handshake, a request or an answer.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::Transport;
use super::sample::Dice;

/// A connection is cut after 2^6 to 2^17 bytes in one direction. All powers are equally likely,
/// since the handshake is as important as the thousandth row.
const SHIFT_MIN: u64 = 6;
const SHIFTS: u64 = 11;

/// A proxy that cuts connections. Its threads end with the process.
pub(super) struct Cutter {
    /// The URL for clients.
    pub(super) url: String,
    cuts: Arc<AtomicU64>,
}

/// A TCP or Unix connection.
trait Socket: Read + Write + Send + Sized + 'static {
    fn again(&self) -> io::Result<Self>;
    fn end(&self);
}

impl Socket for TcpStream {
    fn again(&self) -> io::Result<Self> {
        self.try_clone()
    }

    fn end(&self) {
        // Fails if the connection has ended already, which is ignored.
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Socket for UnixStream {
    fn again(&self) -> io::Result<Self> {
        self.try_clone()
    }

    fn end(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Cutter {
    /// Starts a proxy for the server at a Unix socket. It listens at another socket in the same
    /// folder or at a port, depending on the transport.
    pub(super) fn start(transport: Transport, server: &Path, seed: u64) -> io::Result<Self> {
        let (server, cuts) = (server.to_path_buf(), Arc::new(AtomicU64::new(0)));
        let counted = Arc::clone(&cuts);
        let scheme = match transport {
            Transport::Http => "http",
            Transport::WebSocket => "ws",
            _ => {
                let place = server.with_extension("cut");
                let listener = UnixListener::bind(&place)?;
                let accept = move || listener.accept().map(|(client, _)| client);
                thread::spawn(move || pass_all(accept, &server, seed, &counted));
                return Ok(Self { url: format!("unix:{}", place.display()), cuts });
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("{scheme}://{}/api", listener.local_addr()?);
        let accept = move || {
            let (client, _) = listener.accept()?;
            client.set_nodelay(true)?;
            Ok(client)
        };
        thread::spawn(move || pass_all(accept, &server, seed, &counted));
        Ok(Self { url, cuts })
    }

    /// Returns the number of connections that it has cut.
    pub(super) fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::Relaxed)
    }
}

fn pass_all<S: Socket>(
    accept: impl Fn() -> io::Result<S>,
    server: &PathBuf,
    seed: u64,
    cuts: &Arc<AtomicU64>,
) {
    let mut dice = Dice(seed);
    loop {
        // For example out of file descriptors: other connections end and free theirs.
        let Ok(client) = accept() else {
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        let rolled = dice.roll();
        let shift = SHIFT_MIN + rolled % SHIFTS;
        let bytes = (1 << shift) + dice.roll() % (1 << shift);
        let (there, back) = if rolled >> 63 == 0 { (bytes, u64::MAX) } else { (u64::MAX, bytes) };
        // If the server was killed, the client's connection is closed.
        if let Ok(server) = UnixStream::connect(server) {
            let _ = pass_both(client, server, (there, back), cuts);
        }
    }
}

fn pass_both<S: Socket>(
    client: S,
    server: UnixStream,
    (there, back): (u64, u64),
    cuts: &Arc<AtomicU64>,
) -> io::Result<()> {
    let (client_again, server_again) = (client.again()?, server.again()?);
    let counted = Arc::clone(cuts);
    let to_server = move || pass(client_again, server_again, there, &counted);
    thread::Builder::new().spawn(to_server)?;
    let counted = Arc::clone(cuts);
    thread::Builder::new().spawn(move || pass(server, client, back, &counted))?;
    Ok(())
}

/// Forwards a number of bytes, and closes both connections.
fn pass(mut from: impl Socket, mut to: impl Socket, bytes: u64, cuts: &AtomicU64) {
    let (mut left, mut piece) = (bytes, [0; 16 * 1024]);
    while left > 0 {
        let room = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let Ok(count @ 1..) = from.read(&mut piece[..room]) else { break };
        if to.write_all(&piece[..count]).is_err() {
            break;
        }
        left -= count as u64;
    }
    if left == 0 {
        cuts.fetch_add(1, Ordering::Relaxed);
    }
    from.end();
    to.end();
}
