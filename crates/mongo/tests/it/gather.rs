//! Gets that are under way together share commands, and nothing else.

use std::pin::Pin;
use std::thread;
use std::time::{Duration, Instant};

use futures_lite::future::{block_on, poll_once};
use marmota::prelude::*;
use marmota::store::Durability;

use crate::tee::Tee;
use crate::{Office, open, server};

/// A row whose keys are numbers.
#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Seat {
    #[model(key)]
    id: i64,
    name: String,
}

/// A get under way.
type Getting = Pin<Box<dyn Future<Output = Result<Seat>>>>;

/// A `find` in a message: a text of that name.
const FIND: &[u8] = b"\x02find\0";

/// A store of fifty seats.
fn seats(url: &str) -> Store {
    let store = marmota::open(url).unwrap().model::<Seat>().open().unwrap();
    let seats: Vec<Seat> = (1..=50).map(|id| Seat { id, name: format!("seat {id}") }).collect();
    store.insert_many(&seats).run().unwrap();
    store
}

#[test]
fn many_gets_are_few_commands() {
    let tee = Tee::before(&server().url());
    let store = seats(tee.url());
    tee.count(FIND);
    block_on(async {
        let mut gets: Vec<(i64, Getting)> = Vec::new();
        for number in 0..200 {
            let (store, id) = (store.clone(), 1 + number % 60);
            gets.push((id, Box::pin(async move { store.get::<Seat>(id).await })));
        }
        let mut early = Vec::new();
        for (_, get) in &mut gets {
            early.push(poll_once(get).await);
        }
        for ((id, get), early) in gets.into_iter().zip(early) {
            let seat = match early {
                Some(seat) => seat,
                None => get.await,
            };
            match seat {
                Ok(seat) => assert_eq!((seat.id, seat.name), (id, format!("seat {id}"))),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                    assert!(id > 50, "{id}");
                }
            }
        }
    });
    let finds = tee.count(FIND);
    assert!((1..=60).contains(&finds), "{finds} commands for 200 gets");
    store.close().unwrap();
}

#[test]
fn threads_get_what_each_has_asked_for() {
    let (seats, offices) = (seats(&server().url()), open(&server().url()));
    let made: Vec<Office> = (0..20).map(|n| Office::new(&n.to_string(), &n.to_string())).collect();
    offices.insert_many(&made).run().unwrap();
    thread::scope(|scope| {
        for first in 0..16 {
            let (seats, offices) = (&seats, &offices);
            scope.spawn(move || {
                for turn in 0..30 {
                    let id = (first * 7 + turn) % 50 + 1;
                    assert_eq!(seats.get::<Seat>(id).run().unwrap().id, id);
                    let code = ((first + turn) % 20).to_string();
                    let office = offices.get::<Office>(&*code).run().unwrap();
                    assert_eq!((&office.code, &office.name), (&code, &code));
                }
            });
        }
    });
    seats.close().unwrap();
    offices.close().unwrap();
}

#[test]
fn a_get_sees_what_was_written_before_it() {
    let store = open(&server().url());
    store.insert(&Office::new("1", "x")).run().unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut last = 0;
                while last < 50 {
                    let seats = store.get::<Office>("1").run().unwrap().seats;
                    assert!(seats >= last, "{seats} after {last}");
                    last = seats;
                }
            });
        }
        for number in 1..=50 {
            store.patch::<Office>("1").set(Office::SEATS, number).run().unwrap();
            assert_eq!(store.get::<Office>("1").run().unwrap().seats, number);
        }
    });
    store.close().unwrap();
}

#[test]
fn gets_that_are_given_up_hold_up_nobody() {
    let store = open(&format!("{}?maxPoolSize=2", server().url()));
    store.insert(&Office::new("1", "x")).run().unwrap();
    block_on(async {
        for number in 0..200 {
            let get = std::pin::pin!(async { store.get::<Office>((number % 3).to_string()).await });
            let _ = poll_once(get).await;
        }
    });
    assert_eq!(store.get::<Office>("1").run().unwrap().name, "x");
    let began = Instant::now();
    while store.statistics().engine.connections_in_use > 0 {
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", store.statistics());
        thread::sleep(Duration::from_millis(5));
    }
    store.close().unwrap();
}

#[test]
fn a_write_asks_the_server_for_its_durability() {
    let tee = Tee::before(&server().url());
    let store = open(tee.url());
    let (waits, does_not) =
        (b"writeConcern\0\x09\0\0\0\x08j\0\x01\0", b"writeConcern\0\x09\0\0\0\x08j\0\0\0");
    tee.count(waits);
    store.insert(&Office::new("1", "x")).durability(Durability::Full).run().unwrap();
    assert_eq!(tee.count(waits), 1);
    store.delete::<Office>("1").durability(Durability::Relaxed).run().unwrap();
    assert_eq!(tee.count(does_not), 1);
    store.insert(&Office::new("1", "x")).run().unwrap();
    assert_eq!(tee.count(b"writeConcern\0"), 0);
    store.close().unwrap();
}
