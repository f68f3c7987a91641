//! The row that is transferred: a field of each kind, generated from a seed, so that the row that
//! is read can be compared with the original.

use marmota::model::{Blob, Currency, Date, Timestamp, Uuid};
use marmota::{Model, store::Store};

/// A row of a thread.
#[derive(Clone, Debug, Model, PartialEq)]
#[model(table = "stress_sample")]
pub(crate) struct Sample {
    pub(crate) id: i64,
    #[model(index)]
    pub(crate) run: i64,
    pub(crate) thread: i64,
    pub(crate) number: i64,
    name: String,
    note: Option<String>,
    flag: bool,
    ratio: f64,
    amount: Currency,
    day: Date,
    at: Timestamp,
    token: Uuid,
    bytes: Blob,
}

/// The number of fields that are compared.
pub(crate) const FIELDS: u64 = 13;

/// A random number generator with a seed (splitmix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

impl Sample {
    /// Returns the row with this number in a thread.
    pub(crate) fn new(seed: u64, run: i64, thread: u32, number: u32) -> Self {
        let place = u64::from(thread) << 32 | u64::from(number);
        let mut dice = Dice(seed ^ place.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let (text, bits) = (dice.roll(), dice.roll());
        Self {
            id: 0,
            run,
            thread: thread.into(),
            number: number.into(),
            name: format!("{text:x} Ünïcödé"),
            note: (bits & 1 == 0).then(|| format!("{bits}")),
            flag: bits & 2 == 0,
            ratio: (bits >> 12) as f64 / 7.0,
            amount: Currency::from_scaled((bits >> 20) as i64),
            day: Date::from_days((bits % 40_000) as i32).unwrap_or_default(),
            at: Timestamp::from_micros((bits >> 14) as i64).unwrap_or_default(),
            token: Uuid::from_u64_pair(text, bits),
            bytes: Blob::from(text.to_le_bytes().repeat(1 + (bits % 8) as usize)),
        }
    }

    /// Returns the same row with an id.
    pub(crate) fn with_id(self, id: i64) -> Self {
        Self { id, ..self }
    }

    /// Returns the row after this many updates.
    pub(crate) fn with_updates(self, updates: u32) -> Self {
        match updates {
            0 => self,
            _ => Self { note: Some(format!("{updates} updates")), ..self },
        }
    }

    /// Returns the difference between the row and the one that was read; `None` if they are equal.
    pub(crate) fn fault(&self, came: &Self) -> Option<String> {
        (self != came).then(|| format!("row {}: {came:?} was read instead of {self:?}", self.id))
    }
}

/// Returns the rows of a run, by id.
pub(crate) fn of_run(store: &Store, run: i64) -> marmota::Result<Vec<Sample>> {
    let (mut all, mut last) = (Vec::new(), 0);
    loop {
        let filter = Sample::RUN.eq(run).and(Sample::ID.gt(last));
        let page = store.list::<Sample>().filter(filter).with_blobs().limit(1_000).run()?;
        match page.last() {
            Some(row) => last = row.id,
            None => return Ok(all),
        }
        all.extend(page);
    }
}
