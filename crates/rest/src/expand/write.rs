//! Writes rows with their related rows, as the member `expand`.

use marmota_web::ApiResult;

use super::limits::ROWS_MAX;
use super::plan::Node;
use super::read::{Expansion, Related, too_many};
use super::rows::Rows;

impl Expansion {
    /// Appends the rows of the request with their related rows, separated by commas.
    ///
    /// # Errors
    /// 400 if the answer would contain too many related rows: a row is written at each place where
    /// it is related.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> ApiResult<()> {
        let mut writer = Writer { expansion: self, out, count: 0, free: Vec::new() };
        for row in 0..self.rows.len() {
            if row > 0 {
                writer.out.push(b',');
            }
            writer.row(&self.rows, row, &self.plan.children)?;
        }
        Ok(())
    }
}

/// Writes rows within rows.
struct Writer<'e, 'o> {
    expansion: &'e Expansion,
    out: &'o mut Vec<u8>,
    /// The number of related rows written.
    count: u64,
    /// Empty lists to use again.
    free: Vec<Vec<usize>>,
}

impl Writer<'_, '_> {
    fn row(&mut self, rows: &Rows, row: usize, children: &[usize]) -> ApiResult<()> {
        let json = rows.json(row);
        if children.is_empty() {
            self.out.extend_from_slice(json);
            return Ok(());
        }
        self.out.extend_from_slice(json.strip_suffix(b"}").unwrap_or(json));
        self.out.extend_from_slice(match json.len() {
            ..=2 => b"\"expand\":{",
            _ => b",\"expand\":{",
        });
        for (at, &child) in children.iter().enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            self.out.extend_from_slice(&self.expansion.plan.nodes[child].member);
            self.related(child, rows.local(row, at))?;
        }
        self.out.extend_from_slice(b"}}");
        Ok(())
    }

    /// Appends the rows of a relation that are related to the value with a number: an object or
    /// null, or an array.
    fn related(&mut self, node: usize, local: Option<usize>) -> ApiResult<()> {
        let expansion = self.expansion;
        let (node, related) = (&expansion.plan.nodes[node], &expansion.related[node]);
        let mut found = self.free.pop().unwrap_or_default();
        related.find(node, local, &mut found);
        self.count += found.len() as u64;
        if self.count > ROWS_MAX {
            return Err(too_many(&node.place));
        }
        if node.to_one && found.is_empty() {
            self.out.extend_from_slice(b"null");
        } else {
            if !node.to_one {
                self.out.push(b'[');
            }
            for (at, &row) in found.iter().enumerate() {
                if at > 0 {
                    self.out.push(b',');
                }
                self.row(&related.rows, row, &node.children)?;
            }
            if !node.to_one {
                self.out.push(b']');
            }
        }
        found.clear();
        self.free.push(found);
        Ok(())
    }
}

impl Related {
    /// Puts the rows that are related to a value into `found`.
    fn find(&self, node: &Node, local: Option<usize>, found: &mut Vec<usize>) {
        found.extend(local);
        for step in &self.steps {
            // Each number is replaced by those that it leads to.
            let values = found.len();
            for at in 0..values {
                let value = found[at];
                found.extend(step.of(value));
            }
            found.drain(..values);
        }
        if node.steps.len() > 1 {
            match &self.places {
                Some(places) => found.sort_unstable_by_key(|&row| places[row]),
                None => found.sort_unstable(),
            }
            found.dedup();
        }
        found.truncate(match node.to_one {
            true => 1,
            false => usize::try_from(node.limit).unwrap_or(usize::MAX),
        });
    }
}
