//! Automatic keys: counted in a collection of the engine.

use marmota_model::{Error, ErrorKind, Result, ValueRef};
use mongodb::bson::doc;

use super::Writer;
use crate::database::writes::Modified;
use crate::database::{Find, number};
use crate::prepare::KEYS;
use crate::shape::Shape;

impl Writer {
    /// Reserves consecutive automatic keys and returns the first.
    pub(crate) async fn take_keys(&self, shape: &Shape, count: i64) -> Result<i64> {
        let name = shape.name();
        let most = i64::MAX - count;
        let filter = doc! { "_id": name, "last": { "$lte": most } };
        let update = doc! { "$inc": { "last": count } };
        match self.key_database().modify(KEYS, filter, update, doc! { "last": 1 }).await? {
            Modified::Done(document) => {
                let last = number(&document, "last") as i64;
                self.shared.know_key(name, last);
                Ok(last - count + 1)
            }
            _ => {
                let message = format!(
                    "no automatic key is left for `{name}`, because the highest key is used: give \
                     keys yourself, or delete that row"
                );
                Err(Error::new(ErrorKind::Conflict, message))
            }
        }
    }

    /// Makes automatic keys continue after a key that a caller chose.
    pub(crate) async fn note_key(&self, shape: &Shape, key: ValueRef<'_>) -> Result<()> {
        let ValueRef::Int(key) = key else { return Ok(()) };
        if key <= self.shared.key_known(shape.name()) {
            return Ok(());
        }
        let update = doc! { "$max": { "last": key } };
        let filter = doc! { "_id": shape.name() };
        self.key_database().modify(KEYS, filter, update, doc! { "last": 1 }).await?;
        self.shared.know_key(shape.name(), key);
        Ok(())
    }

    /// Makes automatic keys continue after the highest key of any program.
    pub(super) async fn raise_keys(&self, shape: &Shape) -> Result<()> {
        let find = Find {
            collection: shape.name().to_owned(),
            sort: Some(doc! { "_id": -1 }),
            projection: Some(doc! { "_id": 1 }),
            limit: Some(1),
            ..Find::default()
        };
        let highest = self.database().fetch(&find).await?;
        match highest.first().and_then(|document| shape.key_of(document)) {
            Some(key) => self.note_key(shape, key.as_ref()).await,
            None => Ok(()),
        }
    }
}
