//! Derived code raises no warning in a program that asks for many: this file
//! is checked by compiling it (and by clippy, with the rest of the tests).
#![deny(warnings, missing_docs, unreachable_pub, unused_qualifications, single_use_lifetimes)]
#![deny(clippy::all, clippy::pedantic, clippy::nursery, clippy::cargo)]
#![deny(clippy::indexing_slicing, clippy::as_conversions, clippy::panic, clippy::unwrap_used)]
// Asks for the opposite of `unreachable_pub`.
#![allow(clippy::redundant_pub_crate)]

use marmota_derive::{Model, ModelEnum};
use marmota_model::{FieldValue, Model, Ref, ValueRef};

/// Never made, and none of its columns is used.
#[derive(Model)]
#[model(unique(name, colour))]
pub(crate) struct Unused {
    id: i64,
    #[model(max = 9, check = is_short, not_empty)]
    pub(crate) name: String,
    /// A field of a type that warns.
    #[model(default = "red")]
    colour: Option<Colour>,
    next: Option<Ref<Self>>,
    #[deprecated = "use `next`"]
    old: Option<i16>,
}

/// Only read from rows.
#[derive(ModelEnum)]
#[model(integer)]
#[repr(u8)]
pub(crate) enum Colour {
    /// The colour red.
    Red = 1,
    /// The colour blue.
    Blue = 2,
}

fn is_short(name: &str) -> Result<(), String> {
    if name.len() < 5 { Ok(()) } else { Err("must be short".to_owned()) }
}

#[test]
fn the_code_is_there() {
    assert_eq!(Unused::schema().fields.len(), 5);
    assert!(Colour::from_row(ValueRef::Int(3)).is_none());
}
