//! The best rows of a ranked list: rows are added one by one, and the best ones are lent at the end.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use marmota_model::{
    Collation, Error, ErrorKind, RankedQuery, Ranker, Result, RowSink, Table, Value, ValueRef,
};

/// The maximum size of the rows of a ranked list, in bytes.
const BEST_BYTES_MAX: usize = 64 << 20;

/// The best rows of those that were added.
#[derive(Debug)]
pub(crate) struct BestRows {
    ranker: Ranker,
    key: usize,
    collation: Collation,
    limit: usize,
    /// The place that the rows come after.
    after: Option<(f64, Value)>,
    /// The rows, the worst one first.
    rows: BinaryHeap<BestRow>,
    bytes: usize,
}

/// A row with its place. A lower place is better.
#[derive(Debug)]
struct BestRow {
    place: f64,
    key: Value,
    collation: Collation,
    row: Vec<Value>,
    bytes: usize,
}

impl BestRow {
    fn compare(&self, place: f64, key: ValueRef<'_>) -> Ordering {
        self.place.total_cmp(&place).then_with(|| self.collation.order(self.key.as_ref(), key))
    }
}

impl PartialEq for BestRow {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for BestRow {}

impl PartialOrd for BestRow {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for BestRow {
    fn cmp(&self, other: &Self) -> Ordering {
        self.compare(other.place, other.key.as_ref())
    }
}

impl BestRows {
    /// Creates a list without rows.
    pub(crate) fn new(table: &Table, query: &RankedQuery) -> Self {
        let ranker = Ranker::new(table.schema(), query.by.clone());
        let after = query.after.as_ref();
        let after = after.map(|after| (query.by.place(after.score), after.key.clone()));
        Self {
            ranker,
            key: table.key(),
            collation: table.fields()[table.key()].kind.collation(),
            limit: usize::try_from(query.limit).unwrap_or(usize::MAX),
            after,
            rows: BinaryHeap::new(),
            bytes: 0,
        }
    }

    /// Lends the rows, best first, until the sink has enough. Returns how many were lent.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if they were too large to be kept.
    pub(crate) fn lend(&mut self, sink: &mut dyn RowSink) -> Result<u64> {
        if self.bytes > BEST_BYTES_MAX {
            let message = format!(
                "the rows of a ranked list have more than {BEST_BYTES_MAX} bytes; lower the limit"
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut lent = 0;
        for best in std::mem::take(&mut self.rows).into_sorted_vec() {
            let row: Vec<ValueRef<'_>> = best.row.iter().map(Value::as_ref).collect();
            lent += 1;
            if sink.row(&row).is_break() {
                break;
            }
        }
        Ok(lent)
    }
}

impl RowSink for BestRows {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        let Some(score) = self.ranker.score(row) else { return ControlFlow::Continue(()) };
        let (place, key) = (self.ranker.ranking().place(score), row[self.key]);
        if let Some((after, after_key)) = &self.after {
            let order = after.total_cmp(&place);
            if order.then_with(|| self.collation.order(after_key.as_ref(), key)).is_ge() {
                return ControlFlow::Continue(());
            }
        }
        if self.rows.len() == self.limit {
            match self.rows.peek() {
                Some(worst) if worst.compare(place, key).is_gt() => {}
                _ => return ControlFlow::Continue(()),
            }
            self.bytes -= self.rows.pop().map_or(0, |worst| worst.bytes);
        }
        let row: Vec<Value> = row.iter().map(|value| value.to_value()).collect();
        let bytes = row.iter().map(bytes_of).sum();
        self.bytes += bytes;
        let (key, collation) = (row[self.key].clone(), self.collation);
        self.rows.push(BestRow { place, key, collation, row, bytes });
        if self.bytes > BEST_BYTES_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Returns the approximate size of a value.
pub(crate) fn bytes_of(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Text(text) | Value::Json(text) => text.len(),
            Value::Blob(bytes) => bytes.len(),
            _ => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use marmota_model::{Field, FilterExpr, Kind, RankPlace, Ranking, Role, Schema};

    #[test]
    fn the_best_rows_are_kept_in_order() {
        let fields = vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("text", Kind::TEXT).search(true),
        ];
        let table = Table::new(Schema::new("note", fields)).unwrap();
        let by = Ranking::relevance(&table, Some(&FilterExpr::search("a"))).unwrap();
        let list = |query: &RankedQuery| {
            let mut best = BestRows::new(&table, query);
            for (id, text) in (1..).zip(["a b", "a", "c", "a b", "a a"]) {
                let _ = best.row(&[ValueRef::Int(id), ValueRef::Text(text)]);
            }
            let mut ids = Vec::new();
            let mut take = |row: &[ValueRef<'_>]| {
                ids.push(row[0].as_int().unwrap());
                ControlFlow::Continue(())
            };
            best.lend(&mut take).unwrap();
            ids
        };
        let query = RankedQuery { limit: 4, ..RankedQuery::new(by) };
        assert_eq!(list(&query), [5, 2, 1, 4]);
        let mut ranker = Ranker::new(table.schema(), query.by.clone());
        let score = ranker.score(&[ValueRef::Int(1), ValueRef::Text("a b")]).unwrap();
        let after = Some(RankPlace { score, key: Value::Int(1) });
        assert_eq!(list(&RankedQuery { after, ..query.clone() }), [4, 3]);
        assert_eq!(list(&RankedQuery { limit: 1, ..query }), [5]);
    }
}
