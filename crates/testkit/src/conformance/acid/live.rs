//! Live queries: snapshot and patches lead to the rows that a list returns.

use std::collections::HashMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use marmota_model::{Caller, ErrorKind};
use marmota_store::change::{ChangeRetention, Position};
use marmota_store::live::{LiveEvent, LiveQuery, LiveStream, RowPatch};
use marmota_store::rights::{Grant, Right, Rights};
use marmota_store::{Store, StoreBuilder};

use crate::conformance::harness::models::{self, Note};
use crate::conformance::harness::subject::{Stand, Subject};

register!($ live_promises live:
    a_store_without_a_feed_has_no_live_queries,
    a_page_follows_writes_of_several_threads,
    each_event_is_the_page_at_its_position,
    deletes_inside_of_a_page_are_filled_from_the_rows_after_it,
    equal_queries_of_several_subscribers_have_the_same_events,
    a_query_on_a_value_is_not_woken_by_other_values,
    a_stream_continues_at_its_position,
    a_position_that_is_not_known_leads_to_a_snapshot,
    a_slow_subscriber_gets_a_new_snapshot,
    rights_select_the_rows,
    a_closed_store_ends_the_stream,
    ; by transactions:
    a_transaction_is_one_event,
    a_handle_of_a_transaction_is_refused,
);

fn recording(builder: StoreBuilder) -> StoreBuilder {
    models::all(builder).changes(ChangeRetention::default())
}

/// Opens the subject with a feed, if its engine has one.
fn open(subject: &Subject) -> Option<Stand<'_>> {
    subject.capability().change_feed.then(|| Stand::open(subject, recording))
}

/// A subscriber with the page that its events lead to.
struct Follower {
    stream: LiveStream<Note>,
    page: Vec<Note>,
    count: Option<u64>,
    has_more: bool,
    position: Option<Position>,
    snapshots: usize,
    events: usize,
}

/// The time in which an event must arrive.
const PATIENCE: Duration = Duration::from_secs(20);

impl Follower {
    fn new(stream: LiveStream<Note>) -> Self {
        let (page, count, position) = (Vec::new(), None, None);
        Self { stream, page, count, has_more: false, position, snapshots: 0, events: 0 }
    }

    fn of(query: LiveQuery<'_, Note>) -> Self {
        Self::new(query.subscribe_run().unwrap())
    }

    /// Returns the next event if there is one now.
    fn ready(&mut self) -> Option<LiveEvent<Note>> {
        let mut next = pin!(self.stream.next());
        match next.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(event) => Some(event.unwrap().expect("the store is open")),
            Poll::Pending => None,
        }
    }

    fn apply(&mut self, event: &LiveEvent<Note>) {
        event.apply_to(&mut self.page);
        (self.count, self.has_more) = (event.count(), event.has_more());
        assert!(self.position.is_none_or(|last| last <= event.position()), "positions descend");
        self.position = Some(event.position());
        self.snapshots += usize::from(matches!(event, LiveEvent::Snapshot { .. }));
        self.events += 1;
    }

    /// Waits for the next event, and applies it.
    fn next(&mut self) -> LiveEvent<Note> {
        let event = self.stream.next_run().unwrap().expect("the store is open");
        self.apply(&event);
        event
    }

    /// Applies events until the page is this one.
    #[track_caller]
    fn follow(&mut self, expected: &[Note], count: Option<u64>, has_more: bool) {
        let until = Instant::now() + PATIENCE;
        loop {
            while let Some(event) = self.ready() {
                self.apply(&event);
            }
            let is_it = self.page == expected && self.count == count && self.has_more == has_more;
            if is_it {
                return;
            }
            if Instant::now() >= until {
                assert_eq!(self.page, expected);
                assert_eq!((self.count, self.has_more), (count, has_more));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A page of notes by number: the largest first.
fn by_number(store: &Store, limit: u64) -> LiveQuery<'_, Note> {
    store.live::<Note>().order(Note::NUMBER.descending()).limit(limit).count()
}

/// The page that a list returns, the count, and whether more rows follow.
fn listed(store: &Store, limit: u64) -> (Vec<Note>, Option<u64>, bool) {
    let list = store.list::<Note>().order(Note::NUMBER.descending()).limit(limit + 1);
    let mut rows = list.run().unwrap();
    let has_more = rows.len() as u64 > limit;
    rows.truncate(limit as usize);
    (rows, Some(store.count::<Note>().run().unwrap()), has_more)
}

/// Makes a random write, with one of 40 numbers or none.
fn write(store: &Store, random: &mut fastrand::Rng) {
    let number = random.bool().then(|| random.i64(0..40));
    let keys = store.list::<Note>().column(Note::ID).run().unwrap();
    let key = random.choice(&keys).copied();
    let missing = match (random.u8(0..10), key) {
        (0..4, _) | (_, None) => {
            store.insert(&Note::new(format!("n{}", random.u8(..)), number)).run().map(drop)
        }
        (4..7, Some(key)) => store.patch::<Note>(key).set(Note::NUMBER, number).run().map(drop),
        (7, Some(key)) => store.patch::<Note>(key).set(Note::TEXT, "other").run().map(drop),
        (8, Some(_)) => {
            let low = random.i64(0..40);
            store.delete_where(Note::NUMBER.eq(Some(low))).run().map(drop)
        }
        (_, Some(key)) => store.delete::<Note>(key).run(),
    };
    // Another thread may have deleted the row.
    if let Err(error) = missing {
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
}

/// A store that records no changes refuses live queries, and the error names the setting.
pub fn a_store_without_a_feed_has_no_live_queries(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    // Some subjects always have a feed.
    if stand.position().is_ok() {
        return;
    }
    let error = stand.live::<Note>().subscribe_run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.message().contains("StoreBuilder::changes"), "{error}");
}

/// Writers on several threads: the pages that the events lead to are those of lists, whenever the
/// writers pause.
pub fn a_page_follows_writes_of_several_threads(subject: &Subject) {
    const THREADS: u64 = 3;
    let Some(stand) = open(subject) else { return };
    let mut small = Follower::of(by_number(&stand, 3));
    let mut large = Follower::of(by_number(&stand, 1_000));
    for round in 0..12 {
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let store: &Store = stand.store();
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(round * THREADS + thread);
                    (0..25).for_each(|_| write(store, &mut random));
                });
            }
            // A subscriber that arrives in the middle of the writes.
            let mut late = Follower::of(by_number(&stand, 5));
            late.next();
        });
        for (follower, limit) in [(&mut small, 3), (&mut large, 1_000)] {
            let (page, count, has_more) = listed(&stand, limit);
            follower.follow(&page, count, has_more);
        }
        let mut late = Follower::of(by_number(&stand, 3));
        late.next();
        assert_eq!((&late.page, late.count), (&small.page, small.count));
    }
    assert_eq!((small.snapshots, large.snapshots), (1, 1));
}

/// After each event, the page is the one that the list had at the event's position.
pub fn each_event_is_the_page_at_its_position(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    let mut follower = Follower::of(by_number(&stand, 4));
    let mut random = fastrand::Rng::with_seed(7);
    let mut pages = HashMap::from([(stand.position().unwrap(), listed(&stand, 4))]);
    for _ in 0..300 {
        let before = stand.position().unwrap();
        write(&stand, &mut random);
        // Another thread may publish the commit. A write that changes nothing has none.
        let until = Instant::now() + Duration::from_millis(20);
        while stand.position().unwrap() == before && Instant::now() < until {
            thread::yield_now();
        }
        pages.insert(stand.position().unwrap(), listed(&stand, 4));
    }
    let last = pages[&stand.position().unwrap()].clone();
    while (&follower.page, follower.count, follower.has_more) != (&last.0, last.1, last.2) {
        follower.next();
        let expected = &pages[&follower.position.unwrap()];
        let page = (follower.page.clone(), follower.count, follower.has_more);
        assert_eq!(&page, expected, "at {}", follower.position.unwrap());
    }
}

/// A page stays full while rows in it are deleted.
pub fn deletes_inside_of_a_page_are_filled_from_the_rows_after_it(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    stand.insert_many(&Note::numbered(0..100)).run().unwrap();
    let mut follower = Follower::of(by_number(&stand, 4));
    follower.next();
    for deleted in 1..=100_u64 {
        let middle = follower.page[follower.page.len() / 2].id;
        stand.delete::<Note>(middle).run().unwrap();
        let (page, count, has_more) = listed(&stand, 4);
        assert_eq!(page.len() as u64, 4.min(100 - deleted));
        follower.follow(&page, count, has_more);
    }
    assert_eq!(follower.snapshots, 1);
}

/// Subscribers of one query get the same events, each all of them.
pub fn equal_queries_of_several_subscribers_have_the_same_events(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    let mut followers: Vec<_> = (0..4).map(|_| Follower::of(by_number(&stand, 10))).collect();
    for note in Note::numbered(0..20) {
        stand.insert(&note).run().unwrap();
    }
    let (page, count, has_more) = listed(&stand, 10);
    for follower in &mut followers {
        follower.follow(&page, count, has_more);
        assert_eq!(follower.events, 21, "a snapshot, and an event for each insert");
    }
    drop(followers.split_off(1));
    stand.insert(&Note::new("last", 99)).run().unwrap();
    let (page, count, has_more) = listed(&stand, 10);
    followers[0].follow(&page, count, has_more);
}

/// A query with a fixed value gets events of rows that have it, or had it.
pub fn a_query_on_a_value_is_not_woken_by_other_values(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    let of = |number: i64| stand.live::<Note>().filter(Note::NUMBER.eq(Some(number)));
    let (mut three, mut four) = (Follower::of(of(3)), Follower::of(of(4)));
    three.next();
    four.next();
    let id = stand.insert(&Note::new("a", 3)).run().unwrap();
    assert!(matches!(three.next(), LiveEvent::Patch { .. }));
    stand.patch::<Note>(id).set(Note::NUMBER, Some(4)).run().unwrap();
    let LiveEvent::Patch { patches, .. } = three.next() else { panic!("a snapshot") };
    assert_eq!(patches, [RowPatch::Remove { index: 0 }]);
    four.follow(&stand.list::<Note>().run().unwrap(), None, false);
    assert_eq!((three.events, four.events), (3, 2));
}

/// A stream that was dropped continues with one patch, or with none if nothing has changed.
pub fn a_stream_continues_at_its_position(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    let mut random = fastrand::Rng::with_seed(3);
    let again = |position| {
        let query = by_number(&stand, 3);
        Follower::new(marmota_store::action::block_on(query.subscribe_from(position)).unwrap())
    };
    stand.insert_many(&Note::numbered(0..10)).run().unwrap();
    let mut follower = Follower::of(by_number(&stand, 3));
    follower.next();
    let mut snapshots = 0;
    for round in 0..40 {
        // Every other time, another subscriber keeps the query.
        let _other = (round % 2 == 0).then(|| Follower::of(by_number(&stand, 3)));
        let (page, position) = (follower.page.clone(), follower.position.unwrap());
        let (count, has_more) = (follower.count, follower.has_more);
        drop(follower);
        (0..round % 7).for_each(|_| write(&stand, &mut random));
        follower = again(position);
        (follower.page, follower.position) = (page, Some(position));
        (follower.count, follower.has_more) = (count, has_more);
        let (page, count, has_more) = listed(&stand, 3);
        follower.follow(&page, count, has_more);
        snapshots += follower.snapshots;
        // The page is followed from there, too.
        write(&stand, &mut random);
        let (page, count, has_more) = listed(&stand, 3);
        follower.follow(&page, count, has_more);
    }
    // A page cannot be undone past the rows that the window has.
    assert!(snapshots < 5, "{snapshots} snapshots");
}

/// A position of another database, and one that was not reached, lead to a snapshot.
pub fn a_position_that_is_not_known_leads_to_a_snapshot(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    stand.insert(&Note::new("a", 1)).run().unwrap();
    let text = stand.position().unwrap().to_string();
    let later = format!("{}{}", &text[..16], "0000000000ffffff").parse::<Position>().unwrap();
    let other = "0123456789abcdef0000000000000001".parse().unwrap();
    for position in [later, other] {
        let query = by_number(&stand, 3);
        let stream = marmota_store::action::block_on(query.subscribe_from(position)).unwrap();
        let mut follower = Follower::new(stream);
        assert!(matches!(follower.next(), LiveEvent::Snapshot { .. }));
        assert_eq!(follower.page.len(), 1);
    }
}

/// A subscriber that does not read its events gets a snapshot instead of them.
pub fn a_slow_subscriber_gets_a_new_snapshot(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    let mut slow = Follower::of(by_number(&stand, 1_000));
    let mut quick = Follower::of(by_number(&stand, 1_000));
    for number in 0..60 {
        stand.insert(&Note::new("long ".repeat(2_000), number)).run().unwrap();
        let (page, count, has_more) = listed(&stand, 1_000);
        quick.follow(&page, count, has_more);
    }
    assert_eq!(quick.events, 61);
    slow.follow(&quick.page, Some(60), false);
    assert_eq!(slow.snapshots, 2);
    assert!(slow.events < 40, "{} events were queued", slow.events);
}

/// A caller with a rule gets the rows that the rule selects, and none without the right to read.
pub fn rights_select_the_rows(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    let with = |grant: Grant| {
        let caller = Caller { id: "1".to_owned(), name: "ann".to_owned(), groups: Vec::new() };
        stand.with_rights(Rights::new(stand.registry(), Some(caller), &[grant]).unwrap())
    };
    let small = with(Grant::new("note", &[Right::Read]).rule("number < 10"));
    let mut follower = Follower::of(small.live::<Note>().count());
    follower.next();
    let id = stand.insert(&Note::new("hidden", 50)).run().unwrap();
    stand.insert(&Note::new("shown", 5)).run().unwrap();
    let shown = small.list::<Note>().run().unwrap();
    follower.follow(&shown, Some(1), false);
    assert_eq!(follower.events, 2);
    stand.patch::<Note>(id).set(Note::NUMBER, Some(9)).run().unwrap();
    let shown = small.list::<Note>().run().unwrap();
    assert_eq!(shown.len(), 2);
    follower.follow(&shown, Some(2), false);
    let none = with(Grant::new("note", &[Right::Insert]));
    let error = none.live::<Note>().subscribe_run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

/// Subscribers of a store that is closed get the end of the stream.
pub fn a_closed_store_ends_the_stream(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    let mut follower = Follower::of(by_number(&stand, 3));
    follower.next();
    stand.close().unwrap();
    assert!(follower.stream.next_run().unwrap().is_none());
}

/// The writes of a transaction are in one event, and none of one that is rolled back.
pub fn a_transaction_is_one_event(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    let mut follower = Follower::of(by_number(&stand, 3));
    follower.next();
    let transaction = stand.begin_run().unwrap();
    transaction.insert(&Note::new("undone", 1)).run().unwrap();
    drop(transaction);
    let transaction = stand.begin_run().unwrap();
    let id = transaction.insert(&Note::new("a", 1)).run().unwrap();
    transaction.insert(&Note::new("b", 2)).run().unwrap();
    transaction.patch::<Note>(id).set(Note::NUMBER, Some(3)).run().unwrap();
    transaction.commit().run().unwrap();
    let LiveEvent::Patch { patches, count, .. } = follower.next() else { panic!("a snapshot") };
    assert_eq!((patches.len(), count), (2, Some(2)));
    assert_eq!(follower.page, listed(&stand, 3).0);
}

/// The rows in a transaction are not committed, so they have no position.
pub fn a_handle_of_a_transaction_is_refused(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    let transaction = stand.begin_run().unwrap();
    let error = transaction.live::<Note>().subscribe_run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}
