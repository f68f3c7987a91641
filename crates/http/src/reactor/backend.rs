//! The choice between io_uring, epoll and the portable backend, with a check whether io_uring is
//! allowed.
//!
//! The choice is made once, when a server starts. A kernel that is too old, a container that
//! forbids the system calls (seccomp), and a limit on locked memory all show only in an attempt, so
//! a ring is created and used once.

use std::ffi::OsStr;
use std::io;

use crate::reactor::ring::Ring;

/// The environment variable that [`Backend::Auto`] reads.
pub(crate) const VARIABLE: &str = "MARMOTA_HTTP_BACKEND";

/// The reason why a backend cannot be used. [`crate::ServerError`] is its public form.
#[derive(Debug)]
pub(crate) enum BackendError {
    /// The environment variable names an unknown backend.
    Unknown(String),
    /// The kernel does not allow a ring.
    Ring(io::Error),
    /// The kernel has no room for another poller, or no epoll.
    Poller(io::Error),
}

/// The way in which a server's threads wait, read and write. Answers are the same with all.
///
/// io_uring needs fewer system calls: one per turn of a thread instead of two per connection that
/// is ready. Choose it by name only if the server must not start without it.
///
/// ```
/// use marmota_http::{Backend, Router, Server};
/// // A server that starts in every container.
/// let server = Server::bind("127.0.0.1:0")?.backend(Backend::Epoll).start(Router::new())?;
/// # drop(server);
/// assert_eq!(Backend::default(), Backend::Auto);
/// # Ok::<(), marmota_http::ServerError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The value of the environment variable `MARMOTA_HTTP_BACKEND` (`ring`, `epoll`, `portable`
    /// or `auto`). If it is unset, empty or `auto`: io_uring where the kernel supports and allows
    /// it, otherwise epoll; on other systems than Linux, the portable backend. The default.
    #[default]
    Auto,
    /// io_uring, from Linux 6.1 on. Many containers forbid it; the server then does not start.
    Ring,
    /// epoll, available on every Linux.
    Epoll,
    /// The readiness that the system has: kqueue on macOS and BSD, epoll on Linux. It needs more
    /// system calls than [`Backend::Epoll`]; use it where that is missing.
    Portable,
}

impl Backend {
    /// Parses the value of the environment variable.
    fn named(value: &OsStr) -> Result<Self, BackendError> {
        match value.to_str() {
            Some("" | "auto") => Ok(Self::Auto),
            Some("ring") => Ok(Self::Ring),
            Some("epoll") => Ok(Self::Epoll),
            Some("portable") => Ok(Self::Portable),
            _ => Err(BackendError::Unknown(value.to_string_lossy().into_owned())),
        }
    }

    /// Decides which backend is used, from the setting, the environment and what the system allows.
    pub(crate) fn choose(self) -> Result<ChosenBackend, BackendError> {
        let wanted = match self {
            Self::Auto => match std::env::var_os(VARIABLE) {
                None => Self::Auto,
                Some(value) => Self::named(&value)?,
            },
            chosen => chosen,
        };
        match wanted {
            Self::Portable => Ok(ChosenBackend::Portable),
            Self::Auto if !cfg!(target_os = "linux") => Ok(ChosenBackend::Portable),
            Self::Epoll => Ok(ChosenBackend::Epoll),
            Self::Ring => probe().map(|()| ChosenBackend::Ring).map_err(BackendError::Ring),
            Self::Auto => Ok(probe().map_or(ChosenBackend::Epoll, |()| ChosenBackend::RingOrEpoll)),
        }
    }
}

/// The backend of a server's threads, after a check of what the system allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChosenBackend {
    /// A thread that cannot create a ring does not start: the backend was chosen by name.
    Ring,
    /// A thread that cannot create a ring (limit on memory or files reached) uses epoll.
    RingOrEpoll,
    /// The thread uses epoll.
    Epoll,
    /// The thread uses the portable backend.
    Portable,
}

impl ChosenBackend {
    /// Returns the choice as it is reported to users.
    pub(crate) fn backend(self) -> Backend {
        match self {
            Self::Ring | Self::RingOrEpoll => Backend::Ring,
            Self::Epoll => Backend::Epoll,
            Self::Portable => Backend::Portable,
        }
    }
}

/// Tries a ring on a separate thread: when a ring ends, the kernel interrupts the thread that used
/// it, which must not make the caller's system calls fail.
fn probe() -> io::Result<()> {
    let thread = std::thread::Builder::new().name("marmota-probe".to_owned());
    let probed = thread.spawn(Ring::probe)?.join();
    probed.unwrap_or_else(|_| Err(io::Error::other("the attempt panicked")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_has_one_name() {
        let named = |name: &str| Backend::named(OsStr::new(name));
        assert_eq!(named("ring").unwrap(), Backend::Ring);
        assert_eq!(named("epoll").unwrap(), Backend::Epoll);
        assert_eq!(named("portable").unwrap(), Backend::Portable);
        assert_eq!(named("auto").unwrap(), Backend::Auto);
        let error = named("io_uring").unwrap_err();
        assert!(matches!(error, BackendError::Unknown(name) if name == "io_uring"));
        assert_eq!(Backend::Epoll.choose().unwrap(), ChosenBackend::Epoll);
    }
}
