//! Streams with an arbitrary peer.

use super::*;
use crate::peer::LEAVE;
use proptest::prelude::*;
use std::time::Duration;

const BOUNDS: Bounds = Bounds { streams_max: 3, reconnect_timeout: Duration::from_secs(600) };

/// Actions of the peer and of this side.
#[derive(Clone, Debug)]
enum Act {
    Take(u64),
    Drop(usize),
    Read(usize),
    Data(u64, usize),
    End(u64),
    Fail(u64),
    Credit(u64, u32),
    Cancel(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let number = 0_u64..4;
    prop_oneof![
        number.clone().prop_map(Act::Take),
        (0_usize..3).prop_map(Act::Drop),
        (0_usize..3).prop_map(Act::Read),
        (number.clone(), 0_usize..FRAME_BYTES_MAX).prop_map(|(one, count)| Act::Data(one, count)),
        number.clone().prop_map(Act::End),
        number.clone().prop_map(Act::Fail),
        (number.clone(), any::<u32>()).prop_map(|(one, bytes)| Act::Credit(one, bytes)),
        number.prop_map(Act::Cancel),
    ]
}

proptest! {
    /// For any messages, no more is buffered than was granted, and a peer that respects the grants
    /// is not refused.
    #[test]
    fn no_more_is_held_than_a_window_each(acts in proptest::collection::vec(act(), 0..200)) {
        let peer = Peer::of_one_connection();
        let mut taken: Vec<(u64, ChunkStream)> = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        for act in acts {
            let come = match act {
                Act::Take(number) => {
                    let known = peer.0.lock().streams.incoming.contains_key(&number);
                    let full = peer.0.lock().streams.incoming.len() >= BOUNDS.streams_max;
                    let pieces = peer.take_stream(number, BOUNDS);
                    prop_assert_eq!(pieces.is_ok(), !known && !full);
                    taken.extend(pieces.ok().map(|pieces| (number, pieces)));
                    Ok(())
                }
                Act::Drop(place) if place < taken.len() => {
                    drop(taken.remove(place));
                    Ok(())
                }
                Act::Read(place) if place < taken.len() => {
                    let _ = Pin::new(&mut taken[place].1).poll_next(&mut context);
                    Ok(())
                }
                Act::Drop(_) | Act::Read(_) => Ok(()),
                Act::Data(number, count) => {
                    let allowed = {
                        let state = peer.0.lock();
                        match state.streams.incoming.get(&number) {
                            Some(inflow) => {
                                let inflow = inflow.lock();
                                inflow.end.is_none() && count <= inflow.granted
                            }
                            None => count <= state.streams.stray,
                        }
                    };
                    let come = peer.take_frame(&Frame::Data(number, &vec![1; count]).write());
                    prop_assert_eq!(come.is_ok(), allowed);
                    come
                }
                Act::End(number) => peer.take_frame(&Frame::End(number).write()),
                Act::Fail(number) => {
                    let failure = Failure::of(&Error::new(ErrorKind::Stale, "old"), LEAVE);
                    peer.take_frame(&Frame::Fail(number, failure).write())
                }
                Act::Credit(number, bytes) => {
                    peer.take_frame(&Frame::Credit(number, bytes).write())
                }
                Act::Cancel(number) => peer.take_frame(&Frame::Cancel(number).write()),
            };
            let state = peer.0.lock();
            prop_assert!(state.streams.incoming.len() <= BOUNDS.streams_max);
            for inflow in state.streams.incoming.values() {
                let inflow = inflow.lock();
                let held: usize = inflow.pieces.iter().map(Vec::len).sum();
                prop_assert!(held + inflow.granted <= WINDOW_BYTES);
                prop_assert!(inflow.pieces.len() <= 2 * WINDOW_BYTES / FRAME_BYTES_MAX + 1);
            }
            drop(state);
            if come.is_err() {
                // The connection would be closed.
                break;
            }
        }
        peer.end();
        for (_, mut pieces) in taken {
            while let Poll::Ready(Some(_)) = Pin::new(&mut pieces).poll_next(&mut context) {}
        }
        prop_assert!(!peer.has_streams());
    }
}
