//! A checksum over rows that costs a few additions, so that it can run inside a timed loop.

use crate::PersonRef;

/// Adds up what was read; the order of the rows does not matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Rows seen.
    pub rows: u64,
    total: u64,
}

impl Sum {
    /// Adds a row by its numbers and the bytes of its texts.
    #[inline]
    #[allow(
        clippy::too_many_arguments,
        reason = "one argument a column is what a scan has at hand"
    )]
    pub fn add(
        &mut self,
        id: i64,
        first_name_bytes: usize,
        last_name_bytes: usize,
        balance: i64,
        met_at: i64,
        modified_at: i64,
        created_at: i64,
    ) {
        self.rows += 1;
        self.total = self
            .total
            .wrapping_add((id as u64).wrapping_mul(3))
            .wrapping_add((first_name_bytes as u64) << 40)
            .wrapping_add((last_name_bytes as u64) << 48)
            .wrapping_add((balance as u64).wrapping_mul(5))
            .wrapping_add((met_at as u64).wrapping_mul(7))
            .wrapping_add((modified_at as u64).wrapping_mul(11))
            .wrapping_add((created_at as u64).wrapping_mul(13));
    }

    /// Adds an object.
    #[inline]
    pub fn add_person(&mut self, p: PersonRef<'_>) {
        self.add(
            p.id,
            p.first_name.len(),
            p.last_name.len(),
            p.balance,
            p.met_at,
            p.modified_at,
            p.created_at,
        );
    }

    /// Adds an object whose stamps the store made itself, which leaves them out of the sum.
    #[inline]
    pub fn add_unstamped(&mut self, p: PersonRef<'_>) {
        self.add(p.id, p.first_name.len(), p.last_name.len(), p.balance, p.met_at, 0, 0);
    }
}
