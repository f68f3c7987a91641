//! A checksum over rows that is cheap enough for a timed loop.

use crate::PersonRef;

/// A sum over the fields of rows. It does not depend on their order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// The number of rows.
    pub rows: u64,
    total: u64,
}

impl Sum {
    /// Adds a row by its numbers and the lengths of its texts.
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "a scan has the columns as separate values")]
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

    /// Adds an object without its stamps, for stores that set them.
    #[inline]
    pub fn add_unstamped(&mut self, p: PersonRef<'_>) {
        self.add(p.id, p.first_name.len(), p.last_name.len(), p.balance, p.met_at, 0, 0);
    }
}
