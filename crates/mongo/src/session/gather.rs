//! Combines concurrent gets into one query.
//!
//! A command costs the driver, and its threads' wake-ups, many times as much as a row. So gets are
//! queued, and queued gets for the same fields of the same table share one `find` of their keys. No
//! get waits for others: it is sent at once unless the maximal number of finds is in progress. It
//! is never answered by a find that was sent before the get was queued.

#![allow(clippy::vec_box, reason = "what goes from a line moves the others")]

use std::sync::Arc;
use std::task::Poll;

use marmota_model::{Error, FieldSet, Result, RowSink, ValueRef};
use marmota_store::refusal::copy_of;
use mongodb::bson::{Bson, RawDocumentBuf, doc};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::database::{Find, each_document};
use crate::fault;
use crate::shape::{Lender, Shape};
use crate::shared::{Shared, UnderWay};

/// The most concurrent finds of gets.
const CARRIERS_MAX: usize = 4;
/// The most gets that one find answers.
const GETS_MAX: usize = 100;
/// The most bytes of keys in one find, unless one key has more.
const KEY_BYTES_MAX: usize = 1 << 20;

/// A document, or `None` if the key does not exist.
type Found = Result<Option<RawDocumentBuf>>;

/// The queue of gets of an engine.
#[derive(Debug)]
pub(crate) struct Gets {
    shared: Arc<Shared>,
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    waiting: Vec<Box<Get>>,
    carriers: usize,
}

/// A queued get.
#[derive(Debug)]
struct Get {
    shape: Arc<Shape>,
    fields: FieldSet,
    key: Bson,
    until: Instant,
    answer: oneshot::Sender<Found>,
    _under_way: UnderWay,
}

impl Get {
    /// Returns true if one find can answer both. FerretDB can look up only a single text key; for
    /// any other filter it reads everything.
    fn suits(&self, first: &Self, is_ferret: bool) -> bool {
        let one_key = is_ferret && matches!(self.key, Bson::String(_));
        Arc::ptr_eq(&self.shape, &first.shape)
            && self.fields == first.fields
            && (!one_key || self.key == first.key)
    }

    fn key_bytes(&self) -> usize {
        match &self.key {
            Bson::String(text) => text.len(),
            _ => size_of::<Bson>(),
        }
    }
}

/// The caller's side of a get.
pub(crate) struct Getting {
    answer: oneshot::Receiver<Found>,
    shape: Arc<Shape>,
    fields: FieldSet,
}

impl Getting {
    /// Passes the row to `sink` when it arrives. Ready with the number of rows.
    pub(crate) fn poll(
        &mut self,
        sink: &mut dyn RowSink,
        context: &mut std::task::Context<'_>,
    ) -> Poll<Result<u64>> {
        let answer = std::pin::Pin::new(&mut self.answer);
        std::future::Future::poll(answer, context).map(|answer| {
            let Some(document) = answer.unwrap_or_else(|_| Err(fault::closed()))? else {
                return Ok(0);
            };
            let mut lender = Lender::new(&self.shape, self.fields);
            lender.lend(&document, |row| sink.row(row).is_break())?;
            Ok(1)
        })
    }
}

/// Sends finds as long as gets are queued.
struct Carrier {
    gets: Arc<Gets>,
    rests: bool,
}

impl Gets {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), line: Mutex::default() }
    }

    /// Gets a row by its key.
    ///
    /// # Errors
    /// As [`Shared::enter`].
    pub(crate) fn get(
        self: &Arc<Self>,
        shape: &Arc<Shape>,
        key: ValueRef<'_>,
        fields: FieldSet,
    ) -> Result<Getting> {
        let (sender, answer) = oneshot::channel();
        let get = Get {
            _under_way: self.shared.enter()?,
            shape: Arc::clone(shape),
            fields,
            key: shape.key(key),
            until: Instant::now() + self.shared.options.timeout,
            answer: sender,
        };
        let mut line = self.line.lock();
        line.waiting.push(Box::new(get));
        let goes = line.carriers < CARRIERS_MAX;
        line.carriers += usize::from(goes);
        drop(line);
        if goes {
            let carrier = Carrier { gets: Arc::clone(self), rests: false };
            self.shared.handle.spawn(carrier.carry());
        }
        Ok(Getting { answer, shape: Arc::clone(shape), fields })
    }
}

impl Carrier {
    async fn carry(mut self) {
        while let Some(gets) = self.take() {
            self.answer(gets).await;
        }
    }

    /// Takes gets that one find can answer. Stops if the queue is empty.
    fn take(&mut self) -> Option<Vec<Box<Get>>> {
        let mut line = self.gets.line.lock();
        let (mut gets, mut bytes): (Vec<Box<Get>>, usize) = (Vec::new(), 0);
        let waiting = std::mem::take(&mut line.waiting);
        for get in waiting.into_iter().filter(|get| !get.answer.is_closed()) {
            let goes = match gets.first() {
                None => true,
                Some(first) => {
                    get.suits(first, self.gets.shared.database.is_ferret)
                        && gets.len() < GETS_MAX
                        && bytes + get.key_bytes() <= KEY_BYTES_MAX
                }
            };
            if goes {
                bytes += get.key_bytes();
                gets.push(get);
            } else {
                line.waiting.push(get);
            }
        }
        if gets.is_empty() {
            line.carriers -= 1;
            self.rests = true;
            return None;
        }
        Some(gets)
    }

    /// Answers gets. Stops early if all callers have given up.
    async fn answer(&self, mut gets: Vec<Box<Get>>) {
        let Some(first) = gets.first() else { return };
        let (shape, fields, keys) = (Arc::clone(&first.shape), first.fields, keys_of(&gets));
        let until = gets.iter().map(|get| get.until).min().unwrap_or(first.until);
        let found = {
            let found = self.gets.shared.until(until, self.find(&shape, fields, &keys));
            let mut found = std::pin::pin!(found);
            std::future::poll_fn(|context| {
                if let Poll::Ready(found) = found.as_mut().poll(context) {
                    return Poll::Ready(Some(found));
                }
                // Polls each of them, so that each wakes this task when it is abandoned.
                let left =
                    gets.iter_mut().filter_map(|get| match get.answer.poll_closed(context) {
                        Poll::Pending => Some(()),
                        Poll::Ready(()) => None,
                    });
                match left.count() {
                    0 => Poll::Ready(None),
                    _ => Poll::Pending,
                }
            })
            .await
        };
        match found {
            Some(Ok(documents)) => deliver(gets, &documents),
            Some(Err(error)) => deliver_error(gets, &error),
            None => {}
        }
    }

    /// Returns the documents with these keys, each with its key if the model can have that key: a
    /// number of another type may equal a key without being one.
    async fn find(
        &self,
        shape: &Shape,
        fields: FieldSet,
        keys: &[Bson],
    ) -> Result<Vec<(Option<Bson>, RawDocumentBuf)>> {
        let one = (keys.len() == 1).then_some(1);
        let find = Find {
            collection: shape.name().to_owned(),
            filter: match keys {
                [key] => doc! { "_id": key },
                keys => doc! { "_id": { "$in": keys } },
            },
            projection: shape.projection(fields),
            limit: one,
            ..Find::default()
        };
        let mut batches = self.gets.shared.database.find(&find).await?;
        let mut found = Vec::with_capacity(keys.len());
        while let Some(batch) = batches.next().await? {
            each_document(&batch, |document| {
                let key = match keys {
                    [key] => Some(key.clone()),
                    _ => shape.key_of(document).map(|key| shape.key(key.as_ref())),
                };
                found.push((key, document.to_owned()));
                Ok(())
            })?;
            if one.is_some() && !found.is_empty() {
                break;
            }
        }
        Ok(found)
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        // It was stopped by the end of the engine or by a panic. Dropping the channels notifies the
        // callers.
        if !self.rests {
            let mut line = self.gets.line.lock();
            line.carriers -= 1;
            let waiting = std::mem::take(&mut line.waiting);
            drop(line);
            drop(waiting);
        }
    }
}

/// Returns the distinct keys of gets.
fn keys_of(gets: &[Box<Get>]) -> Vec<Bson> {
    let mut keys: Vec<Bson> = Vec::new();
    for get in gets {
        if !keys.contains(&get.key) {
            keys.push(get.key.clone());
        }
    }
    keys
}

/// Sends each get its document. The caller may have given up.
fn deliver(gets: Vec<Box<Get>>, found: &[(Option<Bson>, RawDocumentBuf)]) {
    let has_strange = found.iter().any(|(key, _)| key.is_none());
    for get in gets {
        let document = found.iter().find(|(key, _)| key.as_ref() == Some(&get.key));
        let answer = match document {
            None if has_strange => Err(fault::strange_key(get.shape.name())),
            document => Ok(document.map(|(_, document)| document.clone())),
        };
        let _ = get.answer.send(answer);
    }
}

fn deliver_error(gets: Vec<Box<Get>>, error: &Error) {
    for get in gets {
        let _ = get.answer.send(Err(copy_of(error)));
    }
}
