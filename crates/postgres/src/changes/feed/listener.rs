//! Receives the notifications of other processes' commits: a separate connection, and a thread that
//! sleeps on it. While the connection is lost, the store finds commits by polling.

use std::sync::Arc;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use marmota_model::{Error, Result};
use marmota_store::backoff::Backoff;
use marmota_store::change::ChangeRecorder;
use parking_lot::{Condvar, Mutex};

use super::CHANNEL;
use crate::connection::Connection;
use crate::connection::connector::{self, Purpose};
use crate::connection::socket::Stream;
use crate::options::PostgresOptions;

/// After this time of silence, the server is queried.
const PULSE: Duration = Duration::from_secs(5);
/// After this time without an answer, the connection counts as lost.
const PULSE_MAX: Duration = Duration::from_secs(3);
/// The first pause between two attempts to listen again, and the longest.
const PAUSE: Duration = Duration::from_millis(25);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The listening thread. It ends when this is dropped.
pub(super) struct FeedListener {
    inside: Arc<Inside>,
    thread: Option<JoinHandle<()>>,
}

struct Inside {
    options: Arc<PostgresOptions>,
    recorder: Arc<ChangeRecorder>,
    /// The name of this engine: its own notifications are ignored.
    name: String,
    state: Mutex<ListenerState>,
    /// Notified when it must end.
    ends: Condvar,
}

#[derive(Default)]
struct ListenerState {
    /// The stream of its connection.
    stream: Option<Arc<Stream>>,
    has_ended: bool,
}

impl FeedListener {
    /// Starts to listen.
    ///
    /// # Errors
    /// The error that prevented it.
    pub(super) fn start(
        options: &Arc<PostgresOptions>,
        recorder: &Arc<ChangeRecorder>,
        name: &str,
    ) -> Result<Self> {
        let inside = Arc::new(Inside {
            options: Arc::clone(options),
            recorder: Arc::clone(recorder),
            name: name.to_owned(),
            state: Mutex::default(),
            ends: Condvar::new(),
        });
        let connection = inside.connect()?;
        let shared = Arc::clone(&inside);
        let thread = std::thread::Builder::new()
            .name("marmota-postgres-feed".to_owned())
            .spawn(move || shared.run(connection))
            .map_err(|error| Error::from(error).with_source("a thread that listens"))?;
        Ok(Self { inside, thread: Some(thread) })
    }
}

impl Drop for FeedListener {
    fn drop(&mut self) {
        let mut state = self.inside.state.lock();
        state.has_ended = true;
        if let Some(stream) = &state.stream {
            // The shutdown of its socket wakes the thread; a lost connection has ended anyway.
            let _ = rustix::net::shutdown(&**stream, rustix::net::Shutdown::Both);
        }
        drop(state);
        self.inside.ends.notify_all();
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, nothing would remain to do.
            let _ = thread.join();
        }
    }
}

impl Inside {
    fn connect(&self) -> Result<Connection> {
        let made = connector::connect(&self.options, Purpose::Exclusive);
        let mut connection = made.map_err(|refused| refused.error())?;
        self.state.lock().stream = Some(connection.stream());
        let (recorder, name) = (Arc::clone(&self.recorder), self.name.clone());
        connection.hear(Box::new(move |payload| {
            if payload != name {
                recorder.changed();
            }
        }));
        let listens = connection.query(&format!("LISTEN {CHANNEL}"), |_| {});
        listens.map_err(|error| error.into_error(&self.options))?;
        Ok(connection)
    }

    fn run(&self, mut connection: Connection) {
        loop {
            self.listen(&mut connection);
            drop(connection);
            match self.connect_again() {
                Some(again) => connection = again,
                None => return,
            }
            self.recorder.changed();
        }
    }

    /// Listens until the connection is lost or silent for too long.
    fn listen(&self, connection: &mut Connection) {
        let (mut asked, mut answered) = (None, Instant::now());
        while connection.loss().is_none() && !self.state.lock().has_ended {
            match asked {
                None if answered.elapsed() < PULSE => connection.read_on(),
                None => {
                    let number = connection.submit(|sending| sending.query("SELECT"));
                    asked = Some((number, Instant::now() + PULSE_MAX));
                }
                Some((number, until)) => match connection.answer(number, &mut |_| {}) {
                    Poll::Ready(_) => (asked, answered) = (None, Instant::now()),
                    Poll::Pending if Instant::now() >= until => return,
                    Poll::Pending => {}
                },
            }
            if connection.loss().is_none() {
                connection.sleep(PULSE_MAX);
            }
        }
    }

    /// Retries until it listens again. Returns `None` if it must end.
    fn connect_again(&self) -> Option<Connection> {
        let mut backoff = Backoff::new(PAUSE, PAUSE_MAX);
        loop {
            let mut state = self.state.lock();
            if !state.has_ended {
                self.ends.wait_for(&mut state, backoff.pause());
            }
            if state.has_ended {
                return None;
            }
            drop(state);
            match self.connect() {
                Ok(connection) if !self.state.lock().has_ended => return Some(connection),
                Ok(_) => return None,
                Err(error) => log::debug!("no notifications of commits: {error}"),
            }
        }
    }
}
