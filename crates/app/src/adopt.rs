//! An application file for the tables of an existing database, which another program made.
//!
//! What the file states is true for the database already, so that a store over it changes nothing.
//! `table.rs` makes the schema of a table, `check_rule.rs` makes rules of CHECK constraints.

mod check_rule;
mod constant;
mod table;

use marmota_model::{Result, Schema};
use marmota_store::existing::ExistingTable;

use self::table::Adopting;
use crate::app_file::{AppFile, AppGroup};

/// An application file that was made from a database, with remarks on what it does not state.
///
/// ```
/// use marmota_app::AdoptedDatabase;
/// use marmota_model::Kind;
/// use marmota_store::existing::{ExistingColumn, ExistingTable};
/// let mut id = ExistingColumn::new("id", "bigint", Ok(Kind::I64));
/// id.is_key = true;
/// id.nullable = false;
/// let place = ExistingColumn::new("place", "point", Err("no kind of field has points".to_owned()));
/// let city = ExistingTable {
///     name: "city".to_owned(),
///     is_table: true,
///     columns: vec![id, place],
///     ..ExistingTable::default()
/// };
/// let adopted = AdoptedDatabase::of(&[city])?;
/// assert_eq!(adopted.app.schemas()[0].fields.len(), 1);
/// let remarks: Vec<String> = adopted.remarks.iter().map(ToString::to_string).collect();
/// assert_eq!(remarks, ["city.place is left out: no kind of field has points"]);
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AdoptedDatabase {
    /// The file.
    pub app: AppFile,
    /// What the file does not state, in the order of tables.
    pub remarks: Vec<AdoptRemark>,
}

/// A table, or a part of a table, that an application file states differently, or not at all.
///
/// ```
/// use marmota_app::AdoptRemark;
/// let remark = AdoptRemark {
///     table: "total".to_owned(),
///     part: None,
///     is_left_out: true,
///     what: "it is a view".to_owned(),
/// };
/// assert_eq!(remark.to_string(), "total is left out: it is a view");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdoptRemark {
    /// The table.
    pub table: String,
    /// The column or index; `None` for the whole table.
    pub part: Option<String>,
    /// True if the file does not have it.
    pub is_left_out: bool,
    /// The reason, and what to do.
    pub what: String,
}

impl std::fmt::Display for AdoptRemark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.table)?;
        if let Some(part) = &self.part {
            write!(f, ".{part}")?;
        }
        let verb = if self.is_left_out { " is left out" } else { "" };
        write!(f, "{verb}: {}", self.what)
    }
}

impl AdoptedDatabase {
    /// Makes the file of a database's structure
    /// ([`StoreBuilder::existing_structure`](marmota_store::StoreBuilder::existing_structure)).
    ///
    /// # Errors
    /// An error of [`AppFile::from_schemas`]; those of `tables` that do not fit are left out before.
    pub fn of(tables: &[ExistingTable]) -> Result<Self> {
        let mut adopting = Adopting::new(tables);
        let schemas: Vec<Schema> =
            tables.iter().filter_map(|table| adopting.schema(table)).collect();
        let app = AppFile::from_schemas(&schemas, Vec::<AppGroup>::new())?;
        Ok(Self { app, remarks: adopting.remarks })
    }

    /// Returns the file as TOML, with the remarks as comments: those on a table before it, those on
    /// tables that the file does not have at the end.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let mut written: Vec<&str> = Vec::new();
        for line in self.app.to_toml().lines() {
            if let Some(table) = section(line)
                && let Some(schema) = self.app.schemas().iter().find(|one| one.name == table)
                && !written.contains(&&*schema.name)
            {
                written.push(&schema.name);
                for remark in self.remarks.iter().filter(|remark| remark.table == table) {
                    text.push_str(&format!("# {remark}\n"));
                }
            }
            text.push_str(line);
            text.push('\n');
        }
        let others = self.remarks.iter().filter(|remark| !written.contains(&&*remark.table));
        for (number, remark) in others.enumerate() {
            if number == 0 {
                text.push('\n');
            }
            text.push_str(&format!("# {remark}\n"));
        }
        text
    }
}

/// Returns the table of the header of a section: `person` of `[tables.person.fields]`.
fn section(line: &str) -> Option<&str> {
    let name = line.strip_prefix("[tables.")?.trim_end_matches(']');
    Some(name.split('.').next().unwrap_or(name))
}
