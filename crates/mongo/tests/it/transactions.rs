//! Transactions where the server has them: what is said to it, and what becomes
//! of what it says. The server is [`Replica`], which see for what that leaves
//! untested.

use std::time::{Duration, Instant};

use marmota::prelude::*;
use marmota_mongo::TemporaryMongo;
use mongodb::bson::{Document, doc};

use crate::replica::{Act, Replica, VERSIONS, refusal};
use crate::{Office, open, server};

/// A room of an office, to which it refers.
#[derive(Clone, Debug, Model, PartialEq)]
struct Room {
    id: i64,
    office: Ref<Office>,
}

/// A desk, whose key the engine gives.
#[derive(Clone, Debug, Model, PartialEq)]
struct Desk {
    id: i64,
    #[model(unique)]
    name: String,
}

/// A replica set in front of an empty database.
fn replica() -> Replica {
    Replica::of("8.0", &server().url())
}

/// Says that all was said by the rules, and that nothing was left open.
fn is_clean(replica: &Replica) {
    assert_eq!(replica.breaches(), Vec::<String>::new());
    assert_eq!(replica.rules_left(), 0);
    assert!(replica.is_idle());
}

fn names(commands: &[Document]) -> Vec<&str> {
    commands.iter().filter_map(|command| command.keys().next()).map(String::as_str).collect()
}

fn write_conflict() -> Act {
    Act::Refuse(refusal(112, "WriteConflict", &["TransientTransactionError"]))
}

#[test]
fn the_capability_goes_by_the_handshake() {
    let url = server().url();
    assert!(!open(&url).capability().transactions, "FerretDB stands alone");
    for version in VERSIONS {
        let replica = Replica::of(version, &url);
        let store = open(&replica.url());
        assert!(store.capability().transactions, "MongoDB {version}");
        let made = store.transaction(|own| {
            own.insert(&Office::new(version, "Nord")).run()?;
            own.get::<Office>(version).run()
        });
        assert_eq!(made.unwrap().name, "Nord");
        assert_eq!(store.get::<Office>(version).run().unwrap().name, "Nord");
        store.close().unwrap();
        is_clean(&replica);
    }
}

#[test]
fn a_transaction_is_one_session_and_one_number() {
    let replica = replica();
    let store = open(&replica.url());
    replica.transaction_commands();
    let transaction = store.begin_run().unwrap();
    transaction.insert(&Office::new("1", "Nord")).run().unwrap();
    transaction.list::<Office>().run().unwrap();
    assert_eq!(transaction.count::<Office>().run().unwrap(), 1);
    transaction.commit().run().unwrap();
    drop(transaction);
    let commands = replica.transaction_commands();
    let said = names(&commands);
    assert_eq!(said[said.len() - 4..], ["insert", "find", "aggregate", "commitTransaction"]);
    let first = &commands[0];
    assert!(first.get_bool("startTransaction").unwrap());
    assert_eq!(first.get_document("readConcern").unwrap(), &doc! { "level": "snapshot" });
    for command in &commands {
        assert_eq!(command.get("lsid"), first.get("lsid"));
        assert_eq!(command.get("txnNumber"), first.get("txnNumber"));
    }
    store.close().unwrap();
    is_clean(&replica);
}

#[test]
fn a_transaction_that_collides_runs_again() {
    let replica = replica();
    let store = open(&replica.url());
    replica.on("insert", 1, write_conflict());
    let mut runs = 0;
    let done = store.transaction(|own| {
        runs += 1;
        own.insert(&Office::new("1", "Nord")).run()?;
        let second = own.insert(&Office::new("2", "Süd")).run();
        if let Err(error) = &second {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            assert!(error.is_retryable(), "{error}");
            // It has come to nothing, whatever else is asked of it.
            let third = own.count::<Office>().run().unwrap_err();
            assert!(third.is_retryable(), "{third}");
        }
        second
    });
    done.unwrap();
    assert_eq!(runs, 2);
    assert_eq!(store.count::<Office>().run().unwrap(), 2);
    store.close().unwrap();
    is_clean(&replica);
}

#[test]
fn writes_of_several_steps_run_again_by_themselves() {
    let replica = replica();
    let store = marmota::open(&replica.url()).unwrap();
    let store = store.model::<Office>().model::<Room>().open().unwrap();
    store.insert(&Office::new("1", "Nord")).run().unwrap();
    replica.transaction_commands();
    replica.on("insert", 0, write_conflict());
    store.insert(&Room { id: 0, office: Ref::new("1".to_owned()) }).run().unwrap();
    let commands = replica.transaction_commands();
    let said: Vec<&str> = names(&commands).into_iter().filter(|name| *name != "find").collect();
    // The row referred to is written to, so that nobody deletes it meanwhile.
    let all = [
        "findAndModify",
        "insert",
        "abortTransaction",
        "findAndModify",
        "insert",
        "commitTransaction",
    ];
    assert_eq!(said, all);
    // All or nothing, and all of a filter, too.
    for command in ["insert", "delete"] {
        replica.on(command, 0, write_conflict());
    }
    let mut batch = store.batch();
    batch.insert(&Office::new("2", "Süd")).insert(&Office::new("3", "Ost"));
    batch.all_or_nothing().run().unwrap();
    assert_eq!(store.delete_where::<Office>(Office::CODE.gt("1")).run().unwrap(), 2);
    assert_eq!(store.count::<Office>().run().unwrap(), 1);
    store.close().unwrap();
    is_clean(&replica);
}

#[test]
fn a_batch_that_fails_leaves_nothing() {
    let replica = replica();
    let store = open(&replica.url());
    store.insert(&Office::new("3", "Ost")).run().unwrap();
    let mut batch = store.batch();
    batch.insert(&Office::new("1", "Nord")).insert(&Office::new("3", "Süd"));
    let error = batch.all_or_nothing().run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let rows = [Office::new("4", "a"), Office::new("3", "b")];
    assert_eq!(store.insert_many(&rows).run().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(store.count::<Office>().run().unwrap(), 1);
    store.close().unwrap();
    is_clean(&replica);
}

#[test]
fn inserts_of_a_batch_share_commands() {
    let replica = replica();
    let store = marmota::open(&replica.url()).unwrap().model::<Desk>().open().unwrap();
    store.insert(&Desk { id: 0, name: "7".to_owned() }).run().unwrap();
    replica.transaction_commands();
    let mut batch = store.batch();
    for number in 100..200 {
        batch.insert(&Desk { id: 0, name: number.to_string() });
    }
    let results = batch.all_or_nothing().run().unwrap();
    assert_eq!(results.len(), 100);
    assert_eq!(store.count::<Desk>().run().unwrap(), 101);
    let inserts = replica.commands("insert").len();
    assert!(inserts < 10, "{inserts} commands for 100 inserts");
    // The one that is in the way is named, and none is left.
    let mut batch = store.batch();
    for name in ["300", "301", "7", "302"] {
        batch.insert(&Desk { id: 0, name: name.to_owned() });
    }
    let error = batch.all_or_nothing().run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.message().contains("write 2"), "{error}");
    assert_eq!(store.count::<Desk>().run().unwrap(), 101);
    // So is one that the same batch has taken.
    let mut batch = store.batch();
    for name in ["300", "301", "300"] {
        batch.insert(&Desk { id: 0, name: name.to_owned() });
    }
    let error = batch.all_or_nothing().run().unwrap_err();
    assert!(error.message().contains("write 2"), "{error}");
    assert_eq!(store.count::<Desk>().run().unwrap(), 101);
    store.close().unwrap();
    is_clean(&replica);
}

#[test]
fn a_commit_that_is_less_durable_is_said() {
    let replica = replica();
    let store = open(&replica.url());
    let late = doc! { "code": 100, "codeName": "UnsatisfiableWriteConcern", "errmsg": "too few" };
    replica.on("commitTransaction", 0, Act::Say(doc! { "ok": 1.0, "writeConcernError": late }));
    let done = store.transaction(|own| own.insert(&Office::new("1", "Nord")).run());
    let error = done.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert!(error.message().contains("too few") && !error.is_retryable(), "{error}");
    assert_eq!(store.count::<Office>().run().unwrap(), 1);
    store.close().unwrap();
    is_clean(&replica);
}

#[test]
fn a_commit_of_which_nothing_is_known_is_asked_for_again() {
    let unknown = refusal(91, "ShutdownInProgress", &["UnknownTransactionCommitResult"]);
    for act in [Act::Refuse(unknown), Act::CutBefore, Act::CutAfter] {
        let replica = replica();
        let store = open(&replica.url());
        replica.on("commitTransaction", 0, act.clone());
        store.transaction(|own| own.insert(&Office::new("1", "Nord")).run()).unwrap();
        assert!(replica.commands("commitTransaction").len() > 1, "{act:?}");
        assert_eq!(store.count::<Office>().run().unwrap(), 1, "{act:?}");
        // Connections and sessions go on.
        store.transaction(|own| own.insert(&Office::new("2", "Süd")).run()).unwrap();
        assert_eq!(store.count::<Office>().run().unwrap(), 2, "{act:?}");
        store.close().unwrap();
        is_clean(&replica);
    }
}

#[test]
fn a_commit_that_stays_unknown_is_lost() {
    let replica = replica();
    let store = open(&format!("{}&operation_timeout_ms=5000", replica.url()));
    let transaction = store.begin_run().unwrap();
    transaction.insert(&Office::new("1", "Nord")).run().unwrap();
    // More than the time allows to be asked for.
    for _ in 0..1_000 {
        let unknown = refusal(64, "WriteConcernFailed", &["UnknownTransactionCommitResult"]);
        replica.on("commitTransaction", 0, Act::Refuse(unknown));
    }
    let error = transaction.commit().run().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Lost | ErrorKind::Timeout), "{error}");
    assert!(error.message().contains("may or may not have been committed"), "{error}");
    assert!(!error.is_retryable(), "it may have taken place");
    assert!(replica.rules_left() > 0);
}

#[test]
fn a_server_that_steps_down_ends_a_transaction() {
    let replica = replica();
    let store = open(&replica.url());
    let gone = refusal(10_107, "NotWritablePrimary", &["TransientTransactionError"]);
    replica.on("insert", 1, Act::Refuse(gone));
    let mut runs = 0;
    let done = store.transaction(|own| {
        runs += 1;
        own.insert(&Office::new("1", "Nord")).run()?;
        own.insert(&Office::new("2", "Süd")).run()
    });
    done.unwrap();
    assert_eq!(runs, 2);
    assert_eq!(store.count::<Office>().run().unwrap(), 2);
    store.close().unwrap();
    is_clean(&replica);
}

#[test]
fn a_connection_that_breaks_ends_a_transaction() {
    for act in [Act::CutBefore, Act::CutAfter] {
        let replica = replica();
        let store = open(&replica.url());
        replica.on("insert", 1, act);
        let mut runs = 0;
        let done = store.transaction(|own| {
            runs += 1;
            own.insert(&Office::new("1", "Nord")).run()?;
            own.insert(&Office::new("2", "Süd")).run()
        });
        done.unwrap();
        assert_eq!(runs, 2);
        assert_eq!(store.count::<Office>().run().unwrap(), 2);
        store.close().unwrap();
        is_clean(&replica);
    }
}

#[test]
fn a_server_that_stops_is_said_and_found_again() {
    let server = TemporaryMongo::start().unwrap();
    let replica = Replica::of("5.0", &server.url());
    let store = open(&format!("{}&serverSelectionTimeoutMS=300", replica.url()));
    let put = || store.transaction(|own| own.upsert(&Office::new("1", "Nord")).run());
    put().unwrap();
    server.stop().unwrap();
    let error = put().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    let error = store.upsert(&Office::new("2", "Süd")).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    server.resume().unwrap();
    let began = Instant::now();
    while put().is_err() {
        assert!(began.elapsed() < Duration::from_secs(60), "it is not found again");
    }
    assert_eq!(store.count::<Office>().run().unwrap(), 1);
    store.close().unwrap();
    assert_eq!(replica.breaches(), Vec::<String>::new());
}

#[test]
fn a_transaction_that_lasts_too_long_ends_in_words() {
    let replica = replica();
    let store = open(&replica.url());
    let too_long = refusal(290, "TransactionExceededLifetimeLimitSeconds", &[]);
    replica.on("insert", 0, Act::Refuse(too_long));
    let error = store.transaction(|own| own.insert(&Office::new("1", "Nord")).run()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.message().contains("transactionLifetimeLimitSeconds"), "{error}");
    assert_eq!(store.count::<Office>().run().unwrap(), 0);
    store.close().unwrap();
    is_clean(&replica);
}

#[test]
fn what_is_dropped_is_undone() {
    let replica = replica();
    let store = open(&replica.url());
    for number in 0..20 {
        let transaction = store.begin_run().unwrap();
        transaction.insert(&Office::new("1", "Nord")).run().unwrap();
        drop(transaction);
        let code = format!("own {number}");
        store.insert(&Office::new(&code, "Süd")).run().unwrap();
    }
    assert_eq!(store.count::<Office>().run().unwrap(), 20);
    let commands = replica.transaction_commands();
    assert_eq!(names(&commands).iter().filter(|name| **name == "abortTransaction").count(), 20);
    store.close().unwrap();
    is_clean(&replica);
}
