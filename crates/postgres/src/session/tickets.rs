//! The operations of a session in progress, found by ticket in constant time: a server thread may
//! have thousands.

use marmota_store::engine::Ticket;

use crate::running::Running;

/// The most completed operations that are kept for reuse, with their buffers: a server thread has
/// hundreds in progress at once.
const SPARE_MAX: usize = 512;
/// The most bytes of the buffers of a kept operation; the first few may have more.
const SPARE_BYTES_MAX: usize = 1 << 10;
const FIRST_SPARE_BYTES_MAX: usize = 16 << 10;
const FIRST_SPARE: usize = 16;

/// The operations of a session. A ticket is a place and the number of its previous uses.
#[derive(Default)]
pub(crate) struct Tickets {
    places: Vec<Place>,
    free: Vec<u32>,
    #[expect(clippy::vec_box, reason = "they are handed out and taken back as they are")]
    spare: Vec<Box<Running>>,
}

struct Place {
    uses: u32,
    is_taken: bool,
    running: Option<Box<Running>>,
}

impl Tickets {
    pub(crate) fn add(&mut self, running: Box<Running>) -> Ticket {
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.places.push(Place { uses: 0, is_taken: false, running: None });
                (self.places.len() - 1) as u32
            }
        };
        let place = &mut self.places[at as usize];
        place.uses = place.uses.wrapping_add(1);
        place.is_taken = true;
        place.running = Some(running);
        Ticket(u64::from(place.uses) << 32 | u64::from(at))
    }

    fn place(&mut self, ticket: Ticket) -> Option<&mut Place> {
        let place = self.places.get_mut((ticket.0 & u64::from(u32::MAX)) as usize)?;
        (place.is_taken && u64::from(place.uses) == ticket.0 >> 32).then_some(place)
    }

    /// Takes an operation, which must be put back or freed.
    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<Box<Running>> {
        self.place(ticket)?.running.take()
    }

    pub(crate) fn put(&mut self, ticket: Ticket, running: Box<Running>) {
        if let Some(place) = self.place(ticket) {
            place.running = Some(running);
        }
    }

    /// Removes a ticket whose operation was taken.
    pub(crate) fn free(&mut self, ticket: Ticket) {
        if let Some(place) = self.place(ticket) {
            place.is_taken = false;
            self.free.push((ticket.0 & u64::from(u32::MAX)) as u32);
        }
    }

    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Box<Running>> {
        let running = self.take(ticket);
        self.free(ticket);
        running
    }

    /// Returns a completed operation, for its buffers.
    pub(crate) fn spare(&mut self) -> Option<Box<Running>> {
        self.spare.pop()
    }

    pub(crate) fn give_back(&mut self, mut running: Box<Running>) {
        running.place.leave();
        let bytes_max = match self.spare.len() {
            0..FIRST_SPARE => FIRST_SPARE_BYTES_MAX,
            FIRST_SPARE..SPARE_MAX => SPARE_BYTES_MAX,
            _ => return,
        };
        if running.bytes() <= bytes_max {
            self.spare.push(running);
        }
    }

    /// Returns any remaining ticket.
    pub(crate) fn any(&self) -> Option<Ticket> {
        let taken = self.places.iter().enumerate().find(|(_, place)| place.is_taken);
        taken.map(|(at, place)| Ticket(u64::from(place.uses) << 32 | at as u64))
    }
}
