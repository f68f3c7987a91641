//! The macros of Marmota: [`Model`] makes a struct a table's row, [`ModelEnum`]
//! makes an enum the type of a field, [`macro@service`] makes a trait what can be
//! called from elsewhere.
//!
//! ```
//! use marmota_derive::{Model, ModelEnum};
//! use marmota_model::{Blob, Currency, Json, Model, Ref, Table, Timestamp};
//!
//! #[derive(Debug, Clone, PartialEq, Model)]
//! #[model(index(last_name, first_name), unique(email, country))]
//! struct Person {
//!     id: i64,
//!     #[model(max = 40, not_empty)]
//!     first_name: String,
//!     #[model(max = 40, index, collate = "nocase")]
//!     last_name: String,
//!     #[model(range(min = -3000, max = 2100))]
//!     year_of_birth: i32,
//!     year_of_death: Option<i32>,
//!     #[model(email)]
//!     email: Option<String>,
//!     #[model(pattern = "[A-Z]{2}", default = "FR")]
//!     country: String,
//!     #[model(check = is_round)]
//!     wage: Currency,
//!     #[model(rename = "type", default = "active")]
//!     kind: Status,
//!     boss: Option<Ref<Person>>,
//!     photo: Blob,
//!     tags: Json<Vec<String>>,
//!     #[model(created_at)]
//!     created: Timestamp,
//!     #[model(updated_at)]
//!     updated: Timestamp,
//!     #[model(version)]
//!     version: i64,
//! }
//!
//! #[derive(Debug, Clone, PartialEq, ModelEnum)]
//! enum Status {
//!     Active,
//!     Retired,
//! }
//!
//! fn is_round(wage: &Currency) -> Result<(), String> {
//!     match wage.scaled() % Currency::SCALE {
//!         0 => Ok(()),
//!         _ => Err("must be a whole amount".to_owned()),
//!     }
//! }
//!
//! let table = Table::new(Person::schema().clone())?;
//! assert_eq!(table.name(), "person");
//!
//! let young = Person::YEAR_OF_BIRTH.gt(1990).and(Person::KIND.eq(Status::Active));
//! young.into_expr().check(&table)?;
//! # let _ = Status::Retired;
//! # Ok::<(), marmota_model::Error>(())
//! ```
//!
//! # What is made
//!
//! - The implementation of the trait `Model`: the schema, as one constant; the
//!   key; and the two straight lines of code between a struct and a row.
//! - For each field a constant of the struct, `Person::LAST_NAME`, as visible
//!   as the field, for filters and orders. It has the field's name in capitals
//!   whatever the column is called. A field called `table` hides the constant
//!   of the trait: write `<Person as Model>::TABLE` then.
//!
//! The type of a field is one that implements `FieldValue`: `bool`, `i8` to
//! `i64`, `u8` to `u64`, `f32`, `f64`, `String`, `Currency`, `Date`, `Time`,
//! `Timestamp`, `Uuid`, `Blob`, `Json<T>`, `Ref<Model>`, an enum with
//! [`ModelEnum`], and `Option` of these for what may be NULL. A struct has one
//! to 128 fields, no generic parameters and no lifetimes.
//!
//! # On the struct
//!
//! | attribute | meaning |
//! |---|---|
//! | `table = "people"` | the table's name; without it the struct's in snake case |
//! | `was = "customer"` | the name the table had before: it is renamed, with its rows |
//! | `index(a, b)` | an index over these fields, in this order; may be repeated |
//! | `unique(a, b)` | the same, and no two rows agree in all of them |
//! | `audit` | each write leaves an entry in the store's history |
//! | `crate = "path"` | the module with the traits, where it is not found by itself |
//!
//! # On a field
//!
//! | attribute | for | meaning |
//! |---|---|---|
//! | `key` | `i64`, `Uuid`, `String` | the key; without it, the field called `id` |
//! | `rename = "type"` | any | the column's name, and the member's in JSON |
//! | `was = "old_name"` | any | the name the column had before: it is renamed, with its values |
//! | `unique` | any | no two rows hold the same value (NULLs excepted) |
//! | `index` | any | an index over this field alone |
//! | `default = 7` | all but blobs | the value of rows made without one: a number, a text in quotes (dates, times, UUIDs, names of enums and JSON too), `true` or `false` |
//! | `max = 40` | texts | the most characters |
//! | `collate = "nocase"` | texts | compares without regard to the case of A to Z; `"binary"` is how texts compare without it |
//! | `immutable` | any without a role | its value is fixed after the insert: a write that changes it is refused |
//! | `search` | texts | its words can be searched for |
//! | `not_empty` | texts, blobs | not empty, and not of white space alone |
//! | `length(min = 2, max = 9)` | texts, blobs | the number of characters, or of bytes; either end may be left out |
//! | `range(min = 0, max = 1)` | numbers, dates, times | between the two, both included; either end may be left out |
//! | `pattern = "[A-Z]{2}"` | texts | matches the regular expression from end to end; may be repeated |
//! | `email` | texts | an e-mail address |
//! | `check = path` | any | a function `fn(&T) -> Result<(), String>`, whose last name is the rule's and whose error is the message; may be repeated |
//! | `created_at` | `Timestamp` | set by the store at the insert |
//! | `updated_at` | `Timestamp` | set by the store at each write |
//! | `version` | `i64` | counted by the store at each write; stale writes are refused |
//!
//! NULL satisfies every rule. The function of `check` on an `Option<T>` takes
//! a `&T` for that reason, and one on a `String` may take a `&str`. A field
//! that is called `created_at`, `updated_at` or `version` is an ordinary one
//! until the attribute is there.
//!
//! # On an enum, and on its variants
//!
//! | attribute | on | meaning |
//! |---|---|---|
//! | `integer` | the enum | rows keep the number, which every variant must then be given; without it they keep the name |
//! | `crate = "path"` | the enum | as on a struct |
//! | `rename = "name"` | a variant | the name in rows and JSON; without it the variant's in snake case |
//!
//! # Where faults are found
//!
//! All that a build can know is an error of that build, at the place of the
//! fault, with what to write instead, and several at once. A macro sees names
//! and no types, so that for a type of one's own (an alias, an enum) two
//! things wait until the model is registered: whether its default is one of
//! its values, and whether `range` and the like have anything to check. So do
//! defaults and ranges that are dates, times, UUIDs or JSON in quotes.
//!
//! # Where the traits are
//!
//! The code names the crate by what the program's `Cargo.toml` calls it:
//! `marmota` first (its module `model`), then `marmota-model`. A program that
//! gets neither directly, but through a crate of its own that exports it,
//! says so: `#[model(crate = "my_base::marmota::model")]`.
#![forbid(unsafe_code)]

mod attribute;
mod constant;
mod crate_path;
mod field;
mod model;
mod model_enum;
mod name;
mod problem;
mod service;
mod service_method;
mod shape;

use proc_macro::TokenStream;
use syn::{DeriveInput, ItemFn, ItemTrait, parse_macro_input};

/// Makes a struct with named fields a model: the rows of one table.
///
/// The attributes are in the [crate's documentation](crate).
///
/// ```
/// use marmota_derive::Model;
/// use marmota_model::{Model, Ref, ValueRef};
///
/// #[derive(Model)]
/// #[model(table = "cities")]
/// pub struct City {
///     pub id: i64,
///     #[model(max = 80, not_empty, unique)]
///     pub name: String,
///     pub twin: Option<Ref<City>>,
/// }
///
/// let row = [ValueRef::Int(1), ValueRef::Text("Lyon"), ValueRef::Null];
/// let city = City::read(&row)?;
/// assert_eq!((city.id, city.name.as_str()), (1, "Lyon"));
/// assert_eq!(City::NAME.position(), 1);
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[proc_macro_derive(Model, attributes(model))]
pub fn derive_model(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    model::derive(&input).into()
}

/// Makes an enum without data the type of a field, kept as its name or, with
/// `#[model(integer)]`, as its number. JSON shows the name in both cases.
///
/// ```
/// use marmota_derive::ModelEnum;
/// use marmota_model::{FieldValue, ValueRef};
///
/// #[derive(Debug, PartialEq, ModelEnum)]
/// enum Size {
///     Small,
///     #[model(rename = "XL")]
///     ExtraLarge,
/// }
///
/// #[derive(Debug, PartialEq, ModelEnum)]
/// #[model(integer)]
/// enum Priority {
///     Low = 10,
///     High = 20,
/// }
///
/// assert_eq!(Size::from_row(ValueRef::Text("XL")), Some(Size::ExtraLarge));
/// assert_eq!(Priority::from_row(ValueRef::Int(20)), Some(Priority::High));
/// assert_eq!(Priority::from_row(ValueRef::Int(15)), None);
/// # let _ = (Size::Small, Priority::Low);
/// ```
#[proc_macro_derive(ModelEnum, attributes(model))]
pub fn derive_model_enum(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    model_enum::derive(&input).into()
}

/// Makes a trait a service: what implements it can be served, and called by a
/// stub, which implements the trait as well.
///
/// Its methods are `async`, take `&self` and parameters that own their data
/// (any type that serde can write and read, or a stream of the services'), and give Marmota's
/// `Result`. For
/// `trait Calculator` there are then `CalculatorService`, which hosts whatever
/// implements the trait, and `CalculatorClient`, which calls it from elsewhere.
///
/// `#[idempotent]` before a method says that a call may take place twice: a stub
/// sends it again where a connection breaks before the answer.
///
/// `#[service(name = "calc")]` gives it another name than the trait's in snake
/// case; `#[service(crate = "my_base::service")]` says where the types are.
///
/// ```
/// use marmota_derive::service;
/// use marmota_model::Result;
/// use marmota_service::{Client, Services};
///
/// #[service]
/// trait Calculator {
///     async fn add(&self, a: i32, b: i32) -> Result<i32>;
/// }
///
/// struct Abacus;
///
/// impl Calculator for Abacus {
///     async fn add(&self, a: i32, b: i32) -> Result<i32> {
///         Ok(a + b)
///     }
/// }
///
/// # futures_lite::future::block_on(async {
/// let services = Services::new().service(CalculatorService::shared(Abacus))?;
/// let calculator = CalculatorClient::new(&Client::in_process(&services)).await?;
/// assert_eq!(calculator.add(1, 2).await?, 3);
/// # Ok::<(), marmota_model::Error>(())
/// # })?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[proc_macro_attribute]
pub fn service(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as ItemTrait);
    service::expand(attribute.into(), &item).into()
}

/// Makes a function a service of its own, at `/api/NAME`: it stays the function
/// it is, and there is a type of the same name to add it by.
///
/// ```
/// use marmota_derive::method;
/// use marmota_model::Result;
/// use marmota_service::{Client, Services};
///
/// #[method]
/// fn sum(a: i32, b: i32) -> Result<i32> {
///     Ok(a + b)
/// }
///
/// # futures_lite::future::block_on(async {
/// let services = Services::new().method::<sum>()?;
/// assert_eq!(sum::at(&Client::in_process(&services), 1, 2).await?, 3);
/// # Ok::<(), marmota_model::Error>(())
/// # })?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[proc_macro_attribute]
pub fn method(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as ItemFn);
    service_method::expand(attribute.into(), &item).into()
}
