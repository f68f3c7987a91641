//! Writes rows with their related rows, as the member `expand`.

use marmota_model::{Value, json};
use marmota_web::ApiResult;

use super::limits::ROWS_MAX;
use super::read::{Expansion, ReadRow, key_of, too_many};

impl Expansion {
    /// Appends the rows of the request with their related rows, separated by commas.
    ///
    /// # Errors
    /// 400 if the answer would contain too many related rows: a row is written at each place where
    /// it is related.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> ApiResult<()> {
        let mut count = 0;
        for (at, row) in self.rows.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            self.write_row(out, row, &self.plan.children, &mut count)?;
        }
        Ok(())
    }

    fn write_row(
        &self,
        out: &mut Vec<u8>,
        row: &ReadRow,
        children: &[usize],
        count: &mut u64,
    ) -> ApiResult<()> {
        if children.is_empty() {
            out.extend_from_slice(&row.json);
            return Ok(());
        }
        out.extend_from_slice(row.json.strip_suffix(b"}").unwrap_or(&row.json));
        out.extend_from_slice(if row.json.len() > 2 { b",\"expand\":{" } else { b"\"expand\":{" });
        for (at, (&child, local)) in children.iter().zip(&row.locals).enumerate() {
            if at > 0 {
                out.push(b',');
            }
            json::write_string(out, &self.plan.nodes[child].name);
            out.push(b':');
            self.write_related(out, child, local, count)?;
        }
        out.extend_from_slice(b"}}");
        Ok(())
    }

    /// Appends the rows that are related to a row with this value: an object or null, or an array.
    fn write_related(
        &self,
        out: &mut Vec<u8>,
        node: usize,
        local: &Value,
        count: &mut u64,
    ) -> ApiResult<()> {
        let (plan, related) = (&self.plan.nodes[node], &self.related[node]);
        let mut values = vec![local];
        for hop in &related.hops {
            values = values.iter().filter_map(|value| hop.get(&key_of(value))).flatten().collect();
        }
        let found = values.iter().filter_map(|value| related.found.get(&key_of(value)));
        let mut rows: Vec<usize> = found.flatten().copied().collect();
        if plan.steps.len() > 1 {
            rows.sort_unstable();
            rows.dedup();
        }
        let limit = if plan.to_one { 1 } else { usize::try_from(plan.limit).unwrap_or(usize::MAX) };
        rows.truncate(limit);
        *count += rows.len() as u64;
        if *count > ROWS_MAX {
            return Err(too_many(&plan.place));
        }
        if plan.to_one && rows.is_empty() {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        if !plan.to_one {
            out.push(b'[');
        }
        for (at, &row) in rows.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            self.write_row(out, &related.rows[row], &plan.children, count)?;
        }
        if !plan.to_one {
            out.push(b']');
        }
        Ok(())
    }
}
