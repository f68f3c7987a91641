//! A model with every type of field and every attribute.

use marmota_derive::{Model, ModelEnum};
use marmota_model::{Blob, Currency, Date, Json, Ref, Time, Timestamp, Uuid};

#[derive(Clone, Copy, Debug, PartialEq, ModelEnum)]
pub(crate) enum Gender {
    Female,
    Male,
    #[model(rename = "x")]
    NonBinary,
}

#[derive(Clone, Copy, Debug, PartialEq, ModelEnum)]
#[model(integer)]
pub(crate) enum Status {
    #[model(rename = "on duty")]
    Active = 1,
    Retired = 2,
    Lost = -7,
}

#[derive(Debug, Clone, PartialEq, Model)]
#[model(table = "people", index(last_name, first_name), unique(email, country))]
pub(crate) struct Person {
    pub(crate) id: i64,
    #[model(max = 40, not_empty)]
    pub(crate) first_name: String,
    #[model(max = 40, index, collate = "nocase")]
    pub(crate) last_name: String,
    #[model(range(min = -3000, max = 2100))]
    pub(crate) year_of_birth: i32,
    pub(crate) year_of_death: Option<i32>,
    #[model(email, unique, index)]
    pub(crate) email: Option<String>,
    #[model(pattern = "[A-Z]{2}", default = "FR")]
    pub(crate) country: String,
    #[model(length(min = 2, max = 9))]
    pub(crate) nick: String,
    #[model(check = is_even, check = Self::is_small, default = -2)]
    pub(crate) even: Option<i8>,
    #[model(rename = "type")]
    pub(crate) kind: Status,
    #[model(default = "female")]
    pub(crate) gender: Option<Gender>,
    pub(crate) boss: Option<Ref<Person>>,
    pub(crate) friend: Option<Ref<Self>>,
    pub(crate) photo: Blob,
    #[model(length(max = 3))]
    pub(crate) stamp: Option<Blob>,
    #[model(default = "[]")]
    pub(crate) tags: Json<Vec<String>>,
    #[model(range(min = 0.5), default = 12.5)]
    pub(crate) wage: Currency,
    #[model(range(max = 1), default = 1)]
    pub(crate) share: f64,
    pub(crate) ratio: Option<f32>,
    #[model(default = true)]
    pub(crate) active: bool,
    #[model(range(min = "1900-01-01"))]
    pub(crate) hired: Option<Date>,
    pub(crate) begins: Time,
    pub(crate) token: Uuid,
    pub(crate) big: u64,
    pub(crate) small: u8,
    #[model(created_at)]
    pub(crate) created: Timestamp,
    #[model(updated_at)]
    pub(crate) updated: Timestamp,
    #[model(version)]
    pub(crate) version: i64,
}

fn is_even(number: &i8) -> Result<(), String> {
    if number % 2 == 0 { Ok(()) } else { Err("must be even".to_owned()) }
}

impl Person {
    fn is_small(number: &i8) -> Result<(), String> {
        if *number < 100 { Ok(()) } else { Err("must be small".to_owned()) }
    }
}

/// A model with a text key, and with names that Rust or the code of the derive
/// could stumble over.
#[derive(Debug, PartialEq, Model)]
pub(crate) struct HTTPLog {
    #[model(key, max = 12, check = value)]
    pub(crate) code: String,
    pub(crate) id: Option<i64>,
    pub(crate) r#type: bool,
    pub(crate) row: i64,
    pub(crate) scratch: i64,
    pub(crate) schema: i64,
    pub(crate) table: i64,
    pub(crate) created_at: Timestamp,
    pub(crate) version: i64,
}

/// Called as the closure's parameter in the derived code is.
fn value(code: &str) -> Result<(), String> {
    if code.starts_with('#') { Ok(()) } else { Err("must begin with #".to_owned()) }
}

#[derive(Debug, PartialEq, Model)]
pub(crate) struct Ticket {
    pub(crate) id: Uuid,
    pub(crate) log: Ref<HTTPLog>,
}
