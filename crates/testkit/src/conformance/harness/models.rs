//! The models of the promises.
//!
//! Each has only the fields that its promises need, except [`Sample`], which has a field of every
//! type.
#![allow(unreachable_pub, reason = "the derive gives columns the visibility of their fields")]

use marmota_derive::{Model, ModelEnum};
use marmota_model::{Blob, Currency, Date, Json, Ref, Time, Timestamp, Uuid, Vector};
use marmota_store::StoreBuilder;

/// A text with a number: enough for most promises.
#[derive(Clone, Debug, Default, Model, PartialEq)]
pub(crate) struct Note {
    pub(crate) id: i64,
    pub(crate) text: String,
    pub(crate) number: Option<i64>,
}

impl Note {
    pub(crate) fn new(text: impl Into<String>, number: impl Into<Option<i64>>) -> Self {
        Self { id: 0, text: text.into(), number: number.into() }
    }

    pub(crate) fn numbered(numbers: std::ops::Range<i64>) -> Vec<Self> {
        numbers.map(|number| Self::new(format!("note {number}"), number)).collect()
    }
}

/// Stored as its name.
#[derive(Clone, Copy, Debug, ModelEnum, PartialEq)]
pub(crate) enum Colour {
    Red,
    #[model(rename = "sky blue, 'é'")]
    Blue,
}

/// Stored as its number.
#[derive(Clone, Copy, Debug, ModelEnum, PartialEq)]
#[model(integer)]
pub(crate) enum Level {
    Low = -3,
    High = i32::MAX as isize,
}

/// A field of every type.
#[derive(Clone, Debug, Model, PartialEq)]
pub(crate) struct Sample {
    pub(crate) id: i64,
    pub(crate) flag: bool,
    pub(crate) i8: i8,
    pub(crate) i16: i16,
    pub(crate) i32: i32,
    pub(crate) i64: i64,
    pub(crate) u8: u8,
    pub(crate) u16: u16,
    pub(crate) u32: u32,
    pub(crate) u64: u64,
    pub(crate) f32: f32,
    pub(crate) f64: f64,
    pub(crate) amount: Currency,
    pub(crate) text: String,
    #[model(max = 5)]
    pub(crate) short: String,
    pub(crate) json: Json<serde_json::Value>,
    pub(crate) date: Date,
    pub(crate) time: Time,
    pub(crate) at: Timestamp,
    pub(crate) uuid: Uuid,
    pub(crate) colour: Colour,
    pub(crate) level: Level,
    pub(crate) vector: Vector<3>,
    pub(crate) blob: Blob,
}

/// [`Sample`] with every field optional.
#[derive(Clone, Debug, Default, Model, PartialEq)]
pub(crate) struct Maybe {
    pub(crate) id: i64,
    pub(crate) flag: Option<bool>,
    pub(crate) i32: Option<i32>,
    pub(crate) i64: Option<i64>,
    pub(crate) f64: Option<f64>,
    pub(crate) amount: Option<Currency>,
    pub(crate) text: Option<String>,
    pub(crate) json: Option<Json<Vec<u8>>>,
    pub(crate) date: Option<Date>,
    pub(crate) time: Option<Time>,
    pub(crate) at: Option<Timestamp>,
    pub(crate) uuid: Option<Uuid>,
    pub(crate) colour: Option<Colour>,
    pub(crate) level: Option<Level>,
    pub(crate) blob: Option<Blob>,
}

/// A row with a UUID as key, a blob, and all fields that the store sets.
#[derive(Clone, Debug, Default, Model, PartialEq)]
pub(crate) struct Document {
    pub(crate) id: Uuid,
    pub(crate) title: String,
    pub(crate) body: Blob,
    #[model(created_at)]
    pub(crate) created: Timestamp,
    #[model(updated_at)]
    pub(crate) updated: Timestamp,
    #[model(version)]
    pub(crate) version: i64,
}

impl Document {
    pub(crate) fn new(title: &str, body: &[u8]) -> Self {
        Self { title: title.to_owned(), body: body.to_vec().into(), ..Self::default() }
    }
}

/// A row with a text as key.
#[derive(Clone, Debug, Default, Model, PartialEq)]
pub(crate) struct Country {
    #[model(key)]
    pub(crate) code: String,
    pub(crate) name: String,
}

impl Country {
    pub(crate) fn new(code: &str, name: &str) -> Self {
        Self { code: code.to_owned(), name: name.to_owned() }
    }
}

/// A row that refers to other rows, also of its own model.
#[derive(Clone, Debug, Model, PartialEq)]
pub(crate) struct City {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) country: Ref<Country>,
    pub(crate) twin: Option<Ref<City>>,
    pub(crate) charter: Option<Ref<Document>>,
}

impl City {
    pub(crate) fn new(name: &str, country: &str) -> Self {
        let country = Ref::new(country.to_owned());
        Self { id: 0, name: name.to_owned(), country, twin: None, charter: None }
    }
}

/// Unique values: of one field, of a pair, and case-insensitive.
#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(unique(row, number), index(holder, number))]
pub(crate) struct Seat {
    pub(crate) id: i64,
    pub(crate) row: Option<String>,
    pub(crate) number: i64,
    #[model(unique, collate = "nocase")]
    pub(crate) holder: Option<String>,
    #[model(unique)]
    pub(crate) ticket: Option<Uuid>,
}

impl Seat {
    pub(crate) fn new(row: Option<&str>, number: i64, holder: Option<&str>) -> Self {
        let (row, holder) = (row.map(str::to_owned), holder.map(str::to_owned));
        Self { row, number, holder, ..Self::default() }
    }
}

/// A row with numbers to increment.
#[derive(Clone, Debug, Default, Model, PartialEq)]
pub(crate) struct Account {
    pub(crate) id: i64,
    pub(crate) balance: Currency,
    pub(crate) visits: i64,
    pub(crate) small: u8,
    #[model(range(min = -5, max = 5))]
    pub(crate) level: i32,
    #[model(updated_at)]
    pub(crate) updated: Timestamp,
    #[model(version)]
    pub(crate) version: i64,
}

/// Texts to search and sort.
#[derive(Clone, Debug, Default, Model, PartialEq)]
pub(crate) struct Word {
    pub(crate) id: i64,
    pub(crate) exact: Option<String>,
    #[model(collate = "nocase")]
    pub(crate) folded: Option<String>,
    pub(crate) rank: i64,
}

impl Word {
    pub(crate) fn new(text: Option<&str>, rank: i64) -> Self {
        let text = text.map(str::to_owned);
        Self { id: 0, exact: text.clone(), folded: text, rank }
    }
}

/// Rows that differ only in their JSON.
#[derive(Clone, Debug, Default, Model, PartialEq)]
pub(crate) struct Place {
    pub(crate) id: i64,
    pub(crate) options: Option<Json<serde_json::Value>>,
}

/// Adds every model.
pub(crate) fn all(builder: StoreBuilder) -> StoreBuilder {
    builder
        .model::<Note>()
        .model::<Sample>()
        .model::<Maybe>()
        .model::<City>()
        .model::<Document>()
        .model::<Country>()
        .model::<Seat>()
        .model::<Account>()
        .model::<Word>()
        .model::<Place>()
}
