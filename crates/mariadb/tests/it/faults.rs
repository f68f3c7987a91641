//! A server that refuses, goes away and comes back, and statements that are ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use marmota_derive::Model;
use marmota_mariadb::{Mariadb, MariadbOptions, TemporaryMariadb};
use marmota_model::{Blob, ErrorKind};
use marmota_store::Store;
use marmota_store::action::block_on;

use crate::server;

#[derive(Clone, Debug, Model, PartialEq)]
struct Note {
    id: i64,
    #[model(unique, max = 40)]
    name: String,
    count: i64,
    photo: Blob,
}

fn note(name: &str) -> Note {
    Note { id: 0, name: name.to_owned(), count: 0, photo: Blob::from(Vec::new()) }
}

fn open(url: &str) -> Store {
    Store::builder(Mariadb::from_url(url).unwrap()).model::<Note>().open().unwrap()
}

/// Returns the URL with another part.
fn with(url: &str, from: &str, to: &str) -> String {
    assert!(url.contains(from), "{url}");
    url.replacen(from, to, 1)
}

#[test]
fn a_refused_connection_names_the_cause() {
    let url = server().make_database().unwrap();
    let name = url.rsplit('/').next().unwrap();
    let port = server().port().to_string();
    for (url, kind, part) in [
        (with(&url, "p%3Ass", "wrong"), ErrorKind::Denied, "Access denied"),
        (with(&url, name, "none"), ErrorKind::Invalid, "CREATE DATABASE"),
        (with(&url, &port, "1"), ErrorKind::Refused, "127.0.0.1:1"),
    ] {
        let error = Mariadb::from_url(&url).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(part), "{error}");
        assert!(!error.to_string().contains("w@rd"), "{error}");
    }
}

#[test]
fn a_missing_privilege_is_denied_and_named() {
    let url = server().make_database().unwrap();
    let name = url.rsplit('/').next().unwrap();
    let store = open(&url);
    store.insert(&note("a")).run().unwrap();
    server().execute(&format!("CREATE USER reader_{name} IDENTIFIED BY 'r'")).unwrap();
    server().execute(&format!("GRANT SELECT ON {name}.* TO reader_{name}")).unwrap();
    let reader = format!("mariadb://reader_{name}:r@127.0.0.1:{}/{name}", server().port());
    let reader = open(&reader);
    assert_eq!(reader.count::<Note>().run().unwrap(), 1);
    let error = reader.insert(&note("b")).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.message().contains("INSERT"), "{error}");
}

#[test]
fn a_unix_socket_is_named_in_the_url() {
    let url = server().make_database().unwrap();
    let name = url.rsplit('/').next().unwrap();
    let options = MariadbOptions::parse(&server().socket_url(name)).unwrap();
    assert!(options.place().contains("socket"), "{}", options.place());
    let store = Store::builder(Mariadb::open(options).unwrap()).model::<Note>().open().unwrap();
    store.insert(&note("a")).run().unwrap();
    assert_eq!(store.count::<Note>().run().unwrap(), 1);
}

#[test]
fn a_packet_that_is_too_large_is_refused_and_changes_nothing() {
    let store = open(&server().make_database().unwrap());
    let large = Note { photo: Blob::from(vec![7; 20 << 20]), ..note("large") };
    let error = store.insert(&large).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.message().contains("max_allowed_packet"), "{error}");
    let error = store.insert_many(&[note("small"), large]).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(store.count::<Note>().run().unwrap(), 0);
    store.insert(&note("small")).run().unwrap();
}

#[test]
fn a_killed_server_loses_no_acknowledged_insert() {
    let own = TemporaryMariadb::start().unwrap();
    own.execute("SET GLOBAL innodb_flush_log_at_trx_commit=1").unwrap();
    let store = open(&own.make_database().unwrap());
    let stop = AtomicBool::new(false);
    let insert = |writer: usize| {
        let (mut acknowledged, until) = (Vec::new(), Instant::now() + Duration::from_secs(60));
        for number in 0.. {
            if stop.load(Ordering::Relaxed) || Instant::now() > until {
                break;
            }
            let name = format!("{writer}-{number}");
            // Half of them in batches of two rows.
            let pair = [note(&name), note(&format!("{name}b"))];
            let done = match number % 2 {
                0 => store.insert(&pair[0]).run().map(drop),
                _ => store.insert_many(&pair).run().map(drop),
            };
            match done {
                Ok(()) => acknowledged.push((name, number % 2 == 1)),
                Err(error) => {
                    let expected = matches!(
                        error.kind(),
                        ErrorKind::Lost | ErrorKind::Refused | ErrorKind::Busy
                    );
                    assert!(expected, "{error:?}");
                    thread::sleep(Duration::from_millis(5));
                }
            }
        }
        acknowledged
    };
    let acknowledged: Vec<(String, bool)> = thread::scope(|scope| {
        let writers: Vec<_> = (0..3).map(|writer| scope.spawn(move || insert(writer))).collect();
        thread::sleep(Duration::from_millis(300));
        own.crash();
        own.resume().unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while store.insert(&note("again")).run().is_err() && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    assert!(acknowledged.len() > 3);
    let names: std::collections::HashSet<String> =
        store.list::<Note>().run().unwrap().into_iter().map(|note| note.name).collect();
    for (name, is_pair) in &acknowledged {
        assert!(names.contains(name), "{name} was acknowledged and is gone");
        assert!(!is_pair || names.contains(&format!("{name}b")), "a half of {name}");
    }
    for name in names.iter().filter_map(|name| name.strip_suffix('b')) {
        assert!(names.contains(name), "a half of {name}");
    }
}

#[test]
fn a_cancelled_write_is_ended_and_later_ones_continue() {
    let store = open(&server().make_database().unwrap());
    let id = store.insert(&note("a")).run().unwrap();
    let transaction = store.begin_run().unwrap();
    transaction.increment(Note::COUNT, id, 1).run().unwrap();
    let begun = Instant::now();
    {
        // It waits for the row; dropping it cancels it.
        let mut waiting =
            Box::pin(std::future::IntoFuture::into_future(store.increment(Note::COUNT, id, 10)));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        while begun.elapsed() < Duration::from_millis(200) {
            assert!(waiting.as_mut().poll(&mut context).is_pending());
            thread::sleep(Duration::from_millis(10));
        }
    }
    store.insert(&note("b")).run().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10), "it was not ended");
    transaction.commit().run().unwrap();
    assert_eq!(store.get::<Note>(id).run().unwrap().count, 1);
}

#[test]
fn transactions_beyond_the_limit_wait_for_the_end_of_another() {
    let url = server().make_database().unwrap();
    let store = open(&format!("{url}?connections_max=2&lock_timeout_s=1"));
    let first = block_on(store.begin()).unwrap();
    let second = block_on(store.begin()).unwrap();
    let error = block_on(store.begin()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(error.message().contains("connections_max"), "{error}");
    first.insert(&note("a")).run().unwrap();
    first.commit().run().unwrap();
    let third = block_on(store.begin()).unwrap();
    assert_eq!(third.count::<Note>().run().unwrap(), 1);
    drop((second, third));
    store.close().unwrap();
}

#[test]
fn a_transaction_ends_while_as_many_wait_for_its_lock_as_may_be_open() {
    let url = server().make_database().unwrap();
    let store = open(&format!("{url}?connections_max=2"));
    let id = store.insert(&note("a")).run().unwrap();
    let holder = block_on(store.begin()).unwrap();
    holder.increment(Note::COUNT, id, 1).run().unwrap();
    thread::scope(|scope| {
        let add = || {
            let add = |tx: &mut marmota_store::Transaction| tx.increment(Note::COUNT, id, 1).run();
            store.transaction(add).unwrap();
        };
        let adding: Vec<_> = (0..4).map(|_| scope.spawn(add)).collect();
        thread::sleep(Duration::from_millis(200));
        let begun = Instant::now();
        holder.commit().run().unwrap();
        adding.into_iter().for_each(|thread| thread.join().unwrap());
        // Otherwise they would wait for the lock for 30 seconds.
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    });
    assert_eq!(store.get::<Note>(id).run().unwrap().count, 5);
}

#[test]
fn names_of_columns_are_compared_without_regard_to_case() {
    let url = server().make_database().unwrap();
    let by_hand = Mariadb::from_url(&url).unwrap();
    by_hand
        .execute(
            "CREATE TABLE note (\"ID\" BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,\
             \"Name\" VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL UNIQUE,\
             \"Count\" BIGINT NOT NULL,\"PHOTO\" LONGBLOB NOT NULL)",
        )
        .unwrap();
    let builder = Store::builder(Mariadb::from_url(&url).unwrap()).model::<Note>();
    let plan = builder.plan().unwrap();
    assert!(plan.steps.iter().all(|step| step.table != "note"), "{plan:?}");
    let store = open(&url);
    let id = store.insert(&note("a")).run().unwrap();
    assert_eq!(store.get::<Note>(id).run().unwrap().name, "a");
}
