//! The scheduling policy of a server's thread (sched(7)).
//!
//! The code is `unsafe` because no well-maintained safe crate has these calls. It takes and returns
//! numbers and touches no memory but one local value.

use std::io;

/// Gives the calling thread the policy SCHED_BATCH: when it wakes, it does not preempt the thread
/// that runs on its core. A policy that was chosen for the process, by `chrt` for example, is kept.
pub(crate) fn set_batch() -> io::Result<()> {
    // SAFETY: takes and returns a number; 0 is the calling thread.
    let policy = unsafe { libc::sched_getscheduler(0) };
    if policy != libc::SCHED_OTHER {
        return if policy < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    }
    let usual = libc::sched_param { sched_priority: 0 };
    // SAFETY: `usual` lives through the call, which only reads it; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const usual) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
