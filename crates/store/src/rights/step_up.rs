//! Writes that need a recent authentication: until then, the caller does not have their rights.

use std::sync::Arc;

use marmota_model::{Caller, Error, ErrorKind, Result, Table, Violation};

use super::{Access, Grant, Right, Rights, TableRights};
use crate::rows::registry::Registry;

impl Rights {
    /// Creates the rights of a caller who has to authenticate again before writes to `tables`.
    ///
    /// ```
    /// use marmota_model::{Caller, Field, Kind, Record, Role, Schema};
    /// use marmota_memory::Memory;
    /// use marmota_store::Store;
    /// use marmota_store::rights::{Grant, Right, Rights};
    ///
    /// let schema = Schema::new("payment", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    /// let store = Store::builder(Memory::new()).schema(schema).open()?;
    /// let payment = store.table("payment")?;
    /// let ann = Caller { id: "7".into(), name: "ann".into(), groups: vec![] };
    /// let grants = [Grant::new("payment", &Right::ALL)];
    /// let rights = Rights::with_step_up(store.registry(), Some(ann), &grants, &["payment"])?;
    /// let hers = store.with_rights(rights);
    /// assert!(hers.list_records(&payment).run()?.is_empty());
    /// let refused = hers.insert_record(&Record::new(payment)).run().unwrap_err();
    /// assert_eq!(refused.violations()[0].rule, "step-up");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Rights::new`].
    pub fn with_step_up(
        registry: &Registry,
        caller: Option<Caller>,
        grants: &[Grant],
        tables: &[&str],
    ) -> Result<Arc<Self>> {
        let mut rights = Self::new(registry, caller, grants)?;
        if let Some(made) = Arc::get_mut(&mut rights) {
            let concerned = |of: &&mut TableRights| tables.contains(&of.table.name());
            made.tables.iter_mut().filter(concerned).for_each(TableRights::require_step_up);
        }
        Ok(rights)
    }

    /// Returns the error of a write that needs a new authentication; `None` for another one.
    pub(super) fn step_up(&self, right: Right, table: &Table) -> Option<Error> {
        if !self.of(table).is_ok_and(|rights| rights.after_step_up.contains(&right)) {
            return None;
        }
        let name = table.name();
        let message = format!(
            "writes to `{name}` need a recent authentication: send the password with POST to \
             /auth/step-up below the API, or sign in again"
        );
        Some(Error::new(ErrorKind::Denied, message.clone()).with_violation(Violation {
            field: "password".to_owned(),
            value: "null".to_owned(),
            rule: "step-up".to_owned(),
            message,
        }))
    }
}

impl TableRights {
    /// Takes the rights to write until the caller has authenticated again.
    fn require_step_up(&mut self) {
        let of = [
            (Right::Insert, &mut self.insert),
            (Right::Update, &mut self.update),
            (Right::Delete, &mut self.delete),
        ];
        for (right, access) in of {
            if !matches!(access, Access::Denied) {
                *access = Access::Denied;
                self.after_step_up.push(right);
            }
        }
    }
}
