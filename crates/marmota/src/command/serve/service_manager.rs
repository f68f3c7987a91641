//! Messages to the service manager (sd_notify(3)): systemd with `Type=notify` learns when the server
//! is ready, reloads and ends, and with `WatchdogSec=` whether its threads still handle events.
//!
//! Without `NOTIFY_SOCKET` in the environment nothing is sent.

use std::time::Duration;

use marmota_http::RunningServer;
use sd_notify::NotifyState;

/// Reports that the server is ready, and starts the watchdog if the manager wants one.
pub(super) fn started(running: &RunningServer) {
    send(&[NotifyState::Ready, NotifyState::Status("serving")]);
    let Some(interval) = sd_notify::watchdog_enabled() else { return };
    let handle = running.shutdown_handle();
    // Half of the interval, as sd_watchdog_enabled(3) recommends.
    let period = interval / 2;
    let watch = move || {
        while !handle.is_shutting_down() {
            // If a thread is blocked, no message is sent, and systemd restarts the program.
            if handle.is_responsive(period) {
                send(&[NotifyState::Watchdog]);
            } else {
                log::error!(target: "marmota", "watchdog: a thread handled no event for {period:?}");
            }
            std::thread::sleep(period.max(Duration::from_millis(1)));
        }
    };
    let thread = std::thread::Builder::new().name("marmota-watchdog".to_owned()).spawn(watch);
    if let Err(error) = thread {
        log::error!(target: "marmota", "the thread of the watchdog cannot be started: {error}");
    }
}

/// Reports the start of a reload; [`reloaded`] ends it.
pub(super) fn reloading() {
    // The time is required by `Type=notify-reload`.
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(_) => send(&[NotifyState::Reloading]),
    }
}

/// Reports that the settings have been read again.
pub(super) fn reloaded() {
    send(&[NotifyState::Ready]);
}

/// Reports that the server has stopped serving, and closes its database.
pub(super) fn stopping() {
    send(&[NotifyState::Stopping]);
}

/// Sends a message. A manager that cannot be reached is reported, and the server continues.
fn send(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        log::warn!(target: "marmota", "the service manager cannot be reached: {error}");
    }
}
