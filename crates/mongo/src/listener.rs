//! Receives the writes of others and notifies a store's cache: one change stream over the database,
//! on servers that have them.
//!
//! A new stream resumes after the previous one, by its token. While no stream is open, and after
//! too long a silence of the server, the feed is paused and the store caches no rows. The driver
//! reopens a broken stream itself. When another server has become the primary, writes that the last
//! one had not replicated to a majority may be lost, which no stream reports: then the whole cache
//! is invalidated.

use std::sync::Arc;
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_store::InvalidationFeed;
use marmota_store::backoff::Backoff;
use mongodb::bson::{Document, doc};
use mongodb::change_stream::ChangeStream;
use mongodb::change_stream::event::{ChangeStreamEvent, OperationType, ResumeToken};
use mongodb::error::ErrorKind as Fault;
use mongodb::options::{ReadPreference, SelectionCriteria};

use crate::database::Database;
use crate::fault;

/// The longest time that the server waits for events before it sends an empty answer.
const PULSE: Duration = Duration::from_secs(1);
/// After this time without an answer, the stream counts as lost.
const PULSE_MAX: Duration = Duration::from_secs(5);
/// The first pause between two attempts to reopen the stream; each is twice as long as the last.
const PAUSE: Duration = Duration::from_millis(25);
const PAUSE_MAX: Duration = Duration::from_secs(1);

type Stream = ChangeStream<ChangeStreamEvent<Document>>;

/// The state of the listener.
struct Listener {
    database: Database,
    tables: Vec<Arc<Table>>,
    feed: Arc<InvalidationFeed>,
    /// The position at which the stream resumes.
    token: Option<ResumeToken>,
}

/// Refuses a database that reads from servers which may lag the stream.
pub(crate) fn check(database: &Database) -> Result<()> {
    match database.driver.selection_criteria() {
        None | Some(SelectionCriteria::ReadPreference(ReadPreference::Primary)) => Ok(()),
        Some(_) => {
            let message = "a cache needs to read from the primary, but `readPreference` in the URL \
                           selects secondaries, which may lag: remove `readPreference` or the cache";
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}

/// Starts to listen. The returned future continues forever. All writes after this function returns
/// are received.
///
/// # Errors
/// The error that prevented it.
pub(crate) async fn start(
    database: Database,
    tables: Vec<Arc<Table>>,
    feed: Arc<InvalidationFeed>,
) -> Result<impl Future<Output = ()> + Send + 'static> {
    let mut listener = Listener { database, tables, feed, token: None };
    let pause = listener.feed.pause(&listener.tables);
    let stream = listener.watch().await.map_err(|error| {
        let error = fault::of(&error, false);
        let message = format!(
            "a cache needs notifications of writes by other programs, but the change stream for \
             them could not be opened: {}",
            error.message()
        );
        Error::new(error.kind(), message).with_source(error)
    })?;
    drop(pause);
    Ok(async move { listener.run(stream).await })
}

impl Listener {
    /// Opens the stream, after its last event if it had one.
    async fn watch(&mut self) -> mongodb::error::Result<Stream> {
        self.database.primaries.mark_unchanged();
        let names: Vec<&str> = self.tables.iter().map(|table| table.name()).collect();
        let ours = doc! { "$or": [
            { "ns.coll": { "$in": &names } },
            { "to.coll": { "$in": &names } },
            { "operationType": { "$in": ["dropDatabase", "invalidate"] } },
        ] };
        let members = doc! { "operationType": 1, "ns": 1, "to": 1 };
        let watch = self.database.driver.watch().max_await_time(PULSE);
        let watch = watch.pipeline([doc! { "$match": ours }, doc! { "$project": members }]);
        match self.token.clone() {
            Some(token) => watch.start_after(token).await,
            None => watch.await,
        }
    }

    async fn run(&mut self, mut stream: Stream) {
        loop {
            self.listen(&mut stream).await;
            let pause = self.feed.pause(&self.tables);
            drop(stream);
            stream = self.watch_again().await;
            drop(pause);
        }
    }

    /// Receives events until the stream is lost or silent for too long.
    async fn listen(&mut self, stream: &mut Stream) {
        while stream.is_alive() {
            match tokio::time::timeout(PULSE_MAX, stream.next_if_any()).await {
                Ok(Ok(Some(event))) => self.forward(&event),
                Ok(Ok(None)) => {}
                Ok(Err(error)) => {
                    log::debug!("no notifications from MongoDB: {error}");
                    return;
                }
                Err(_) => {
                    log::debug!("no notifications from MongoDB: the server did not answer in time");
                    return;
                }
            }
            self.token = stream.resume_token().or(self.token.take());
            if self.database.primaries.has_changed().unwrap_or(false) {
                self.database.primaries.mark_unchanged();
                self.forget();
            }
        }
    }

    fn forward(&self, event: &ChangeStreamEvent<Document>) {
        match event.operation_type {
            OperationType::DropDatabase | OperationType::Invalidate => self.forget(),
            _ => {
                for namespace in [&event.ns, &event.to].into_iter().flatten() {
                    if let Some(collection) = &namespace.coll {
                        self.feed.invalidate(collection);
                    }
                }
            }
        }
    }

    /// Invalidates everything that the store has cached.
    fn forget(&self) {
        drop(self.feed.pause(&self.tables));
    }

    /// Retries until the stream is open.
    async fn watch_again(&mut self) -> Stream {
        let mut backoff = Backoff::new(PAUSE, PAUSE_MAX);
        loop {
            match tokio::time::timeout(PULSE_MAX, self.watch()).await {
                Ok(Ok(stream)) => return stream,
                // The token is no longer valid. The pause of the feed has already invalidated the
                // cache.
                Ok(Err(error)) if is_refused(&error) && self.token.is_some() => self.token = None,
                Ok(Err(error)) if is_refused(&error) => {
                    log::warn!("rows are not cached: {error}");
                }
                Ok(Err(error)) => log::debug!("no notifications from MongoDB: {error}"),
                Err(_) => log::debug!(
                    "no notifications from MongoDB: the server did not answer in \
                                       time"
                ),
            }
            tokio::time::sleep(backoff.pause()).await;
        }
    }
}

/// Returns true if the server refused the command.
fn is_refused(error: &mongodb::error::Error) -> bool {
    matches!(&*error.kind, Fault::Command(_))
}
