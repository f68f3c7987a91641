//! A client that writes and reads at random, cancels some requests before their end, and records
//! the results.

use std::cell::RefCell;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hash;
use std::ops::Range;

use marmota::sqlite::disk::Disk;
use marmota::store::{Durability, Store};
use marmota::{ErrorKind, Result};

use super::history::{ACCOUNTS, Account, COUNTER, Fate, History, Inserted, RUN};
use super::schedule::{for_steps, yield_now};
use crate::stress::sample::{Dice, Sample};

/// The maximum number of rows in one step.
const ROWS_MAX: u32 = 4;
/// One in this many requests is cancelled.
const GIVEN_UP: u64 = 12;
/// One in this many steps makes the disk fail; one in `DISK_IS_MENDED` repairs it.
const DISK_BREAKS: u64 = 60;
const DISK_IS_MENDED: u64 = 6;

/// One in this many syncs of relaxed writes fails.
const SYNC_FAILS: u64 = 4;

/// The state that all clients share.
pub(super) struct Shared<'s> {
    pub(super) disk: &'s Disk,
    /// Syncs relaxed writes to the disk.
    pub(super) sync: &'s dyn Fn(),
    pub(super) seed: u64,
    pub(super) history: &'s RefCell<History>,
    /// A digest of the results of all requests, in order.
    pub(super) digest: &'s RefCell<DefaultHasher>,
}

/// A random client with its own sequence of random numbers.
pub(super) struct Client<'s> {
    pub(super) shared: &'s Shared<'s>,
    pub(super) number: u32,
    pub(super) store: &'s Store,
    pub(super) dice: Dice,
    /// Rows that were acknowledged, by their numbers and ids.
    pub(super) known: Vec<(u32, i64)>,
}

impl Client<'_> {
    /// Runs these steps.
    pub(super) async fn work(mut self, steps: Range<u32>) {
        for step in steps {
            yield_now().await;
            self.touch_the_disk();
            let first = step * ROWS_MAX;
            match self.dice.roll() % 10 {
                0..=1 => self.insert(first).await,
                2 => self.insert_relaxed(first).await,
                3 => self.insert_several(first).await,
                4 => self.count().await,
                5 => self.move_amount().await,
                6 => self.sync_relaxed(),
                _ => self.read().await,
            }
        }
    }

    fn touch_the_disk(&mut self) {
        if self.dice.roll().is_multiple_of(DISK_BREAKS) {
            let syncs = u32::try_from(self.dice.roll() % 3).unwrap_or_default();
            self.shared.disk.fail_after(Some(syncs));
        } else if self.dice.roll().is_multiple_of(DISK_IS_MENDED) {
            self.shared.disk.fail_after(None);
        }
    }

    /// Returns the number of polls after which this request is cancelled; `None` if it is not.
    fn cancel_after(&mut self) -> Option<u64> {
        self.dice.roll().is_multiple_of(GIVEN_UP).then(|| 1 + self.dice.roll() % 3)
    }

    /// Records and returns the result of a request; `None` for a cancelled one.
    fn fate<T>(&self, answer: Option<&Result<T>>) -> Fate {
        let fate = match answer {
            Some(Ok(_)) => Fate::Done(self.shared.disk.recorded()),
            Some(Err(error)) => match error.kind() {
                ErrorKind::Busy | ErrorKind::Conflict | ErrorKind::Refused | ErrorKind::Io => {
                    Fate::Refused
                }
                ErrorKind::Lost | ErrorKind::Timeout => Fate::Unknown,
                _ => {
                    let fault = format!("client {}: {error:?}", self.number);
                    self.shared.history.borrow_mut().faults.push(fault);
                    Fate::Unknown
                }
            },
            None => Fate::Unknown,
        };
        (self.number, fate).hash(&mut *self.shared.digest.borrow_mut());
        fate
    }

    fn inserted(&self, numbers: Range<u32>, fate: Fate) {
        let inserted = Inserted { client: self.number, numbers, fate };
        self.shared.history.borrow_mut().inserted.push(inserted);
    }

    fn row(&self, number: u32) -> Sample {
        Sample::new(self.shared.seed, RUN, self.number, number)
    }

    async fn insert(&mut self, number: u32) {
        let (cancel_after, row) = (self.cancel_after(), self.row(number));
        let id = for_steps(cancel_after, async { self.store.insert(&row).await }).await;
        let fate = self.fate(id.as_ref());
        self.inserted(number..number + 1, fate);
        self.known.extend(id.and_then(Result::ok).map(|id| (number, id)));
    }

    /// Inserts a row that is acknowledged before it is on the disk, so a power cut may lose it.
    async fn insert_relaxed(&mut self, number: u32) {
        let row = self.row(number);
        let id = self.store.insert(&row).durability(Durability::Relaxed).await;
        let fate = match self.fate(Some(&id)) {
            Fate::Done(_) => Fate::Unknown,
            fate => fate,
        };
        self.inserted(number..number + 1, fate);
        self.known.extend(id.ok().map(|id| (number, id)));
    }

    /// Syncs relaxed writes to the disk, which sometimes fails at that moment.
    fn sync_relaxed(&mut self) {
        let fails = self.dice.roll().is_multiple_of(SYNC_FAILS);
        if fails {
            self.shared.disk.fail_after(Some(0));
        }
        (self.shared.sync)();
        if fails {
            self.shared.disk.fail_after(None);
        }
    }

    async fn insert_several(&mut self, first: u32) {
        let (cancel_after, numbers) = (self.cancel_after(), first..first + ROWS_MAX);
        let rows: Vec<Sample> = numbers.clone().map(|number| self.row(number)).collect();
        let ids = for_steps(cancel_after, async { self.store.insert_many(&rows).await }).await;
        let fate = self.fate(ids.as_ref());
        self.inserted(numbers.clone(), fate);
        self.known.extend(numbers.zip(ids.and_then(Result::ok).into_iter().flatten()));
    }

    async fn count(&mut self) {
        let cancel_after = self.cancel_after();
        let counted = async { self.store.increment(Account::BALANCE, COUNTER, 1).await };
        let counted = for_steps(cancel_after, counted).await;
        let fate = self.fate(counted.as_ref());
        self.shared.history.borrow_mut().counted.push(fate);
    }

    /// Transfers an amount in a transaction, during which other clients may run.
    async fn move_amount(&mut self) {
        let cancel_after = self.cancel_after().map(|steps| steps * 3);
        let span = ACCOUNTS.end.abs_diff(ACCOUNTS.start);
        let mut account = || ACCOUNTS.start + (self.dice.roll() % span).cast_signed();
        let (from, to) = (account(), account());
        let amount = (self.dice.roll() % 100).cast_signed();
        let commits = !self.dice.roll().is_multiple_of(5);
        let moved = async {
            let own = self.store.begin().await?;
            own.increment(Account::BALANCE, from, -amount).await?;
            yield_now().await;
            let there = own.get::<Account>(to).await?;
            own.patch::<Account>(to).set(Account::BALANCE, there.balance + amount).await?;
            yield_now().await;
            if commits { own.commit().await } else { own.rollback().await }
        };
        let moved = for_steps(cancel_after, moved).await;
        let fate = self.fate(moved.as_ref());
        self.shared.history.borrow_mut().moved.push(fate);
    }

    /// Reads an acknowledged row, which must be present and unchanged.
    async fn read(&mut self) {
        let count = self.known.len() as u64;
        if count == 0 {
            return;
        }
        let place = usize::try_from(self.dice.roll() % count).unwrap_or_default();
        let (number, id) = self.known[place];
        let row = self.store.get::<Sample>(id).with_blobs().await;
        let fault = match &row {
            Ok(row) => self.row(number).with_id(id).fault(row),
            Err(error) => Some(format!("row {id}, which was acknowledged: {error:?}")),
        };
        let mut history = self.shared.history.borrow_mut();
        history.read += 1;
        history.faults.extend(fault);
    }
}
