//! [`InFlight`]: the operations of a session that wait, and their [`Ticket`]s.
//!
//! A session keeps one entry for each operation that returned [`Submitted::Waiting`], until it was
//! polled to its end or cancelled.
//!
//! [`Submitted::Waiting`]: crate::engine::Submitted::Waiting

use std::ops::{Index, IndexMut};

/// An operation that waits in its session.
///
/// The upper 32 bits are the number of uses of the place, the lower 32 bits the place. Only the
/// session that returned it can interpret it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// The operations of a session that wait, by ticket. Every access takes constant time: the session
/// of a server thread may have thousands.
///
/// A ticket is a place and the number of its previous uses, so the ticket of an ended operation
/// finds nothing, even if its place was used again.
///
/// ```
/// use marmota_store::in_flight::InFlight;
///
/// let mut waiting = InFlight::new();
/// let ticket = waiting.add("insert");
/// waiting[ticket] = "commit";
/// assert_eq!(waiting.remove(ticket), Some("commit"));
/// assert_eq!(waiting.remove(ticket), None);
/// ```
#[derive(Debug)]
pub struct InFlight<T> {
    /// The places; a ticket's lower half is an index.
    places: Vec<Place<T>>,
    /// The places without a ticket.
    free: Vec<u32>,
}

/// A place for an operation.
#[derive(Debug)]
struct Place<T> {
    /// The number of tickets for this place so far.
    uses: u32,
    /// True until the ticket is removed: an operation that was taken keeps its ticket.
    is_taken: bool,
    value: Option<T>,
}

impl<T> Default for InFlight<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> InFlight<T> {
    /// An empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    /// Adds an operation, and returns its ticket, which no other operation of this table has had.
    pub fn add(&mut self, value: T) -> Ticket {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { uses: 0, is_taken: false, value: None });
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[at as usize];
        place.uses = place.uses.wrapping_add(1);
        (place.is_taken, place.value) = (true, Some(value));
        ticket(place, at as usize)
    }

    /// Returns the operation with this ticket; `None` if it has ended or was taken.
    #[must_use]
    pub fn get(&self, ticket: Ticket) -> Option<&T> {
        let place = self.places.get(at(ticket))?;
        place.has(ticket).then_some(place.value.as_ref()).flatten()
    }

    /// Returns the operation with this ticket; `None` if it has ended or was taken.
    pub fn get_mut(&mut self, ticket: Ticket) -> Option<&mut T> {
        self.place(ticket)?.value.as_mut()
    }

    /// Returns true if the ticket has an operation.
    #[must_use]
    pub fn contains(&self, ticket: Ticket) -> bool {
        self.get(ticket).is_some()
    }

    /// Takes an operation, whose ticket stays valid until [`Self::put`] or [`Self::remove`].
    ///
    /// It is for a poll that needs the operation and the session at the same time.
    ///
    /// ```
    /// use marmota_store::in_flight::InFlight;
    /// let mut waiting = InFlight::new();
    /// let ticket = waiting.add(1);
    /// let taken = waiting.take(ticket).unwrap();
    /// assert!(waiting.get(ticket).is_none());
    /// waiting.put(ticket, taken + 1);
    /// assert_eq!(waiting.get(ticket), Some(&2));
    /// ```
    pub fn take(&mut self, ticket: Ticket) -> Option<T> {
        self.place(ticket)?.value.take()
    }

    /// Puts an operation back that was taken.
    pub fn put(&mut self, ticket: Ticket, value: T) {
        if let Some(place) = self.place(ticket) {
            place.value = Some(value);
        }
    }

    /// Ends a ticket and returns its operation, if it was not taken.
    pub fn remove(&mut self, ticket: Ticket) -> Option<T> {
        let place = self.place(ticket)?;
        place.is_taken = false;
        let value = place.value.take();
        self.free.push(at(ticket) as u32);
        value
    }

    /// Returns the remaining operations, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Ticket, &T)> {
        let with_place = self.places.iter().enumerate();
        with_place.filter_map(|(at, place)| Some((ticket(place, at), place.value.as_ref()?)))
    }

    /// Returns any ticket that was not removed.
    ///
    /// A session that closes cancels all of them one by one.
    #[must_use]
    pub fn any(&self) -> Option<Ticket> {
        let taken = self.places.iter().enumerate().find(|(_, place)| place.is_taken);
        taken.map(|(at, place)| ticket(place, at))
    }

    /// Returns the place of a ticket that was not removed.
    fn place(&mut self, ticket: Ticket) -> Option<&mut Place<T>> {
        self.places.get_mut(at(ticket)).filter(|place| place.has(ticket))
    }
}

/// # Panics
/// If the ticket has no operation.
impl<T> Index<Ticket> for InFlight<T> {
    type Output = T;

    fn index(&self, ticket: Ticket) -> &T {
        self.get(ticket).expect("the ticket of an operation that waits")
    }
}

impl<T> IndexMut<Ticket> for InFlight<T> {
    fn index_mut(&mut self, ticket: Ticket) -> &mut T {
        self.get_mut(ticket).expect("the ticket of an operation that waits")
    }
}

impl<T> Place<T> {
    /// Returns true if the place belongs to this ticket.
    fn has(&self, ticket: Ticket) -> bool {
        self.is_taken && u64::from(self.uses) == ticket.0 >> 32
    }
}

/// Returns the current ticket of a place.
fn ticket<T>(place: &Place<T>, at: usize) -> Ticket {
    Ticket(u64::from(place.uses) << 32 | at as u64)
}

/// Returns the place of a ticket.
const fn at(ticket: Ticket) -> usize {
    (ticket.0 & u32::MAX as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ticket_of_an_ended_operation_finds_nothing() {
        let mut table = InFlight::new();
        let first = table.add(1);
        assert_eq!(table.remove(first), Some(1));
        let second = table.add(2);
        assert_eq!(at(first), at(second));
        assert_eq!((table.get(first), table.get(second)), (None, Some(&2)));
        assert_eq!((table.remove(first), table.take(first)), (None, None));
        assert_eq!(table.any(), Some(second));
    }

    #[test]
    fn a_taken_operation_keeps_its_ticket() {
        let mut table = InFlight::new();
        let ticket = table.add(1);
        assert_eq!(table.take(ticket), Some(1));
        assert_eq!((table.get(ticket), table.iter().count()), (None, 0));
        assert_eq!(table.any(), Some(ticket));
        assert_ne!(table.add(2), ticket);
        table.put(ticket, 3);
        assert_eq!(table[ticket], 3);
        table.take(ticket);
        assert_eq!(table.remove(ticket), None);
        table.put(ticket, 4);
        assert!(!table.contains(ticket));
    }
}
