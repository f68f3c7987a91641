//! Round trips of encoded operations.

use std::sync::Arc;

use marmota_model::{Field, FieldSet, Kind, Role, Schema, Value};
use marmota_store::operation::{BatchMode, Link, LinkAt, OnConflict, Once, OnceKey, Write};
use proptest::prelude::*;

use super::*;
use crate::codec::any_value::any_value;
use crate::codec::bytes::Bytes;
use crate::codec::query::tests::any_filter;

struct One;

impl Numbers for One {
    fn number(&self, _: &Table) -> Result<u32> {
        Ok(1)
    }
}

fn tables() -> [Arc<Table>; 2] {
    ["other", "sample"].map(|name| {
        let id = Field::new("id", Kind::I64).role(Role::Key);
        let fields = vec![id, Field::new("a", Kind::TEXT), Field::new("b", Kind::Blob)];
        Arc::new(Table::new(Schema::new(name, fields)).unwrap())
    })
}

fn read<'p, 't>(bytes: &'p [u8], tables: &'t [Arc<Table>]) -> Result<ReceivedOperation<'p, 't>> {
    let mut read = Bytes::new(bytes);
    let verb = read.u8()?;
    Terms::read(&mut read)?;
    ReceivedOperation::read(verb, read, tables)
}

struct Rows<'a>(std::slice::Iter<'a, [Value; 3]>);

impl<'a> RowSource<'a> for Rows<'a> {
    fn remaining(&self) -> usize {
        self.0.len()
    }

    fn next(&mut self, row: &mut [ValueRef<'a>]) -> Result<bool> {
        let Some(next) = self.0.next() else { return Ok(false) };
        row.iter_mut().zip(next).for_each(|(value, next)| *value = next.as_ref());
        Ok(true)
    }
}

fn put(operation: &mut Operation<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    put_operation(&mut out, Terms::default(), &One, operation).unwrap();
    out
}

proptest! {
    #[test]
    fn rows_come_back(rows in prop::collection::vec(any::<()>().prop_flat_map(|()| {
        [any_value(), any_value(), any_value()]
    }), 0..5)) {
        let tables = tables();
        let table = &tables[1];
        let mut source = Rows(rows.iter());
        let on_conflict = OnConflict::UPDATE.with_given(table, FieldSet::EMPTY.with(2));
        let out = put(&mut Operation::InsertMany { table, rows: &mut source, on_conflict });
        let ReceivedOperation::InsertMany { table: asked, rows: mut read, on_conflict: how } =
            read(&out, &tables).unwrap()
        else {
            panic!("another verb")
        };
        prop_assert_eq!((asked.name(), how, read.count), ("sample", on_conflict, rows.len()));
        let mut row = [ValueRef::Absent; 3];
        for wanted in &rows {
            prop_assert!(read.next(&mut row).unwrap());
            prop_assert_eq!(row.map(|value| value.to_value()), wanted.clone());
        }
        prop_assert!(!read.next(&mut row).unwrap());
    }

    #[test]
    fn single_writes_come_back(
        values in [any_value(), any_value(), any_value(), any_value()],
        version: Option<i64>,
        filter in any_filter(),
    ) {
        let tables = tables();
        let table = &tables[1];
        let row: Vec<ValueRef<'_>> = values[1..].iter().map(Value::as_ref).collect();
        let key = values[0].as_ref();
        let out = put(&mut Operation::Update { table, key, row: &row, version });
        match read(&out, &tables).unwrap() {
            ReceivedOperation::Update { key: k, row: r, version: v, .. } => {
                prop_assert_eq!((k, r, v), (key, row.clone(), version));
            }
            other => panic!("{other:?}"),
        }
        let out = put(&mut Operation::DeleteWhere { table, filter: Some(&filter) });
        match read(&out, &tables).unwrap() {
            ReceivedOperation::DeleteWhere { filter: f, .. } => prop_assert_eq!(f, Some(filter)),
            other => panic!("{other:?}"),
        }
        for end in 0..out.len() {
            prop_assert!(read(&out[..end], &tables).is_err());
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(verb in 0..40_u8, bytes: Vec<u8>) {
        let tables = tables();
        if let Ok(asked) = ReceivedOperation::read(verb, Bytes::new(&bytes), &tables)
            && let ReceivedOperation::InsertMany { mut rows, .. } | ReceivedOperation::UpdateMany { mut rows, .. } = asked
        {
            let mut row = [ValueRef::Absent; 3];
            while let Ok(true) = rows.next(&mut row) {}
        }
    }
}

#[test]
fn a_batch_comes_back() {
    let tables = tables();
    let row = vec![Value::Absent, Value::from("x"), Value::Null];
    let writes = [
        Write::insert(Arc::clone(&tables[1]), row),
        Write::Delete { table: Arc::clone(&tables[1]), key: Value::Absent, version: Some(3) },
    ];
    let links = [Link { write: 1, at: LinkAt::Key, result: 0 }];
    let mut results = Vec::new();
    let key = OnceKey::of_parts("a key", [9; 32]).unwrap();
    let (mut answer, mut answered) = (|_: &[_]| Vec::new(), None);
    let once = Once {
        table: &tables[0],
        limits: marmota_store::Idempotency::default(),
        key: std::borrow::Cow::Borrowed(&key),
        answer: &mut answer,
        answered: &mut answered,
    };
    let out = put(&mut Operation::Batch {
        writes: &writes,
        links: &links,
        once: Some(once),
        mode: BatchMode::Each,
        results: &mut results,
    });
    let ReceivedOperation::Batch(batch) = read(&out, &tables).unwrap() else {
        panic!("another verb")
    };
    assert_eq!(
        (batch.mode, batch.writes.len(), &batch.links[..]),
        (BatchMode::Each, 2, &links[..])
    );
    assert_eq!(batch.once.unwrap().parts(), ("a key", &[9; 32]));
}
