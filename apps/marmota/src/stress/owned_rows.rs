//! The rows of a thread in a mixed load, with the states that each of them may have.

use marmota::store::{Durability, Store};
use marmota::{Error, Result};

use super::sample::{Dice, FIELDS, Sample};
use super::tally::Tally;

/// The row numbers of a list.
const LISTED: u32 = 20;
/// Rows are deleted only if a thread has more of them.
const ROWS_MIN: usize = 20;

/// What the rows of a run are made of, and how they are written.
#[derive(Clone, Copy)]
pub(super) struct RowOrigin {
    pub(super) seed: u64,
    pub(super) run: i64,
    pub(super) durability: Durability,
}

/// A row of a thread.
#[derive(Clone, Debug)]
pub(super) struct OwnedRow {
    number: u32,
    /// `None` if the answer to the insert was not received.
    id: Option<i64>,
    /// The states that it may have: one after an acknowledged write, more after a write that failed.
    states: Vec<RowState>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum RowState {
    Absent,
    /// Present, after this many updates.
    Updated(u32),
}

impl OwnedRow {
    pub(super) const fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn may_be_absent(&self) -> bool {
        self.states.contains(&RowState::Absent)
    }

    /// Returns the highest number of updates.
    fn updates(&self) -> u32 {
        let updates = self.states.iter().map(|state| match state {
            RowState::Absent => 0,
            RowState::Updated(updates) => *updates,
        });
        updates.max().unwrap_or_default()
    }

    /// Returns the difference to the stored row; `None` if it is in one of the possible states.
    pub(super) fn fault(&self, origin: RowOrigin, stored: &Sample) -> Option<String> {
        let id = self.id.unwrap_or(stored.id);
        let mut faults = Vec::new();
        for state in &self.states {
            let RowState::Updated(updates) = *state else { continue };
            let thread = stored.thread as u32;
            let row = Sample::new(origin.seed, origin.run, thread, self.number);
            match row.with_id(id).with_updates(updates).fault(stored) {
                None => return None,
                Some(fault) => faults.push(fault),
            }
        }
        Some(faults.pop().unwrap_or_else(|| format!("row {} was deleted", stored.id)))
    }
}

/// The rows of one thread, by number.
pub(super) struct OwnedRows {
    origin: RowOrigin,
    thread: u32,
    rows: Vec<OwnedRow>,
    next: u32,
    dice: Dice,
    pub(super) tally: Tally,
}

impl OwnedRows {
    pub(super) fn new(origin: RowOrigin, thread: u32) -> Self {
        let dice = Dice(origin.seed ^ u64::from(thread));
        Self { origin, thread, rows: Vec::new(), next: 0, dice, tally: Tally::default() }
    }

    pub(super) fn into_rows(self) -> Vec<OwnedRow> {
        self.rows
    }

    fn sample(&self, number: u32) -> Sample {
        Sample::new(self.origin.seed, self.origin.run, self.thread, number)
    }

    /// Sends a request, and checks its answer. Returns the kind and the message of a failure.
    pub(super) fn request(&mut self, client: &Store) -> Option<(String, String)> {
        let choice = self.dice.roll() % 10;
        let place = self.dice.roll() as usize % self.rows.len().max(1);
        // A row without an id is found by lists only.
        let has_id = self.rows.get(place).is_some_and(|row| row.id.is_some());
        let (verb, done) = match choice {
            3..=5 if has_id => ("get", self.get(client, place)),
            6 | 7 if has_id => ("update", self.update(client, place)),
            8 => ("list", self.list(client)),
            9 if has_id && self.rows.len() > ROWS_MIN => ("delete", self.delete(client, place)),
            _ => ("insert", self.insert(client)),
        };
        let error: Error = done.err()?;
        Some((format!("{verb}: {}", error.kind().name()), error.to_string()))
    }

    fn insert(&mut self, client: &Store) -> Result<()> {
        let number = self.next;
        self.next += 1;
        let inserted = client.insert(&self.sample(number)).durability(self.origin.durability).run();
        let new = RowState::Updated(0);
        let (id, states, done) = match inserted {
            Ok(id) => (Some(id), vec![new], Ok(())),
            Err(error) => (None, vec![RowState::Absent, new], Err(error)),
        };
        self.rows.push(OwnedRow { number, id, states });
        done
    }

    fn get(&mut self, client: &Store, place: usize) -> Result<()> {
        let row = &self.rows[place];
        let id = row.id.unwrap_or_default();
        let fault = match client.get::<Sample>(id).with_blobs().optional().run()? {
            Some(stored) => row.fault(self.origin, &stored),
            None => (!row.may_be_absent()).then(|| format!("row {id} is lost: {row:?}")),
        };
        self.tally.check(FIELDS, fault);
        Ok(())
    }

    fn update(&mut self, client: &Store, place: usize) -> Result<()> {
        let (number, id) = (self.rows[place].number, self.rows[place].id.unwrap_or_default());
        let updates = self.rows[place].updates() + 1;
        let row = self.sample(number).with_id(id).with_updates(updates);
        let updated = client.update(&row).durability(self.origin.durability).run();
        let new = RowState::Updated(updates);
        self.written(place, new, updated.map(drop))
    }

    fn delete(&mut self, client: &Store, place: usize) -> Result<()> {
        let id = self.rows[place].id.unwrap_or_default();
        let deleted = client.delete::<Sample>(id).durability(self.origin.durability).run();
        self.written(place, RowState::Absent, deleted.map(drop))
    }

    /// Takes the result of a write that leads to a state.
    fn written(&mut self, place: usize, new: RowState, done: Result<()>) -> Result<()> {
        let row = &mut self.rows[place];
        match done {
            Ok(()) => row.states = vec![new],
            Err(error) if error.kind() == marmota::ErrorKind::NotFound => {
                let lost = (!row.may_be_absent()).then(|| format!("{row:?} is lost: {error}"));
                self.tally.check(1, lost);
                row.states = vec![RowState::Absent];
            }
            Err(error) => {
                row.states.push(new);
                return Err(error);
            }
        }
        if row.states == [RowState::Absent] {
            self.rows.remove(place);
        }
        Ok(())
    }

    /// Lists the rows with some consecutive numbers.
    fn list(&mut self, client: &Store) -> Result<()> {
        let from = (self.dice.roll() % u64::from(self.next.max(1))) as u32;
        let (first, end) = (i64::from(from), i64::from(from + LISTED));
        let own = Sample::RUN.eq(self.origin.run).and(Sample::THREAD.eq(i64::from(self.thread)));
        let filter = own.and(Sample::NUMBER.ge(first)).and(Sample::NUMBER.lt(end));
        let list = client.list::<Sample>().filter(filter).order(Sample::NUMBER.ascending());
        let mut stored = list.with_blobs().run()?.into_iter().peekable();
        let start = self.rows.partition_point(|row| row.number < from);
        for row in self.rows[start..].iter().take_while(|row| i64::from(row.number) < end) {
            let found = stored.next_if(|found| found.number == i64::from(row.number));
            let fault = match found {
                Some(found) => row.fault(self.origin, &found),
                None => (!row.may_be_absent()).then(|| format!("a list has no row {row:?}")),
            };
            self.tally.check(FIELDS, fault);
        }
        let more = stored.next();
        let fault = more.map(|row| format!("a list has row {}, which was deleted", row.id));
        self.tally.check(1, fault);
        Ok(())
    }
}
