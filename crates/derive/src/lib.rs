//! The macros of Marmota. [`Model`] makes a struct a row of a table, [`ModelEnum`] makes an enum
//! the type of a field, and [`macro@service`] makes a trait a service that other processes can
//! call.
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
//! # Generated code
//!
//! - The implementation of the trait `Model`: the schema, as one constant; the key; and the
//!   conversions from struct to row and from row to struct.
//! - For each field a constant of the struct, `Person::LAST_NAME`, for filters and orders. It has
//!   the visibility of the field, and the field's name in capitals, regardless of the column's
//!   name. A field called `table` hides the constant of the trait: use `<Person as Model>::TABLE`.
//!
//! The type of a field must implement `FieldValue`: `bool`, `i8` to `i64`, `u8` to `u64`, `f32`,
//! `f64`, `String`, `Currency`, `Date`, `Time`, `Timestamp`, `Uuid`, `Blob`, `Json<T>`,
//! `Ref<Model>`, an enum with [`ModelEnum`], and `Option` of these for fields that may be NULL. A
//! struct has one to 128 fields, and neither generic parameters nor lifetimes.
//!
//! # On the struct
//!
//! | attribute | meaning |
//! |---|---|
//! | `table = "people"` | the table's name; default: the struct's name in snake case |
//! | `was = "customer"` | the previous name of the table, which is renamed with its rows |
//! | `index(a, b)` | an index over these fields, in this order; may be repeated |
//! | `unique(a, b)` | the same, and no two rows have the same values in all of them |
//! | `audit` | each write adds an entry to the store's history |
//! | `crate = "path"` | the module with the traits, if it is not found automatically |
//!
//! # On a field
//!
//! | attribute | for | meaning |
//! |---|---|---|
//! | `key` | `i64`, `Uuid`, `String` | the key; default: the field called `id` |
//! | `rename = "type"` | any | the name of the column and of the JSON member |
//! | `was = "old_name"` | any | the previous name of the column, which is renamed with its values |
//! | `unique` | any | no two rows have the same value (NULLs excepted) |
//! | `index` | any | an index over this field alone |
//! | `default = 7` | all but blobs | the default value of new rows: a number, a text in quotes (also for dates, times, UUIDs, names of enums and JSON), `true` or `false` |
//! | `max = 40` | texts | the maximum number of characters |
//! | `collate = "nocase"` | texts | comparisons ignore the case of A to Z; `"binary"` is the default |
//! | `immutable` | any without a role | its value is fixed after the insert: a write that changes it is refused |
//! | `search` | texts | its words can be searched for |
//! | `not_empty` | texts, blobs | not empty, and not only white space |
//! | `length(min = 2, max = 9)` | texts, blobs | the number of characters, or of bytes; either bound may be omitted |
//! | `range(min = 0, max = 1)` | numbers, dates, times | between the two, both included; either bound may be omitted |
//! | `pattern = "[A-Z]{2}"` | texts | the whole text matches the regular expression; may be repeated |
//! | `email` | texts | an e-mail address |
//! | `check = path` | any | a function `fn(&T) -> Result<(), String>`; the last segment of its path is the name of the rule, its error is the message; may be repeated |
//! | `created_at` | `Timestamp` | set by the store at the insert |
//! | `updated_at` | `Timestamp` | set by the store at each write |
//! | `version` | `i64` | incremented by the store at each write; stale writes are refused |
//!
//! NULL satisfies every rule. Therefore the function of `check` on an `Option<T>` takes a `&T`; on
//! a `String` it may also take a `&str`. A field called `created_at`, `updated_at` or `version` is
//! an ordinary field without the attribute.
//!
//! # On an enum, and on its variants
//!
//! | attribute | on | meaning |
//! |---|---|---|
//! | `integer` | the enum | rows store the number, which every variant must then have; default: rows store the name |
//! | `crate = "path"` | the enum | as on a struct |
//! | `rename = "name"` | a variant | the name in rows and JSON; default: the variant's name in snake case |
//!
//! # Errors at compile time
//!
//! Faults that can be detected at compile time are compile errors at the position of the fault,
//! with the correct form; several are reported at once. A macro sees names but not types.
//! Therefore, for custom types (an alias, an enum), two checks run when the model is registered:
//! whether the default is a valid value, and whether `range` and the like apply to the type. The
//! same holds for defaults and ranges that are dates, times, UUIDs or JSON in quotes.
//!
//! # Path of the traits
//!
//! The generated code refers to the crate by its name in the program's `Cargo.toml`: first
//! `marmota` (its module `model`), then `marmota-model`. A program that gets them only through a
//! re-export of another crate must name the path:
//! `#[model(crate = "my_base::marmota::model")]`.
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

/// Derives a model from a struct with named fields: the rows of one table.
///
/// See the [crate's documentation](crate) for the attributes.
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

/// Makes an enum without data the type of a field. Rows store its name or, with
/// `#[model(integer)]`, its number. JSON contains the name in both cases.
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

/// Makes a trait a service: its implementations can be served, and called through a client stub,
/// which implements the trait as well.
///
/// The trait's methods are `async`, take `&self` and parameters that own their data (any type that
/// serde can write and read, or a stream of the service crate), and return Marmota's `Result`. For
/// `trait Calculator` the macro generates `CalculatorService`, which hosts an implementation of the
/// trait, and `CalculatorClient`, which calls it.
///
/// `#[idempotent]` before a method declares that a call may be executed twice: the stub repeats the
/// call if the connection breaks before the answer.
///
/// `#[service(name = "calc")]` sets the name of the service; default: the trait's name in snake
/// case. `#[service(crate = "my_base::service")]` sets the path of the types.
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

/// Makes a function a service, at `/api/NAME`. The function itself is not changed; a type with the
/// same name registers it as a service.
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
