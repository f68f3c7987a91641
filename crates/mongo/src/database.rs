//! The commands of the database that the engine needs; here those that read.

pub(crate) mod transaction;
pub(crate) mod undo_steps;
mod undoing;
pub(crate) mod writes;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;
use marmota_model::{Error, ErrorKind, Result};
use marmota_store::Durability;
use mongodb::bson::raw::RawDocument;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::raw_batch_cursor::{RawBatch, RawBatchCursor, SessionRawBatchCursor};
use mongodb::{Client, Database as Driver};
use tokio::sync::watch::Receiver;

use self::transaction::Transaction;
use crate::fault;

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
        Error::new(ErrorKind::Protocol, format!("unexpected answer of the MongoDB server: {error}"))
    };
    for document in batch.doc_slices().map_err(|error| broken(&error))? {
        let document = document.map_err(|error| broken(&error))?;
        match document.as_document() {
            Some(document) => with(document)?,
            None => return Err(broken(&"a row is not a document")),
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
