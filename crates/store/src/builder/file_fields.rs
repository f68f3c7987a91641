//! The hooks that check file fields before a write ([`FileGuard`]).

use std::sync::Arc;

use marmota_model::{File, Kind, Table, Value};

use super::StoreBuilder;
use crate::contract::file_guard::{FileChange, FileGuard};
use crate::contract::row_hook::{HookCall, RowChange};
use crate::layers::handle::HandleContext;
use crate::layers::steps::before_hooks::BeforeHook;

impl StoreBuilder {
    /// Checks each write to a field for a file, in every table: `marmota_files::Files::attach` calls
    /// this. Default: such a field accepts any complete description of a file.
    #[must_use]
    pub fn file_guard(mut self, guard: Arc<dyn FileGuard>) -> Self {
        self.file_guard = Some(guard);
        self
    }
}

/// Returns the hook of a table that has fields for files.
pub(super) fn hook(table: &Arc<Table>, guard: &Arc<dyn FileGuard>) -> Option<Box<dyn BeforeHook>> {
    let is_file = |field: &usize| matches!(table.fields()[*field].kind, Kind::File { .. });
    let fields: Vec<usize> = (0..table.fields().len()).filter(is_file).collect();
    match fields.is_empty() {
        true => None,
        false => Some(Box::new(FileFields {
            table: Arc::clone(table),
            fields,
            guard: Arc::clone(guard),
        })),
    }
}

/// The hook of a table with fields for files.
struct FileFields {
    table: Arc<Table>,
    fields: Vec<usize>,
    guard: Arc<dyn FileGuard>,
}

impl BeforeHook for FileFields {
    fn is_async(&self) -> bool {
        false
    }

    fn call(&self, _: &HandleContext, change: &RowChange) -> HookCall {
        let file_of = |row: &Option<Vec<Value>>, field: usize| match row.as_ref()?.get(field)? {
            Value::Json(json) => File::parse(json),
            _ => None,
        };
        let row = change.before.as_ref().or(change.after.as_ref());
        let key = row.and_then(|row| row.get(self.table.key()));
        let key = key.filter(|key| !matches!(key, Value::Null | Value::Int(0)));
        for &field in &self.fields {
            let (before, after) = (file_of(&change.before, field), file_of(&change.after, field));
            if before == after {
                continue;
            }
            let (table, before, after) = (&*self.table, before.as_ref(), after.as_ref());
            let change = FileChange { table, field, key, before, after };
            if let Err(refused) = self.guard.before_write(&change) {
                return HookCall::Done(Err(refused));
            }
        }
        HookCall::Done(Ok(Vec::new()))
    }
}
