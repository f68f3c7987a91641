//! Locks on ports that one server has exclusively.
//!
//! The threads of a server share its port by SO_REUSEPORT. So the kernel would let another process
//! of the same user join them and receive a part of the connections, without an error. A server
//! that does not share its port therefore holds a name in the abstract namespace of Linux, and a
//! server that shares its port looks for that name. Like ports, the name belongs to the network
//! namespace, and it ends with its process.
//!
//! Users cannot share ports with each other, so the name contains the user. A process of the same
//! user that holds such a name on purpose only prevents that user's servers from sharing the port.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, connect};

use crate::socket::system::new_socket;

/// The exclusive use of a port, until this value is dropped.
#[derive(Debug)]
pub(crate) struct PortLock {
    /// The socket that has the name.
    _held: OwnedFd,
}

impl PortLock {
    /// Takes the lock on a port. Returns `None` for port 0, and if the name cannot be taken: then
    /// other servers that share the port are not prevented, and nothing else is lost.
    pub(crate) fn take(address: SocketAddr) -> Option<Self> {
        if address.port() == 0 {
            return None;
        }
        let held = socket().ok()?;
        bind(&held, &name(address).ok()?).ok()?;
        Some(Self { _held: held })
    }

    /// Checks that no server holds the lock, on this address or on the port of all addresses.
    ///
    /// # Errors
    /// [`AddrInUse`](io::ErrorKind::AddrInUse) if a server holds it.
    pub(crate) fn check_free(address: SocketAddr) -> io::Result<()> {
        let everywhere = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        let mut wider = everywhere.into_iter().map(|ip| SocketAddr::new(ip, address.port()));
        let is_taken = is_locked(address)?
            || wider
                .try_fold(false, |found, wide| Ok::<_, io::Error>(found || is_locked(wide)?))?;
        if is_taken {
            let text = "another server uses this port and does not share it";
            return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
        }
        Ok(())
    }
}

/// Returns true if the name of this address is taken.
fn is_locked(address: SocketAddr) -> io::Result<bool> {
    Ok(connect(socket()?, &name(address)?).is_ok())
}

/// Returns a socket for datagrams: to connect it shows whether the name is taken, and leaves
/// nothing to be accepted.
fn socket() -> io::Result<OwnedFd> {
    new_socket(AddressFamily::UNIX, SocketType::DGRAM)
}

/// Returns the name of an address.
#[cfg(target_os = "linux")]
fn name(address: SocketAddr) -> io::Result<SocketAddrUnix> {
    let name = format!("marmota/alone/{}/{address}", rustix::process::geteuid().as_raw());
    Ok(SocketAddrUnix::new_abstract_name(name.as_bytes())?)
}

/// Returns an error: other systems have no such names, and do not divide the connections of a port
/// among sockets. A server there has one socket for a port, without SO_REUSEPORT.
#[cfg(not(target_os = "linux"))]
fn name(_: SocketAddr) -> io::Result<SocketAddrUnix> {
    let text = "servers can share a port on Linux only; use `Server::bind`";
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}
