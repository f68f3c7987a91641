//! Ids that are never given again. A database may give the key of its last row again once that is
//! deleted; rules compare with `@user.id`, and a user with the id of a deleted one would have
//! their rows.
//!
//! Users and keys are counted in `marmota_counter`, in the transaction that inserts them; sessions,
//! of which there are many, have random ids. The same table counts changes of accounts, from which
//! other processes learn of them.

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::{Store, Transaction};

use crate::models::{Counter, Key, User};
use crate::token;

const USERS: &str = "user";
const KEYS: &str = "key";
/// Counts changes of accounts: what was read of a token is good as long as it stays the same.
const ACCOUNTS: &str = "account";
/// The largest integer that JSON readers take exactly.
const SESSION_MAX: u64 = (1 << 53) - 1;

/// Makes the id of a new user.
pub(crate) fn of_user(tx: &Transaction) -> Result<i64> {
    let highest = tx.list::<User>().order(User::ID.descending()).limit(1).column(User::ID).run()?;
    next(tx, USERS, highest.first().copied())
}

/// Makes the id of a new key.
pub(crate) fn of_key(tx: &Transaction) -> Result<i64> {
    let highest = tx.list::<Key>().order(Key::ID.descending()).limit(1).column(Key::ID).run()?;
    next(tx, KEYS, highest.first().copied())
}

/// Makes the id of a new session.
pub(crate) fn of_session() -> Result<i64> {
    let number = u64::from_le_bytes(token::random::<8>()?) % SESSION_MAX + 1;
    i64::try_from(number).map_err(|_| too_high())
}

/// Counts the users and keys that are there, of which a program may delete some by itself.
pub(crate) fn count_those_there(tx: &Transaction) -> Result<()> {
    let highest = tx.list::<User>().order(User::ID.descending()).limit(1).column(User::ID).run()?;
    raise(tx, USERS, highest.first().copied().unwrap_or_default())?;
    let highest = tx.list::<Key>().order(Key::ID.descending()).limit(1).column(Key::ID).run()?;
    raise(tx, KEYS, highest.first().copied().unwrap_or_default())
}

/// Has every process learn that what it knows of tokens may not be so any more.
pub(crate) fn count_change(tx: &Transaction) -> Result<()> {
    next(tx, ACCOUNTS, None).map(drop)
}

/// Reads how many changes of accounts there were.
pub(crate) async fn changes(store: &Store) -> Result<i64> {
    let counter = store.get::<Counter>(ACCOUNTS.to_owned()).optional().await?;
    Ok(counter.map_or(0, |counter| counter.last))
}

fn last(tx: &Transaction, of: &str) -> Result<i64> {
    let counter = tx.get::<Counter>(of.to_owned()).optional().run()?;
    Ok(counter.map_or(0, |counter| counter.last))
}

fn next(tx: &Transaction, of: &str, highest: Option<i64>) -> Result<i64> {
    let given = last(tx, of)?.max(highest.unwrap_or_default());
    let next = given.checked_add(1).ok_or_else(too_high)?;
    tx.upsert(&Counter { id: of.to_owned(), last: next }).run()?;
    Ok(next)
}

fn raise(tx: &Transaction, of: &str, to: i64) -> Result<()> {
    if last(tx, of)? < to {
        tx.upsert(&Counter { id: of.to_owned(), last: to }).run()?;
    }
    Ok(())
}

fn too_high() -> Error {
    Error::new(ErrorKind::Conflict, "the highest id is taken: there are none left")
}
