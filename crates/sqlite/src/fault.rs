//! Maps SQLite's error codes to Marmota's errors, with messages that name the field, the value and
//! the solution.

use marmota_model::rule::violation;
use marmota_model::{Error, ErrorKind, Table, ValueRef, Violation};
use marmota_store::refusal::{taken_message, with_violations};

use crate::ffi::{Failure, code};

/// Returns the error for a code if no row is known.
#[cold]
pub(crate) fn of(failure: &Failure) -> Error {
    let words = failure.message();
    let (kind, message) = match primary(failure.code()) {
        code::BUSY | code::LOCKED | code::PROTOCOL => (
            ErrorKind::Busy,
            "another program or transaction is writing to the database; try again".to_owned(),
        ),
        code::FULL => (
            ErrorKind::Io,
            "the disk is full, nothing was written: make room and try again".to_owned(),
        ),
        code::READONLY => (
            ErrorKind::Io,
            "the database is read-only, nothing was written: give the program the right to write \
             to the file and its folder"
                .to_owned(),
        ),
        code::IOERR => (
            ErrorKind::Io,
            format!("the disk failed, nothing was written: {words}; check the disk"),
        ),
        code::CANTOPEN => (
            ErrorKind::Io,
            format!("{words}: the folder must exist, and its files must be writable"),
        ),
        code::NOTADB => (
            ErrorKind::Engine,
            "the file is not a SQLite database, or is encrypted (which needs a build with the \
             feature `encryption`): name another file, or move this one away"
                .to_owned(),
        ),
        code::CORRUPT => {
            (ErrorKind::Engine, format!("the database is damaged ({words}): restore a backup"))
        }
        code::TOOBIG => (
            ErrorKind::Invalid,
            "a value or row is larger than SQLite allows (1,000,000,000 bytes)".to_owned(),
        ),
        code::INTERRUPT => (ErrorKind::Timeout, "the operation was interrupted".to_owned()),
        code::NOMEM => (ErrorKind::Engine, "SQLite is out of memory".to_owned()),
        code::CONSTRAINT => return constraint(failure),
        code => (ErrorKind::Engine, format!("{words} (SQLite code {code})")),
    };
    Error::new(kind, message).with_source(source(failure))
}

/// Returns the error for a constraint that names no field of a known table.
fn constraint(failure: &Failure) -> Error {
    let words = failure.message();
    let (kind, message) = match failure.code() {
        code::CONSTRAINT_UNIQUE | code::CONSTRAINT_PRIMARYKEY | code::CONSTRAINT_ROWID => {
            (ErrorKind::Conflict, format!("another row has the same value: {words}"))
        }
        code::CONSTRAINT_FOREIGNKEY => {
            (ErrorKind::Conflict, "a reference would point to a row that does not exist".to_owned())
        }
        // The message of RAISE in a trigger is meant for the caller.
        code::CONSTRAINT_TRIGGER => (ErrorKind::Conflict, words.to_owned()),
        _ => (ErrorKind::Invalid, words.to_owned()),
    };
    Error::new(kind, message).with_source(source(failure))
}

/// Returns true if a key or a unique value is taken.
pub(crate) fn is_taken(failure: &Failure) -> bool {
    matches!(
        failure.code(),
        code::CONSTRAINT_UNIQUE | code::CONSTRAINT_PRIMARYKEY | code::CONSTRAINT_ROWID
    )
}

/// Returns the error for a code caused by a row.
#[cold]
pub(crate) fn of_row(failure: &Failure, table: &Table, row: &[ValueRef<'_>]) -> Error {
    let (kind, rule, message) = match failure.code() {
        code::CONSTRAINT_UNIQUE | code::CONSTRAINT_PRIMARYKEY | code::CONSTRAINT_ROWID => {
            (ErrorKind::Conflict, "unique", "")
        }
        code::CONSTRAINT_NOTNULL => (ErrorKind::Invalid, "required", "must not be null"),
        code::CONSTRAINT_DATATYPE => {
            (ErrorKind::Invalid, "type", "has another type than the column")
        }
        _ => return of(failure),
    };
    let violations = violations(failure.message(), table, row, rule, message);
    if violations.is_empty() { of(failure) } else { with_violations(kind, violations) }
}

/// Returns a violation for each field in "UNIQUE constraint failed: person.email, person.name", or
/// in "cannot store TEXT value in INTEGER column person.age".
fn violations(
    words: &str,
    table: &Table,
    row: &[ValueRef<'_>],
    rule: &str,
    message: &str,
) -> Vec<Violation> {
    let list = words.split_once(": ").map_or(words, |(_, list)| list);
    let positions = list.split(", ").filter_map(|name| {
        let name = name.rsplit(' ').next().unwrap_or(name);
        let (of, column) = name.rsplit_once('.')?;
        of.eq_ignore_ascii_case(table.name()).then(|| find(table, column)).flatten()
    });
    let positions: Vec<usize> = positions.collect();
    let message = match rule {
        "unique" => &*taken_message(table, &positions),
        _ => message,
    };
    positions
        .into_iter()
        .map(|position| {
            let value = match row.get(position) {
                None | Some(ValueRef::Absent) => ValueRef::Null,
                Some(value) => *value,
            };
            violation(&table.fields()[position], value, rule, message)
        })
        .collect()
}

/// Finds a field by its column's name, whose case may differ in an older file.
fn find(table: &Table, column: &str) -> Option<usize> {
    table.fields().iter().position(|field| field.name.eq_ignore_ascii_case(column))
}

/// Returns the primary code of an extended one.
fn primary(code: i32) -> i32 {
    code & 0xff
}

fn source(failure: &Failure) -> String {
    format!("SQLite {}, code {}: {}", crate::ffi::version(), failure.code(), failure.message())
}

#[cold]
pub(crate) fn busy() -> Error {
    Error::new(ErrorKind::Busy, "another transaction is writing and did not end in time; try again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use marmota_model::{Field, Kind, Role, Schema};

    fn table() -> Table {
        let fields = vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("email", Kind::TEXT),
            Field::new("year", Kind::I64),
        ];
        Table::new(Schema::new("person", fields)).unwrap()
    }

    #[test]
    fn every_code_has_its_kind() {
        for (code, kind) in [
            (5, ErrorKind::Busy),
            (5 | 1 << 8, ErrorKind::Busy),
            (6, ErrorKind::Busy),
            (15, ErrorKind::Busy),
            (7, ErrorKind::Engine),
            (8 | 4 << 8, ErrorKind::Io),
            (9, ErrorKind::Timeout),
            (10 | 3 << 8, ErrorKind::Io),
            (11, ErrorKind::Engine),
            (13, ErrorKind::Io),
            (14, ErrorKind::Io),
            (18, ErrorKind::Invalid),
            (19 | 1 << 8, ErrorKind::Invalid),
            (19 | 3 << 8, ErrorKind::Conflict),
            (19 | 7 << 8, ErrorKind::Conflict),
            (19 | 8 << 8, ErrorKind::Conflict),
            (26, ErrorKind::Engine),
            (1, ErrorKind::Engine),
        ] {
            assert_eq!(of(&Failure::new(code, "words")).kind(), kind, "{code}");
        }
    }

    #[test]
    fn a_row_names_its_fields_and_values() {
        let row = [ValueRef::Absent, ValueRef::Text("a@b.c"), ValueRef::Int(1815)];
        let failure =
            Failure::new(19 | 8 << 8, "UNIQUE constraint failed: person.email, person.year");
        let error = of_row(&failure, &table(), &row);
        assert_eq!(error.kind(), ErrorKind::Conflict);
        let told: Vec<_> =
            error.violations().iter().map(|v| (&*v.field, &*v.value, &*v.rule)).collect();
        assert_eq!(told, [("email", "\"a@b.c\"", "unique"), ("year", "1815", "unique")]);

        let failure = Failure::new(19 | 5 << 8, "NOT NULL constraint failed: person.email");
        let error = of_row(&failure, &table(), &row);
        assert_eq!((error.kind(), &*error.violations()[0].rule), (ErrorKind::Invalid, "required"));

        let words = "cannot store TEXT value in INTEGER column person.year";
        let error = of_row(&Failure::new(19 | 12 << 8, words), &table(), &row);
        assert_eq!((&*error.violations()[0].field, &*error.violations()[0].rule), ("year", "type"));

        let failure = Failure::new(19 | 8 << 8, "UNIQUE constraint failed: index 'lower_email'");
        assert_eq!(of_row(&failure, &table(), &row).kind(), ErrorKind::Conflict);
    }
}
