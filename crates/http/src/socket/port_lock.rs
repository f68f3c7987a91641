//! Ports that one server has alone.
//!
//! A server's threads share its port by SO_REUSEPORT, so the kernel would let another process of
//! the same user in among them. Whoever does not share therefore holds a name in Linux' abstract
//! namespace, which is the network namespace's as ports are and ends with its process, and whoever
//! shares looks for it. Another user cannot take part in a port, so names are a user's; one who
//! holds such a name on purpose keeps that user's servers from sharing, and does no more.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, socket_with,
};
use rustix::process::geteuid;

/// That a port is one server's, as long as this is there.
#[derive(Debug)]
pub(crate) struct PortLock {
    _held: OwnedFd,
}

impl PortLock {
    /// None for a port that is not chosen yet, and where the name cannot be had: then others
    /// that share are not kept out, and nothing else is lost.
    pub(crate) fn take(address: SocketAddr) -> Option<Self> {
        if address.port() == 0 {
            return None;
        }
        let held = socket().ok()?;
        bind(&held, &name(address).ok()?).ok()?;
        Some(Self { _held: held })
    }

    /// Fails if a server has this port alone, by its address or by one that takes all.
    pub(crate) fn check_free(address: SocketAddr) -> io::Result<()> {
        let everywhere = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        let mut wider = everywhere.into_iter().map(|ip| SocketAddr::new(ip, address.port()));
        let is_taken = is_locked(address)?
            || wider
                .try_fold(false, |found, wide| Ok::<_, io::Error>(found || is_locked(wide)?))?;
        if is_taken {
            let text = "the server that listens there does not share its port";
            return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
        }
        Ok(())
    }
}

fn is_locked(address: SocketAddr) -> io::Result<bool> {
    Ok(connect(socket()?, &name(address)?).is_ok())
}

/// Datagrams: nothing waits to be accepted when somebody looks.
fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?)
}

fn name(address: SocketAddr) -> io::Result<SocketAddrUnix> {
    let name = format!("marmota/alone/{}/{address}", geteuid().as_raw());
    Ok(SocketAddrUnix::new_abstract_name(name.as_bytes())?)
}
