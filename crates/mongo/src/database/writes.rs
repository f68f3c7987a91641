//! The commands that write. In a transaction with a savepoint, they record how to undo them.

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result};
use mongodb::bson::raw::{RawArrayBuf, RawDocument, cstr};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};

use super::transaction::Transaction;
use super::undo_steps::UndoStep;
use super::{Database, Find, number, raw};
use crate::fault;
use crate::shape::{HELD, Shape};

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
            let message = format!(
                "the write was executed, but not with the requested durability: \
                                   {words}"
            );
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

impl Database {
    /// Returns the transaction if undo steps must be recorded.
    fn noting(&self) -> Option<&Arc<Transaction>> {
        self.transaction.as_ref().filter(|transaction| transaction.notes())
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
