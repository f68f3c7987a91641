//! Hears what others write, and tells a store's cache: one change stream over
//! the database, on servers that have them.
//!
//! It begins where the last one ended, by its token. While there is none, and
//! when the server has been silent for too long, the store is told that nothing
//! is heard, and keeps no rows. The driver makes a stream that breaks anew by
//! itself; where another server has become the primary, what the last one had
//! not passed on to a majority may be gone, of which no stream tells: then
//! nothing that was kept is known any more.

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

/// How long the server waits for something to tell before it says that there is nothing.
const PULSE: Duration = Duration::from_secs(1);
/// A server that does not answer for so long is not heard.
const PULSE_MAX: Duration = Duration::from_secs(5);
/// The first pause between two attempts to listen again; each is twice as long
/// as the last.
const PAUSE: Duration = Duration::from_millis(25);
const PAUSE_MAX: Duration = Duration::from_secs(1);

type Stream = ChangeStream<ChangeStreamEvent<Document>>;

/// What is needed to listen.
struct Listener {
    database: Database,
    tables: Vec<Arc<Table>>,
    feed: Arc<InvalidationFeed>,
    /// Where the stream is to go on.
    token: Option<ResumeToken>,
}

/// Refuses a database whose rows would be read from servers that may be behind
/// the stream.
pub(crate) fn check(database: &Database) -> Result<()> {
    match database.driver.selection_criteria() {
        None | Some(SelectionCriteria::ReadPreference(ReadPreference::Primary)) => Ok(()),
        Some(_) => {
            let message = "a cache needs to read from the primary, and the URL's `readPreference` \
                           asks for others, which may be behind: leave one of the two away";
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}

/// Begins to listen; what this gives goes on with that for ever. When it
/// returns, everything written from then on is heard.
///
/// # Errors
/// What keeps it from it.
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
            "a cache needs to hear what others write, by a change stream, which could not be \
             opened: {}",
            error.message()
        );
        Error::new(error.kind(), message).with_source(error)
    })?;
    drop(pause);
    Ok(async move { listener.run(stream).await })
}

impl Listener {
    /// Opens the stream, behind its last event if there was one.
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

    /// Listens until the stream is lost, or silent for too long.
    async fn listen(&mut self, stream: &mut Stream) {
        while stream.is_alive() {
            match tokio::time::timeout(PULSE_MAX, stream.next_if_any()).await {
                Ok(Ok(Some(event))) => self.tell(&event),
                Ok(Ok(None)) => {}
                Ok(Err(error)) => {
                    log::debug!("no feed from MongoDB: {error}");
                    return;
                }
                Err(_) => {
                    log::debug!("no feed from MongoDB: it has not answered");
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

    fn tell(&self, event: &ChangeStreamEvent<Document>) {
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

    /// Nothing that the store has kept is known any more.
    fn forget(&self) {
        drop(self.feed.pause(&self.tables));
    }

    /// Tries until it listens again.
    async fn watch_again(&mut self) -> Stream {
        let mut backoff = Backoff::new(PAUSE, PAUSE_MAX);
        loop {
            match tokio::time::timeout(PULSE_MAX, self.watch()).await {
                Ok(Ok(stream)) => return stream,
                // What was there is not known any more: whatever it was, the
                // store is told that it knows nothing.
                Ok(Err(error)) if is_refused(&error) && self.token.is_some() => self.token = None,
                Ok(Err(error)) if is_refused(&error) => {
                    log::warn!("rows are not cached: {error}");
                }
                Ok(Err(error)) => log::debug!("no feed from MongoDB: {error}"),
                Err(_) => log::debug!("no feed from MongoDB: it has not answered"),
            }
            tokio::time::sleep(backoff.pause()).await;
        }
    }
}

/// True if the server has said no.
fn is_refused(error: &mongodb::error::Error) -> bool {
    matches!(&*error.kind, Fault::Command(_))
}
