//! The connections of a thread by token. A token has the index of a slot and the slot's generation,
//! which changes when the slot is reused: a late event or wake-up never reaches the wrong
//! connection.

use crate::connection::state::Connection;
use crate::reactor::event::Token;

/// The connections of a thread.
#[derive(Default)]
pub(crate) struct Slab {
    /// Slots with and without a connection.
    slots: Vec<Slot>,
    /// Indexes of slots without a connection; the last freed one is used first.
    free: Vec<u32>,
    /// The generation of new slots: no removed slot had a later one, so its tokens stay invalid.
    first_generation: u32,
}

/// A place for a connection. `generation` is that of the current connection, or of the next.
struct Slot {
    generation: u32,
    connection: Option<Connection>,
}

impl Slab {
    /// Returns the number of connections.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Inserts the connection that `make` returns for its token, in the slot that was freed last,
    /// or in a new one.
    pub(crate) fn insert(&mut self, make: impl FnOnce(Token) -> Connection) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: self.first_generation, connection: None });
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        let token = u64::from(slot.generation) << 32 | u64::from(index);
        slot.connection = Some(make(token));
        token
    }

    /// Returns a connection; `None` if it has ended.
    #[inline]
    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut Connection> {
        let slot = self.slots.get_mut(token as u32 as usize)?;
        if u64::from(slot.generation) != token >> 32 {
            return None;
        }
        slot.connection.as_mut()
    }

    /// Removes a connection, and changes the generation of its slot.
    pub(crate) fn remove(&mut self, token: Token) -> Option<Connection> {
        self.get_mut(token)?;
        let slot = self.slots.get_mut(token as u32 as usize)?;
        // The four highest bits are reserved for the reactor.
        slot.generation = (slot.generation + 1) % (1 << 28);
        self.free.push(token as u32);
        slot.connection.take()
    }

    /// Removes the free slots after the last used one, to return memory after a peak.
    pub(crate) fn shrink(&mut self) {
        let is_taken = |slot: &Slot| slot.connection.is_some();
        let kept = self.slots.iter().rposition(is_taken).map_or(0, |last| last + 1);
        let latest = self.slots.drain(kept..).map(|slot| slot.generation).max();
        self.first_generation = self.first_generation.max(latest.unwrap_or(0));
        self.slots.shrink_to_fit();
        self.free.retain(|index| (*index as usize) < kept);
        self.free.shrink_to_fit();
    }

    /// Returns the tokens of all connections.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = Token> {
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.connection.is_some())
            .map(|(index, slot)| u64::from(slot.generation) << 32 | index as u64)
    }
}
