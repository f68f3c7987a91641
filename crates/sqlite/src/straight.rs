//! Statements over one table in memory that do no more than lend fields of its
//! rows, all of them or the one with a key: once SQLite has prepared such a
//! statement, its rows are lent without it.
//!
//! What a statement does is read off the program that SQLite has made of it
//! (`EXPLAIN`), so that names, aliases, views and quoting are SQLite's to
//! understand. A program that has one instruction more than those named here,
//! or has them otherwise, is SQLite's to run: then this is slower, never wrong.
//! By id, a statement takes less than half of the time: most of a step is not the row's.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use marmota_model::{Form, Result, RowSink, Value, ValueRef};
use marmota_store::lent::{LentTable, RowNumbers};
use marmota_store::sql::Wanted;

use crate::ffi::{Connection, Failure, Stored};
use crate::lent::{Found, Shape};

/// How many rows lie between two looks at the clock.
const LOOK_ROWS: u64 = 256;

/// How a statement ended, and how many rows it has lent.
pub(crate) enum StraightRun {
    Done(u64),
    /// Its first budget was used up.
    Over(u64),
}

/// A statement whose rows need no SQLite.
#[derive(Debug)]
pub(crate) struct Straight {
    shape: Shape,
    found: Found,
    /// The parameter whose value the key is to have; none for all rows.
    key: Option<usize>,
    /// The fields lent.
    fields: Box<[usize]>,
}

/// An instruction of SQLite's virtual machine.
#[derive(Debug)]
struct Instruction {
    name: String,
    p: [i64; 3],
}

/// What a register holds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Held {
    Number(i64),
    Parameter(usize),
    Field(usize),
}

impl Straight {
    /// What a statement that reads one lent table is, if it is so simple.
    ///
    /// # Errors
    /// SQLite's.
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
        let shape = Shape::new(wanted.table.clone());
        Ok(Reader { program: &program, held: HashMap::new() }.read(shape))
    }

    /// True if the statement's rows for these values are found without SQLite.
    pub(crate) fn takes(&self, values: &[Value]) -> bool {
        match self.key {
            None => true,
            // Another kind of value is SQLite's to compare.
            Some(place) => matches!(values.get(place), Some(Value::Int(_))),
        }
    }

    /// Lends the rows, `N` of whose values at most, until its budget is used up
    /// if it has one.
    pub(crate) fn run<const N: usize>(
        &self,
        table: &dyn LentTable,
        values: &[Value],
        budget: Option<Duration>,
        sink: &mut dyn RowSink,
    ) -> StraightRun {
        let key = match self.key.and_then(|place| values.get(place)) {
            Some(Value::Int(key)) => Some(ValueRef::Int(*key)),
            _ => None,
        };
        // By key or in its order, so that nothing is sorted first.
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
                    return StraightRun::Over(rows);
                }
            }
        }
        StraightRun::Done(rows)
    }
}

/// Follows a program.
struct Reader<'p> {
    program: &'p [Instruction],
    held: HashMap<i64, Held>,
}

impl Reader<'_> {
    fn read(mut self, shape: Shape) -> Option<Straight> {
        self.prepare()?;
        // What comes before the rows: `VFilter` finds them.
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
        // Each row.
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
        ends_well.then_some(Straight { shape, found, key, fields: fields? })
    }

    /// What is done once, at the end of the program: `Init` goes there, and
    /// from there a `Goto` back.
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

    /// A register that is loaded from without.
    fn load(&mut self, at: usize) -> Option<()> {
        let Instruction { name, p } = self.program.get(at)?;
        let held = match name.as_str() {
            "Integer" => Held::Number(p[0]),
            _ => Held::Parameter(usize::try_from(p[0]).ok()?.checked_sub(1)?),
        };
        self.held.insert(p[1], held);
        Some(())
    }

    /// A register that is loaded from the row.
    fn column(&mut self, p: &[i64; 3], cursor: i64) -> Option<()> {
        let field = usize::try_from(p[1]).ok().filter(|_| p[0] == cursor)?;
        self.held.insert(p[2], Held::Field(field));
        Some(())
    }

    /// True if a comparison asks again what the key was sought by: that is what
    /// SQLite does with each condition that it hands on, and with a key and a
    /// value that are integers it needs no second answer.
    fn asks_for_key(&self, p: &[i64; 3], arguments: &[(i64, Held)], shape: &Shape) -> Option<bool> {
        let key = shape.table.key();
        let is_integer = shape.table.fields()[key].kind.form() == Form::Int;
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

    /// So that a newer SQLite, whose programs are other ones, is noticed.
    #[test]
    fn simple_statements_need_no_sqlite() {
        let key = Field::new("id", Kind::I64).role(Role::Key);
        let fields = vec![key, Field::new("name", Kind::TEXT), Field::new("ratio", Kind::Float)];
        let table = Arc::new(Table::new(Schema::new("person", fields)).unwrap());
        let mut connection = Connection::open_memory().unwrap();
        connection.show("live", vec![Shape::new(Arc::clone(&table))]).unwrap();
        let wanted = [Wanted { database: 1, table }];
        let mut of = |text: &str| {
            let straight = Straight::of(&mut connection, text, &wanted).unwrap()?;
            Some((straight.key, straight.fields.to_vec()))
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
