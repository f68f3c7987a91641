//! The kinds of operation that share a thread: what each does, when it waits for the open
//! transaction, and what it needs from an engine.

use marmota_model::ErrorKind;
use marmota_store::engine::{Capability, ReadsMeanwhile};

use super::scene::{Counter, Ledger, Page, Row, Scene};
use super::turns::{Task, on_a_thread};
use crate::conformance::harness::subject::Subject;

/// When an operation completes, relative to the open transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// It needs a row that the transaction has written: after its end.
    ForItsRow,
    /// It writes rows that the transaction has not written: before its end, on an engine that locks
    /// rows.
    ForOtherRows,
    /// It reads tables that the transaction has not written: before its end, unless all reads wait.
    ToRead,
    /// It reads what the transaction has written: before its end, unless such reads wait.
    ToReadItsRows,
}

impl Waits {
    /// Returns true if the operation must complete while the transaction is open.
    pub(super) fn is_free(self, capability: &Capability) -> bool {
        match self {
            Self::ForItsRow => false,
            Self::ForOtherRows => capability.row_locks,
            Self::ToRead => capability.reads_meanwhile != ReadsMeanwhile::Wait,
            Self::ToReadItsRows => capability.reads_meanwhile == ReadsMeanwhile::Before,
        }
    }
}

/// A kind of operation.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) waits: Waits,
    /// How the operation ends.
    pub(super) ends: fn(&Subject) -> Ends,
    pub(super) run: for<'t> fn(&'t Scene, Row) -> Task<'t>,
}

/// How an operation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// It succeeds.
    Done,
    /// It fails with this error.
    Refused(ErrorKind),
    /// The store cannot be opened with what the operation needs; another promise covers that.
    Unopened,
}

fn done(_: &Subject) -> Ends {
    Ends::Done
}

fn in_conflict(_: &Subject) -> Ends {
    Ends::Refused(ErrorKind::Conflict)
}

fn by_transactions(subject: &Subject) -> Ends {
    if subject.capability().transactions { Ends::Done } else { Ends::Unopened }
}

fn by_guarded_writes(subject: &Subject) -> Ends {
    // The row is read before it is written.
    match subject.capability().guarded_writes && subject.capability().transactions {
        true => Ends::Done,
        false => Ends::Refused(ErrorKind::Unsupported),
    }
}

fn by_sql(subject: &Subject) -> Ends {
    match subject.capability().sql {
        true => Ends::Done,
        false => Ends::Refused(ErrorKind::Unsupported),
    }
}

fn by_writing_sql(subject: &Subject) -> Ends {
    match subject.has_rows_in_memory() {
        // Rows in memory can be written only by verbs.
        true => Ends::Refused(ErrorKind::Invalid),
        false => by_sql(subject),
    }
}

fn by_accounts(subject: &Subject) -> Ends {
    if subject.keeps_accounts() { Ends::Done } else { Ends::Unopened }
}

/// The writes that need rows written by the transaction.
pub(super) const WRITES: &[Kind] = &[
    Kind {
        name: "an insert of a taken name",
        waits: Waits::ForItsRow,
        ends: in_conflict,
        run: |scene, row| Box::pin(async move { scene.store.insert(&row.taken()).await.map(drop) }),
    },
    Kind {
        name: "an update",
        waits: Waits::ForItsRow,
        ends: done,
        run: |scene, row| {
            Box::pin(async move {
                let counter = Counter { id: row.key, sum: 10, ..Counter::new(row.name) };
                scene.store.update(&counter).await.map(drop)
            })
        },
    },
    Kind {
        name: "a patch",
        waits: Waits::ForItsRow,
        ends: done,
        run: |scene, row| {
            Box::pin(async move {
                scene.store.patch::<Counter>(row.key).set(Counter::SUM, 10).await.map(drop)
            })
        },
    },
    Kind {
        name: "an increment",
        waits: Waits::ForItsRow,
        ends: done,
        run: |scene, row| {
            Box::pin(
                async move { scene.store.increment(Counter::SUM, row.key, 10).await.map(drop) },
            )
        },
    },
    Kind {
        name: "a delete",
        waits: Waits::ForItsRow,
        ends: done,
        run: |scene, row| Box::pin(async move { scene.store.delete::<Counter>(row.key).await }),
    },
    Kind {
        name: "a delete by a filter",
        waits: Waits::ForItsRow,
        ends: done,
        run: |scene, row| {
            Box::pin(async move {
                let named = Counter::NAME.eq(row.name);
                scene.store.delete_where::<Counter>(named).await.map(drop)
            })
        },
    },
    Kind {
        name: "an upsert",
        waits: Waits::ForItsRow,
        ends: done,
        run: |scene, row| {
            Box::pin(async move {
                let counter = Counter { sum: 10, ..Counter::new(row.name) };
                scene.store.insert(&counter).or_update().await.map(drop)
            })
        },
    },
    Kind {
        name: "an update of many",
        waits: Waits::ForItsRow,
        ends: done,
        run: |scene, row| {
            Box::pin(async move {
                let rows = [Counter { id: row.key, sum: 10, ..Counter::new(row.name) }];
                scene.store.update_many(&rows).await.map(drop)
            })
        },
    },
    Kind {
        name: "a batch",
        waits: Waits::ForItsRow,
        ends: by_transactions,
        run: |scene, row| {
            Box::pin(async move {
                let mut batch = scene.store.batch();
                batch.increment(Counter::SUM, row.key, 10).increment(Counter::SUM, row.key, 10);
                batch.all_or_nothing().await.map(drop)
            })
        },
    },
    Kind {
        name: "a batch of single writes",
        waits: Waits::ForItsRow,
        ends: done,
        run: |scene, row| {
            Box::pin(async move {
                let mut batch = scene.store.batch();
                batch.increment(Counter::SUM, row.key, 10);
                batch.continue_on_error().await?.remove(0).map(drop)
            })
        },
    },
    Kind {
        name: "a batch with a key",
        waits: Waits::ForItsRow,
        ends: by_transactions,
        run: |scene, row| {
            Box::pin(async move {
                let mut batch = scene.store.batch();
                batch.idempotency_key(row.name).increment(Counter::SUM, row.key, 10);
                batch.all_or_nothing().await.map(drop)
            })
        },
    },
    Kind {
        name: "an audited increment",
        waits: Waits::ForItsRow,
        ends: by_transactions,
        run: |scene, row| {
            Box::pin(
                async move { scene.store.increment(Ledger::SUM, row.ledger, 10).await.map(drop) },
            )
        },
    },
    Kind {
        name: "an audited delete",
        waits: Waits::ForItsRow,
        ends: by_transactions,
        run: |scene, row| Box::pin(async move { scene.store.delete::<Ledger>(row.ledger).await }),
    },
    Kind {
        name: "a guarded write",
        waits: Waits::ForItsRow,
        ends: by_guarded_writes,
        run: |scene, row| {
            Box::pin(
                async move { scene.guarded.increment(Counter::SUM, row.key, 10).await.map(drop) },
            )
        },
    },
    Kind {
        name: "a guarded delete",
        waits: Waits::ForItsRow,
        ends: by_guarded_writes,
        run: |scene, row| Box::pin(async move { scene.guarded.delete::<Counter>(row.key).await }),
    },
    Kind {
        name: "a write by SQL",
        waits: Waits::ForItsRow,
        ends: by_writing_sql,
        run: |scene, row| {
            Box::pin(async move {
                let sql = "UPDATE counter SET sum = 10 WHERE name = ?";
                scene.store.execute(sql).bind(row.name).await.map(drop)
            })
        },
    },
];

/// The other operations of the thread, submitted after [`WRITES`] in the same turn.
pub(super) const OTHERS: &[Kind] = &[
    Kind {
        name: "a read by key",
        waits: Waits::ToRead,
        ends: done,
        run: |scene, _| {
            Box::pin(async move { scene.store.get::<Page>(scene.page).await.map(drop) })
        },
    },
    Kind {
        name: "a list",
        waits: Waits::ToRead,
        ends: done,
        run: |scene, _| {
            Box::pin(async move { scene.store.list::<Page>().limit(10).await.map(drop) })
        },
    },
    Kind {
        name: "a count of what changes",
        waits: Waits::ToReadItsRows,
        ends: done,
        run: |scene, _| Box::pin(async move { scene.store.count::<Counter>().await.map(drop) }),
    },
    Kind {
        name: "a count by SQL of what changes",
        waits: Waits::ToReadItsRows,
        ends: by_sql,
        run: |scene, _| {
            Box::pin(async move {
                let sql = "SELECT count(*) FROM counter";
                scene.store.sql(sql).value::<i64>().await.map(drop)
            })
        },
    },
    Kind {
        name: "a slow count",
        waits: Waits::ToRead,
        ends: done,
        run: |scene, _| {
            Box::pin(async move {
                let found = scene.store.count::<Page>().filter(Page::TEXT.contains("99")).await?;
                assert!(found > 0, "the filter finds no page");
                Ok(())
            })
        },
    },
    Kind {
        name: "a slow statement of SQL",
        waits: Waits::ToRead,
        ends: by_sql,
        run: |scene, _| {
            Box::pin(async move {
                let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE \
                           i < 200000) SELECT count(*) FROM n";
                scene.store.sql(sql).value::<i64>().await.map(drop)
            })
        },
    },
    Kind {
        name: "a token lookup",
        waits: Waits::ToRead,
        ends: by_accounts,
        run: |scene, _| Box::pin(async move { scene.accounts.look_up().await }),
    },
    Kind {
        name: "a login by password",
        waits: Waits::ForOtherRows,
        ends: by_accounts,
        run: |scene, _| {
            let accounts = scene.accounts.clone();
            Box::pin(on_a_thread(move || accounts.log_in()))
        },
    },
    Kind {
        name: "an increment of another row",
        waits: Waits::ForOtherRows,
        ends: done,
        run: |scene, row| {
            Box::pin(
                async move { scene.store.increment(Counter::SUM, row.free, 10).await.map(drop) },
            )
        },
    },
    Kind {
        name: "an insert",
        waits: Waits::ForOtherRows,
        ends: done,
        run: |scene, _| {
            Box::pin(async move { scene.store.insert(&Page::default()).await.map(drop) })
        },
    },
    Kind {
        name: "an update of other rows",
        waits: Waits::ForOtherRows,
        ends: done,
        run: |scene, _| {
            Box::pin(async move {
                let rows = [Page { id: scene.page, text: "many".to_owned() }];
                scene.store.update_many(&rows).await.map(drop)
            })
        },
    },
    Kind {
        name: "another batch with a key",
        waits: Waits::ForOtherRows,
        ends: by_transactions,
        run: |scene, row| {
            Box::pin(async move {
                let mut batch = scene.store.batch();
                batch.idempotency_key(row.name).insert(&Page::default());
                batch.all_or_nothing().await.map(drop)
            })
        },
    },
];
