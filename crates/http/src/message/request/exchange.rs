//! The data of a request: the read buffer of its connection, the ranges of its parts, and
//! everything found out about it. A [`Request`](crate::Request) is a counted reference to it.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::Arc;

use crate::body::body_buffer::BodyBuffer;
use crate::body::budget::Lease;
use crate::message::before_body::BeforeBody;
use crate::message::sites::Sites;
use crate::proto::head::{Head, Span};
use crate::proto::paths::PathTree;
use crate::socket::address::Peer;
use crate::socket::proxies::Proxies;
use crate::socket::socket_codec::TlsInfo;

/// The data that all requests of a server share.
#[derive(Debug)]
pub(crate) struct Context {
    /// The patterns of the routes, for the names of parameters and `Allow`.
    pub(crate) paths: PathTree,
    /// The minimum size in bytes of a body that is compressed, by endpoint; `None` compresses
    /// nothing.
    #[cfg(feature = "compression")]
    pub(crate) compresses_from: Vec<Option<usize>>,
    /// The peers that may name the client of a request.
    pub(crate) proxies: Proxies,
    /// The origins and hosts allowed in addition to the server's own.
    pub(crate) sites: Sites,
}

/// The read buffer of a connection, and everything known about the request that is served from it.
///
/// The connection owns it through a [`Request`](crate::Request). It changes it in place while no
/// handler has a handle, and by a copy otherwise ([`Rc::make_mut`]), so that a handler never sees
/// another request.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// The bytes received and not yet dropped: answered requests, this one, and the start of the
    /// next.
    pub(crate) buffer: Vec<u8>,
    /// The index before which all bytes belong to answered requests.
    pub(crate) consumed: usize,
    /// The head, as ranges of the buffer.
    pub(crate) head: Head,
    /// The range of the body, decoded.
    pub(crate) body: Span,
    /// The body on a route that reads it as it arrives.
    pub(crate) body_buffer: Option<Rc<BodyBuffer>>,
    /// The ranges of the route's parameters, percent-encoded, in the pattern's order.
    pub(crate) params: Vec<Span>,
    /// The number of the endpoint that was found; `None` before the search and without an endpoint.
    pub(crate) endpoint: Option<usize>,
    /// The data of the server.
    pub(crate) context: Arc<Context>,
    /// The other end of the connection.
    pub(crate) peer: Peer,
    /// The facts that TLS has established; `None` without TLS.
    pub(crate) secured: Option<Rc<TlsInfo>>,
    /// The id for logs, once it was requested.
    pub(crate) id: OnceCell<Box<str>>,
    /// True once a layer has allowed the origin in the headers.
    pub(crate) origin_allowed: Cell<bool>,
    /// The time at which its handler began, on the observers' clock; 0 if it has not.
    pub(crate) begun_us: Cell<u64>,
    /// The results of its layers and check.
    pub(crate) before_body: OnceCell<Rc<BeforeBody>>,
    /// The share in the budgets of a body that did not arrive at once.
    pub(crate) lease: Option<Box<Lease>>,
}

impl Clone for Exchange {
    // Not inlined: the connection checks before each change whether it must copy, and only the
    // check is to be inlined.
    #[cold]
    #[inline(never)]
    fn clone(&self) -> Self {
        Self {
            buffer: self.buffer.clone(),
            consumed: self.consumed,
            head: self.head.clone(),
            body: self.body,
            body_buffer: self.body_buffer.clone(),
            params: self.params.clone(),
            endpoint: self.endpoint,
            context: Arc::clone(&self.context),
            peer: self.peer,
            secured: self.secured.clone(),
            id: self.id.clone(),
            origin_allowed: self.origin_allowed.clone(),
            begun_us: self.begun_us.clone(),
            before_body: self.before_body.clone(),
            lease: None,
        }
    }
}

impl Exchange {
    /// Returns an empty exchange of a connection.
    pub(crate) fn new(context: Arc<Context>, peer: Peer) -> Self {
        Self {
            buffer: Vec::new(),
            consumed: 0,
            head: Head::default(),
            body: Span::default(),
            body_buffer: None,
            params: Vec::new(),
            endpoint: None,
            context,
            peer,
            secured: None,
            id: OnceCell::new(),
            origin_allowed: Cell::new(false),
            begun_us: Cell::new(0),
            before_body: OnceCell::new(),
            lease: None,
        }
    }

    /// Drops everything known about the previous request but its bytes.
    #[inline]
    pub(crate) fn forget(&mut self) {
        self.id.take();
        self.begun_us.set(0);
        self.before_body.take();
        self.lease = None;
        self.origin_allowed.set(false);
    }

    /// Returns the number of bytes that belong to no answered request.
    pub(crate) fn unread(&self) -> usize {
        self.buffer.len() - self.consumed
    }

    /// Moves these bytes to the front of the buffer.
    pub(crate) fn compact(&mut self) {
        if self.consumed > 0 {
            self.buffer.drain(..self.consumed);
            self.consumed = 0;
        }
    }
}
