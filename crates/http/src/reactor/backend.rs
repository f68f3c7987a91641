//! Which of the kernel's two ways of waiting a server uses, and finding out whether the better
//! one is allowed.

use std::ffi::OsStr;
use std::io;

use crate::reactor::ring::Ring;

/// The variable of the environment that [`Backend::Auto`] looks at.
pub(crate) const VARIABLE: &str = "MARMOTA_HTTP_BACKEND";

/// A backend that cannot be used.
#[derive(Debug)]
pub(crate) enum BackendError {
    /// The environment names this one, which there is not.
    Unknown(String),
    Ring(io::Error),
    Epoll(io::Error),
}

/// How a server's threads wait, read and write. Answers are the same on both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// What the environment's `MARMOTA_HTTP_BACKEND` says (`ring`, `epoll` or `auto`); without
    /// it the ring where the kernel has it and allows it, else epoll.
    #[default]
    Auto,
    /// io_uring, from Linux 6.1 on; many containers forbid it.
    Ring,
    /// epoll, which every Linux has.
    Epoll,
}

impl Backend {
    fn named(value: &OsStr) -> Result<Self, BackendError> {
        match value.to_str() {
            Some("" | "auto") => Ok(Self::Auto),
            Some("ring") => Ok(Self::Ring),
            Some("epoll") => Ok(Self::Epoll),
            _ => Err(BackendError::Unknown(value.to_string_lossy().into_owned())),
        }
    }

    /// The backend to use.
    pub(crate) fn settle(self) -> Result<Settled, BackendError> {
        let wanted = match self {
            Self::Auto => match std::env::var_os(VARIABLE) {
                None => Self::Auto,
                Some(value) => Self::named(&value)?,
            },
            told => told,
        };
        match wanted {
            Self::Epoll => Ok(Settled::Epoll),
            Self::Ring => probe().map(|()| Settled::Ring).map_err(BackendError::Ring),
            Self::Auto => Ok(probe().map_or(Settled::Epoll, |()| Settled::RingOrEpoll)),
        }
    }
}

/// What a server's threads wait by, after it was looked what the system allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// A thread that gets no ring does not start.
    Ring,
    /// A thread that gets no ring, as a limit on memory or files is reached, serves by epoll.
    RingOrEpoll,
    Epoll,
}

impl Settled {
    pub(crate) fn backend(self) -> Backend {
        match self {
            Self::Ring | Self::RingOrEpoll => Backend::Ring,
            Self::Epoll => Backend::Epoll,
        }
    }
}

/// Tries a ring on a thread of its own: the kernel interrupts the thread that has used a ring
/// when the ring ends, and the caller's system calls are not to fail by that.
fn probe() -> io::Result<()> {
    let thread = std::thread::Builder::new().name("marmota-probe".to_owned());
    let probed = thread.spawn(Ring::probe)?.join();
    probed.unwrap_or_else(|_| Err(io::Error::other("trying it panicked")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_has_one_name() {
        let named = |name: &str| Backend::named(OsStr::new(name));
        assert_eq!(named("ring").unwrap(), Backend::Ring);
        assert_eq!(named("epoll").unwrap(), Backend::Epoll);
        assert_eq!(named("auto").unwrap(), Backend::Auto);
        let error = named("io_uring").unwrap_err();
        assert!(matches!(error, BackendError::Unknown(name) if name == "io_uring"));
        assert_eq!(Backend::Epoll.settle().unwrap(), Settled::Epoll);
    }
}
