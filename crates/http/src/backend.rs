//! Which of the kernel's two ways of waiting a server uses, and finding out whether the better
//! one is allowed.

use std::io;

use crate::ring::Ring;
use crate::server::ServerError;

/// The variable of the environment that [`Backend::Auto`] looks at.
pub(crate) const VARIABLE: &str = "MARMOTA_HTTP_BACKEND";

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
    /// The backend to use, never `Auto`.
    pub(crate) fn settle(self) -> Result<Self, ServerError> {
        let wanted = match self {
            Self::Auto => match std::env::var_os(VARIABLE) {
                None => Self::Auto,
                Some(value) => match value.to_str() {
                    Some("" | "auto") => Self::Auto,
                    Some("ring") => Self::Ring,
                    Some("epoll") => Self::Epoll,
                    _ => return Err(ServerError::Backend(value.to_string_lossy().into_owned())),
                },
            },
            told => told,
        };
        match wanted {
            Self::Epoll => Ok(Self::Epoll),
            Self::Ring => probe().map(|()| Self::Ring).map_err(ServerError::Ring),
            Self::Auto => Ok(probe().map_or(Self::Epoll, |()| Self::Ring)),
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
