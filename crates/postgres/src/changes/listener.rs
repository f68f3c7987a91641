//! Receives the writes of others and notifies a store's cache: a separate connection, and a thread
//! that sleeps on it.
//!
//! When the connection is lost or the server has been silent for too long, the feed is paused and
//! the store caches no rows until the connection is established again.

pub(crate) mod notify;

use std::sync::Arc;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_store::InvalidationFeed;
use marmota_store::backoff::Backoff;
use parking_lot::{Condvar, Mutex};

use self::notify::CHANNEL;
use crate::connection::Connection;
use crate::connection::connector::{self, Purpose};
use crate::connection::query::Texts;
use crate::connection::socket::Stream;
use crate::options::PostgresOptions;
use crate::wire::backend::BackendMessage;

/// After this time of silence, the server is queried.
const PULSE: Duration = Duration::from_secs(1);
/// After this time without an answer, the connection counts as lost.
const PULSE_MAX: Duration = Duration::from_secs(3);
/// The first pause between two attempts to listen again, and the longest.
const PAUSE: Duration = Duration::from_millis(25);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The listening thread. It ends when this is dropped.
pub(crate) struct Listener {
    inside: Arc<Inside>,
    thread: Option<JoinHandle<()>>,
}

struct Inside {
    options: Arc<PostgresOptions>,
    tables: Vec<Arc<Table>>,
    feed: Arc<InvalidationFeed>,
    state: Mutex<State>,
    /// Notified when it must end.
    ends: Condvar,
}

#[derive(Default)]
struct State {
    /// The stream of its connection.
    stream: Option<Arc<Stream>>,
    has_ended: bool,
}

impl Listener {
    /// Starts to listen. All writes after this function returns are received.
    ///
    /// # Errors
    /// The error that prevented it.
    pub(crate) fn start(
        options: &Arc<PostgresOptions>,
        tables: &[Arc<Table>],
        feed: &Arc<InvalidationFeed>,
    ) -> Result<Self> {
        let inside = Arc::new(Inside {
            options: Arc::clone(options),
            tables: tables.to_vec(),
            feed: Arc::clone(feed),
            state: Mutex::default(),
            ends: Condvar::new(),
        });
        let pause = feed.pause(tables);
        let connection = inside.connect(true)?;
        drop(pause);
        let shared = Arc::clone(&inside);
        let thread = std::thread::Builder::new()
            .name("marmota-postgres-listen".to_owned())
            .spawn(move || shared.run(connection))
            .map_err(|error| Error::from(error).with_source("a thread that listens"))?;
        Ok(Self { inside, thread: Some(thread) })
    }
}

impl Drop for Listener {
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
    /// Connects and listens. Creates missing triggers if `makes` is true; later they are not
    /// created again, since they were dropped on purpose.
    fn connect(&self, makes: bool) -> Result<Connection> {
        let options = &self.options;
        let made = connector::connect(options, Purpose::Exclusive);
        let mut connection = made.map_err(|refused| refused.error())?;
        self.state.lock().stream = Some(connection.stream());
        if makes {
            notify::prepare(&mut connection, &self.tables, &options.own, options)?;
        }
        let (feed, own) = (Arc::clone(&self.feed), options.own.clone());
        connection.hear(Box::new(move |payload| match notify::read(payload) {
            Some((writer, _)) if own.knows(writer) => {}
            Some((_, table)) => feed.invalidate(table),
            None => {}
        }));
        let mut silent = None;
        let find = notify::find_silent(&self.tables);
        let asked = connection.query(&find, |row| silent = Some(row.text(0).to_owned()));
        asked.map_err(|error| error.into_error(options))?;
        if let Some(table) = silent {
            return Err(notify::silent(&table));
        }
        let listens = connection.query(&format!("LISTEN {CHANNEL}"), |_| {});
        listens.map_err(|error| error.into_error(options))?;
        Ok(connection)
    }

    fn run(&self, mut connection: Connection) {
        loop {
            let silent = self.listen(&mut connection);
            let pause = self.feed.pause(&self.tables);
            let told = silent.and_then(|table| warn_of(&notify::silent(&table), None));
            if let Some(loss) = connection.loss() {
                log::debug!(
                    "no notifications from PostgreSQL at {}: {}",
                    self.options.place(),
                    loss.0
                );
            }
            drop(connection);
            match self.connect_again(told) {
                Some(again) => connection = again,
                None => return,
            }
            drop(pause);
        }
    }

    /// Listens until the connection is lost or silent for too long. Returns the name of a table
    /// whose writes are no longer announced.
    fn listen(&self, connection: &mut Connection) -> Option<String> {
        let (mut asked, mut answered) = (None, Instant::now());
        let (find, mut silent) = (notify::find_silent(&self.tables), None);
        while connection.loss().is_none() && !self.state.lock().has_ended {
            match asked {
                None if answered.elapsed() < PULSE => connection.read_on(),
                None => {
                    let number = connection.submit(|sending| sending.query(&find));
                    asked = Some((number, Instant::now() + PULSE_MAX));
                }
                Some((number, until)) => {
                    let mut take = |message: BackendMessage<'_>| {
                        if let BackendMessage::DataRow(row) = message {
                            silent = Some(Texts::of(row).text(0).to_owned());
                        }
                    };
                    match connection.answer(number, &mut take) {
                        Poll::Ready(_) if silent.is_some() => return silent,
                        Poll::Ready(_) => (asked, answered) = (None, Instant::now()),
                        Poll::Pending if Instant::now() >= until => return None,
                        Poll::Pending => {}
                    }
                }
            }
            if connection.loss().is_none() {
                connection.sleep(PULSE);
            }
        }
        None
    }

    /// Retries until it listens again. Returns `None` if it must end.
    fn connect_again(&self, mut told: Option<String>) -> Option<Connection> {
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
                Err(error) if matches!(error.kind(), ErrorKind::Refused | ErrorKind::Lost) => {
                    log::debug!("{error}");
                }
                Err(error) => told = warn_of(&error, told.as_deref()),
            }
        }
    }
}

/// Logs the reason why rows are not cached, unless it equals `told`, the last one logged.
fn warn_of(error: &Error, told: Option<&str>) -> Option<String> {
    let words = error.to_string();
    if told != Some(&*words) {
        log::warn!("rows are not cached: {words}");
    }
    Some(words)
}
