//! The ring by itself: what comes is what was sent, and memory that the other
//! side spoils does no harm. How both sides sleep and wake is `tests/model`'s.

use std::sync::Arc;

use proptest::prelude::*;

use super::ring::{HEAD_WORDS, Place, Reader, Words, Writer};
use super::sync::{AtomicU64, Ordering};
use super::{Memory, Side};

struct Plain(Vec<AtomicU64>);

impl Words for Arc<Plain> {
    fn word(&self, at: usize) -> &AtomicU64 {
        &self.0[at]
    }
}

const PLACE: Place = Place { start: 3, capacity: 16 };

fn plain() -> Arc<Plain> {
    let words = PLACE.start + HEAD_WORDS + PLACE.capacity;
    Arc::new(Plain((0..words).map(|_| AtomicU64::new(0)).collect()))
}

proptest! {
    #[test]
    fn bytes_come_as_they_were_sent(all: Vec<u8>, steps: Vec<bool>, most in 1_usize..200) {
        let memory = plain();
        let mut writer = Writer::new(Arc::clone(&memory), PLACE);
        let mut reader = Reader::new(memory, PLACE);
        let (mut sent, mut come) = (0, Vec::new());
        for writes in steps.iter().copied().chain([true, false].into_iter().cycle()) {
            match writes {
                true => sent += writer.put(&all[sent..(sent + most).min(all.len())]).unwrap(),
                false => drop(reader.take(&mut come, most).unwrap()),
            }
            if come.len() == all.len() {
                break;
            }
        }
        prop_assert_eq!(come, all);
    }

    /// Whatever the other side writes, and whenever: no panic, and no more bytes than
    /// the ring has.
    #[test]
    fn a_side_that_spoils_it_does_no_harm(
        spoilt: Vec<(u8, u64, bool)>,
        bytes in proptest::collection::vec(0_u8.., 0..300),
    ) {
        let memory = plain();
        let mut writer = Writer::new(Arc::clone(&memory), PLACE);
        let mut reader = Reader::new(Arc::clone(&memory), PLACE);
        for (at, word, is_small) in spoilt {
            let at = PLACE.start + usize::from(at) % (HEAD_WORDS + PLACE.capacity);
            memory.0[at].store(if is_small { word % 40 } else { word }, Ordering::Relaxed);
            let mut come = Vec::new();
            let _ = (writer.put(&bytes), reader.take(&mut come, usize::MAX));
            let _ = (writer.waits(), writer.is_to_wake(), reader.sleeps(), reader.is_to_wake());
            prop_assert!(come.len() <= PLACE.capacity * 8);
        }
    }
}

#[test]
fn both_sides_of_a_memory_have_the_same_words() {
    let (mut server, file) = Side::of_server().unwrap();
    let mut client = Side::of_client(&file).unwrap();
    let long: Vec<u8> = (0..=255).cycle().take(200_000).collect();
    for (from, to) in [(&mut server.out, &mut client.come), (&mut client.out, &mut server.come)] {
        let (mut sent, mut come) = (0, Vec::new());
        while come.len() < long.len() {
            sent += from.put(&long[sent..]).unwrap();
            to.take(&mut come, usize::MAX).unwrap();
        }
        assert!(come == long);
    }
    // Words of a client's that have no place in the ring.
    server.out.put(b"answer").unwrap();
    drop(client);
    let spoils = Memory::of(&file).unwrap();
    spoils.word(super::TO_SERVER.start).store(u64::MAX, Ordering::Relaxed);
    assert!(server.come.take(&mut Vec::new(), 1).is_err());
}

#[test]
fn what_can_be_shortened_is_not_mapped() {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, 1 << 20).unwrap();
    assert!(Side::of_client(&file).is_err());
    let (_, file) = Side::of_server().unwrap();
    assert!(ftruncate(&file, 8).is_err(), "it is sealed");
}
