//! One database per tenant, each with its own URL.

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::{StoreBuilder, Tenants};

/// The placeholder for the tenant's name.
const PLACE: &str = "{tenant}";

/// Returns tenants with a database each, opened with `models` on first use. The URL of a database
/// is `url` with the tenant's name in place of `{tenant}`. A tenant exists if it has a file:
/// [`Tenants::get`] creates the file, requests (`rest::tenants`, [`Tenants::get_known`]) do not.
///
/// ```no_run
/// use marmota::prelude::*;
///
/// #[derive(Model)]
/// struct Note {
///     id: i64,
///     text: String,
/// }
///
/// let tenants = marmota::tenants("sqlite:data/{tenant}.db", |store| store.model::<Note>())?;
/// tenants.get("ana")?;
/// println!("http://127.0.0.1:8080/t/ana/api/note");
/// Server::bind("127.0.0.1:8080")?.run(rest::tenants(&tenants))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Invalid`] for a URL without `{tenant}`, or of an unknown engine.
pub fn tenants(
    url: &str,
    models: impl Fn(StoreBuilder) -> StoreBuilder + Send + Sync + 'static,
) -> Result<Tenants> {
    // A database in memory would be lost when its tenant is closed to make room for another.
    let path = url.split('?').next().unwrap_or_default();
    if !path.contains(PLACE) {
        let message = format!(
            "{:?} is the same for all tenants: the URL must have `{PLACE}` in its path, as in \
             sqlite:data/{PLACE}.db",
            marmota_model::text::excerpt(path)
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let of = {
        let url = url.to_owned();
        move |tenant: &str| url.replace(PLACE, tenant)
    };
    let known = of.clone();
    let open = move |tenant: &str| models(crate::open(&of(tenant))?).open();
    Ok(Tenants::new(open).known(move |tenant| crate::restore::is_there(&known(tenant))))
}
