//! What the generated rows of both databases are made with.

use marmota::prelude::*;

/// A linear congruential generator (Knuth, MMIX), because the rows must be the same each time.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    pub(crate) fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    pub(crate) fn key<M: marmota::model::Model<Key = i64>>(&mut self, rows: usize) -> Ref<M> {
        Ref::new(self.below(rows) as i64 + 1)
    }
}

/// Returns a day of a year.
pub(crate) fn date(year: i64, n: usize) -> Date {
    let text = format!("{year}-{:02}-{:02}", n % 12 + 1, n % 28 + 1);
    text.parse().expect("each month has 28 days")
}

pub(crate) fn insert<M: marmota::model::Model>(
    store: &Store,
    rows: impl IntoIterator<Item = M>,
) -> Result<()> {
    let rows: Vec<M> = rows.into_iter().collect();
    rows.chunks(1_000).try_for_each(|chunk| store.insert_many(chunk).run().map(drop))
}
