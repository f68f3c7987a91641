//! Users, sessions and keys, over every engine.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod access;
mod authenticator;
mod databases;
mod events;
mod limits;
mod passkeys;
mod processes;
mod profile;
mod second_factor;
mod sessions;
mod step_up;
mod storm;
mod users;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use marmota_auth::{Auth, SecurityEvent, Settings};
use marmota_memory::Memory;
use marmota_model::{Error, ErrorKind, Field, Kind, Role, Schema, Timestamp};
use marmota_store::rights::{Grant, Right};
use marmota_store::{Store, StoreBuilder};

/// A table whose rows are for their owner.
fn note() -> Schema {
    let owner = Field::new(
        "owner",
        Kind::Reference { table: "marmota_user".into(), key: marmota_model::KeyKind::Auto },
    );
    Schema::new(
        "note",
        vec![Field::new("id", Kind::I64).role(Role::Key), owner, Field::new("text", Kind::TEXT)],
    )
}

fn open(builder: StoreBuilder) -> Store {
    marmota_auth::models(builder).schema(note()).open().unwrap()
}

fn memory() -> Store {
    open(Store::builder(Memory::new()))
}

/// Returns a store on each engine in turn.
fn stores() -> impl Iterator<Item = Store> {
    databases::databases().map(|database| open(database.builder()))
}

/// Passwords that cost next to nothing, and a grant on one's own notes.
fn settings() -> Settings {
    let own = Grant::new("note", &Right::ALL).rule("owner = @user.id");
    Settings::default().password_cost(64, 1).everyone([own])
}

const PASSWORD: &str = "correct horse";

/// Adds a user with the password.
fn user(auth: &Auth, name: &str) -> i64 {
    let (id, token) = auth.add_user(name, &[], false).unwrap();
    auth.set_password(name, &token, PASSWORD, None).unwrap();
    id
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, kind: ErrorKind) {
    assert_eq!(result.unwrap_err().kind(), kind);
}

#[track_caller]
fn unknown<T: std::fmt::Debug>(result: Result<T, Error>) {
    refused(result, ErrorKind::Unauthenticated);
}

/// Keeps what it hears.
fn listening(settings: Settings) -> (Settings, Arc<Mutex<Vec<SecurityEvent>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    let listener = move |event: &SecurityEvent| hears.lock().unwrap().push(event.clone());
    (settings.listener(listener), heard)
}

fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours * 3600)
}

fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

/// A clock that stands until it is moved.
#[derive(Clone)]
struct Clock(Arc<AtomicI64>);

impl Clock {
    fn new() -> Self {
        Self(Arc::new(AtomicI64::new(Timestamp::now().micros())))
    }

    fn advance(&self, time: Duration) {
        self.0.fetch_add(i64::try_from(time.as_micros()).unwrap(), Ordering::SeqCst);
    }

    fn of(&self, settings: Settings) -> Settings {
        let now = Arc::clone(&self.0);
        settings.clock(move || Timestamp::from_micros(now.load(Ordering::SeqCst)).unwrap())
    }
}
