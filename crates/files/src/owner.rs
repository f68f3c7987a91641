//! The bond between a database and its storage: both have the same random number.
//!
//! A sweep removes bytes that no row of the database has. With the storage of another database it
//! would remove the files of that one, so such a storage is refused.
#![allow(unreachable_pub, reason = "the derive gives columns the visibility of their fields")]

use marmota_derive::Model;
use marmota_model::{Error, ErrorKind, Result, Uuid};
use marmota_store::Store;

use crate::signature::{KEY_BYTES, from_hex, hex};
use crate::space::Space;

/// The row of the database, and the name of the storage's object.
const OWNER: &str = "owner";

/// The number of a database, and its key for signed URLs.
#[derive(Clone, Debug, Model)]
#[model(table = "marmota_file_owner")]
pub(crate) struct FileOwner {
    #[model(key)]
    name: String,
    owner: Uuid,
    signing_key: String,
}

/// Checks that the storage belongs to the database, or makes it so if it belongs to none. Returns
/// the key for signed URLs.
///
/// # Errors
/// [`ErrorKind::Conflict`] for the storage of another database.
pub(crate) fn check(store: &Store, space: &std::sync::Arc<Space>) -> Result<[u8; KEY_BYTES]> {
    let row = match find(store)? {
        Some(row) => row,
        None => {
            let mut bytes = [0; KEY_BYTES + 16];
            getrandom::fill(&mut bytes).map_err(|error| {
                Error::new(ErrorKind::Io, format!("no random numbers: {error}"))
            })?;
            let (key, owner) = bytes.split_at(KEY_BYTES);
            let owner = Uuid::from_slice(owner).unwrap_or_default();
            let row = FileOwner { name: OWNER.to_owned(), owner, signing_key: hex(key) };
            match store.insert(&row).run() {
                Ok(_) => row,
                // Another process was first.
                Err(error) if error.kind() == ErrorKind::Conflict => find(store)?.ok_or(error)?,
                Err(error) => return Err(error),
            }
        }
    };
    let (of_task, number) = (std::sync::Arc::clone(space), row.owner.to_string());
    let known = space.wait(async move {
        match of_task.get(OWNER).await? {
            Some(known) => Ok(String::from_utf8_lossy(&known).into_owned()),
            None => {
                of_task.put(OWNER, number.clone().into_bytes()).await?;
                Ok(number)
            }
        }
    })?;
    if known != row.owner.to_string() {
        let message = format!(
            "{} has the files of another database: give each database its own folder or prefix \
             (or delete the object `{OWNER}` if that database is gone)",
            space.place.url()
        );
        return Err(Error::new(ErrorKind::Conflict, message));
    }
    from_hex(&row.signing_key).and_then(|key| key.try_into().ok()).ok_or_else(|| {
        let message = "the row of `marmota_file_owner` has no valid signing key: delete the row";
        Error::new(ErrorKind::Invalid, message)
    })
}

fn find(store: &Store) -> Result<Option<FileOwner>> {
    match store.get::<FileOwner>(OWNER.to_owned()).run() {
        Ok(row) => Ok(Some(row)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
