//! The check of the fields of a write, as far as it does not depend on the row.

use marmota_model::{Error, FieldSet, Result, Table, Violation};

use crate::contract::operation::{OnConflict, Write};
use crate::rights::{FieldAccess, Right, Rights, TableRights, of_caller, present};

impl Rights {
    /// Checks the fields of a write of one row, as far as they do not depend on the row.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] with each field that the caller may not write; that of an unknown
    /// field for one that the caller may not read either.
    pub(crate) fn check_fields(&self, rights: &TableRights, write: &Write) -> Result<()> {
        if rights.insert_fields.is_none()
            && rights.update_fields.is_none()
            && rights.read_fields.is_none()
        {
            return Ok(());
        }
        match write {
            Write::Insert { row, on_conflict, .. } => {
                let insert = rights.insert_fields.as_ref();
                let given = rights.given_of(row);
                self.check_written(rights, Right::Insert, insert, given)?;
                if let OnConflict::Update { fields } = on_conflict {
                    let update = rights.update_fields.as_ref();
                    self.check_written(rights, Right::Update, update, *fields)?;
                }
                Ok(())
            }
            Write::Update { row, .. } => {
                let (update, given) = (rights.update_fields.as_ref(), present(row));
                self.check_written(rights, Right::Update, update, given)
            }
            Write::Increment { field, .. } => {
                let given = FieldSet::EMPTY.with(*field);
                self.check_written(rights, Right::Update, rights.update_fields.as_ref(), given)?;
                // The result has the sum.
                rights.reading(given).map(drop)
            }
            Write::DeleteWhere { .. } | Write::Delete { .. } => Ok(()),
            Write::Cascading { write, .. }
            | Write::Audited { write, .. }
            | Write::Compared { write }
            | Write::Guarded { write, .. }
            | Write::Hooked { write, .. } => self.check_fields(rights, write),
        }
    }

    fn check_written(
        &self,
        rights: &TableRights,
        right: Right,
        access: Option<&FieldAccess>,
        given: FieldSet,
    ) -> Result<()> {
        let Some(access) = access else { return Ok(()) };
        let refused = |&field: &usize| !access.any.contains(field);
        let refused: Vec<usize> = of_caller(&rights.table, given).iter().filter(refused).collect();
        if refused.is_empty() {
            return Ok(());
        }
        if let Some(&field) = refused.iter().find(|&&field| !rights.is_known(field)) {
            return Err(rights.unknown(field));
        }
        Err(self.denied_fields(right, &rights.table, &refused))
    }

    /// The error for fields that the caller may read, but not write.
    #[cold]
    fn denied_fields(&self, right: Right, table: &Table, fields: &[usize]) -> Error {
        let names = fields.iter().map(|&field| format!("`{}`", table.fields()[field].name));
        let names: Vec<String> = names.collect();
        let verb = if matches!(right, Right::Insert) { "insert a value of" } else { "write" };
        let message = format!(
            "{} may not {verb} {} of `{}`: leave it out",
            self.caller_name(),
            names.join(", "),
            table.name()
        );
        let error = Error::new(self.refusal(), message);
        fields.iter().fold(error, |error, &field| {
            error.with_violation(Violation {
                field: table.fields()[field].name.to_string(),
                value: String::new(),
                rule: "rights".to_owned(),
                message: format!("the caller may not {verb} this field; leave it out"),
            })
        })
    }
}
