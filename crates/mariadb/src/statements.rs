//! The statements that are prepared on a connection.

use std::collections::HashMap;
use std::sync::Arc;

use mysql::Column;

use crate::answer::Prepared;

/// The number of statements that a connection keeps prepared.
pub(crate) const STATEMENTS_MAX: usize = 128;

/// The prepared statements of a connection, by their texts.
#[derive(Default)]
pub(crate) struct Statements {
    /// Each with the number of its last use.
    by_text: HashMap<String, (Prepared, u64)>,
    uses: u64,
}

impl Statements {
    /// Returns the statement with this text, if it is prepared.
    pub(crate) fn find(&mut self, sql: &str) -> Option<&Prepared> {
        self.uses += 1;
        let (prepared, used) = self.by_text.get_mut(sql)?;
        *used = self.uses;
        Some(prepared)
    }

    /// Adds a statement. Returns the number of one that has to be closed instead.
    pub(crate) fn add(&mut self, sql: &str, prepared: Prepared) -> Option<u32> {
        let least = match self.by_text.len() < STATEMENTS_MAX {
            true => None,
            false => self.by_text.iter().min_by_key(|(_, (_, used))| *used),
        };
        let least = least.map(|(text, _)| text.clone());
        let removed = least.and_then(|text| self.by_text.remove(&text));
        self.by_text.insert(sql.to_owned(), (prepared, self.uses));
        removed.map(|(prepared, _)| prepared.id)
    }

    /// Keeps the columns that the server has described for a statement.
    pub(crate) fn describe(&mut self, id: u32, columns: &Arc<[Column]>) {
        for (prepared, _) in self.by_text.values_mut().filter(|(it, _)| it.id == id) {
            prepared.columns = Arc::clone(columns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statement_that_was_used_least_recently_is_closed() {
        let mut statements = Statements::default();
        let prepared = |id| Prepared { id, parameters: 0, columns: Arc::default() };
        for id in 0..STATEMENTS_MAX as u32 {
            assert!(statements.find(&id.to_string()).is_none());
            assert_eq!(statements.add(&id.to_string(), prepared(id)), None);
        }
        assert_eq!(statements.find("0").map(|it| it.id), Some(0));
        assert!(statements.find("new").is_none());
        assert_eq!(statements.add("new", prepared(1_000)), Some(1));
        assert!(statements.find("1").is_none() && statements.find("0").is_some());
    }
}
