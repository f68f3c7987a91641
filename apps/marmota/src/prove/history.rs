//! The operations of the clients with their known results, and the check whether the contents of a
//! database are consistent with them.

use std::collections::HashMap;
use std::ops::Range;

use marmota::model::Filter;
use marmota::store::Store;
use marmota::{Model, Result};

use crate::stress::sample::{FIELDS, Sample, of_run};
use crate::stress::tally::Tally;

/// The run number of all rows in a history.
pub(super) const RUN: i64 = 1;
/// The account that is incremented.
pub(super) const COUNTER: i64 = 1;
/// The accounts between which amounts are transferred.
pub(super) const ACCOUNTS: Range<i64> = 2..6;
/// The initial balance of each of those accounts.
pub(super) const BALANCE: i64 = 1_000;

/// An account: transfers keep the sum of balances, increments add one.
#[derive(Clone, Debug, Model)]
#[model(table = "prove_account")]
pub(super) struct Account {
    pub(super) id: i64,
    pub(super) balance: i64,
}

/// The result of a request, as far as the client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fate {
    /// Acknowledged when the disk's record had this length.
    Done(usize),
    /// Failed with an error that excludes that it was executed.
    Refused,
    /// The client gave up, the write did not wait for the disk, or the disk failed at the commit.
    Unknown,
}

impl Fate {
    /// Returns true if the result must be in the database when the record was written up to
    /// `until`.
    fn is_certain(self, until: usize) -> bool {
        matches!(self, Self::Done(at) if at <= until)
    }
}

/// Rows that were inserted in one operation.
pub(super) struct Inserted {
    pub(super) client: u32,
    pub(super) numbers: Range<u32>,
    pub(super) fate: Fate,
}

/// All operations of the clients.
#[derive(Default)]
pub(super) struct History {
    pub(super) inserted: Vec<Inserted>,
    pub(super) counted: Vec<Fate>,
    pub(super) moved: Vec<Fate>,
    /// Faults that a client detected during the run.
    pub(super) faults: Vec<String>,
    pub(super) read: u64,
}

impl History {
    /// Returns the number of results for which `is` returns true.
    pub(super) fn count(&self, is: impl Fn(&Fate) -> bool) -> usize {
        let inserted = self.inserted.iter().map(|inserted| &inserted.fate);
        inserted.chain(&self.counted).chain(&self.moved).filter(|fate| is(fate)).count()
    }

    /// Checks a database that was written up to a place in the disk's record: all writes
    /// acknowledged by then are present, no write is partial, and all rows were written by a
    /// client.
    pub(super) fn check(&self, store: &Store, seed: u64, until: usize) -> Result<Tally> {
        let mut tally = Tally::default();
        let found = of_run(store, RUN)?;
        let mut rows: HashMap<(i64, i64), Sample> = HashMap::with_capacity(found.len());
        for row in found {
            let place = (row.thread, row.number);
            let twice = rows.insert(place, row).map(|row| format!("{row:?} exists twice"));
            tally.check(1, twice);
        }
        for inserted in &self.inserted {
            inserted.check(&mut rows, seed, until, &mut tally);
        }
        let unknown_rows = rows.values().map(|row| format!("no client wrote {row:?}"));
        unknown_rows.for_each(|fault| tally.check(0, Some(fault)));
        self.check_accounts(store, until, &mut tally)?;
        Ok(tally)
    }

    fn check_accounts(&self, store: &Store, until: usize, tally: &mut Tally) -> Result<()> {
        let balance = |filter: Filter<Account>| {
            store.list::<Account>().filter(filter).column(Account::BALANCE).run()
        };
        let accounts = balance(Account::ID.ge(ACCOUNTS.start))?;
        // Earlier in the record the accounts do not exist yet.
        if !accounts.is_empty() {
            let (sum, wanted) = (accounts.iter().sum::<i64>(), BALANCE * accounts.len() as i64);
            let fault = || format!("the accounts have {sum} in total instead of {wanted}");
            tally.check(1, (sum != wanted || accounts.len() != ACCOUNTS.count()).then(fault));
        }
        let certain = self.counted.iter().filter(|fate| fate.is_certain(until)).count();
        let possible = self.counted.iter().filter(|fate| **fate != Fate::Refused).count();
        for counted in balance(Account::ID.eq(COUNTER))? {
            let known = certain as i64..=possible as i64;
            let fault = || format!("{counted} increments are present, expected {known:?}");
            tally.check(1, (!known.contains(&counted)).then(fault));
        }
        Ok(())
    }
}

impl Inserted {
    fn check(
        &self,
        rows: &mut HashMap<(i64, i64), Sample>,
        seed: u64,
        until: usize,
        tally: &mut Tally,
    ) {
        let (client, mut present) = (i64::from(self.client), 0);
        for number in self.numbers.clone() {
            let Some(row) = rows.remove(&(client, number.into())) else { continue };
            present += 1;
            let wanted = Sample::new(seed, RUN, self.client, number).with_id(row.id);
            tally.check(FIELDS, wanted.fault(&row));
        }
        let Self { numbers, fate, .. } = self;
        let fault =
            || format!("client {client}, rows {numbers:?}, {fate:?}: {present} are present");
        let is_right = match (present, *fate) {
            (present, Fate::Refused) => present == 0,
            (0, fate) => !fate.is_certain(until),
            (present, _) => present == numbers.len(),
        };
        tally.check(1, (!is_right).then(fault));
    }
}
