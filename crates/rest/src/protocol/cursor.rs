//! Cursors between pages: the values of the last row in the fields of the order, as a JSON array in
//! base64url, with a checksum.
//!
//! ```text
//! order=-name  ─►  ["Amalie Noether",1] + 8 bytes  ─►  WyJBbWFsaWUgTm9ldGhlciIsMV3GRdePDpbhhQ
//! ```
//!
//! A cursor is untrusted input: it is parsed as values and refused if it is anything else. The
//! checksum detects damaged cursors, and those of another table or order. It is not a signature: a
//! client can create cursors, as it can create filters. A cursor grants no rights: it selects no
//! more than a filter can.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use marmota_model::{
    RankPlace, Ranking, RelatedField, RowQuery, Scratch, SortKey, Table, Value, ValueRef, json,
};
use marmota_web::{ApiError, ApiResult};
use serde_json::value::RawValue;
use xxhash_rust::xxh3::Xxh3;

use crate::protocol::refusal::of_param;

/// The size of the checksum at the end of a cursor, before base64.
const CHECKSUM_BYTES: usize = 8;

/// Returns the cursor of a row, for the parameter `after` of the next page.
///
/// `order` must end with the key, so that the values identify one row, and `row` must have the
/// fields of the order.
pub(crate) fn write(
    table: &Table,
    order: &[SortKey],
    related: &[RelatedField],
    row: &[ValueRef<'_>],
) -> String {
    let mut values = vec![b'['];
    for (at, by) in order.iter().enumerate() {
        if at > 0 {
            values.push(b',');
        }
        json::write_value_as(&mut values, &table.fields()[by.field].kind, row[by.field]);
    }
    values.push(b']');
    let check = checksum(table, order, related, &values);
    values.extend_from_slice(&check);
    URL_SAFE_NO_PAD.encode(values)
}

/// Returns the checksum (XXH3) of the values, the table's name, and the fields and directions of
/// the order. A cursor of another list would otherwise start a page at an arbitrary place without
/// an error.
fn checksum(
    table: &Table,
    order: &[SortKey],
    related: &[RelatedField],
    values: &[u8],
) -> [u8; CHECKSUM_BYTES] {
    let mut hash = Xxh3::new();
    hash.update(values);
    hash.update(table.name().as_bytes());
    for by in order {
        hash.update(table.fields()[by.field].name.as_bytes());
        hash.update(&[0, u8::from(by.descending)]);
    }
    for by in related {
        hash.update(format!("{by:?}").as_bytes());
    }
    hash.digest().to_le_bytes()
}

/// Returns the values in a cursor, for [`RowQuery::after`]. The error names the parameter `after`
/// and where to take a cursor from.
///
/// # Errors
/// 400 if it is not a cursor for this order.
pub(crate) fn read(table: &Table, query: &RowQuery, text: &str) -> ApiResult<Vec<Value>> {
    values(table, &query.order_with_key(table), &query.related, text).ok_or_else(|| no_cursor(text))
}

#[cold]
fn no_cursor(text: &str) -> ApiError {
    let message = "is not a cursor of this list and order; use the `next` of the previous page";
    of_param("after", text, "cursor", message.to_owned())
}

/// Returns the cursor of a place in a ranked list. The score is written bit by bit.
pub(crate) fn write_place(table: &Table, by: &Ranking, place: &RankPlace) -> String {
    let mut values = format!("[\"{:016x}\",", place.score.to_bits()).into_bytes();
    json::write_value_as(&mut values, &table.fields()[table.key()].kind, place.key.as_ref());
    values.push(b']');
    let check = checksum_of_place(table, by, &values);
    values.extend_from_slice(&check);
    URL_SAFE_NO_PAD.encode(values)
}

/// Returns the checksum of the values of a place, the table's name and the ranking.
fn checksum_of_place(table: &Table, by: &Ranking, values: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hash = Xxh3::new();
    hash.update(values);
    hash.update(table.name().as_bytes());
    hash.update(format!("{by:?}").as_bytes());
    hash.digest().to_le_bytes()
}

/// Returns the place in a cursor of a ranked list.
///
/// # Errors
/// 400 if it is not a cursor of a list with this ranking.
pub(crate) fn read_place(table: &Table, by: &Ranking, text: &str) -> ApiResult<RankPlace> {
    let place = || {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (json, check) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
        if *check != checksum_of_place(table, by, json) {
            return None;
        }
        let (score, key): (&str, &RawValue) = serde_json::from_slice(json).ok()?;
        let score = f64::from_bits(u64::from_str_radix(score, 16).ok()?);
        let scratch = Scratch::new();
        let key = json::read_value(&table.fields()[table.key()], key.get(), &scratch).ok()?;
        (!score.is_nan() && !key.is_null()).then(|| RankPlace { score, key: key.to_value() })
    };
    place().ok_or_else(|| no_cursor(text))
}

/// Returns the values in a cursor; `None` if it is damaged, of another list, or contains a value
/// that the field cannot have, such as NULL in a field that is not nullable.
fn values(
    table: &Table,
    order: &[SortKey],
    related: &[RelatedField],
    text: &str,
) -> Option<Vec<Value>> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (json, check) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
    if *check != checksum(table, order, related, json) {
        return None;
    }
    let members: Vec<&RawValue> = serde_json::from_slice(json).ok()?;
    if members.len() != order.len() {
        return None;
    }
    let scratch = Scratch::new();
    let mut values = Vec::with_capacity(order.len());
    for (by, member) in order.iter().zip(members) {
        let field = &table.fields()[by.field];
        let value = json::read_value(field, member.get(), &scratch).ok()?;
        if value.is_null() && !field.nullable {
            return None;
        }
        values.push(value.to_value());
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use marmota_model::{EnumStored, Field, Kind, Role, Schema, Variant};
    use proptest::prelude::*;

    fn table() -> Table {
        let variants = vec![
            Variant { name: "red".into(), number: 1 },
            Variant { name: "green".into(), number: 2 },
        ];
        let color = Kind::Enum { variants: variants.into(), stored: EnumStored::Integer };
        Table::new(Schema::new(
            "thing",
            vec![
                Field::new("id", Kind::I64).role(Role::Key),
                Field::new("name", Kind::TEXT),
                Field::new("price", Kind::Currency).nullable(true),
                Field::new("color", color),
                Field::new("size", Kind::Float),
            ],
        ))
        .unwrap()
    }

    fn query() -> RowQuery {
        let order = [(1, true), (2, false), (3, false), (4, false)];
        let order = order.map(|(field, descending)| SortKey { field, descending });
        RowQuery { order: order.to_vec(), ..RowQuery::new() }
    }

    proptest! {
        #[test]
        fn values_come_back(
            id: i64,
            name: String,
            price: Option<i64>,
            size in proptest::num::f64::NORMAL,
        ) {
            let table = table();
            let price = price.map_or(ValueRef::Null, |scaled| {
                ValueRef::Currency(marmota_model::Currency::from_scaled(scaled))
            });
            let row = [
                ValueRef::Int(id),
                ValueRef::Text(&name),
                price,
                ValueRef::Int(2),
                ValueRef::Float(size),
            ];
            let query = query();
            let text = write(&table, &query.order_with_key(&table), &[], &row);
            let after = read(&table, &query, &text).unwrap();
            let wanted = [1, 2, 3, 4, 0].map(|at| row[at].to_value());
            prop_assert_eq!(after, wanted);
        }

        #[test]
        fn a_flipped_bit_is_found(id: i64, name: String, bit in 0usize..10_000) {
            let (table, query) = (table(), query());
            let (price, size) = (ValueRef::Null, ValueRef::Float(1.5));
            let row = [ValueRef::Int(id), ValueRef::Text(&name), price, ValueRef::Int(2), size];
            let text = write(&table, &query.order_with_key(&table), &[], &row);
            let mut bytes = URL_SAFE_NO_PAD.decode(&text).unwrap();
            let bit = bit % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let flipped = URL_SAFE_NO_PAD.encode(&bytes);
            prop_assert!(read(&table, &query, &flipped).is_err());
            let mut other = query;
            other.order[0].descending = !other.order[0].descending;
            prop_assert!(read(&table, &other, &text).is_err());
        }

        #[test]
        fn forged_ones_are_refused_and_never_panic(text in "[a-zA-Z0-9_-]{0,40}") {
            let table = table();
            prop_assert!(read(&table, &query(), &text).is_err());
        }

        #[test]
        fn forged_values_are_refused(json in r#"\[(null|1|"x"|\[\]|\{\}|,){0,5}\]"#) {
            let table = table();
            let text = URL_SAFE_NO_PAD.encode(json);
            let answer = read(&table, &query(), &text);
            prop_assert!(answer.is_err_and(|error| error.status().code() == 400));
        }
    }
}
