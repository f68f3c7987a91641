//! Long reads: they yield the thread to other operations, return the state of one moment, and leave
//! nothing locked when they are dropped.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use marmota_model::{Comparison, Ref};
use marmota_store::group::count;

use crate::conformance::event_loops::event_loop::timed;
use crate::conformance::harness::models;
use crate::conformance::harness::models::{City, Country, Note};
use crate::conformance::harness::subject::{Stand, Subject};

/// The number of rows of a long read.
const ROWS: i64 = 60_000;
/// The maximum duration of one poll of a long read.
const TURN_MAX: Duration = Duration::from_millis(20);
/// The number of attempts of a measurement on a busy machine.
const TRIES: usize = 10;
const LONG: Duration = Duration::from_secs(120);

fn stand_of_many(subject: &Subject) -> Stand<'_> {
    let mut stand = Stand::open(subject, models::all);
    for first in (0..ROWS).step_by(10_000) {
        let notes: Vec<Note> =
            (first..first + 10_000).map(|n| Note::new(format!("note {n}"), 0)).collect();
        stand.insert_many(&notes).run().unwrap();
    }
    stand.settle();
    stand
}

struct Bell(Thread, AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.1.store(true, Ordering::SeqCst);
        self.0.unpark();
    }
}

/// Polls a future to its end like an event loop, and calls `between` after each poll. Returns the
/// duration of the longest poll, without the time in which other programs had the processor.
fn drive<F: Future>(future: F, mut between: impl FnMut()) -> (F::Output, Duration) {
    let bell = Arc::new(Bell(thread::current(), AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&bell));
    let (mut future, mut longest) = (pin!(future), Duration::ZERO);
    let until = Instant::now() + LONG;
    loop {
        if bell.1.swap(false, Ordering::SeqCst) {
            let mut context = Context::from_waker(&waker);
            let (polled, took) = timed(|| future.as_mut().poll(&mut context));
            longest = longest.max(took);
            if let Poll::Ready(output) = polled {
                return (output, longest);
            }
            between();
        }
        assert!(Instant::now() < until, "the read was not woken");
        thread::park_timeout(Duration::from_millis(5));
    }
}

/// Measures until no poll takes too long, because other programs use the machine.
fn in_short_turns(what: &str, mut measure: impl FnMut() -> Duration) {
    let mut turns = Vec::new();
    for _ in 0..TRIES {
        turns.push(measure());
        if turns.last().is_some_and(|turn| *turn < TURN_MAX) {
            return;
        }
    }
    panic!("{what}: the longest turn of each read was {turns:?}, {TURN_MAX:?} are allowed");
}

/// Lists, sorts and counts of many rows yield their thread, on which other operations are executed
/// in the meantime.
pub fn a_long_read_leaves_its_thread(subject: &Subject) {
    let stand = stand_of_many(subject);
    let first = stand.list::<Note>().limit(1).run().unwrap().remove(0);
    let other = || {
        assert_eq!(stand.get::<Note>(first.id).run().unwrap().text, first.text);
    };
    in_short_turns("a list", || {
        let (rows, longest) = drive(stand.list::<Note>(), other);
        assert_eq!(rows.unwrap().len() as i64, ROWS);
        longest
    });
    in_short_turns("a list of few among many", || {
        let list = stand.list::<Note>().filter(Note::TEXT.contains("777"));
        let (rows, longest) = drive(list, other);
        let wanted = (0..ROWS).filter(|n| n.to_string().contains("777")).count();
        assert_eq!(rows.unwrap().len(), wanted);
        longest
    });
    in_short_turns("a sorted list", || {
        let (rows, longest) = drive(stand.list::<Note>().order(Note::TEXT.descending()), other);
        let rows = rows.unwrap();
        assert_eq!((rows.len() as i64, &*rows[0].text), (ROWS, "note 9999"));
        assert!(rows.is_sorted_by(|a, b| a.text >= b.text));
        longest
    });
    in_short_turns("a count", || {
        let (count, longest) = drive(stand.count::<Note>().filter(Note::TEXT.contains("5")), other);
        let wanted = (0..ROWS).filter(|n| n.to_string().contains('5')).count();
        assert_eq!(count.unwrap(), wanted as u64);
        longest
    });
}

/// A list or count with a condition on many related rows yields its thread while those are read,
/// and is of one moment: other transactions move rows from one related row to the other meanwhile.
pub fn a_long_condition_on_related_rows_leaves_its_thread(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let countries = ["aa", "bb", "cc"].map(|code| Country::new(code, code));
    stand.insert_many(&countries).run().unwrap();
    for first in (0..ROWS).step_by(10_000) {
        let city = |n: i64| City::new(&format!("city {n}"), if n == 777 { "bb" } else { "aa" });
        let cities: Vec<City> = (first..first + 10_000).map(city).collect();
        stand.insert_many(&cities).run().unwrap();
    }
    let moving = stand.list::<City>().filter(City::NAME.eq("city 777")).run().unwrap().remove(0);
    let read = || {
        assert_eq!(stand.get::<Country>("cc".to_owned()).run().unwrap().name, "cc");
    };
    let mut is_in = false;
    let mut other = || {
        read();
        is_in = !is_in;
        let country = Ref::new(if is_in { "cc" } else { "bb" }.to_owned());
        stand.patch::<City>(moving.id).set(City::COUNTRY, country).run().unwrap();
    };
    let moved = || City::COUNTRY.any(City::NAME.contains("y 777"));
    in_short_turns("a list by related rows", || {
        let list = stand.list::<Country>().filter(moved()).order(Country::NAME.descending());
        let (rows, longest) = drive(list, &mut other);
        let codes: Vec<String> = rows.unwrap().into_iter().map(|country| country.code).collect();
        // Other names have the same beginning, in the first country.
        assert!(codes.len() == 2 && codes[1] == "aa", "{codes:?}");
        longest
    });
    in_short_turns("a count by related rows", || {
        let many = City::COUNTRY.count(City::NAME.contains("city"), Comparison::Greater, 1);
        let (count, longest) = drive(stand.count::<Country>().filter(many), &mut other);
        assert_eq!(count.unwrap(), 1);
        longest
    });
    in_short_turns("a list of many rows by related rows", || {
        let of = City::COUNTRY.to(Country::NAME.eq("aa"));
        let list = stand.list::<City>().filter(of).limit(20_000);
        let (rows, longest) = drive(list, read);
        assert_eq!(rows.unwrap().len(), 20_000);
        longest
    });
}

/// Many groups, of fields of the rows and of related rows, yield their thread, also while they are
/// put together, sorted and returned after the last row was read.
pub fn long_groups_leave_their_thread(subject: &Subject) {
    const COUNTRIES: i64 = 2_000;
    const CITIES: i64 = 10_000;
    let mut stand = Stand::open(subject, models::all);
    let code = |n: i64| format!("c{}", n % COUNTRIES);
    let countries: Vec<Country> =
        (0..COUNTRIES).map(|n| Country::new(&code(n), &format!("country {n}"))).collect();
    stand.insert_many(&countries).run().unwrap();
    let cities: Vec<City> =
        (0..CITIES).map(|n| City::new(&format!("city {n}"), &code(n))).collect();
    stand.insert_many(&cities).run().unwrap();
    stand.settle();
    let other = || {
        assert_eq!(stand.get::<Country>("c7".to_owned()).run().unwrap().name, "country 7");
    };
    in_short_turns("groups", || {
        let groups = stand.list::<City>().group_by(City::NAME).select(count());
        let (groups, longest) = drive(groups.order(City::NAME.descending()).limit(20_000), other);
        let groups = groups.unwrap();
        assert_eq!((groups.len() as i64, &*groups[0].0), (CITIES, "city 9999"));
        assert!(groups.is_sorted_by(|a, b| a.0 > b.0));
        longest
    });
    in_short_turns("groups by related rows", || {
        let by = (City::COUNTRY.then(Country::NAME), City::NAME);
        let groups = stand.list::<City>().group_by(by).select(count());
        let (groups, longest) = drive(groups.limit(20_000), other);
        let groups = groups.unwrap();
        assert_eq!(groups.len() as i64, CITIES);
        assert!(groups.is_sorted_by(|a, b| a.0 < b.0));
        longest
    });
}

/// While other transactions change the first and last rows alike, and delete and insert rows, a
/// list has each row once, as of one moment.
pub fn a_long_read_is_of_one_moment(subject: &Subject) {
    let stand = stand_of_many(subject);
    let all = stand.list::<Note>().run().unwrap();
    let (first, last) = (all[0].id, all[all.len() - 1].id);
    let mut removed = 1;
    let mut number = 0;
    let mut change = || {
        removed += 7;
        number += 1;
        let done = stand.transaction(|within| {
            within.patch::<Note>(first).set(Note::NUMBER, number).run()?;
            within.patch::<Note>(last).set(Note::NUMBER, number).run()?;
            within.delete::<Note>(all[removed].id).run()?;
            within.insert(&Note::new("new", 0)).run().map(drop)
        });
        done.unwrap();
    };
    for sorted in [false, true, false] {
        let mut list = stand.list::<Note>();
        if sorted {
            list = list.order(Note::TEXT.ascending());
        }
        let (rows, _) = drive(list, &mut change);
        let mut rows = rows.unwrap();
        rows.sort_unstable_by_key(|row| row.id);
        assert!(rows.is_sorted_by(|a, b| a.id < b.id), "a row came twice");
        assert_eq!(rows.len() as i64, ROWS);
        let number_of = |id| rows.iter().find(|row| row.id == id).and_then(|row| row.number);
        assert_eq!(number_of(first), number_of(last));
        // A row was inserted for each deleted one, and both depend on the number.
        let at = number_of(first).unwrap_or_default();
        let new = rows.iter().filter(|row| row.text == "new").count() as i64;
        assert_eq!(new, at);
    }
}

/// A long read that is dropped blocks no other operation.
pub fn a_long_read_can_be_dropped(subject: &Subject) {
    let stand = stand_of_many(subject);
    for _ in 0..20 {
        let mut list = Box::pin(stand.list::<Note>().order(Note::TEXT.descending()));
        let _ = list.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        drop(list);
    }
    stand.insert(&Note::new("new", 0)).run().unwrap();
    assert_eq!(stand.count::<Note>().run().unwrap() as i64, ROWS + 1);
}

/// A delete by filter that scans and removes many rows yields its thread. Rolling back its
/// transaction undoes it.
pub fn a_long_delete_leaves_its_thread(subject: &Subject) {
    const GONE: usize = 10_000;
    let stand = stand_of_many(subject);
    let gone: Vec<Note> = (0..GONE).map(|n| Note::new(format!("gone {n}"), 0)).collect();
    let is_gone = || Note::TEXT.contains("gone");
    let count = || stand.count::<Note>().run().unwrap() as usize;
    let measure = || {
        stand.insert_many(&gone).run().unwrap();
        let mut longest = Duration::ZERO;
        if stand.capability().transactions {
            let transaction = stand.begin_run().unwrap();
            let (deleted, turn) = drive(transaction.delete_where::<Note>(is_gone()), || {});
            assert_eq!(deleted.unwrap() as usize, GONE);
            assert_eq!(transaction.count::<Note>().run().unwrap(), ROWS as u64);
            transaction.rollback().run().unwrap();
            assert_eq!(count(), ROWS as usize + GONE);
            longest = turn;
        }
        let (deleted, turn) = drive(stand.delete_where::<Note>(is_gone()), || {
            // Only operations on this table wait for it.
            stand.count::<City>().run().unwrap();
        });
        assert_eq!(deleted.unwrap() as usize, GONE);
        assert_eq!(count(), ROWS as usize);
        longest.max(turn)
    };
    in_short_turns("a delete", measure);
}

register!($ budgets_promises budgets:
    a_long_delete_leaves_its_thread,
    a_long_read_leaves_its_thread,
    a_long_condition_on_related_rows_leaves_its_thread,
    a_long_read_can_be_dropped,
    long_groups_leave_their_thread,
; by transactions:
    a_long_read_is_of_one_moment,
);
