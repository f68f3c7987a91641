//! Checks that the stored texts of composite keys are made of the fields of the models. An engine
//! that stores the text cannot compare it with a model: another order of the same fields, for
//! example, would give the rows other names.

use std::ops::ControlFlow;

use marmota_model::{Error, ErrorKind, Result, RowQuery, ValueRef};

use crate::contract::operation::Operation;
use crate::store::Store;

/// Checks a row of each table that has a composite key.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a row with another key; those of the engine.
pub(crate) fn check(store: &Store) -> Result<()> {
    let tables = store.registry().tables().iter();
    for table in tables.filter(|table| table.has_composite_key()) {
        let fields = table.key_fields().iter().chain([&table.key()]).copied().collect();
        let query = RowQuery { fields: Some(fields), limit: Some(1), ..RowQuery::new() };
        let mut is_it = true;
        let mut compare = |row: &[ValueRef<'_>]| {
            let text = table.key_text_of(row);
            is_it = text.is_some_and(|text| row[table.key()] == ValueRef::Text(&text));
            ControlFlow::Break(())
        };
        store.run_below(&mut Operation::List { table, query: &query }, &mut compare)?;
        if !is_it {
            let names: Vec<&str> =
                table.key_fields().iter().map(|&field| &*table.fields()[field].name).collect();
            let message = format!(
                "table `{}`: the keys in the database are not made of {}: give the fields of the \
                 key the order that they had, or give the model another table name and copy the rows",
                table.name(),
                names.join(", ")
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
    }
    Ok(())
}
