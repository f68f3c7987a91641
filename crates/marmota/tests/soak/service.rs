//! What the differential test serves, for the example that the soak run starts
//! and for the short run among the tests.

use marmota::http::Router;
use marmota::prelude::*;
use marmota::store::StoreBuilder;

/// What clients write to; `owner` is the number of the client.
#[derive(Model)]
#[model(audit)]
struct Note {
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
    #[model(version)]
    version: i64,
}

/// What refers to it.
#[derive(Model)]
struct Label {
    #[model(key, max = 20)]
    code: String,
    note: Option<Ref<Note>>,
}

/// The store at a URL with the test's models.
pub(crate) fn open(url: &str) -> Result<StoreBuilder> {
    Ok(marmota::open(url)?.model::<Note>().model::<Label>())
}

/// The routes that the Python program calls.
pub(crate) fn routes(store: &Store) -> Router {
    marmota::rest::api(store)
}
