//! Listening sockets: of the network, which share a port, and Unix sockets, which the threads
//! share; and taking connections from them.

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
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, acceptfrom_with, bind,
    connect, getsockname, listen, shutdown, socket_with, sockopt,
};
use socket2::SockRef;

use crate::socket::address::{Address, Peer};
use crate::socket::port_lock::PortLock;
use crate::socket::socket_codec::ListenerOptions;

/// Connections that the kernel keeps until they are taken; it cuts this to its own maximum.
const BACKLOG: i32 = 16_384;
/// What the kernel takes of an answer before it can send it. Without, it takes a megabyte: 10,000
/// clients that do not read had it keep 2.6 GB, which is when it gets slow for all.
const UNSENT_BYTES: u32 = 128 * 1024;
/// How long an address may stay taken that a process held which was killed: the kernel ends an
/// io_uring, and with it the sockets in it, after the process.
const IN_USE_RETRY_MAX: Duration = Duration::from_millis(500);
/// Who may connect to a Unix socket until its server has started: its owner.
const MODE_BEFORE_START: u32 = 0o600;

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: OwnedFd,
    /// How its connections begin.
    pub(crate) entry: ListenerOptions,
    is_unix: bool,
    file: Option<SocketFile>,
    /// On the first socket of a port that is not shared with other servers.
    port_lock: Option<PortLock>,
}

/// The file of a Unix socket, which is removed when nobody listens on it any more.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
    /// What the process' umask left of its permissions.
    mode: u32,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|file| (file.dev(), file.ino()) == (self.device, self.inode)) {
            // Whoever binds there next removes what stays.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if !self.is_unix {
            // At once: a ring that waits for it holds the socket for a while yet, and the kernel
            // would go on giving it connections that others on the port could take. Only fails
            // when nobody can connect any more.
            let _ = shutdown(&self.socket, Shutdown::Both);
        }
    }
}

impl Listener {
    /// Opens the first listening socket of an address, and says which it really is.
    ///
    /// Fails when somebody listens there already: sockets that share a port would not notice,
    /// and the two servers would each get a part of the connections. One that `shares` its port
    /// wants just that, and fails beside one that does not.
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
            Address::Abstract(name) => {
                let name = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
                let socket = unix()?;
                bind(&socket, &name)?;
                listen(&socket, BACKLOG)?;
                Ok((Self::on(socket, true), address.clone()))
            }
        }
    }

    fn on(socket: OwnedFd, is_unix: bool) -> Self {
        Self { socket, entry: ListenerOptions::default(), is_unix, file: None, port_lock: None }
    }

    /// Opens a further socket on a port that [`Listener::open`] has opened.
    pub(crate) fn share(address: SocketAddr) -> io::Result<Self> {
        let socket = reuseport_socket(address)?;
        listen(&socket, BACKLOG)?;
        Ok(Self::on(socket, false))
    }

    /// A port on which nobody else listens.
    fn open_exclusive(address: SocketAddr) -> io::Result<(Self, SocketAddr)> {
        // Before anything is looked at: of two that come at once, one sees the other.
        let port_lock = PortLock::take(address);
        bind(stream(address)?, &address)?;
        let mut listener = Self::share(address)?;
        let real = listener.local_addr()?;
        listener.port_lock = port_lock.or_else(|| PortLock::take(real));
        Ok((listener, real))
    }

    /// A port on which others may listen who share it as well.
    fn open_shared(address: SocketAddr) -> io::Result<(Self, SocketAddr)> {
        let listener = Self::on(reuseport_socket(address)?, false);
        let real = listener.local_addr()?;
        // Looked at before a connection can come here, and again for who came meanwhile.
        PortLock::check_free(real)?;
        listen(&listener.socket, BACKLOG)?;
        PortLock::check_free(real)?;
        Ok((listener, real))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(SocketAddr::try_from(getsockname(&self.socket)?)?)
    }

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
        // Narrow before anybody can connect; `admit` makes it as wide as it shall be.
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

    /// Takes a connection; `Ok(None)` when none is there.
    pub(crate) fn accept(&self) -> Result<Option<(OwnedFd, Peer)>, Errno> {
        match acceptfrom_with(&self.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
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

/// Whether the file at a path that is taken is a socket on which nobody listens any more.
fn is_stale(path: &Path, name: &impl SocketAddrArg) -> io::Result<bool> {
    let is_socket = fs::symlink_metadata(path)?.file_type().is_socket();
    Ok(is_socket && connect(unix()?, name) == Err(Errno::CONNREFUSED))
}

fn unix() -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// A socket of a port that several share, bound and not listening yet.
fn reuseport_socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = stream(address)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    // Inherited by the connections: answers are written whole, waiting for more is of no use.
    sockopt::set_tcp_nodelay(&socket, true)?;
    SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT_BYTES)?;
    bind(&socket, &address)?;
    Ok(socket)
}

fn stream(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(
        family,
        SocketType::STREAM,
        SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
        None,
    )?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    Ok(socket)
}
