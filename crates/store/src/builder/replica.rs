//! Opens the tables of a replica, which gets its schema from its primary.

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result, Table};

use crate::contract::engine::Engine;

/// Opens the tables as they are.
///
/// # Errors
/// [`ErrorKind::Invalid`] if the database does not fit the models: the primary has to be upgraded
/// first.
pub(super) fn open_tables(engine: &dyn Engine, tables: &[Arc<Table>], version: u32) -> Result<()> {
    let plan = engine.plan(tables, version)?;
    if let Some(step) = plan.steps.first() {
        let message = format!(
            "the replica does not fit the models of this program (missing: {step}): start the \
             primary with this program first, which changes the database"
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    for table in tables {
        if !engine.open_table(table)? {
            let message = format!("the replica has no table `{}`", table.name());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
    }
    Ok(())
}
