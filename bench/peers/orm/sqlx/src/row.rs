//! A row of either database as a `Person`.

use bench_orm_workload::{AsPerson, Person, PersonRef, Sum};
use sqlx::{ColumnIndex, Decode, FromRow, Type};

pub(crate) struct Row(Person);

impl AsPerson for Row {
    fn as_person(&self) -> PersonRef<'_> {
        self.0.as_person()
    }
}

impl<'r, R: sqlx::Row> FromRow<'r, R> for Row
where
    usize: ColumnIndex<R>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
    String: Decode<'r, R::Database> + Type<R::Database>,
{
    fn from_row(row: &'r R) -> sqlx::Result<Self> {
        Ok(Self(Person {
            id: row.try_get(0)?,
            first_name: row.try_get(1)?,
            last_name: row.try_get(2)?,
            balance: row.try_get(3)?,
            met_at: row.try_get(4)?,
            modified_at: row.try_get(5)?,
            created_at: row.try_get(6)?,
        }))
    }
}

/// Adds a row to the sum without making a `Person`.
pub(crate) fn add<'r, R: sqlx::Row>(sum: &mut Sum, row: &'r R) -> sqlx::Result<()>
where
    usize: ColumnIndex<R>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
    &'r str: Decode<'r, R::Database> + Type<R::Database>,
{
    sum.add(
        row.try_get(0)?,
        row.try_get::<&str, _>(1)?.len(),
        row.try_get::<&str, _>(2)?.len(),
        row.try_get(3)?,
        row.try_get(4)?,
        row.try_get(5)?,
        row.try_get(6)?,
    );
    Ok(())
}
