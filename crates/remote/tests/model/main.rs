//! The ring of shared memory in all its interleavings (by loom, which also tries
//! what weak memory allows): `ring.rs` as it is, with a lock for the bell.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(dead_code, unreachable_pub, reason = "the file is included for a part of what it does")]

#[path = "../../src/shared/ring.rs"]
mod ring;
mod sync;

use std::sync::Arc;

use loom::sync::{Condvar, Mutex};
use loom::thread;
use ring::{HEAD_WORDS, Place, Reader, Words, Writer};
use sync::AtomicU64;

struct Memory(Vec<AtomicU64>);

impl Words for Arc<Memory> {
    fn word(&self, at: usize) -> &AtomicU64 {
        &self.0[at]
    }
}

const PLACE: Place = Place { start: 0, capacity: 4 };

fn memory(place: Place) -> Arc<Memory> {
    Arc::new(Memory((0..HEAD_WORDS + place.capacity).map(|_| AtomicU64::new(0)).collect()))
}

/// The socket that a side sleeps on.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    rings: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.rings.notify_one();
    }

    fn sleep(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.rings.wait(rung).unwrap();
        }
        *rung = false;
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Reads so many bytes, asleep in between.
fn read(reader: &mut Reader<Arc<Memory>>, own: &Bell, other: &Bell, count: usize) -> Vec<u8> {
    let mut come = Vec::new();
    while come.len() < count {
        if reader.take(&mut come, usize::MAX).unwrap() > 0 {
            if reader.is_to_wake() {
                other.ring();
            }
        } else if reader.sleeps() {
            own.sleep();
        }
    }
    come
}

fn write(writer: &mut Writer<Arc<Memory>>, own: &Bell, other: &Bell, bytes: &[u8]) {
    let mut sent = 0;
    while sent < bytes.len() {
        let count = writer.put(&bytes[sent..]).unwrap();
        sent += count;
        if writer.is_to_wake() {
            other.ring();
        }
        if count == 0 && writer.waits().unwrap() {
            own.sleep();
        }
    }
}

#[test]
fn nobody_sleeps_over_what_has_come() {
    check(|| {
        let memory = memory(PLACE);
        let (reader_bell, writer_bell) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
        let mut writer = Writer::new(Arc::clone(&memory), PLACE);
        let (own, other) = (Arc::clone(&writer_bell), Arc::clone(&reader_bell));
        let writing = thread::spawn(move || {
            write(&mut writer, &own, &other, b"one");
            write(&mut writer, &own, &other, b"two");
        });
        let mut reader = Reader::new(memory, PLACE);
        assert_eq!(read(&mut reader, &reader_bell, &writer_bell, 6), b"onetwo");
        writing.join().unwrap();
    });
}

#[test]
fn nobody_sleeps_over_room() {
    check(|| {
        let memory = memory(PLACE);
        let (reader_bell, writer_bell) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
        let mut writer = Writer::new(Arc::clone(&memory), PLACE);
        let (own, other) = (Arc::clone(&writer_bell), Arc::clone(&reader_bell));
        let bytes: Vec<u8> = (0..40).collect();
        let sent = bytes.clone();
        // More than fits at once.
        let writing = thread::spawn(move || write(&mut writer, &own, &other, &sent));
        let mut reader = Reader::new(memory, PLACE);
        assert_eq!(read(&mut reader, &reader_bell, &writer_bell, 40), bytes);
        writing.join().unwrap();
    });
}

#[test]
fn both_ways_at_once_nobody_waits_for_ever() {
    check(|| {
        let (to, back) = (memory(PLACE), memory(PLACE));
        let (here, there) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
        let (mut reader, mut writer) =
            (Reader::new(Arc::clone(&to), PLACE), Writer::new(Arc::clone(&back), PLACE));
        let (own, other) = (Arc::clone(&there), Arc::clone(&here));
        let answering = thread::spawn(move || {
            let asked = read(&mut reader, &own, &other, 1);
            write(&mut writer, &own, &other, &asked);
        });
        write(&mut Writer::new(to, PLACE), &here, &there, b"?");
        assert_eq!(read(&mut Reader::new(back, PLACE), &here, &there, 1), b"?");
        answering.join().unwrap();
    });
}
