//! Streams of a list: the rows of the list, read in pages, with nothing held between them.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use futures_lite::StreamExt;
use futures_lite::future::block_on;

use crate::conformance::harness::models;
use crate::conformance::harness::models::Note;
use crate::conformance::harness::subject::{Stand, Subject};

/// A stream has the rows of the list in its order, with pages of any size.
pub fn a_stream_has_the_rows_of_the_list(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    stand.insert_many(&Note::numbered(0..23)).run().unwrap();
    stand.settle();
    for (least, limit) in [(0, None), (7, None), (0, Some(0)), (0, Some(10)), (7, Some(100))] {
        let list = || {
            let list = stand.list::<Note>().order(Note::NUMBER.descending());
            let list = list.filter(Note::NUMBER.ge(least));
            if let Some(limit) = limit { list.limit(limit) } else { list }
        };
        let whole = list().run().unwrap();
        for rows in [1, 5, 10, 256] {
            let read: Result<Vec<Note>, _> = list().iter().page_rows(rows).collect();
            assert_eq!(read.unwrap(), whole, "pages of {rows} rows");
            let stream = list().stream().page_rows(rows);
            assert_eq!(block_on(stream.try_collect::<_, _, Vec<Note>>()).unwrap(), whole);
        }
    }
}

/// Rows that are deleted or inserted during a stream do not hide or repeat other rows.
pub fn a_stream_continues_while_rows_change(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let keys = stand.insert_many(&Note::numbered(0..12)).run().unwrap();
    stand.settle();
    let mut stream = stand.list::<Note>().order(Note::NUMBER.ascending()).iter().page_rows(4);
    let first: Vec<Note> = stream.by_ref().take(4).map(Result::unwrap).collect();
    assert_eq!(first.len(), 4);
    // No reader is open: these writes wait for nothing.
    stand.delete::<Note>(keys[3]).run().unwrap();
    stand.delete::<Note>(keys[8]).run().unwrap();
    stand.insert(&Note::new("before", 1)).run().unwrap();
    let rest = stream.map(|note| note.unwrap().number.unwrap());
    assert!(rest.eq([4, 5, 6, 7, 9, 10, 11]));
}

/// A stream that is dropped, also while it waits for a page, holds nothing back.
pub fn a_dropped_stream_holds_nothing(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    stand.insert_many(&Note::numbered(0..50)).run().unwrap();
    stand.settle();
    for read in 0..8 {
        let mut stream = stand.list::<Note>().stream().page_rows(3);
        for _ in 0..read {
            assert!(block_on(stream.next()).unwrap().is_some());
        }
        let mut context = Context::from_waker(Waker::noop());
        match pin!(stream.next()).poll(&mut context) {
            Poll::Ready(row) => assert!(row.unwrap().is_some()),
            Poll::Pending => {}
        }
        drop(stream);
        stand.insert(&Note::new("after", 100 + read)).run().unwrap();
    }
    assert_eq!(stand.count::<Note>().run().unwrap(), 58);
}

register!($ streams_promises streams:
    a_stream_has_the_rows_of_the_list,
    a_stream_continues_while_rows_change,
    a_dropped_stream_holds_nothing,
);
