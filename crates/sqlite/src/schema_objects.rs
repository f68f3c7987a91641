//! The objects in the schema of the main database, read once for all tables: SQLite has no index of
//! them, so that a query for each table would take a time that grows with the square of their number.

use hashbrown::HashMap;

use crate::ffi::{Connection, Failure, Row};

/// An object of the schema.
#[derive(Clone, Debug)]
pub(crate) struct SchemaObject {
    /// `table`, `index`, `view` or `trigger`.
    pub(crate) kind: String,
    pub(crate) name: String,
    /// The statement that created it; SQLite keeps it up to date. Empty for an index of a
    /// constraint.
    pub(crate) sql: String,
}

/// A table, view or virtual table.
#[derive(Debug)]
pub(crate) struct ListedTable {
    name: String,
    /// False for a view or a virtual table.
    pub(crate) is_table: bool,
    pub(crate) without_rowid: bool,
    pub(crate) strict: bool,
}

/// The objects, read when they are needed.
#[derive(Debug, Default)]
pub(crate) struct SchemaObjects(Option<Objects>);

/// All objects, in the order of the schema.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    all: Vec<SchemaObject>,
    by_name: HashMap<String, Vec<usize>>,
    /// The triggers of a table, by its name in lower case.
    triggers: HashMap<String, Vec<usize>>,
    /// By the name in lower case.
    tables: HashMap<String, ListedTable>,
}

impl SchemaObjects {
    /// Returns the objects.
    pub(crate) fn read(&mut self, connection: &mut Connection) -> Result<&Objects, Failure> {
        match &mut self.0 {
            Some(objects) => Ok(objects),
            none => Ok(none.insert(Objects::read(connection)?)),
        }
    }

    /// Called after a statement that changes the schema: the objects are read again.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }
}

impl Objects {
    fn read(connection: &mut Connection) -> Result<Self, Failure> {
        let mut objects = Self::default();
        let text = |row: &Row<'_, _>, at| String::from_utf8_lossy(row.at(at).bytes()).into_owned();
        let sql = "SELECT type, name, tbl_name, sql FROM main.sqlite_schema";
        connection.query(sql, |row| {
            let [kind, name, of, sql] = [0, 1, 2, 3].map(|at| text(row, at));
            let place = objects.all.len();
            objects.by_name.entry(name.clone()).or_default().push(place);
            if kind == "trigger" {
                objects.triggers.entry(of.to_ascii_lowercase()).or_default().push(place);
            }
            objects.all.push(SchemaObject { kind, name, sql });
        })?;
        let sql = "SELECT name, type, wr, strict FROM pragma_table_list WHERE schema='main'";
        connection.query(sql, |row| {
            let name = text(row, 0);
            let key = name.to_ascii_lowercase();
            let table = ListedTable {
                name,
                is_table: row.at(1).bytes() == b"table",
                without_rowid: row.at(2).int() != 0,
                strict: row.at(3).int() != 0,
            };
            objects.tables.insert(key, table);
        })?;
        Ok(objects)
    }

    /// Returns the objects with one of these names, in the order of the schema.
    pub(crate) fn named(&self, names: &[String]) -> Vec<SchemaObject> {
        let mut places: Vec<usize> =
            names.iter().filter_map(|name| self.by_name.get(name)).flatten().copied().collect();
        places.sort_unstable();
        places.into_iter().map(|place| self.all[place].clone()).collect()
    }

    /// Returns the names of the triggers of a table, in any case.
    pub(crate) fn triggers_of(&self, table: &str) -> impl Iterator<Item = &str> {
        let places = self.triggers.get(&table.to_ascii_lowercase());
        places.into_iter().flatten().map(|&place| &*self.all[place].name)
    }

    /// Returns the table `name`, in any case, and the statement that created it.
    pub(crate) fn table(&self, name: &str) -> Option<(&ListedTable, &str)> {
        let listed = self.tables.get(&name.to_ascii_lowercase())?;
        Some((listed, self.sql_of(&["table", "view"], &listed.name)))
    }

    /// Returns the statement that created an index, or an empty text.
    pub(crate) fn index_sql(&self, name: &str) -> &str {
        self.sql_of(&["index"], name)
    }

    fn sql_of(&self, kinds: &[&str], name: &str) -> &str {
        let places = self.by_name.get(name).into_iter().flatten();
        let mut objects = places.map(|&place| &self.all[place]);
        objects.find(|one| kinds.contains(&&*one.kind)).map_or("", |one| &*one.sql)
    }
}
