//! Ids that are never reused. A database may reuse the key of its last row once that is deleted.
//! Rules compare with `@user.id`, so a user with the id of a deleted user would get access to that
//! user's rows.
//!
//! Ids of users and keys are counted in `marmota_counter`, in the transaction that inserts them;
//! sessions, which are numerous, have random ids. The same table counts changes of accounts, so
//! that other processes detect them.
//!
//! The counters are rows that are written in the same transaction as the user or key, so two
//! processes never assign the same id.

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::{Store, Transaction};

use crate::credentials::token;
use crate::models::{ApiKey, Counter, User};

/// The counter of users.
const USERS: &str = "user";
/// The counter of keys.
const KEYS: &str = "key";
/// Counts changes of accounts: a cached token is valid as long as the count is unchanged.
const ACCOUNTS: &str = "account";
/// The largest integer that JSON parsers represent exactly.
const SESSION_MAX: u64 = (1 << 53) - 1;

/// Returns the id for a new user.
pub(crate) fn of_user(tx: &Transaction) -> Result<i64> {
    let highest = tx.list::<User>().order(User::ID.descending()).limit(1).column(User::ID).run()?;
    next(tx, USERS, highest.first().copied())
}

/// Returns the id for a new key.
pub(crate) fn of_key(tx: &Transaction) -> Result<i64> {
    let highest =
        tx.list::<ApiKey>().order(ApiKey::ID.descending()).limit(1).column(ApiKey::ID).run()?;
    next(tx, KEYS, highest.first().copied())
}

/// Returns the id for a new session.
pub(crate) fn of_session() -> Result<i64> {
    let number = u64::from_le_bytes(token::random::<8>()?) % SESSION_MAX + 1;
    i64::try_from(number).map_err(|_| too_high())
}

/// Updates the counters from the existing users and keys, since a program may delete some directly.
pub(crate) fn count_those_there(tx: &Transaction) -> Result<()> {
    let highest = tx.list::<User>().order(User::ID.descending()).limit(1).column(User::ID).run()?;
    raise(tx, USERS, highest.first().copied().unwrap_or_default())?;
    let highest =
        tx.list::<ApiKey>().order(ApiKey::ID.descending()).limit(1).column(ApiKey::ID).run()?;
    raise(tx, KEYS, highest.first().copied().unwrap_or_default())
}

/// Counts a change, so that all processes invalidate their cached tokens.
pub(crate) fn count_change(tx: &Transaction) -> Result<()> {
    next(tx, ACCOUNTS, None).map(drop)
}

/// Returns the number of changes of accounts.
pub(crate) async fn changes(store: &Store) -> Result<i64> {
    let counter = store.get::<Counter>(ACCOUNTS.to_owned()).optional().await?;
    Ok(counter.map_or(0, |counter| counter.last))
}

/// Returns the value of a counter; 0 if it was never used.
fn last(tx: &Transaction, of: &str) -> Result<i64> {
    let counter = tx.get::<Counter>(of.to_owned()).optional().run()?;
    Ok(counter.map_or(0, |counter| counter.last))
}

/// Increments a counter, and returns its new value, which is above `highest`, the highest id in
/// use.
fn next(tx: &Transaction, of: &str, highest: Option<i64>) -> Result<i64> {
    let given = last(tx, of)?.max(highest.unwrap_or_default());
    let next = given.checked_add(1).ok_or_else(too_high)?;
    tx.upsert(&Counter { id: of.to_owned(), last: next }).run()?;
    Ok(next)
}

/// Sets a counter to `to`, unless it is higher already.
fn raise(tx: &Transaction, of: &str, to: i64) -> Result<()> {
    if last(tx, of)? < to {
        tx.upsert(&Counter { id: of.to_owned(), last: to }).run()?;
    }
    Ok(())
}

/// The error for a counter that has reached the highest integer.
fn too_high() -> Error {
    Error::new(ErrorKind::Conflict, "no id is left, because the highest id is used")
}
