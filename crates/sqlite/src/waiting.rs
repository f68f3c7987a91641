//! The waiting operations of a session, found by ticket in constant time: a server thread may have
//! thousands.

use std::sync::Arc;
use std::time::Instant;

use marmota_store::Durability;
use marmota_store::backoff::Backoff;
use marmota_store::engine::Ticket;
use marmota_store::operation::Write;
use marmota_store::wait::QueuePlace;

use crate::group;
use crate::scan::Scan;

/// A member of a group in SQLite.
pub(crate) type Member = Arc<group::Member<Write>>;

/// The event that an operation waits for.
#[derive(Debug)]
pub(crate) enum Wait {
    /// Its turn at the writer.
    Turn {
        until: Instant,
        /// Its place in the queue for the writer, after its first poll.
        place: QueuePlace,
        durability: Option<Durability>,
    },
    /// The end of a lock that prevents reading the file.
    Read { until: Instant, backoff: Backoff },
    /// The commit of its group.
    Member { member: Member, has_yielded: bool },
    /// Rows from a helper thread, and the number of rows already passed to the sink.
    Scan(Arc<Scan>, u64),
    /// The end of a scan that has the transaction's connection.
    Away { durability: Option<Durability> },
}

/// The waiting operations of a session. A ticket is a place and the number of its previous uses.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    places: Vec<(u32, Option<Wait>)>,
    free: Vec<u32>,
}

impl Waiting {
    pub(crate) fn add(&mut self, wait: Wait) -> Ticket {
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.places.push((0, None));
                (self.places.len() - 1) as u32
            }
        };
        let (uses, kept) = &mut self.places[place as usize];
        *uses = uses.wrapping_add(1);
        *kept = Some(wait);
        Ticket(u64::from(*uses) << 32 | u64::from(place))
    }

    fn place(&mut self, ticket: Ticket) -> Option<&mut Option<Wait>> {
        let (uses, kept) = self.places.get_mut((ticket.0 & u64::from(u32::MAX)) as usize)?;
        (u64::from(*uses) == ticket.0 >> 32).then_some(kept)
    }

    pub(crate) fn find(&mut self, ticket: Ticket) -> Option<&mut Wait> {
        self.place(ticket)?.as_mut()
    }

    pub(crate) fn change(&mut self, ticket: Ticket, wait: Wait) {
        if let Some(kept) = self.find(ticket) {
            *kept = wait;
        }
    }

    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Wait> {
        let wait = self.place(ticket)?.take()?;
        self.free.push((ticket.0 & u64::from(u32::MAX)) as u32);
        Some(wait)
    }

    /// Returns the members of groups.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.places.iter().filter_map(|(_, wait)| match wait {
            Some(Wait::Member { member, .. }) => Some(member),
            _ => None,
        })
    }

    /// Returns any remaining ticket.
    pub(crate) fn any(&self) -> Option<Ticket> {
        let taken = self.places.iter().enumerate().find(|(_, (_, wait))| wait.is_some());
        taken.map(|(place, (uses, _))| Ticket(u64::from(*uses) << 32 | place as u64))
    }
}
