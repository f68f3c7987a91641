//! A server that runs: its addresses, reloading, shutdown, and the signals that end it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::reactor::backend::Backend;
use crate::reactor::task::Inbox;
use crate::server::error::ServerError;
use crate::server::worker::Common;
use crate::socket::address::Address;
use crate::socket::bound::first_net;
#[cfg(feature = "tls")]
use crate::socket::tls::Acceptor;

/// A server that is serving. Dropping it shuts it down and waits for it.
#[derive(Debug)]
pub struct RunningServer {
    pub(super) addresses: Vec<Address>,
    pub(super) backend: Backend,
    pub(super) handle: ShutdownHandle,
    pub(super) threads: Vec<JoinHandle<io::Result<()>>>,
    #[cfg(feature = "tls")]
    pub(super) tls: Option<Arc<Acceptor>>,
}

impl RunningServer {
    /// Has the files of certificates read again, by a thread of its own: what came of it is in the
    /// log. They are read anyway when they change. Nothing else of a server is read again.
    ///
    /// Returns whether there is anything to read.
    pub fn reload(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.as_ref().is_some_and(|tls| tls.reload());
        #[cfg(not(feature = "tls"))]
        false
    }

    /// The first network address with its real port; `0.0.0.0:0` if it listens on Unix sockets
    /// alone.
    pub fn local_addr(&self) -> SocketAddr {
        first_net(&self.addresses)
    }

    /// All that it listens on, in the order in which it was said, with the real ports.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// How its threads wait: the ring or epoll, never [`Backend::Auto`].
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// A handle by which any thread can end the service.
    pub fn shutdown_handle(&self) -> ShutdownHandle {
        self.handle.clone()
    }

    /// Ends the service on Ctrl-C and SIGTERM, and hears of others as [`crate::Server::run`] does.
    ///
    /// # Errors
    /// When the system refuses the signal handlers.
    pub fn shutdown_on_signals(&self) -> Result<(), ServerError> {
        self.end_on(ending_signals()?)
    }

    pub(super) fn end_on(&self, mut signals: Signals) -> Result<(), ServerError> {
        let handle = self.handle.clone();
        #[cfg(feature = "tls")]
        let tls = self.tls.clone();
        let reload = move || {
            #[cfg(feature = "tls")]
            return tls.as_ref().is_some_and(|tls| tls.reload());
            #[cfg(not(feature = "tls"))]
            false
        };
        std::thread::Builder::new()
            .name("marmota-signals".to_owned())
            .spawn(move || {
                let mut is_ending = false;
                for signal in signals.forever() {
                    match signal {
                        SIGHUP if reload() => {
                            log::info!("SIGHUP: the certificates are read again");
                        }
                        SIGHUP => log::info!("SIGHUP: nothing to read again; ignored"),
                        SIGUSR1 | SIGUSR2 => log::info!("signal {signal} is ignored"),
                        // At once: what runs at an exit may wait for what hangs.
                        _ if is_ending => signal_hook::low_level::exit(128 + signal),
                        _ => {
                            is_ending = true;
                            handle.shutdown();
                        }
                    }
                }
            })
            .map_err(ServerError::Thread)?;
        Ok(())
    }

    /// Waits until the service has ended; does not end it.
    ///
    /// # Errors
    /// The first error that ended a thread early.
    pub fn join(mut self) -> Result<(), ServerError> {
        self.wait()
    }

    /// Ends the service and waits for the requests in flight.
    ///
    /// # Errors
    /// As [`RunningServer::join`].
    pub fn shutdown(mut self) -> Result<(), ServerError> {
        self.handle.shutdown();
        self.wait()
    }

    fn wait(&mut self) -> Result<(), ServerError> {
        let mut result = Ok(());
        for thread in self.threads.drain(..) {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")));
            if let Err(error) = ended {
                // One thread's end is the server's: the rest must not go on half served.
                self.handle.shutdown();
                result = result.and(Err(ServerError::Thread(error)));
            }
        }
        result
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.handle.shutdown();
        let _ = self.wait();
    }
}

/// Hears from now on of the signals that end a service, and of those that would end it otherwise.
pub(super) fn ending_signals() -> Result<Signals, ServerError> {
    Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2]).map_err(ServerError::Thread)
}

/// Ends a service from anywhere.
#[derive(Clone, Debug)]
pub struct ShutdownHandle {
    pub(super) common: Arc<Common>,
    pub(super) inboxes: Arc<[Arc<Inbox>]>,
}

impl ShutdownHandle {
    /// No further connection is taken, requests in flight are answered with
    /// `Connection: close`, and after the drain timeout at the latest all is closed.
    pub fn shutdown(&self) {
        self.common.stop.store(true, Ordering::Relaxed);
        for inbox in self.inboxes.iter() {
            inbox.notify();
        }
    }
}
