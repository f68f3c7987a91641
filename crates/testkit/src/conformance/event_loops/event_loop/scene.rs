//! The store of the test with its rows, and the accounts that log in.

use std::sync::Arc;
use std::time::Duration;

use marmota_auth::{Auth, Settings};
use marmota_derive::Model;
use marmota_memory::Memory;
use marmota_model::{Caller, Result};
use marmota_store::rights::{Grant, Right, Rights};
use marmota_store::{Idempotency, Store, StoreBuilder};

use super::kinds::{OTHERS, WRITES};
use crate::conformance::harness::subject::{Served, Subject};

/// The number of pages that a slow count reads.
const PAGES: usize = 4_000;

const PASSWORD: &str = "correct horse battery";

/// A row that a transaction has written.
#[derive(Clone, Debug, Default, Model, PartialEq)]
pub(super) struct Counter {
    pub(super) id: i64,
    #[model(unique)]
    pub(super) name: String,
    pub(super) sum: i64,
}

/// The same with history.
#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(audit)]
pub(super) struct Ledger {
    pub(super) id: i64,
    pub(super) sum: i64,
}

/// A row that no transaction writes.
#[derive(Clone, Debug, Default, Model, PartialEq)]
pub(super) struct Page {
    pub(super) id: i64,
    pub(super) text: String,
}

impl Counter {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

pub(super) fn models(builder: StoreBuilder) -> StoreBuilder {
    let builder = builder.model::<Ledger>().idempotency(Idempotency::default());
    models_without_transactions(builder)
}

pub(super) fn models_without_transactions(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<Counter>().model::<Page>()
}

pub(super) fn models_with_accounts(builder: StoreBuilder) -> StoreBuilder {
    marmota_auth::models(models(builder))
}

/// All models but those of accounts, in the memory engine.
fn models_in_memory(builder: StoreBuilder) -> StoreBuilder {
    let builder = marmota_auth::models(builder).idempotency(Idempotency::default());
    builder.database("live", Memory::new(), |live| {
        live.model::<Counter>().model::<Ledger>().model::<Page>()
    })
}

/// The rows of one kind of operation.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: String,
    /// The key of a counter with this name, which the transaction writes.
    pub(super) key: i64,
    /// The key of such a ledger; 0 without transactions.
    pub(super) ledger: i64,
    /// The key of a counter that the transaction does not write.
    pub(super) free: i64,
}

impl Row {
    /// A counter that the transaction inserts.
    pub(super) fn taken(&self) -> Counter {
        Counter::new(format!("taken {}", self.name))
    }
}

/// The accounts that log in.
#[derive(Clone)]
pub(super) enum Accounts {
    /// In the store itself, with a token.
    Own(Auth, String),
    /// At the server, which looks up the client's token for each operation.
    Served(Arc<dyn Served>),
    /// No accounts ([`Subject::keeps_accounts`]).
    None,
}

impl Accounts {
    fn open(store: &Store) -> Self {
        // Tokens are not cached. A password hash is cheap, because its cost is not what is
        // measured.
        let settings = Settings::default().cache_ttl(Duration::ZERO).password_cost(64, 1);
        let auth = Auth::new(store, settings).unwrap();
        let token = match auth.setup_token().map(str::to_owned) {
            Some(token) => {
                auth.set_password("admin", &token, PASSWORD, None).unwrap();
                auth.login("admin", PASSWORD, None).unwrap().token
            }
            None => auth.login("admin", PASSWORD, None).unwrap().token,
        };
        Self::Own(auth, token)
    }

    pub(super) async fn look_up(&self) -> Result<()> {
        match self {
            Self::Own(auth, token) => auth.authenticate(token).await.map(drop),
            Self::Served(_) | Self::None => Ok(()),
        }
    }

    /// Logs in with a password. Blocks the thread.
    pub(super) fn log_in(&self) -> Result<()> {
        match self {
            Self::Own(auth, _) => auth.login("admin", PASSWORD, None).map(drop),
            Self::Served(served) => served.log_in(),
            Self::None => Ok(()),
        }
    }
}

/// A store with the rows and accounts of a measurement.
pub(super) struct Scene {
    pub(super) store: Store,
    /// The same under rights.
    pub(super) guarded: Store,
    pub(super) accounts: Accounts,
    pub(super) page: i64,
    /// The rows for each of [`WRITES`], then of [`OTHERS`].
    pub(super) rows: Vec<Row>,
}

impl Scene {
    /// Opens a store with new rows, whose sessions are unused.
    pub(super) fn open(subject: &Subject, round: usize) -> Self {
        let by_transactions = subject.capability().transactions;
        let server = subject.server().filter(|_| subject.keeps_accounts());
        let models = match (by_transactions, subject.keeps_accounts() && server.is_none()) {
            _ if subject.has_rows_in_memory() => models_in_memory,
            (true, true) => models_with_accounts,
            (true, false) => models,
            (false, _) => models_without_transactions,
        };
        let store = subject.builder_with(models).open().unwrap();
        let accounts = match server {
            Some(served) => Accounts::Served(served),
            None if subject.keeps_accounts() => Accounts::open(&store),
            None => Accounts::None,
        };
        let name = |kind: &str| format!("{kind} {round}");
        let kinds: Vec<_> = WRITES.iter().chain(OTHERS).map(|kind| name(kind.name)).collect();
        let counters: Vec<_> = kinds.iter().map(Counter::new).collect();
        let keys = store.insert_many(&counters).run().unwrap();
        let free: Vec<_> = kinds.iter().map(|kind| Counter::new(format!("free {kind}"))).collect();
        let free = store.insert_many(&free).run().unwrap();
        let ledgers = match by_transactions {
            true => store.insert_many(&vec![Ledger::default(); kinds.len()]).run().unwrap(),
            false => vec![0; kinds.len()],
        };
        let page = |number: usize| Page { id: 0, text: format!("page {number}") };
        let pages: Vec<_> = (0..PAGES).map(page).collect();
        let page = store.insert_many(&pages).run().unwrap()[0];
        let caller = Caller { id: "1".to_owned(), name: "one".to_owned(), groups: Vec::new() };
        let grants = [Grant::new("counter", &Right::ALL).rule("sum < 1000000")];
        let rights = Rights::new(store.registry(), Some(caller), &grants).unwrap();
        let guarded = store.with_rights(rights);
        let rows: Vec<_> = (kinds.into_iter().zip(keys).zip(ledgers).zip(free))
            .map(|(((name, key), ledger), free)| Row { name, key, ledger, free })
            .collect();
        if !by_transactions {
            let taken: Vec<_> = rows.iter().map(Row::taken).collect();
            store.insert_many(&taken).run().unwrap();
        }
        Self { store, guarded, accounts, page, rows }
    }
}
