//! What the differential test serves, for the example that the soak run starts
//! and for the short run among the tests.

use marmota::prelude::*;
use marmota::store::{Idempotency, StoreBuilder};

/// Two models that are alike but for their names and attributes.
macro_rules! models {
    ($note:ident, $label:ident $(, $attribute:meta)?) => {
        /// What clients write to; `owner` is the number of the client.
        #[derive(Model)]
        $(#[$attribute])?
        struct $note {
            // Not an integer: the ids of deleted rows are given again.
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

        /// What refers to it.
        #[derive(Model)]
        struct $label {
            #[model(key, max = 20)]
            code: String,
            note: Option<Ref<$note>>,
        }
    };
}

models!(Note, Label, model(audit));
// Writes of models without a history take other ways through the engines.
models!(PlainNote, PlainLabel);

/// The store at a URL with the test's models.
pub(crate) fn open(url: &str) -> Result<StoreBuilder> {
    let builder = open_plain(url)?.idempotency(Idempotency::default());
    Ok(builder.model::<Note>().model::<Label>())
}

/// The same without what needs transactions: histories and answers kept for
/// repeats.
pub(crate) fn open_plain(url: &str) -> Result<StoreBuilder> {
    Ok(marmota::open(url)?.model::<PlainNote>().model::<PlainLabel>())
}
