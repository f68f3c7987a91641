//! Batches are run again after a serialization failure or a deadlock, and statements are prepared
//! again if the server does not have them.

use marmota_model::{ErrorKind, Result};
use marmota_postgres::Postgres;
use marmota_store::{Idempotency, Store};

use crate::{Tally, label, open, server};

/// Makes the next updates of counters fail with an SQLSTATE. A sequence counts them, because its
/// value survives a rollback.
fn fail_updates(url: &str, sqlstate: &str, times: u32) {
    let sql = format!(
        "CREATE SEQUENCE failures; \
         CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF nextval('failures') <= {times} THEN RAISE SQLSTATE '{sqlstate}'; END IF; \
             RETURN NEW; END $$; \
         CREATE TRIGGER failing BEFORE UPDATE ON tally FOR EACH ROW EXECUTE FUNCTION fail()"
    );
    Postgres::from_url(url).unwrap().execute(&sql).unwrap();
}

fn with_answers(url: &str) -> Store {
    let engine = Postgres::from_url(url).unwrap();
    let builder = Store::builder(engine).model::<Tally>();
    builder.idempotency(Idempotency::default()).open().unwrap()
}

/// Adds 5 to a counter and inserts a row, in a batch that is executed once.
fn add(store: &Store, key: i64) -> Result<()> {
    let mut batch = store.batch();
    batch.idempotency_key("once").insert(&label("new")).increment(Tally::COUNT, key, 5);
    batch.all_or_nothing().run().map(drop)
}

#[test]
fn a_batch_is_run_again_after_a_conflict_with_another_transaction() {
    for sqlstate in ["40001", "40P01"] {
        let url = server().make_database().unwrap();
        let store = with_answers(&url);
        let key = store.insert(&label("counter")).run().unwrap();
        fail_updates(&url, sqlstate, 3);
        add(&store, key).unwrap();
        assert_eq!(store.get::<Tally>(key).run().unwrap().count, 5);
        // A repeat is answered from the stored result.
        add(&store, key).unwrap();
        assert_eq!(store.get::<Tally>(key).run().unwrap().count, 5);
        assert_eq!(store.count::<Tally>().run().unwrap(), 2);
    }
}

#[test]
fn a_batch_that_always_conflicts_fails_and_leaves_nothing() {
    let url = server().make_database().unwrap();
    let store = with_answers(&url);
    let key = store.insert(&label("counter")).run().unwrap();
    fail_updates(&url, "40001", u32::MAX);
    let error = add(&store, key).unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Conflict, true), "{error:?}");
    assert_eq!(store.count::<Tally>().run().unwrap(), 1);
    assert_eq!(store.get::<Tally>(key).run().unwrap().count, 0);
    // Its connection can be used again.
    let free = "DROP TRIGGER failing ON tally";
    Postgres::from_url(&url).unwrap().execute(free).unwrap();
    add(&store, key).unwrap();
    assert_eq!(store.get::<Tally>(key).run().unwrap().count, 5);
}

/// Creates a function for statements that the verbs for raw SQL do not accept. It returns false.
fn allow_any_statement(url: &str) {
    let sql = "CREATE FUNCTION run(statement text) RETURNS boolean LANGUAGE plpgsql AS \
               $$ BEGIN EXECUTE statement; RETURN false; END $$";
    Postgres::from_url(url).unwrap().execute(sql).unwrap();
}

const DEALLOCATE: &str = "UPDATE tally SET count=count WHERE run('DEALLOCATE ALL')";

#[test]
fn a_statement_that_the_server_has_dropped_is_prepared_again() {
    let url = server().make_database().unwrap();
    allow_any_statement(&url);
    let store = open(&url);
    let key = store.insert(&label("a")).run().unwrap();
    for count in 1..=3 {
        // The next statements of the connection for writes get error 26000.
        store.execute(DEALLOCATE).run().unwrap();
        assert_eq!(store.increment(Tally::COUNT, key, 1).run().unwrap(), count);
        store.insert(&label(count)).run().unwrap();
    }
}

#[test]
fn a_statement_that_the_server_already_has_is_used() {
    let url = server().make_database().unwrap();
    allow_any_statement(&url);
    let first = open(&url);
    first.insert(&label("a")).run().unwrap();
    // The statement with which the first connection has prepared its insert.
    let prepare = "SELECT format('PREPARE %I (%s) AS %s', name, \
                          array_to_string(parameter_types, ','), statement) \
                   FROM pg_prepared_statements WHERE statement LIKE 'INSERT%'";
    first.execute(format!("UPDATE tally SET label=({prepare})")).run().unwrap();
    // Another connection gets error 42P05 when it prepares the same.
    let other = open(&url);
    other.execute("UPDATE tally SET count=1 WHERE run(label)").run().unwrap();
    other.insert(&label("b")).run().unwrap();
    assert_eq!(other.count::<Tally>().run().unwrap(), 2);
}
