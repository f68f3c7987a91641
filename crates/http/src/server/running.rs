//! A server that runs: its addresses, the reload of certificates, shutdown, and the signals that
//! end it.
//!
//! The threads share an [`Common`] with the flag `stop`. A shutdown sets the flag and rings every
//! thread's inbox, because a thread may wait for events without a time limit.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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

/// A server that is serving; see [`Server::start`](crate::Server::start). Dropping it shuts it
/// down, and waits until it has ended.
///
/// ```
/// use marmota_http::{Router, Server};
///
/// let running = Server::bind("127.0.0.1:0")?.start(Router::new())?;
/// let handle = running.shutdown_handle();
/// std::thread::spawn(move || handle.shutdown());
/// running.join()?; // returns when the other thread has ended the server
/// # Ok::<(), marmota_http::ServerError>(())
/// ```
#[derive(Debug)]
pub struct RunningServer {
    /// In the order of the calls that bound them.
    pub(super) addresses: Vec<Address>,
    pub(super) backend: Backend,
    /// A handle to the threads.
    pub(super) handle: ShutdownHandle,
    /// Empty once they are joined.
    pub(super) threads: Vec<JoinHandle<io::Result<()>>>,
    /// The certificates, for a reload.
    #[cfg(feature = "tls")]
    pub(super) tls: Option<Arc<Acceptor>>,
}

impl RunningServer {
    /// Reads the files of certificates again, on a helper thread; the log has the result. The
    /// server also reads them when they change, so this is rarely needed. Other settings are not
    /// reloaded.
    ///
    /// Returns false if the server has no such files.
    ///
    /// ```
    /// use marmota_http::{Router, Server};
    /// let running = Server::bind("127.0.0.1:0")?.start(Router::new())?;
    /// assert!(!running.reload()); // without TLS
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    pub fn reload(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.as_ref().is_some_and(|tls| tls.reload());
        #[cfg(not(feature = "tls"))]
        false
    }

    /// Returns the first network address, with its real port; `0.0.0.0:0` if the server listens on
    /// Unix sockets only.
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// use marmota_http::{Router, Server};
    ///
    /// let router = Router::new().get("/", |_| async { "hello" });
    /// let running = Server::bind("127.0.0.1:0")?.start(router)?;
    /// let mut client = std::net::TcpStream::connect(running.local_addr())?;
    /// client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    /// let mut answer = String::new();
    /// client.read_to_string(&mut answer)?;
    /// assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("hello"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn local_addr(&self) -> SocketAddr {
        first_net(&self.addresses)
    }

    /// Returns all addresses, in the order of the calls that bound them, with real ports.
    ///
    /// ```
    /// use marmota_http::{Router, Server};
    /// let server = Server::bind("127.0.0.1:0")?.also_bind("[::1]:0")?;
    /// assert_eq!(server.start(Router::new())?.addresses().len(), 2);
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Returns the backend in use, which is never [`Backend::Auto`].
    ///
    /// ```
    /// use marmota_http::{Backend, Router, Server};
    /// let running = Server::bind("127.0.0.1:0")?.start(Router::new())?;
    /// assert_ne!(running.backend(), Backend::Auto);
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Returns a handle with which any thread can end the server.
    pub fn shutdown_handle(&self) -> ShutdownHandle {
        self.handle.clone()
    }

    /// Ends the server on Ctrl-C and SIGTERM, and handles SIGHUP, SIGUSR1 and SIGUSR2 as
    /// [`Server::run`](crate::Server::run) does. A thread waits for them.
    ///
    /// ```no_run
    /// use marmota_http::{Router, Server};
    /// let running = Server::bind("127.0.0.1:8080")?.start(Router::new())?;
    /// running.shutdown_on_signals()?;
    /// println!("serving on {}", running.local_addr());
    /// running.join()?;
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    ///
    /// # Errors
    /// [`ServerError::Thread`] if the system refuses the signal handlers or the thread.
    pub fn shutdown_on_signals(&self) -> Result<(), ServerError> {
        self.end_on(ending_signals()?, None)
    }

    /// Starts the thread that waits for signals. It lasts as long as the process: signal handlers
    /// cannot be removed safely.
    pub(super) fn end_on(
        &self,
        mut signals: Signals,
        reload_hook: Option<ReloadHook>,
    ) -> Result<(), ServerError> {
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
                        SIGHUP => {
                            if let Some(ReloadHook(hook)) = &reload_hook {
                                hook();
                            }
                            match (reload(), &reload_hook) {
                                (true, _) => log::info!("SIGHUP: reading the certificates again"),
                                (false, Some(_)) => {}
                                (false, None) => {
                                    log::info!("SIGHUP: no certificates to read again; ignored");
                                }
                            }
                        }
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

    /// Waits until the server has ended. Does not end it: use a [`ShutdownHandle`] or a signal.
    ///
    /// # Errors
    /// [`ServerError::Thread`], the first error that ended a thread early.
    pub fn join(mut self) -> Result<(), ServerError> {
        self.wait()
    }

    /// Ends the server, and waits for the requests in flight, for up to
    /// [`Limits::drain_timeout_ms`](crate::Limits::drain_timeout_ms).
    ///
    /// # Errors
    /// Those of [`RunningServer::join`].
    pub fn shutdown(mut self) -> Result<(), ServerError> {
        self.handle.shutdown();
        self.wait()
    }

    /// Joins all threads. If one has failed, the others are ended too.
    fn wait(&mut self) -> Result<(), ServerError> {
        let mut result = Ok(());
        for thread in self.threads.drain(..) {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")));
            if let Err(error) = ended {
                // A server with fewer threads would leave the connections of their listeners
                // unanswered.
                self.handle.shutdown();
                result = result.and(Err(ServerError::Thread(error)));
            }
        }
        result
    }
}

impl Drop for RunningServer {
    /// Shuts the server down. Errors of its threads are lost: use [`RunningServer::shutdown`] to
    /// get them.
    fn drop(&mut self) {
        self.handle.shutdown();
        let _ = self.wait();
    }
}

/// A function that is called when all threads serve; see [`Server::on_start`](crate::Server::on_start).
pub(super) struct StartHook(pub(super) Box<dyn FnOnce(&RunningServer)>);

impl std::fmt::Debug for StartHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StartHook")
    }
}

/// A function that is called for SIGHUP; see [`Server::on_reload`](crate::Server::on_reload).
pub(super) struct ReloadHook(pub(super) Box<dyn Fn() + Send>);

impl std::fmt::Debug for ReloadHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReloadHook")
    }
}

/// Registers the handlers of the signals that end a server, and of those whose default action would
/// end the process.
pub(super) fn ending_signals() -> Result<Signals, ServerError> {
    Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2]).map_err(ServerError::Thread)
}

/// A handle that ends a server from any thread, or checks it; see [`RunningServer::shutdown_handle`]. It stays
/// valid after the server has ended, and then does nothing.
///
/// ```
/// use marmota_http::{Router, Server, Status};
///
/// // A route that ends its own server.
/// let server = Server::bind("127.0.0.1:0")?;
/// let running = server.start(Router::new())?;
/// let handle = running.shutdown_handle();
/// handle.shutdown();
/// handle.clone().shutdown(); // a second time has no effect
/// running.join()?;
/// # Ok::<(), marmota_http::ServerError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ShutdownHandle {
    /// The state of the threads, with the flag that ends them.
    pub(super) common: Arc<Common>,
    /// The inboxes of the threads, to wake them.
    pub(super) inboxes: Arc<[Arc<Inbox>]>,
}

impl ShutdownHandle {
    /// Returns true if each thread of the server handles events within this time. A handler that
    /// blocks its thread makes it false. It waits for the threads, so do not call it on one of them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use marmota_http::{Router, Server};
    ///
    /// let running = Server::bind("127.0.0.1:0")?.start(Router::new())?;
    /// let handle = running.shutdown_handle();
    /// assert!(handle.is_responsive(Duration::from_secs(5)));
    /// running.shutdown()?;
    /// assert!(!handle.is_responsive(Duration::from_millis(10)), "it has ended");
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    #[must_use]
    pub fn is_responsive(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let before: Vec<u64> = self.inboxes.iter().map(|inbox| inbox.collections()).collect();
        self.inboxes.iter().for_each(|inbox| inbox.notify());
        loop {
            let mut inboxes = self.inboxes.iter().zip(&before);
            if inboxes.all(|(inbox, before)| inbox.collections() != *before) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns true if the shutdown has begun.
    ///
    /// ```
    /// use marmota_http::{Router, Server};
    /// let running = Server::bind("127.0.0.1:0")?.start(Router::new())?;
    /// let handle = running.shutdown_handle();
    /// assert!(!handle.is_shutting_down());
    /// handle.shutdown();
    /// assert!(handle.is_shutting_down());
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.common.stop.load(Ordering::Relaxed)
    }

    /// Begins the shutdown and returns at once. No further connection is accepted; requests in
    /// flight are answered with `Connection: close`; after
    /// [`Limits::drain_timeout_ms`](crate::Limits::drain_timeout_ms) at the latest everything is
    /// closed.
    pub fn shutdown(&self) {
        self.common.stop.store(true, Ordering::Relaxed);
        self.notify();
    }

    /// Wakes all threads.
    pub(super) fn notify(&self) {
        for inbox in self.inboxes.iter() {
            inbox.notify();
        }
    }
}
