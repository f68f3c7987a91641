//! The commands of the database that the engine needs.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;
use marmota_model::{Error, ErrorKind, Result};
use marmota_store::Durability;
use mongodb::bson::raw::{RawArrayBuf, RawDocument, cstr};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::raw_batch_cursor::{RawBatch, RawBatchCursor, SessionRawBatchCursor};
use mongodb::{Client, Database as Driver};
use tokio::sync::watch::Receiver;

use crate::fault;
use crate::shape::{HELD, Shape};
use crate::transaction::Transaction;
use crate::undo::UndoStep;

/// The most documents in one command's list of keys or rows.
pub(crate) const LIST_MAX: usize = 1_000;
/// The most rows per insert to FerretDB, which inserts this many at once and does not stop at the
/// first that fails.
const FERRET_LIST_MAX: usize = 100;
/// The most updates in one command to FerretDB: each keeps a connection to its SQLite file until
/// all have ended, and FerretDB waits forever when those run out.
const FERRET_UPDATES_MAX: usize = 16;
/// The most bytes of rows in one command.
const BYTES_MAX: usize = 8 << 20;

/// A database of a server.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    pub(crate) client: Client,
    pub(crate) driver: Driver,
    /// The URL's write concern.
    concern: Option<Document>,
    /// The time limit of a read on the server, in milliseconds. The server applies it even if the
    /// client has disconnected.
    pub(crate) time_max_ms: i32,
    /// True for FerretDB, which returns whole documents and does not write even one document
    /// atomically.
    pub(crate) is_ferret: bool,
    /// True for a replica set or a sharded cluster: it has transactions and change streams.
    pub(crate) is_replicated: bool,
    /// The number of times that a server became the primary.
    pub(crate) primaries: Receiver<u64>,
    /// The transaction that commands belong to.
    transaction: Option<Arc<Transaction>>,
}

/// The most documents per message of a read.
pub(crate) const BATCH_DOCUMENTS: i32 = 2_000;

/// The parameters of a `find`.
#[derive(Debug, Default)]
pub(crate) struct Find {
    pub(crate) collection: String,
    pub(crate) filter: Document,
    pub(crate) sort: Option<Document>,
    pub(crate) projection: Option<Document>,
    pub(crate) limit: Option<i64>,
}

/// The documents found, one message at a time.
pub(crate) enum Batches {
    Plain(Box<RawBatchCursor>),
    Inside(Box<SessionRawBatchCursor>, Arc<Transaction>),
}

impl Batches {
    pub(crate) async fn next(&mut self) -> Result<Option<RawBatch>> {
        match self {
            Self::Plain(cursor) => {
                let next = poll_fn(|context| Pin::new(&mut **cursor).poll_next(context)).await;
                next.transpose().map_err(|fault| fault::of(&fault, false))
            }
            Self::Inside(cursor, transaction) => transaction.next(cursor).await,
        }
    }
}

/// Calls `with` for each document of a message.
pub(crate) fn each_document(
    batch: &RawBatch,
    mut with: impl FnMut(&RawDocument) -> Result<()>,
) -> Result<()> {
    let broken = |error: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Protocol, format!("the MongoDB server answered otherwise: {error}"))
    };
    for document in batch.doc_slices().map_err(|error| broken(&error))? {
        let document = document.map_err(|error| broken(&error))?;
        match document.as_document() {
            Some(document) => with(document)?,
            None => return Err(broken(&"a row is no document")),
        }
    }
    Ok(())
}

pub(crate) fn raw(command: &Document) -> Result<RawDocumentBuf> {
    RawDocumentBuf::try_from(command).map_err(|error| {
        Error::new(ErrorKind::Invalid, format!("a value cannot be sent to MongoDB: {error}"))
    })
}

impl Database {
    pub(crate) fn new(client: Client, name: &str, primaries: Receiver<u64>) -> Self {
        let driver = client.database(name);
        let concern = driver.write_concern();
        let concern = concern.and_then(|it| mongodb::bson::serialize_to_document(it).ok());
        Self {
            client,
            driver,
            concern,
            time_max_ms: i32::MAX,
            is_ferret: false,
            is_replicated: false,
            primaries,
            transaction: None,
        }
    }

    /// Returns a copy whose commands belong to a transaction.
    pub(crate) fn inside(&self, transaction: &Arc<Transaction>) -> Self {
        Self { transaction: Some(Arc::clone(transaction)), ..self.clone() }
    }

    /// Returns the transaction that its commands belong to.
    pub(crate) const fn transaction(&self) -> Option<&Arc<Transaction>> {
        self.transaction.as_ref()
    }

    /// Returns the transaction if undo steps must be recorded.
    fn noting(&self) -> Option<&Arc<Transaction>> {
        self.transaction.as_ref().filter(|transaction| transaction.notes())
    }

    /// Returns a copy whose writes have this durability instead of the URL's.
    pub(crate) fn asking_for(&self, durability: Durability) -> Self {
        let mut concern = self.concern.clone().unwrap_or_default();
        // Always acknowledged; otherwise refusals would not be reported.
        concern.insert("j", durability == Durability::Full);
        Self { concern: Some(concern), ..self.clone() }
    }

    /// Finds documents. A broken connection is replaced once.
    pub(crate) async fn find(&self, find: &Find) -> Result<Batches> {
        let mut command = doc! {
            "find": &find.collection,
            "filter": &find.filter,
            "maxTimeMS": self.time_max_ms,
        };
        let mut set = |name: &str, value: Option<Bson>| {
            if let Some(value) = value {
                command.insert(name, value);
            }
        };
        set("sort", find.sort.clone().map(Bson::from));
        set("projection", find.projection.clone().map(Bson::from));
        set("limit", find.limit.map(Bson::from));
        // Without it, a message has up to 16 MB of documents, all of which one turn of a server's
        // thread would return.
        set("batchSize", (find.limit != Some(1)).then_some(Bson::from(BATCH_DOCUMENTS)));
        set("singleBatch", (find.limit == Some(1)).then_some(Bson::Boolean(true)));
        let command = raw(&command)?;
        self.find_raw(command).await
    }

    /// Like [`Self::find`] with an encoded command.
    pub(crate) async fn find_raw(&self, command: RawDocumentBuf) -> Result<Batches> {
        if let Some(transaction) = &self.transaction {
            let found = transaction.find(&self.driver, command).await?;
            return Ok(Batches::Inside(Box::new(found), Arc::clone(transaction)));
        }
        let mut is_second = false;
        loop {
            let sent = self.driver.run_raw_cursor_command(command.clone());
            let sent = match self.driver.selection_criteria() {
                Some(criteria) => sent.selection_criteria(criteria.clone()),
                None => sent,
            };
            match sent.batch().await {
                Ok(cursor) => return Ok(Batches::Plain(Box::new(cursor))),
                Err(fault) if fault::is_passing(&fault) && !is_second => is_second = true,
                Err(fault) => return Err(fault::of(&fault, false)),
            }
        }
    }

    /// Returns copies of all documents found.
    pub(crate) async fn fetch(&self, find: &Find) -> Result<Vec<RawDocumentBuf>> {
        let mut batches = self.find(find).await?;
        let mut found = Vec::new();
        while let Some(batch) = batches.next().await? {
            each_document(&batch, |document| {
                found.push(document.to_owned());
                Ok(())
            })?;
        }
        Ok(found)
    }

    /// Returns the number of documents.
    pub(crate) async fn count(&self, collection: &str, filter: Document) -> Result<u64> {
        if self.transaction.is_some() {
            return self.count_inside(collection, filter).await;
        }
        let command = doc! { "count": collection, "query": filter, "maxTimeMS": self.time_max_ms };
        let answer = self.command(&command, false).await?;
        Ok(number(&answer, "n"))
    }

    /// Like [`Self::count`] in a transaction, where servers do not accept `count`.
    async fn count_inside(&self, collection: &str, filter: Document) -> Result<u64> {
        let stages = vec![doc! { "$match": filter }, doc! { "$count": "n" }];
        let command = doc! { "aggregate": collection, "pipeline": stages, "cursor": {} };
        let mut batches = self.find_raw(raw(&command)?).await?;
        let mut count = 0;
        while let Some(batch) = batches.next().await? {
            each_document(&batch, |document| {
                count += Document::try_from(document).map_or(0, |document| number(&document, "n"));
                Ok(())
            })?;
        }
        Ok(count)
    }

    /// Returns true if a document matches.
    pub(crate) async fn has(&self, collection: &str, filter: Document) -> Result<bool> {
        let find = Find {
            collection: collection.to_owned(),
            filter,
            projection: Some(doc! { "_id": 1 }),
            limit: Some(1),
            ..Find::default()
        };
        Ok(!self.fetch(&find).await?.is_empty())
    }

    /// Runs a command and returns the answer.
    pub(crate) async fn command(&self, command: &Document, changes: bool) -> Result<Document> {
        let answer = self.driver.run_raw_command(raw(command)?).await;
        answer.map_err(|fault| fault::of(&fault, changes))
    }

    /// Runs a command that writes. The caller handles refused statements.
    async fn written(&self, mut command: RawDocumentBuf) -> Result<Written> {
        if let Some(transaction) = &self.transaction {
            let written = Written::of(transaction.run(&self.driver, command).await?)?;
            // The server has ended the transaction, for any refusal.
            return match (written.taken, written.failed) {
                (Some(_), _) => Err(transaction.fail(fault::lost_race())),
                (None, Some((_, error))) => Err(transaction.fail(error)),
                (None, None) => Ok(Written { taken: None, failed: None, ..written }),
            };
        }
        if let Some(concern) = &self.concern {
            command.append(cstr!("writeConcern"), raw(concern)?);
        }
        match self.driver.run_raw_command(command).await {
            Ok(answer) => Written::of(answer),
            Err(fault) if fault::is_taken(&fault) => {
                Ok(Written { taken: Some(None), ..Written::default() })
            }
            Err(fault) => Err(fault::of(&fault, true)),
        }
    }

    /// Inserts documents in order until one is refused.
    pub(crate) async fn insert(
        &self,
        collection: &str,
        documents: &[RawDocumentBuf],
    ) -> Result<Written> {
        let mut list = RawArrayBuf::new();
        for document in documents {
            list.push(document);
        }
        let mut command = RawDocumentBuf::new();
        command.append(cstr!("insert"), collection);
        command.append(cstr!("documents"), list);
        let written = self.written(command).await?;
        if let Some(transaction) = self.noting() {
            let ids = documents.iter().filter_map(|document| document.get("_id").ok().flatten());
            let ids = ids.filter_map(|id| Bson::try_from(id).ok());
            transaction.note(collection, ids.map(UndoStep::Inserted));
        }
        Ok(written)
    }

    /// Records the documents that a command is about to change.
    async fn note_changes(&self, collection: &str, filter: &Document, one: bool) -> Result<()> {
        let Some(transaction) = self.noting() else { return Ok(()) };
        let find = Find {
            collection: collection.to_owned(),
            filter: filter.clone(),
            limit: one.then_some(1),
            ..Find::default()
        };
        let found = self.fetch(&find).await?;
        transaction.note(collection, found.into_iter().map(UndoStep::Replaced));
        Ok(())
    }

    /// Restores a document.
    pub(crate) async fn put_back(&self, collection: &str, document: &RawDocument) -> Result<()> {
        let id = document.get("_id").ok().flatten().map(Bson::try_from);
        let (Some(Ok(id)), Ok(document)) = (id, Document::try_from(document)) else {
            return Ok(());
        };
        let put = doc! { "q": { "_id": id }, "u": document, "upsert": true };
        let command = doc! { "update": collection, "updates": [put] };
        self.written(raw(&command)?).await?.checked().map(drop)
    }

    /// Keeps a document until the end of the transaction by writing to it, so that a concurrent
    /// delete conflicts. Returns false if the document is missing.
    pub(crate) async fn hold(&self, collection: &str, filter: Document) -> Result<bool> {
        let update = doc! { "$inc": { HELD: 1_i64 } };
        let held = self.modify(collection, filter, update, doc! { "_id": 1 }).await?;
        Ok(matches!(held, Modified::Done(_)))
    }

    /// Like [`Self::hold`] for all documents with these keys.
    pub(crate) async fn hold_keys(&self, collection: &str, keys: &[Bson]) -> Result<()> {
        let filter = doc! { "_id": { "$in": keys } };
        self.note_changes(collection, &filter, false).await?;
        let update = doc! { "q": filter, "u": { "$inc": { HELD: 1_i64 } }, "multi": true };
        let command = doc! { "update": collection, "updates": [update] };
        self.written(raw(&command)?).await?.checked().map(drop)
    }

    /// Executes updates (each a query and a change) in order until one is refused.
    pub(crate) async fn update(&self, shape: &Shape, updates: Vec<Document>) -> Result<Written> {
        for update in &updates {
            if let Ok(filter) = update.get_document("q") {
                self.note_changes(shape.name(), filter, true).await?;
            }
        }
        let command = doc! { "update": shape.name(), "updates": updates };
        self.written(raw(&command)?).await
    }

    /// Changes one document and returns these members of the new version, or [`Modified::Missing`].
    pub(crate) async fn modify(
        &self,
        collection: &str,
        filter: Document,
        update: Document,
        members: Document,
    ) -> Result<Modified> {
        self.note_changes(collection, &filter, true).await?;
        let mut command = doc! {
            "findAndModify": collection,
            "query": filter,
            "update": update,
            "new": true,
        };
        if !self.is_ferret {
            command.insert("fields", members);
        }
        let mut written = self.written(raw(&command)?).await?.checked()?;
        Ok(match (written.taken.is_some(), written.answer.remove("value")) {
            (true, _) => Modified::Taken,
            (false, Some(Bson::Document(document))) => Modified::Done(document),
            _ => Modified::Missing,
        })
    }

    /// Deletes the documents that match a filter, or only one.
    pub(crate) async fn delete(
        &self,
        collection: &str,
        filter: Document,
        only_one: bool,
    ) -> Result<u64> {
        self.note_changes(collection, &filter, only_one).await?;
        let limit = i32::from(only_one);
        let command = doc! { "delete": collection, "deletes": [{ "q": filter, "limit": limit }] };
        let written = self.written(raw(&command)?).await?.checked()?;
        Ok(written.count)
    }

    /// Deletes the documents with these keys.
    pub(crate) async fn delete_keys(&self, collection: &str, keys: &[Bson]) -> Result<u64> {
        let mut count = 0;
        for keys in keys.chunks(LIST_MAX) {
            let filter = doc! { "_id": { "$in": keys } };
            count += self.delete(collection, filter, false).await?;
        }
        Ok(count)
    }
}

/// The result of a command that writes.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) count: u64,
    /// A unique value was taken, by the statement with this number if it is known. The statements
    /// before it took effect.
    pub(crate) taken: Option<Option<usize>>,
    /// The statement with this number failed for another reason. The statements before it took
    /// effect.
    pub(crate) failed: Option<(usize, Error)>,
    answer: Document,
}

impl Written {
    fn of(answer: Document) -> Result<Self> {
        let mut written = Self { count: number(&answer, "n"), ..Self::default() };
        if let Some(first) = answer.get_array("writeErrors").ok().and_then(|all| all.first())
            && let Some(first) = first.as_document()
        {
            let code = i32::try_from(number(first, "code")).unwrap_or(0);
            let words = first.get_str("errmsg").unwrap_or("refused");
            let at = number(first, "index") as usize;
            if code == fault::TAKEN || words.contains("UNIQUE constraint failed") {
                written.taken = Some(Some(at));
            } else {
                let (kind, message) = fault::of_code(code, words);
                written.failed = Some((at, Error::new(kind, message)));
            }
        } else if let Ok(late) = answer.get_document("writeConcernError") {
            let words = late.get_str("errmsg").unwrap_or("not confirmed");
            let message = format!("the write took place, but not as durably as requested: {words}");
            return Err(Error::new(ErrorKind::Lost, message));
        }
        written.answer = answer;
        Ok(written)
    }

    /// Returns the error of the failed statement, if any. For commands with one statement.
    pub(crate) fn checked(self) -> Result<Self> {
        match self.failed {
            Some((_, error)) => Err(error),
            None => Ok(self),
        }
    }
}

/// The result of [`Database::modify`].
#[derive(Debug)]
pub(crate) enum Modified {
    Done(Document),
    Missing,
    Taken,
}

/// Returns a number of an answer as an integer, for any numeric type; 0 if it is missing.
pub(crate) fn number(answer: &Document, name: &str) -> u64 {
    match answer.get(name) {
        Some(Bson::Int32(value)) => u64::try_from(*value).unwrap_or(0),
        Some(Bson::Int64(value)) => u64::try_from(*value).unwrap_or(0),
        Some(Bson::Double(value)) => *value as u64,
        _ => 0,
    }
}

impl Database {
    /// Returns the most updates per command.
    pub(crate) const fn updates_max(&self) -> usize {
        if self.is_ferret { FERRET_UPDATES_MAX } else { LIST_MAX }
    }

    /// Splits documents into parts that fit into one insert.
    pub(crate) fn parts<'d>(
        &self,
        documents: &'d [RawDocumentBuf],
    ) -> impl Iterator<Item = &'d [RawDocumentBuf]> + use<'d> {
        let most = if self.is_ferret { FERRET_LIST_MAX } else { LIST_MAX };
        let mut rest = documents;
        std::iter::from_fn(move || {
            let mut bytes = 0;
            let fits = rest.iter().take(most).take_while(|document| {
                bytes += document.as_bytes().len();
                bytes <= BYTES_MAX
            });
            // A document that is too large by itself is refused by the server.
            let count = fits.count().max(1).min(rest.len());
            let (part, left) = rest.split_at(count);
            rest = left;
            (!part.is_empty()).then_some(part)
        })
    }
}
