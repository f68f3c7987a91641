//! The addresses that a server is bound to, and how its groups of threads come by sockets there.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use crate::socket::address::{Address, ToAddresses};
use crate::socket::listener::Listener;
use crate::socket::socket_codec::ListenerOptions;

/// An address that cannot be listened on.
#[derive(Debug)]
pub(crate) struct BindError {
    pub(crate) address: String,
    pub(crate) source: io::Error,
}

/// An address that is listened on.
#[derive(Debug)]
pub(crate) struct Bound {
    listener: Listener,
    pub(crate) address: Address,
    /// Whoever asks there is sent to HTTPS.
    pub(crate) redirects: bool,
}

impl Bound {
    /// Opens the first of the addresses that can be opened.
    pub(crate) fn open(
        address: &(impl ToAddresses + fmt::Debug),
        shares: bool,
    ) -> Result<Self, BindError> {
        let error = |source| BindError { address: format!("{address:?}"), source };
        let mut last = io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
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

    /// How its connections begin, on a server whose ports' begin as `entry` says.
    fn entry(&self, entry: &ListenerOptions, port_of_tls: u16) -> ListenerOptions {
        let mut own = entry.clone();
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

/// What each of so many groups of threads listens on: the same ports by sockets of its own, and
/// the same Unix sockets.
pub(crate) fn distribute(
    bound: Vec<Bound>,
    entry: &ListenerOptions,
    groups: usize,
    socket_mode: Option<u32>,
) -> Result<Vec<Vec<Arc<Listener>>>, BindError> {
    let mut dealt = vec![Vec::new(); groups];
    let served = bound.iter().filter(|bound| !bound.redirects);
    let port_of_tls = first_net(served.map(|bound| &bound.address)).port();
    for bound in bound {
        let entry = bound.entry(entry, port_of_tls);
        let Bound { mut listener, address, .. } = bound;
        listener.entry = entry.clone();
        let error = |source| BindError { address: address.to_string(), source };
        listener.set_permissions(socket_mode).map_err(error)?;
        let first = Arc::new(listener);
        for (index, group) in dealt.iter_mut().enumerate() {
            group.push(match address {
                Address::Net(address) if index > 0 => {
                    let mut listener = Listener::share(address).map_err(error)?;
                    listener.entry = entry.clone();
                    Arc::new(listener)
                }
                _ => Arc::clone(&first),
            });
        }
    }
    Ok(dealt)
}

pub(crate) fn first_net<'a>(addresses: impl IntoIterator<Item = &'a Address>) -> SocketAddr {
    let mut addresses = addresses.into_iter().filter_map(Address::net);
    addresses.next().unwrap_or_else(|| (Ipv4Addr::UNSPECIFIED, 0).into())
}
