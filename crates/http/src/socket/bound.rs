//! The addresses that a server is bound to, and their distribution to its groups of threads.
//!
//! [`Bound::open`] runs in `Server::bind`, so that an address in use is an error there;
//! [`distribute`] runs in `Server::start`. Each group of threads gets a socket of its own for each
//! port (SO_REUSEPORT), among which the kernel divides the connections; a Unix socket is shared by
//! all groups, and so is each port on systems that do not divide them.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use crate::socket::address::{Address, ToAddresses};
use crate::socket::listener::{DIVIDES_PORTS, Listener};
use crate::socket::socket_codec::ListenerOptions;

/// An address on which the server cannot listen.
#[derive(Debug)]
pub(crate) struct BindError {
    /// The address, as the program gave it.
    pub(crate) address: String,
    /// The error of the system.
    pub(crate) source: io::Error,
}

/// An address that is listened on.
#[derive(Debug)]
pub(crate) struct Bound {
    /// The first listener of the address.
    listener: Listener,
    /// The address in fact: with a port chosen by the system if the program gave port 0.
    pub(crate) address: Address,
    /// Requests are redirected to HTTPS ([`Server::redirect`](crate::Server::redirect)).
    pub(crate) redirects: bool,
}

impl Bound {
    /// Opens the first of the addresses that can be opened. `shares` permits other processes to
    /// listen there too.
    pub(crate) fn open(
        address: &(impl ToAddresses + fmt::Debug),
        shares: bool,
    ) -> Result<Self, BindError> {
        let error = |source| BindError { address: format!("{address:?}"), source };
        let mut last = io::Error::new(io::ErrorKind::InvalidInput, "the host name has no address");
        for candidate in address.to_addresses().map_err(error)? {
            match Listener::open(&candidate, shares) {
                Ok((listener, address)) => {
                    return Ok(Self { listener, address, redirects: false });
                }
                Err(error) => last = error,
            }
        }
        Err(error(last))
    }

    /// Returns the options of this address: those of the server's ports, but without TLS on a Unix
    /// socket and on a port that redirects to `port_of_tls`.
    fn listener_options(&self, options: &ListenerOptions, port_of_tls: u16) -> ListenerOptions {
        let mut own = options.clone();
        if self.redirects {
            own.redirect = Some(port_of_tls);
        }
        #[cfg(feature = "tls")]
        if self.redirects || self.address.net().is_none() {
            own.tls = None;
        }
        own
    }
}

/// Returns the listeners of each of `groups` groups of threads: sockets of their own for the same
/// ports, and the same Unix sockets, whose files get the permissions `socket_mode`.
pub(crate) fn distribute(
    bound: Vec<Bound>,
    options: &ListenerOptions,
    groups: usize,
    socket_mode: Option<u32>,
) -> Result<Vec<Vec<Arc<Listener>>>, BindError> {
    let mut dealt = vec![Vec::new(); groups];
    let served = bound.iter().filter(|bound| !bound.redirects);
    let port_of_tls = first_net(served.map(|bound| &bound.address)).port();
    for bound in bound {
        let options = bound.listener_options(options, port_of_tls);
        let Bound { mut listener, address, .. } = bound;
        listener.options = options.clone();
        let error = |source| BindError { address: address.to_string(), source };
        listener.set_permissions(socket_mode).map_err(error)?;
        let first = Arc::new(listener);
        for (index, group) in dealt.iter_mut().enumerate() {
            group.push(match address {
                Address::Net(address) if index > 0 && DIVIDES_PORTS => {
                    let mut listener = Listener::share(address).map_err(error)?;
                    listener.options = options.clone();
                    Arc::new(listener)
                }
                _ => Arc::clone(&first),
            });
        }
    }
    Ok(dealt)
}

/// Returns the first port of the network, or 0.0.0.0:0 without one.
pub(crate) fn first_net<'a>(addresses: impl IntoIterator<Item = &'a Address>) -> SocketAddr {
    let mut addresses = addresses.into_iter().filter_map(Address::net);
    addresses.next().unwrap_or_else(|| (Ipv4Addr::UNSPECIFIED, 0).into())
}
