//! Statements over one table in memory that only return fields of its rows, either all rows or the
//! one with a key. After SQLite has prepared such a statement, its rows are read without SQLite.
//!
//! The statement is recognized by its compiled program (`EXPLAIN`), so that SQLite resolves names,
//! aliases, views and quoting. SQLite runs every program with an unknown instruction or another
//! order: then it is slower, never wrong. By id, a statement takes less than half of the time: most
//! of a step is not spent on the row.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use marmota_model::{Result, RowSink, Value, ValueForm, ValueRef};
use marmota_store::borrowed_table::{BorrowedTable, RowNumbers};
use marmota_store::sql::Wanted;

use crate::ffi::{Connection, Failure, Stored};
use crate::virtual_table::{Found, VirtualTableShape};

/// The number of rows between two checks of the clock.
const LOOK_ROWS: u64 = 256;

/// The end of a statement, and the number of rows it returned.
pub(crate) enum FastPathRun {
    Done(u64),
    /// Its first budget was used up.
    Over(u64),
}

/// A statement whose rows are read without SQLite.
#[derive(Debug)]
pub(crate) struct VdbeFastPath {
    shape: VirtualTableShape,
    found: Found,
    /// The parameter with the key; `None` for all rows.
    key: Option<usize>,
    /// The returned fields.
    fields: Box<[usize]>,
}

/// An instruction of SQLite's virtual machine.
#[derive(Debug)]
struct Instruction {
    name: String,
    p: [i64; 3],
}

/// The content of a register.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Held {
    Number(i64),
    Parameter(usize),
    Field(usize),
}

impl VdbeFastPath {
    /// Recognizes a statement that reads one lent table, or returns `None` if it is not simple
    /// enough.
    ///
    /// # Errors
    /// The error of SQLite.
    pub(crate) fn of(
        connection: &mut Connection,
        text: &str,
        wanted: &[Wanted],
    ) -> Result<Option<Self>, Failure> {
        let [wanted] = wanted else { return Ok(None) };
        let mut program = Vec::new();
        connection.query(&format!("EXPLAIN {text}"), |row| {
            let name = match row.at(1) {
                Stored::Text(name) => String::from_utf8_lossy(name).into_owned(),
                _ => String::new(),
            };
            program.push(Instruction { name, p: [2, 3, 4].map(|place| row.at(place).int()) });
        })?;
        let shape = VirtualTableShape::new(wanted.table.clone());
        Ok(Reader { program: &program, held: HashMap::new() }.read(shape))
    }

    /// Returns true if the statement can be run with these values without SQLite.
    pub(crate) fn takes(&self, values: &[Value]) -> bool {
        match self.key {
            None => true,
            // SQLite compares other kinds of values.
            Some(place) => matches!(values.get(place), Some(Value::Int(_))),
        }
    }

    /// Passes the rows, of at most `N` values each, to the sink until an optional budget is used
    /// up.
    pub(crate) fn run<const N: usize>(
        &self,
        table: &dyn BorrowedTable,
        values: &[Value],
        budget: Option<Duration>,
        sink: &mut dyn RowSink,
    ) -> FastPathRun {
        let key = match self.key.and_then(|place| values.get(place)) {
            Some(Value::Int(key)) => Some(ValueRef::Int(*key)),
            _ => None,
        };
        // By key or in key order, so nothing is sorted first.
        let numbers = self.shape.find(table, &self.found, key.as_slice(), &|| false);
        let mut numbers = numbers.unwrap_or_else(RowNumbers::none);
        let (mut row, mut rows, mut until) = ([ValueRef::Null; N], 0_u64, None);
        while let Some(number) = numbers.next(table) {
            table.read(number, &self.fields, &mut row);
            rows += 1;
            if let ControlFlow::Break(()) = sink.row(&row[..self.fields.len()]) {
                break;
            }
            if let Some(budget) = budget
                && rows.is_multiple_of(LOOK_ROWS)
            {
                let now = Instant::now();
                if now >= *until.get_or_insert(now + budget) {
                    return FastPathRun::Over(rows);
                }
            }
        }
        FastPathRun::Done(rows)
    }
}

/// Interprets a program.
struct Reader<'p> {
    program: &'p [Instruction],
    held: HashMap<i64, Held>,
}

impl Reader<'_> {
    fn read(mut self, shape: VirtualTableShape) -> Option<VdbeFastPath> {
        self.prepare()?;
        // The part before the rows: `VFilter` finds them.
        let mut at = 1;
        let (cursor, end, found, arguments) = loop {
            let Instruction { name, p } = self.program.get(at)?;
            at += 1;
            match name.as_str() {
                "VOpen" | "Noop" => {}
                "Integer" | "Variable" => self.load(at - 1)?,
                "VFilter" => {
                    let Held::Number(found) = *self.held.get(&p[2])? else { return None };
                    let Held::Number(count) = *self.held.get(&(p[2] + 1))? else { return None };
                    let arguments: Option<Vec<(i64, Held)>> = (p[2] + 2..p[2] + 2 + count)
                        .map(|place| Some((place, *self.held.get(&place)?)))
                        .collect();
                    break (p[0], p[1], Found::from_number(i32::try_from(found).ok()?), arguments?);
                }
                _ => return None,
            }
        };
        // The loop over the rows.
        let first = at;
        let is_asked = loop {
            let Instruction { name, p } = self.program.get(at)?;
            if name != "VColumn" {
                break name == "Ne" && self.asks_for_key(p, &arguments, &shape)?;
            }
            self.column(p, cursor)?;
            at += 1;
        };
        let skip = self.program[at].p[1];
        at += usize::from(is_asked);
        while self.program.get(at)?.name == "VColumn" {
            self.column(&self.program[at].p, cursor)?;
            at += 1;
        }
        let [row, next, halt] = self.program.get(at..at + 3)? else { return None };
        let ends_well = row.name == "ResultRow"
            && next.name == "VNext"
            && next.p[..2] == [cursor, first as i64]
            && halt.name == "Halt"
            && end == at as i64 + 2
            && (!is_asked || skip == at as i64 + 1);
        let key = match (&arguments[..], is_asked) {
            ([], false) if found.is_all() => None,
            ([(_, Held::Parameter(place))], true) if found.is_by_key() => Some(*place),
            _ => return None,
        };
        let fields: Option<Box<[usize]>> = (row.p[0]..row.p[0] + row.p[1])
            .map(|place| match self.held.get(&place) {
                Some(Held::Field(field)) => Some(*field),
                _ => None,
            })
            .collect();
        ends_well.then_some(VdbeFastPath { shape, found, key, fields: fields? })
    }

    /// Processes the part that runs once, at the end of the program: `Init` jumps there, and a
    /// `Goto` jumps back.
    fn prepare(&mut self) -> Option<()> {
        let init = self.program.first().filter(|one| one.name == "Init")?;
        let mut at = usize::try_from(init.p[1]).ok()?;
        loop {
            let Instruction { name, p } = self.program.get(at)?;
            match name.as_str() {
                "Transaction" | "Noop" => {}
                "Integer" | "Variable" => self.load(at)?,
                "Goto" => return (p[1] == 1).then_some(()),
                _ => return None,
            }
            at += 1;
        }
    }

    /// Processes a register loaded with a constant or parameter.
    fn load(&mut self, at: usize) -> Option<()> {
        let Instruction { name, p } = self.program.get(at)?;
        let held = match name.as_str() {
            "Integer" => Held::Number(p[0]),
            _ => Held::Parameter(usize::try_from(p[0]).ok()?.checked_sub(1)?),
        };
        self.held.insert(p[1], held);
        Some(())
    }

    /// Processes a register loaded from the row.
    fn column(&mut self, p: &[i64; 3], cursor: i64) -> Option<()> {
        let field = usize::try_from(p[1]).ok().filter(|_| p[0] == cursor)?;
        self.held.insert(p[2], Held::Field(field));
        Some(())
    }

    /// Returns true if a comparison repeats the search condition of the key. SQLite repeats each
    /// condition that it passes to a virtual table; if the key and the value are integers, this is
    /// redundant.
    fn asks_for_key(
        &self,
        p: &[i64; 3],
        arguments: &[(i64, Held)],
        shape: &VirtualTableShape,
    ) -> Option<bool> {
        let key = shape.table.key();
        let is_integer = shape.table.fields()[key].kind.form() == ValueForm::Int;
        let (one, other) = (*self.held.get(&p[0])?, *self.held.get(&p[2])?);
        let [(_, argument)] = arguments else { return None };
        let sides = [(one, other), (other, one)];
        Some(is_integer && sides.contains(&(*argument, Held::Field(key))))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use marmota_model::{Field, Kind, Role, Schema, Table};

    use super::*;

    /// Detects a newer SQLite with different programs.
    #[test]
    fn simple_statements_need_no_sqlite() {
        let key = Field::new("id", Kind::I64).role(Role::Key);
        let fields = vec![key, Field::new("name", Kind::TEXT), Field::new("ratio", Kind::Float)];
        let table = Arc::new(Table::new(Schema::new("person", fields)).unwrap());
        let mut connection = Connection::open_memory().unwrap();
        connection.show("live", vec![VirtualTableShape::new(Arc::clone(&table))]).unwrap();
        let wanted = [Wanted { database: 1, table }];
        let mut of = |text: &str| {
            let fast_path = VdbeFastPath::of(&mut connection, text, &wanted).unwrap()?;
            Some((fast_path.key, fast_path.fields.to_vec()))
        };
        for (text, key, fields) in [
            ("SELECT id, name, ratio FROM person", None, vec![0, 1, 2]),
            ("SELECT ratio, id, ratio FROM live.person ORDER BY id DESC", None, vec![2, 0, 2]),
            ("SELECT * FROM person WHERE id=?", Some(0), vec![0, 1, 2]),
            ("SELECT name FROM person AS p WHERE ?2=p.id", Some(1), vec![1]),
            ("SELECT n FROM (SELECT id, name AS n FROM person) WHERE id=:id", Some(0), vec![1]),
        ] {
            assert_eq!(of(text), Some((key, fields)), "{text}");
        }
        for text in [
            "SELECT name || '' FROM person",
            "SELECT rowid FROM person",
            "SELECT name FROM person LIMIT 1",
            "SELECT name FROM person ORDER BY name",
            "SELECT name FROM person WHERE id=7",
            "SELECT name FROM person WHERE id>?",
            "SELECT name FROM person WHERE id=? AND ratio>0",
            "SELECT name FROM person WHERE id=? AND id=?2",
            "SELECT name FROM person WHERE name=?",
            "SELECT count(*) FROM person",
            "SELECT a.name FROM person a, person b",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
