//! Listening sockets, of the network and Unix sockets: opening them, and accepting connections.
//!
//! All sockets of a network port have SO_REUSEPORT, so that each group of threads has one, and the
//! kernel divides the connections among them. That option lets other processes join, too;
//! [`Listener::open`] refuses a port on which another process listens, unless the server shares it
//! on purpose. See [`crate::socket::port_lock`] for the reason why a test of binding is not
//! sufficient.
//!
//! A Unix socket has no such option: the threads share one, and epoll or io_uring wakes one of them
//! for each connection. Its file is removed with the last listener, but only if it is still the
//! file that was created here.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketType, bind, connect, getsockname, listen,
    shutdown, sockopt,
};

use crate::socket::address::{Address, Peer};
use crate::socket::port_lock::PortLock;
use crate::socket::socket_codec::ListenerOptions;
use crate::socket::system;

/// The connections that the kernel keeps until they are accepted; it reduces this to its maximum
/// (`net.core.somaxconn`).
const BACKLOG: i32 = 16_384;
/// The system divides the connections of a port among its sockets (SO_REUSEPORT). Elsewhere all
/// threads have the same socket.
pub(super) const DIVIDES_PORTS: bool = cfg!(target_os = "linux");
/// The part of an answer that the kernel accepts before it can send it. Without this limit it
/// accepts a megabyte: for 10,000 clients that did not read it kept 2.6 GB, which slowed down all
/// connections.
#[cfg(target_os = "linux")]
const UNSENT_BYTES: u32 = 128 * 1024;
/// The time for which an address in use is tried again. A killed process can hold its address for
/// some ms: the kernel ends an io_uring, and with it the sockets in it, after the process.
const IN_USE_RETRY_MAX: Duration = Duration::from_millis(500);
/// The permissions of a Unix socket until its server has started: for its owner only.
const MODE_BEFORE_START: u32 = 0o600;

/// A listening socket. Several threads may accept from it.
#[derive(Debug)]
pub(crate) struct Listener {
    /// The socket, which never blocks.
    pub(crate) socket: OwnedFd,
    /// The start of its connections.
    pub(crate) options: ListenerOptions,
    /// It is a Unix socket.
    is_unix: bool,
    /// The file of a Unix socket at a path.
    file: Option<SocketFile>,
    /// The lock on a port that is not shared with other servers, with its first socket.
    port_lock: Option<PortLock>,
}

/// The file of a Unix socket, which is removed when the last listener is dropped.
#[derive(Debug)]
struct SocketFile {
    /// The path.
    path: PathBuf,
    /// The device of the file: only the file that this server has created is removed.
    device: u64,
    /// The number of the file on its device.
    inode: u64,
    /// The permissions that the umask of the process has left.
    mode: u32,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|file| (file.dev(), file.ino()) == (self.device, self.inode)) {
            // If this fails, the next server that binds there removes the file.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if !self.is_unix {
            // At once: a ring that waits for the socket keeps it open for a while, and the kernel
            // would continue to assign connections to it that other sockets of the port could
            // accept. Fails only if no client can connect any more.
            let _ = shutdown(&self.socket, Shutdown::Both);
        }
    }
}

impl Listener {
    /// Opens the first listening socket of an address, and returns the address in fact, with the
    /// port that the system has chosen for port 0.
    ///
    /// Fails if another process listens there: sockets that share a port would not detect it, and
    /// each of the two servers would get a part of the connections. A listener that `shares` its
    /// port wants that, and fails only if the other server does not share it.
    pub(crate) fn open(address: &Address, shares: bool) -> io::Result<(Self, Address)> {
        let until = Instant::now() + IN_USE_RETRY_MAX;
        loop {
            match Self::take(address, shares) {
                Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < until => {
                    thread::sleep(Duration::from_millis(10));
                }
                taken => return taken,
            }
        }
    }

    /// Tries once to open an address.
    fn take(address: &Address, shares: bool) -> io::Result<(Self, Address)> {
        match address {
            Address::Net(address) => {
                let (listener, real) = if shares {
                    Self::open_shared(*address)?
                } else {
                    Self::open_exclusive(*address)?
                };
                Ok((listener, Address::Net(real)))
            }
            Address::Path(path) => Ok((Self::at_path(path)?, address.clone())),
            #[cfg(target_os = "linux")]
            Address::Abstract(name) => {
                let name = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
                let socket = unix()?;
                bind(&socket, &name)?;
                listen(&socket, BACKLOG)?;
                Ok((Self::on(socket, true), address.clone()))
            }
            #[cfg(not(target_os = "linux"))]
            Address::Abstract(_) => {
                let text = "names without a file exist on Linux only; use `unix:` with a path";
                Err(io::Error::new(ErrorKind::Unsupported, text))
            }
        }
    }

    /// Returns the listener of a socket.
    fn on(socket: OwnedFd, is_unix: bool) -> Self {
        Self { socket, options: ListenerOptions::default(), is_unix, file: None, port_lock: None }
    }

    /// Opens a further socket on a port that [`Listener::open`] has opened.
    pub(crate) fn share(address: SocketAddr) -> io::Result<Self> {
        let socket = reuseport_socket(address)?;
        listen(&socket, BACKLOG)?;
        Ok(Self::on(socket, false))
    }

    /// Opens a port on which no other process listens.
    fn open_exclusive(address: SocketAddr) -> io::Result<(Self, SocketAddr)> {
        // First of all: if two servers start at once, one of them finds the other's lock.
        let port_lock = PortLock::take(address);
        bind(stream(address)?, &address)?;
        let mut listener = Self::share(address)?;
        let real = listener.local_addr()?;
        listener.port_lock = port_lock.or_else(|| PortLock::take(real));
        Ok((listener, real))
    }

    /// Opens a port on which other servers that share it may listen.
    fn open_shared(address: SocketAddr) -> io::Result<(Self, SocketAddr)> {
        let listener = Self::on(reuseport_socket(address)?, false);
        let real = listener.local_addr()?;
        // Before a connection can arrive here, and again for a server that started meanwhile.
        PortLock::check_free(real)?;
        listen(&listener.socket, BACKLOG)?;
        PortLock::check_free(real)?;
        Ok((listener, real))
    }

    /// Returns the address that the socket has.
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(SocketAddr::try_from(getsockname(&self.socket)?)?)
    }

    /// Opens a Unix socket at a path. A file that a killed server has left is replaced.
    fn at_path(path: &Path) -> io::Result<Self> {
        let name = SocketAddrUnix::new(path)?;
        let socket = unix()?;
        match bind(&socket, &name) {
            Err(Errno::ADDRINUSE) if is_stale(path, &name)? => {
                fs::remove_file(path)?;
                bind(&socket, &name)?;
            }
            bound => bound?,
        }
        let file = fs::symlink_metadata(path)?;
        let file = SocketFile {
            path: path.to_owned(),
            device: file.dev(),
            inode: file.ino(),
            mode: file.permissions().mode(),
        };
        // Restricted before a client can connect; `set_permissions` widens it at the start.
        fs::set_permissions(path, fs::Permissions::from_mode(MODE_BEFORE_START))?;
        listen(&socket, BACKLOG)?;
        let mut listener = Self::on(socket, true);
        listener.file = Some(file);
        Ok(listener)
    }

    /// Gives the file of a Unix socket its permissions: `mode`, or what the umask allows.
    pub(crate) fn set_permissions(&self, mode: Option<u32>) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        fs::set_permissions(&file.path, fs::Permissions::from_mode(mode.unwrap_or(file.mode)))
    }

    /// Accepts a connection; `Ok(None)` if none waits.
    ///
    /// # Errors
    /// The process has no descriptor left, or the kernel reports another error of the listener or
    /// of the new connection.
    pub(crate) fn accept(&self) -> Result<Option<(OwnedFd, Peer)>, Errno> {
        match system::accept(&self.socket) {
            Ok((socket, _)) if self.is_unix => Ok(Some((socket, Peer::Unix))),
            Ok((socket, peer)) => {
                let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
                Ok(peer.map(|peer| (socket, Peer::Net(peer))))
            }
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns true if the file at a path in use is a socket on which no process listens.
fn is_stale(path: &Path, name: &impl SocketAddrArg) -> io::Result<bool> {
    let is_socket = fs::symlink_metadata(path)?.file_type().is_socket();
    Ok(is_socket && connect(unix()?, name) == Err(Errno::CONNREFUSED))
}

/// Returns a new Unix socket.
fn unix() -> io::Result<OwnedFd> {
    system::new_socket(AddressFamily::UNIX, SocketType::STREAM)
}

/// Returns a socket bound to a port, which does not listen yet. Several share it if the system
/// divides its connections.
fn reuseport_socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = stream(address)?;
    if DIVIDES_PORTS {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    // Inherited by the connections: answers are written whole, so a delay gains nothing.
    sockopt::set_tcp_nodelay(&socket, true)?;
    #[cfg(target_os = "linux")]
    socket2::SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT_BYTES)?;
    bind(&socket, &address)?;
    Ok(socket)
}

/// Returns a new TCP socket for addresses of this family.
fn stream(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = system::new_socket(family, SocketType::STREAM)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    Ok(socket)
}
