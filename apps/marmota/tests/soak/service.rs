//! The models of the differential test, for the example that the soak run starts and for the short
//! run in the tests.

use marmota::prelude::*;
use marmota::store::{Idempotency, StoreBuilder};

/// Two models that differ only in names and attributes.
macro_rules! models {
    ($note:ident, $label:ident $(, $attribute:meta)?) => {
        /// The model that clients write to; `owner` is the number of the client.
        #[derive(Model)]
        $(#[$attribute])?
        struct $note {
            // Not an integer, because ids of deleted rows may be assigned again.
            id: Uuid,
            #[model(index)]
            owner: i32,
            #[model(max = 40, not_empty, search)]
            name: String,
            #[model(range(min = -1000000, max = 1000000))]
            number: Option<i32>,
            weight: Option<f64>,
            done: bool,
            #[model(max = 20, unique)]
            code: Option<String>,
            day: Option<Date>,
            options: Option<Json<serde_json::Value>>,
            photo: Option<Blob>,
            #[model(version)]
            version: i64,
        }

        /// A model that refers to it.
        #[derive(Model)]
        struct $label {
            #[model(key, max = 20)]
            code: String,
            note: Option<Ref<$note>>,
        }
    };
}

models!(Note, Label, model(audit));
// Writes of models without a history are executed in other ways by the engines.
models!(PlainNote, PlainLabel);

/// Opens the store at a URL with the test's models.
pub(crate) fn open(url: &str) -> Result<StoreBuilder> {
    let builder = open_plain(url)?.idempotency(Idempotency::default());
    Ok(builder.model::<Note>().model::<Label>())
}

/// The same without what needs transactions: history and idempotency keys.
pub(crate) fn open_plain(url: &str) -> Result<StoreBuilder> {
    Ok(marmota::open(url)?.model::<PlainNote>().model::<PlainLabel>())
}
