//! What stands between clients and their server and cuts connections, each behind
//! as many bytes as a seed says: in the middle of a greeting, of a row on its way
//! there, of its answer on the way back.

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

/// A connection is cut behind 2^6 to 2^17 bytes one way: as many of each power, since a greeting
/// is as good a place as the thousandth row.
const SHIFT_MIN: u64 = 6;
const SHIFTS: u64 = 11;

/// See the module. Its threads end with the process.
pub(super) struct Cutter {
    /// Where clients connect.
    pub(super) url: String,
    cuts: Arc<AtomicU64>,
}

/// A connection of either family.
trait Socket: Read + Write + Send + Sized + 'static {
    fn again(&self) -> io::Result<Self>;
    fn end(&self);
}

impl Socket for TcpStream {
    fn again(&self) -> io::Result<Self> {
        self.try_clone()
    }

    fn end(&self) {
        // What has ended need not be ended.
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
    /// One in front of the server at a Unix socket, itself at another in the same folder or at a
    /// port, as the transport wants it.
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

    /// How many connections it has cut.
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
        // Out of descriptors, say: others end, and give theirs back.
        let Ok(client) = accept() else {
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        let rolled = dice.roll();
        let shift = SHIFT_MIN + rolled % SHIFTS;
        let bytes = (1 << shift) + dice.roll() % (1 << shift);
        let (there, back) = if rolled >> 63 == 0 { (bytes, u64::MAX) } else { (u64::MAX, bytes) };
        // A server that was killed: the client finds that its connection has ended.
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

/// Passes on so many bytes, and ends both connections.
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
