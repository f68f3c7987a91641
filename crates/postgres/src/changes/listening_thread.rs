//! A separate connection that listens for notifications, and a thread that sleeps on it.
//!
//! After a time of silence the server is queried. If the connection is lost, or does not answer, the
//! thread connects again.

use std::sync::Arc;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use marmota_model::{Error, Result};
use marmota_store::backoff::Backoff;
use parking_lot::{Condvar, Mutex};

use crate::connection::Connection;
use crate::connection::connector::{self, Purpose};
use crate::connection::query::Texts;
use crate::connection::socket::Stream;
use crate::options::PostgresOptions;
use crate::wire::backend::BackendMessage;

/// After this time without an answer, the connection counts as lost.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// The first pause between two attempts to listen again, and the longest.
const PAUSE: Duration = Duration::from_millis(25);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The receiver of the notifications of a [`ListeningThread`].
pub(super) trait Subscriber: Send + Sync + 'static {
    /// The name of the thread.
    const THREAD: &'static str;
    /// After this time of silence, the server is queried.
    const SILENCE_MAX: Duration;
    /// Is kept from the loss of a connection until there is another one.
    type Loss;

    /// Prepares a new connection, and listens. `is_first` is true for the connection of the start.
    ///
    /// # Errors
    /// Those of the server.
    fn listen(&self, connection: &mut Connection, is_first: bool) -> Result<()>;

    /// Returns the statement that queries the server after a silence.
    fn query(&self) -> &str;

    /// Receives a row of the query. The connection is then given up.
    fn failed(&self, row: &Texts);

    /// The connection is lost.
    fn lost(&self, connection: &Connection) -> Self::Loss;

    /// Another connection listens.
    fn restored(&self, loss: Self::Loss);

    /// The server cannot be reached, or refuses to listen.
    fn refused(&self, error: &Error);
}

/// The thread. It ends when this is dropped.
pub(super) struct ListeningThread<S> {
    inside: Arc<Inside<S>>,
    thread: Option<JoinHandle<()>>,
}

struct Inside<S> {
    options: Arc<PostgresOptions>,
    subscriber: S,
    state: Mutex<ThreadState>,
    /// Notified when it must end.
    ends: Condvar,
}

#[derive(Default)]
struct ThreadState {
    /// The stream of its connection.
    stream: Option<Arc<Stream>>,
    has_ended: bool,
}

impl<S: Subscriber> ListeningThread<S> {
    /// Starts to listen. All notifications after this function returns are received.
    ///
    /// # Errors
    /// The error that prevented it.
    pub(super) fn start(options: &Arc<PostgresOptions>, subscriber: S) -> Result<Self> {
        let inside = Arc::new(Inside {
            options: Arc::clone(options),
            subscriber,
            state: Mutex::default(),
            ends: Condvar::new(),
        });
        let connection = inside.connect(true)?;
        let shared = Arc::clone(&inside);
        let thread = std::thread::Builder::new()
            .name(S::THREAD.to_owned())
            .spawn(move || shared.run(connection))
            .map_err(|error| Error::from(error).with_source("a thread that listens"))?;
        Ok(Self { inside, thread: Some(thread) })
    }
}

impl<S> Drop for ListeningThread<S> {
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

impl<S: Subscriber> Inside<S> {
    fn connect(&self, is_first: bool) -> Result<Connection> {
        let made = connector::connect(&self.options, Purpose::Exclusive);
        let mut connection = made.map_err(|refused| refused.error())?;
        self.state.lock().stream = Some(connection.stream());
        self.subscriber.listen(&mut connection, is_first)?;
        Ok(connection)
    }

    fn run(&self, mut connection: Connection) {
        loop {
            self.receive(&mut connection);
            let loss = self.subscriber.lost(&connection);
            drop(connection);
            match self.connect_again() {
                Some(again) => connection = again,
                None => return,
            }
            self.subscriber.restored(loss);
        }
    }

    /// Receives notifications until the connection is lost or silent for too long.
    fn receive(&self, connection: &mut Connection) {
        let (mut asked, mut answered) = (None, Instant::now());
        while connection.loss().is_none() && !self.state.lock().has_ended {
            match asked {
                None if answered.elapsed() < S::SILENCE_MAX => connection.read_on(),
                None => {
                    let query = self.subscriber.query();
                    let number = connection.submit(|sending| sending.query(query));
                    asked = Some((number, Instant::now() + ANSWER_MAX));
                }
                Some((number, until)) => {
                    let mut has_failed = false;
                    let mut take = |message: BackendMessage<'_>| {
                        if let BackendMessage::DataRow(row) = message {
                            has_failed = true;
                            self.subscriber.failed(&Texts::of(row));
                        }
                    };
                    match connection.answer(number, &mut take) {
                        Poll::Ready(_) if has_failed => return,
                        Poll::Ready(_) => (asked, answered) = (None, Instant::now()),
                        Poll::Pending if Instant::now() >= until => return,
                        Poll::Pending => {}
                    }
                }
            }
            if connection.loss().is_none() {
                connection.sleep(S::SILENCE_MAX.min(ANSWER_MAX));
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
            match self.connect(false) {
                Ok(connection) if !self.state.lock().has_ended => return Some(connection),
                Ok(_) => return None,
                Err(error) => self.subscriber.refused(&error),
            }
        }
    }
}
