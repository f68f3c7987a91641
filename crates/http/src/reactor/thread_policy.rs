//! The scheduling policy of a server's thread (sched(7)).
//!
//! The code is `unsafe` because no well-maintained safe crate has these calls. It takes and returns
//! numbers and touches no memory but local values.

use std::io;
use std::mem::MaybeUninit;

/// Gives the calling thread the policy SCHED_BATCH: when it wakes, it does not preempt the thread
/// that runs on its core. A policy that was chosen for the process, by `chrt` for example, is kept.
pub(crate) fn set_batch() -> io::Result<()> {
    let mut policy = 0;
    let mut usual = MaybeUninit::<libc::sched_param>::zeroed();
    // musl has no sched_getscheduler(2).
    // SAFETY: `policy` and `usual` live through the call, which writes them.
    let code = unsafe {
        libc::pthread_getschedparam(libc::pthread_self(), &raw mut policy, usual.as_mut_ptr())
    };
    if code != 0 {
        return Err(io::Error::from_raw_os_error(code));
    }
    if policy != libc::SCHED_OTHER {
        return Ok(());
    }
    // SAFETY: `usual` lives through the call, which only reads it; zeroes are valid, with or without
    // what the call before has written.
    let code = unsafe {
        libc::pthread_setschedparam(libc::pthread_self(), libc::SCHED_BATCH, usual.as_ptr())
    };
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}
