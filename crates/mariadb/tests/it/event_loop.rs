//! Reads of an event loop, which it executes itself on connections of its own.

use std::future::{Future, IntoFuture as _};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use marmota_derive::Model;
use marmota_mariadb::{Mariadb, TemporaryMariadb};
use marmota_model::{Blob, ErrorKind, Result};
use marmota_store::Store;

use crate::{server, wait_until};

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Letter {
    id: i64,
    name: String,
    size: Option<i64>,
    photo: Blob,
}

fn letter(number: i64) -> Letter {
    let photo = Blob::from(vec![7; number as usize % 300]);
    Letter {
        id: 0,
        name: format!("Zürich {number}"),
        size: (number % 2 == 0).then_some(number),
        photo,
    }
}

fn open(url: &str) -> Store {
    Store::builder(Mariadb::from_url(url).unwrap()).model::<Letter>().open().unwrap()
}

/// A thread that sleeps until one of its futures is woken.
struct Woken(Thread, AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.1.store(true, Ordering::SeqCst);
        self.0.unpark();
    }
}

type Task<'t, T> = Pin<Box<dyn Future<Output = T> + 't>>;

/// Polls futures on this thread when they are woken, as an event loop does. Returns their results in
/// order.
fn together<'t, T>(tasks: impl IntoIterator<Item = Task<'t, T>>) -> Vec<T> {
    let woken = || Arc::new(Woken(thread::current(), AtomicBool::new(true)));
    let mut tasks: Vec<_> = tasks.into_iter().map(|task| (Some(task), woken(), None)).collect();
    let until = Instant::now() + Duration::from_secs(60);
    while tasks.iter().any(|(task, ..)| task.is_some()) {
        assert!(Instant::now() < until, "a read has not ended");
        for (slot, woken, result) in &mut tasks {
            let Some(task) = slot else { continue };
            if !woken.1.swap(false, Ordering::SeqCst) {
                continue;
            }
            let waker = Waker::from(Arc::clone(woken));
            if let Poll::Ready(done) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
                (*slot, *result) = (None, Some(done));
            }
        }
        if tasks.iter().any(|(task, ..)| task.is_some()) {
            thread::park_timeout(Duration::from_millis(100));
        }
    }
    tasks.into_iter().filter_map(|(_, _, result)| result).collect()
}

fn alone<'t, T>(task: impl Future<Output = T> + 't) -> T {
    together([Box::pin(task) as Task<'t, T>]).pop().unwrap()
}

/// Reads until this thread has connections of its own.
fn warm_up(store: &Store) {
    for _ in 0..20 {
        let reads = (0..8).map(|_| {
            Box::pin(async { store.list::<Letter>().limit(1).await.map(drop) }) as Task<'_, _>
        });
        together(reads).into_iter().for_each(|done: Result<()>| done.unwrap());
    }
}

/// Returns the number of connections to a database, without the one that asks.
fn connections(store: &Store) -> i64 {
    let sql = "SELECT count(*) FROM information_schema.processlist WHERE db=database()";
    store.sql(sql).value::<i64>().run().unwrap().unwrap() - 1
}

#[test]
fn lists_and_statements_that_are_read_together_have_their_own_rows() {
    let store = open(&server().make_database().unwrap());
    let rows: Vec<Letter> = (0..3_000).map(letter).collect();
    store.insert_many(&rows).run().unwrap();
    let all = store.list::<Letter>().order(Letter::ID.ascending()).run().unwrap();
    warm_up(&store);
    // Rows of many packets and reads of the socket, next to short ones and to statements.
    for round in 0..5 {
        let reads = (0..60_i64).map(|number| {
            let (store, all) = (&store, &all);
            Box::pin(async move {
                match number % 4 {
                    0 => assert_eq!(
                        &store.list::<Letter>().order(Letter::ID.ascending()).await.unwrap(),
                        all
                    ),
                    1 => {
                        let list = store.list::<Letter>().filter(Letter::SIZE.eq(number + 1));
                        assert_eq!(list.await.unwrap().len(), 1, "{number}");
                    }
                    2 => {
                        let sql = "SELECT name FROM letter WHERE id=? OR 1=0";
                        let id = all[number as usize].id;
                        let name = store.sql(sql).bind(id).value::<String>().await.unwrap();
                        assert_eq!(name.as_deref(), Some(&*format!("Zürich {number}")));
                    }
                    _ => {
                        let list = store
                            .list::<Letter>()
                            .order(Letter::ID.ascending())
                            .limit(number as u64);
                        assert_eq!(list.await.unwrap(), all[..number as usize], "{round}");
                    }
                }
            }) as Task<'_, ()>
        });
        assert_eq!(together(reads).len(), 60);
    }
}

#[test]
fn more_texts_than_are_kept_prepared_are_executed() {
    let store = open(&server().make_database().unwrap());
    store.insert(&letter(1)).run().unwrap();
    warm_up(&store);
    for round in 0..2 {
        for number in 0..300_i64 {
            let sql = format!("SELECT {number}+id*0 AS \"of{number}\" FROM letter");
            let found = alone(store.sql(&sql).value::<i64>().into_future()).unwrap();
            assert_eq!(found, Some(number), "{round}");
        }
    }
}

#[test]
fn a_statement_that_changes_rows_is_refused_and_a_wrong_one_is_named() {
    let url = server().make_database().unwrap();
    let store = open(&url);
    let by_hand = Mariadb::from_url(&url).unwrap();
    by_hand
        .execute(
            "CREATE FUNCTION adds() RETURNS INT MODIFIES SQL DATA BEGIN \
             INSERT INTO letter(name,photo) VALUES('x','x'); RETURN 1; END",
        )
        .unwrap();
    warm_up(&store);
    for round in 0..3 {
        for (sql, values, kind) in [
            ("SELECT adds()", 0, ErrorKind::Denied),
            ("SELECT * FROM nothing", 0, ErrorKind::Invalid),
            ("SELECT wrong syntax here", 0, ErrorKind::Invalid),
            ("SELECT ?+?", 1, ErrorKind::Invalid),
            ("DELETE FROM letter", 0, ErrorKind::Denied),
        ] {
            let mut statement = store.sql(sql);
            for _ in 0..values {
                statement = statement.bind(1_i64);
            }
            let error = alone(statement.value::<i64>().into_future()).unwrap_err();
            assert_eq!(error.kind(), kind, "{round}: {sql}: {error}");
        }
        assert_eq!(alone(store.sql("SELECT 1").value::<i64>().into_future()).unwrap(), Some(1));
    }
    assert_eq!(store.count::<Letter>().run().unwrap(), 0);
}

#[test]
fn slow_statements_delay_no_other_read() {
    let store = open(&server().make_database().unwrap());
    store.insert(&letter(1)).run().unwrap();
    warm_up(&store);
    let begun = Instant::now();
    let read = |number: usize| {
        let store = &store;
        Box::pin(async move {
            if number < 8 {
                store.sql("SELECT sleep(3)").value::<i64>().await.unwrap();
            } else {
                store.list::<Letter>().await.unwrap();
            }
            begun.elapsed()
        }) as Task<'_, Duration>
    };
    let took = together((0..20).map(read));
    assert!(took[..8].iter().all(|took| *took >= Duration::from_secs(3)), "{took:?}");
    assert!(took[8..].iter().all(|took| *took < Duration::from_secs(2)), "{took:?}");
}

#[test]
fn a_cancelled_read_is_ended_at_the_server() {
    let store = open(&server().make_database().unwrap());
    store.insert(&letter(1)).run().unwrap();
    warm_up(&store);
    let sleeping = || {
        let sql = "SELECT count(*) FROM information_schema.processlist \
                   WHERE db=database() AND info LIKE '%sleep(55)' AND info NOT LIKE '%processlist%'";
        store.sql(sql).value::<i64>().run().unwrap()
    };
    {
        let mut waiting: Vec<_> = (0..6)
            .map(|_| Box::pin(store.sql("SELECT sleep(55)").value::<i64>().into_future()))
            .collect();
        let mut context = Context::from_waker(Waker::noop());
        wait_until("the statements are executed", || {
            for one in &mut waiting {
                assert!(one.as_mut().poll(&mut context).is_pending());
            }
            sleeping() == Some(6)
        });
    }
    wait_until("the statements are ended", || sleeping() == Some(0));
    warm_up(&store);
    assert_eq!(alone(store.list::<Letter>().into_future()).unwrap().len(), 1);
}

#[test]
fn reads_behind_one_that_is_cancelled_have_their_rows() {
    let store = open(&server().make_database().unwrap());
    let rows: Vec<Letter> = (0..500).map(letter).collect();
    store.insert_many(&rows).run().unwrap();
    warm_up(&store);
    for round in 0..10 {
        let mut slow: Vec<_> = (0..8)
            .map(|_| Box::pin(store.sql("SELECT sleep(50)").value::<i64>().into_future()))
            .collect();
        let mut context = Context::from_waker(Waker::noop());
        // They are sent with the second poll.
        for _ in 0..2 {
            slow.iter_mut().for_each(|one| assert!(one.as_mut().poll(&mut context).is_pending()));
        }
        let begun = Instant::now();
        let reads = (0..30_i64).map(|number| {
            let (store, slow) = (&store, (number == 15).then(|| std::mem::take(&mut slow)));
            Box::pin(async move {
                let list = store.list::<Letter>().filter(Letter::SIZE.eq(2 * number));
                drop(slow);
                assert_eq!(list.await.unwrap().len(), 1, "{round}: {number}");
            }) as Task<'_, ()>
        });
        assert_eq!(together(reads.collect::<Vec<_>>()).len(), 30);
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}

#[test]
fn connections_that_the_server_has_closed_are_replaced() {
    let store = open(&server().make_database().unwrap());
    store.insert(&letter(1)).run().unwrap();
    warm_up(&store);
    let sql = "SELECT group_concat(id) FROM information_schema.processlist \
               WHERE db=database() AND id<>connection_id()";
    let ids = store.sql(sql).value::<String>().run().unwrap().unwrap();
    for id in ids.split(',') {
        // One may have been closed by the pool meanwhile.
        let _ = server().execute(&format!("KILL {id}"));
    }
    thread::sleep(Duration::from_millis(600));
    for _ in 0..50 {
        assert_eq!(alone(store.list::<Letter>().into_future()).unwrap().len(), 1);
    }
}

#[test]
fn a_server_that_is_killed_and_comes_back_is_read_again() {
    let own = TemporaryMariadb::start().unwrap();
    let store = open(&own.make_database().unwrap());
    store.insert(&letter(1)).run().unwrap();
    warm_up(&store);
    let is_back = AtomicBool::new(false);
    thread::scope(|scope| {
        let read = || {
            let (mut failed, mut after) = (0, 0);
            let until = Instant::now() + Duration::from_secs(60);
            while after < 100 {
                assert!(Instant::now() < until, "{failed} reads have failed");
                let was_back = is_back.load(Ordering::SeqCst);
                let reads = (0..6).map(|_| {
                    Box::pin(async { store.list::<Letter>().await.map(|all| all.len()) })
                        as Task<'_, Result<usize>>
                });
                for done in together(reads) {
                    match done {
                        Ok(rows) => {
                            assert_eq!(rows, 1);
                            after += usize::from(was_back);
                        }
                        Err(error) => {
                            let expected = matches!(
                                error.kind(),
                                ErrorKind::Lost | ErrorKind::Refused | ErrorKind::Busy
                            );
                            assert!(expected, "{error:?}");
                            failed += 1;
                            thread::sleep(Duration::from_millis(5));
                        }
                    }
                }
            }
            failed
        };
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(read)).collect();
        thread::sleep(Duration::from_millis(300));
        own.crash();
        own.resume().unwrap();
        is_back.store(true, Ordering::SeqCst);
        let failed: Vec<u32> = readers.into_iter().map(|one| one.join().unwrap()).collect();
        assert!(failed.iter().sum::<u32>() > 0, "no read has met the restart");
    });
}

#[test]
fn event_loops_have_few_connections_and_a_close_ends_them() {
    let url = server().make_database().unwrap();
    let other = open(&url);
    let store = open(&format!("{url}?connections_max=6"));
    store.insert(&letter(1)).run().unwrap();
    let before = connections(&other);
    thread::scope(|scope| {
        let warm: Vec<_> = (0..4).map(|_| scope.spawn(|| warm_up(&store))).collect();
        warm.into_iter().for_each(|thread| thread.join().unwrap());
        let now = connections(&other);
        // Three of event loops, and up to six of the threads for reads.
        assert!(now > before && now <= before + 9, "{now} after {before}");
    });
    store.close().unwrap();
    wait_until("the connections are closed", || connections(&other) < before);
    let error = alone(store.list::<Letter>().into_future()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
}
