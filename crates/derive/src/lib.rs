//! The macros of Marmota. [`Model`] makes a struct a row of a table, [`ModelEnum`] makes an enum
//! the type of a field, [`macro@service`] makes a trait a service that other processes can call,
//! and [`macro@job`] makes a function a durable job.
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
//! `f64`, `String`, `Currency`, `Date`, `Time`, `Timestamp`, `Uuid`, `Blob`, `File`, `Vector<N>`,
//! `Json<T>`,
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
//! | `index(a, where = "filter")`, `unique(a, where = "filter")` | the same, for the rows that the filter selects |
//! | `relation(labels = "issue_label.label")` | names for paths to related rows, for filters; may be repeated |
//! | `audit` | each write adds an entry to the store's history |
//! | `search_language = "english"` | searches find other forms of a word: `run` finds `running` |
//! | `crate = "path"` | the module with the traits, if it is not found automatically |
//!
//! # On a field
//!
//! | attribute | for | meaning |
//! |---|---|---|
//! | `key` | `i64`, `Uuid`, `String` | the key; default: the field called `id` |
//! | `key(playlist, track)` | `String` | a composite key; the store makes its text of their values |
//! | `rename = "type"` | any | the name of the column and of the JSON member |
//! | `was = "old_name"` | any | the previous name of the column, which is renamed with its values |
//! | `unique` | any | no two rows have the same value (NULLs excepted) |
//! | `index` | any | an index over this field alone |
//! | `default = 7` | all but blobs and files | the default value of new rows: a number, a text in quotes (also for dates, times, UUIDs, names of enums and JSON), `true` or `false` |
//! | `default_expression = "@now"` | plain fields | an expression whose value new rows get |
//! | `computed = "price * count"` | plain fields | an expression that the store computes in every write |
//! | `generated = "price * count"`, `generated` | plain fields | an SQL expression that the database computes; without one, a column that the database has |
//! | `max = 40` | texts | the maximum number of characters |
//! | `collate = "nocase"` | texts | comparisons ignore the case of A to Z; `"binary"` is the default |
//! | `bytes_max = "10 MB"` | files | the maximum size, in bytes or with a unit; default: 100 MB |
//! | `types("image/*", "application/pdf")` | files | the accepted media types; default: all |
//! | `immutable` | any without a role | its value is fixed after the insert: a write that changes it is refused |
//! | `on_delete = "cascade"` | references | when the row that it refers to is deleted: the row is deleted as well; `"set_null"`: the reference becomes NULL; `"restrict"` is the default, the delete is refused |
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
mod job;
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
/// The tables of attributes are in the [crate's documentation](crate). For `struct City` the macro
/// generates:
///
/// | item | content |
/// |---|---|
/// | `impl Model for City` | `TABLE`, `KEY_KIND`, `Key`, `schema()`, `key()`, `set_key()`, `read()` and `write()` |
/// | `City::NAME`, one for each field | a `Column<City, T>` for filters and orders, with the visibility of the field |
///
/// Nothing else is generated: the struct stays as it is written, and other derives apply as usual.
///
/// ```
/// use marmota_derive::Model;
/// use marmota_model::{KeyKind, Model, Ref, ValueRef};
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
/// assert_eq!((City::TABLE, City::KEY_KIND), ("cities", KeyKind::Auto));
/// # Ok::<(), marmota_model::Error>(())
/// ```
///
/// # The key
/// The key is the field with `key`, otherwise the field called `id`. Its type determines which side
/// generates a value: the engine for `i64`, the store for `Uuid` (version 7, RFC 9562), the caller
/// for `String`. A composite key is a `String` with `key(…)`: the store makes it of their
/// values, and so does the function `key_of`.
///
/// ```
/// use marmota_derive::Model;
/// use marmota_model::{KeyKind, Model, Uuid};
///
/// #[derive(Model)]
/// struct Country {
///     #[model(key, max = 2)]
///     code: String,
///     name: String,
/// }
///
/// #[derive(Model)]
/// struct Ticket { id: Uuid, title: String }
///
/// #[derive(Model)]
/// struct Seat { #[model(key(room, number))] key: String, room: String, number: i64 }
///
/// assert_eq!((Country::KEY_KIND, Ticket::KEY_KIND), (KeyKind::Text, KeyKind::Uuid));
/// assert_eq!(Seat::key_of("B", 7), "B,7");
/// ```
///
/// # Names: `table`, `rename`, `was`
/// `table` and `rename` set the names in the database and in JSON. Default: the struct's name in
/// snake case, and the field's name. `was` is a former name: a table or column that has it is
/// renamed when the store is opened, with its content.
///
/// ```
/// use marmota_derive::Model;
/// use marmota_model::Model;
///
/// #[derive(Model)]
/// #[model(table = "people", was = "customer")]
/// struct Person {
///     id: i64,
///     #[model(rename = "type")]
///     kind: String,
///     #[model(was = "name")]
///     full_name: String,
/// }
///
/// let schema = Person::schema();
/// assert_eq!((&*schema.name, schema.was.as_deref()), ("people", Some("customer")));
/// assert_eq!(schema.fields[1].name, "type");
/// assert_eq!(schema.fields[2].was.as_deref(), Some("name"));
/// // The constant has the name of the field in Rust.
/// assert_eq!(Person::KIND.position(), 1);
/// ```
///
/// # Indexes: `unique`, `index`
/// On a field they concern it alone; on the struct they name several fields, in the order of the
/// index. NULL values never conflict in a unique index.
///
/// ```
/// use marmota_derive::Model;
/// use marmota_model::Model;
///
/// #[derive(Model)]
/// #[model(index(last_name, first_name), unique(email, country))]
/// struct Person {
///     id: i64,
///     first_name: String,
///     last_name: String,
///     email: Option<String>,
///     country: String,
///     #[model(unique)]
///     passport: Option<String>,
///     #[model(index)]
///     year: i32,
/// }
///
/// let schema = Person::schema();
/// assert!(schema.fields[5].unique);
/// let indexes: Vec<(&[usize], bool)> =
///     schema.indexes.iter().map(|index| (&*index.fields, index.unique)).collect();
/// assert_eq!(indexes, [(&[6][..], false), (&[2, 1], false), (&[3, 4], true)]);
/// ```
///
/// With `where`, the index has only the rows that a filter selects. The filter has the names of
/// columns, and is checked when the store is opened (`Index::filter` of the crate `marmota-model`).
///
/// ```
/// use marmota_derive::Model;
/// use marmota_model::{Index, Model};
///
/// #[derive(Model)]
/// #[model(unique(email, where = "deleted = null"))]
/// struct User {
///     id: i64,
///     email: String,
///     deleted: Option<i64>,
/// }
///
/// assert_eq!(*User::schema().indexes, [Index::unique(vec![1]).filter("deleted = null")]);
/// ```
///
/// # Values: `default`, `max`, `collate`, `immutable`, `search`
/// `default` applies to a field that an insert leaves out; it is written as a number, `true`,
/// `false`, or a text in quotes. A struct always has a value, so defaults matter for JSON, records
/// and new columns. `max` is a number of characters. `collate = "nocase"` ignores the case of A to
/// Z in comparisons. `immutable` refuses writes that change the value. `search` adds the field to
/// the full-text index.
///
/// ```
/// use marmota_derive::Model;
/// use marmota_model::{Collation, Currency, Model, Table, ValueRef};
///
/// #[derive(Model)]
/// struct Article {
///     id: i64,
///     #[model(max = 12, collate = "nocase", immutable)]
///     code: String,
///     #[model(search)]
///     title: String,
///     #[model(default = 9.50)]
///     price: Currency,
///     #[model(default = "draft")]
///     state: String,
/// }
///
/// let table = Table::new(Article::schema().clone())?;
/// let price = Currency::from_scaled(95_000);
/// assert_eq!(table.default(3), Some(ValueRef::Currency(price)));
/// assert_eq!(table.default(4), Some(ValueRef::Text("draft")));
/// assert_eq!(table.fields()[1].kind.collation(), Collation::NoCase);
/// assert!(table.fields()[1].immutable && table.fields()[2].search);
/// # Ok::<(), marmota_model::Error>(())
/// ```
///
/// # References: `on_delete`
/// A row that is referred to cannot be deleted. `on_delete = "cascade"` deletes the referring rows
/// with it; `on_delete = "set_null"` sets their references to NULL, and needs an `Option`.
///
/// ```
/// use marmota_derive::Model;
/// use marmota_model::{Model, OnDelete, Ref};
///
/// #[derive(Model)]
/// struct User {
///     id: i64,
/// }
///
/// #[derive(Model)]
/// struct Issue {
///     id: i64,
///     #[model(on_delete = "set_null")]
///     assignee: Option<Ref<User>>,
/// }
///
/// #[derive(Model)]
/// struct Comment {
///     id: i64,
///     #[model(on_delete = "cascade")]
///     issue: Ref<Issue>,
/// }
/// assert_eq!(Comment::schema().fields[1].on_delete, OnDelete::Cascade);
/// ```
///
/// # Rules: `not_empty`, `length`, `range`, `pattern`, `email`, `check`
/// Rules are checked by the store before each write, from any source. An error names every field
/// that breaks one. A pattern matches the whole text; a check is a function of your program.
///
/// ```
/// use marmota_derive::Model;
/// use marmota_model::{Model, Table, ValueRef};
///
/// #[derive(Model)]
/// struct Account {
///     id: i64,
///     #[model(not_empty, length(min = 2, max = 20))]
///     name: String,
///     #[model(range(min = 0, max = 150))]
///     age: i32,
///     #[model(pattern = "[A-Z]{2}")]
///     country: String,
///     #[model(email)]
///     email: Option<String>,
///     #[model(check = is_even)]
///     seats: i64,
/// }
///
/// fn is_even(seats: &i64) -> Result<(), String> {
///     if seats % 2 == 0 { Ok(()) } else { Err("must be even".to_owned()) }
/// }
///
/// let table = Table::new(Account::schema().clone())?;
/// let row = |age, country, seats| {
///     let (name, age, country) = (ValueRef::Text("Ana"), ValueRef::Int(age), ValueRef::Text(country));
///     [ValueRef::Int(1), name, age, country, ValueRef::Null, ValueRef::Int(seats)]
/// };
/// table.validate(&row(36, "FR", 4))?;
/// let error = table.validate(&row(-1, "France", 3)).unwrap_err();
/// let broken: Vec<&str> = error.violations().iter().map(|one| &*one.rule).collect();
/// assert_eq!(broken, ["range", "pattern", "is_even"]);
/// # Ok::<(), marmota_model::Error>(())
/// ```
///
/// # Fields that the store sets: `created_at`, `updated_at`, `version`
/// Each may be on one field. A version makes stale writes fail (optimistic locking).
///
/// ```
/// use marmota_derive::Model;
/// use marmota_model::{Model, Table, Timestamp};
///
/// #[derive(Model)]
/// #[model(audit)]
/// struct Note {
///     id: i64,
///     text: String,
///     #[model(created_at)]
///     created: Timestamp,
///     #[model(updated_at)]
///     changed: Timestamp,
///     #[model(version)]
///     version: i64,
/// }
///
/// let table = Table::new(Note::schema().clone())?;
/// assert_eq!(table.created_at(), Some(2));
/// assert_eq!(table.updated_at(), Some(3));
/// assert_eq!(table.version(), Some(4));
/// // Each write adds an entry to the store's history.
/// assert!(table.schema().audit);
/// # Ok::<(), marmota_model::Error>(())
/// ```
///
/// # Path of the traits: `crate`
/// Only needed by a program that has Marmota through another crate.
///
/// ```
/// mod base {
///     pub use marmota_model as model;
/// }
///
/// #[derive(marmota_derive::Model)]
/// #[model(crate = "crate::base::model")]
/// struct Note {
///     id: i64,
/// }
/// # fn main() {}
/// ```
///
/// # Compile errors
/// A fault is reported at its place, with the correct form:
///
/// ```compile_fail
/// #[derive(marmota_derive::Model)]
/// struct Note {
///     id: i64,
///     #[model(max_length = 40)] // error: no attribute `max_length`; here it is `max`
///     text: String,
/// }
/// ```
#[proc_macro_derive(Model, attributes(model))]
pub fn derive_model(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    model::derive(&input).into()
}

/// Makes an enum without data the type of a field. Rows store its name or, with
/// `#[model(integer)]`, its number. JSON contains the name in both cases.
///
/// The macro generates `impl FieldValue` and nothing else. A variant may be added at any time; a
/// renamed or removed one makes rows with the old value unreadable, unless `rename` keeps the name.
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
///
/// A default of a field is the name of a variant:
///
/// ```
/// use marmota_derive::{Model, ModelEnum};
/// use marmota_model::{Model, Table, ValueRef};
///
/// #[derive(ModelEnum)]
/// enum State {
///     Draft,
///     InReview,
/// }
///
/// #[derive(Model)]
/// struct Article {
///     id: i64,
///     #[model(default = "in_review")]
///     state: State,
/// }
///
/// let table = Table::new(Article::schema().clone())?;
/// assert_eq!(table.default(1), Some(ValueRef::Text("in_review")));
/// # let _ = (State::Draft, State::InReview);
/// # Ok::<(), marmota_model::Error>(())
/// ```
///
/// With `integer` every variant has a number, so that it stays the same when variants are moved:
///
/// ```compile_fail
/// #[derive(marmota_derive::ModelEnum)]
/// #[model(integer)]
/// enum Priority {
///     Low, // error: write its number
///     High = 20,
/// }
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
/// `trait Calculator` the macro generates:
///
/// | item | purpose |
/// |---|---|
/// | the trait itself | the same methods; their futures are `Send`, and implementations are `Send + Sync + 'static` |
/// | `CalculatorService::shared(instance)` | hosts one instance for all calls |
/// | `CalculatorService::per(lifetime, make)` | hosts an instance for each call, session, user or other unit |
/// | `CalculatorService::mock()` | a mock for tests, which returns configured answers |
/// | `CalculatorClient::new(&client).await` | a stub, after it has compared the contracts of both sides |
/// | `impl Calculator for CalculatorClient` | the calls |
///
/// | attribute | on | meaning |
/// |---|---|---|
/// | `name = "calc"` | the trait | the name of the service. Default: the trait's name in snake case |
/// | `crate = "my_base::service"` | the trait | the path of the types, if it is not found automatically |
/// | `#[idempotent]` | a method | a call may be executed twice: the stub repeats it if the connection breaks before the answer |
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
///
/// A name, and a method whose calls may be repeated:
///
/// ```
/// use marmota_derive::service;
/// use marmota_model::Result;
/// use marmota_service::{Client, Services};
///
/// /// Moves points.
/// #[service(name = "geo")]
/// trait Geometry {
///     /// Mirrors a point at the origin.
///     #[idempotent]
///     async fn mirror(&self, point: (f64, f64)) -> Result<(f64, f64)>;
/// }
///
/// struct Plane;
///
/// impl Geometry for Plane {
///     async fn mirror(&self, (x, y): (f64, f64)) -> Result<(f64, f64)> {
///         Ok((-x, -y))
///     }
/// }
///
/// # futures_lite::future::block_on(async {
/// let services = Services::new().service(GeometryService::shared(Plane))?;
/// let geometry = GeometryClient::new(&Client::in_process(&services)).await?;
/// assert_eq!(geometry.mirror((1.0, 2.0)).await?, (-1.0, -2.0));
/// # Ok::<(), marmota_model::Error>(())
/// # })?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
///
/// A method that does not return a `Result` is a compile error, since any call may fail:
///
/// ```compile_fail
/// #[marmota_derive::service]
/// trait Calculator {
///     async fn add(&self, a: i32, b: i32) -> i32;
/// }
/// ```
#[proc_macro_attribute]
pub fn service(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as ItemTrait);
    service::expand(attribute.into(), &item).into()
}

/// Makes a function a kind of job: a function that runs later, in any process that uses the
/// database. See the crate `marmota-jobs`, or `marmota::jobs`.
///
/// For `async fn send_digest(user: i64, context: JobContext)` it generates the struct
/// `SendDigest { user: i64 }`, which is enqueued. The parameters are stored as JSON, so their types
/// implement serde's traits. A parameter of the type `JobContext` is not stored; it can be omitted.
/// The function itself stays as it is. One that is not `async` may block its thread.
///
/// | attribute | meaning | default |
/// |---|---|---|
/// | `name = "digest"` | the name under which jobs are stored | the function's name |
/// | `queue = "mail"` | the queue | `default` |
/// | `retries = 5` | how often a failed attempt is repeated | 10 |
/// | `timeout = "30s"` | the time limit of an attempt | `30m` |
/// | `priority = 10` | jobs with a higher number are claimed first, -128 to 127 | 0 |
/// | `backoff = "1s"` | the pause before the first retry, doubled each time up to an hour | `5s` |
/// | `unique` | no two jobs with the same parameters are waiting or running | |
/// | `unique(user)` | the same, for these parameters | |
/// | `unique_for = "1h"` | `unique` also applies for this time after the enqueueing | |
/// | `crate = "path"` | the module with the types of jobs, if it is not found automatically | |
///
/// ```
/// use marmota_derive::job;
/// use marmota_jobs::{Job, JobContext};
///
/// #[job(queue = "mail", retries = 3, timeout = "30s", unique(user))]
/// async fn send_digest(user: i64, days: u32, context: JobContext) -> Result<(), std::io::Error> {
///     println!("user {user}, {days} days, attempt {}", context.attempt());
///     Ok(())
/// }
///
/// let job = SendDigest { user: 7, days: 30 };
/// assert_eq!(SendDigest::NAME, "send_digest");
/// assert_eq!(job.unique_key()?.unwrap(), "[7]");
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[proc_macro_attribute]
pub fn job(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as ItemFn);
    job::expand(attribute.into(), &item).into()
}

/// Makes a function a service, at `/api/NAME`. The function itself is not changed.
///
/// For `fn sum(a: i32, b: i32)` the macro generates a type with the same name, which registers the
/// function (`Services::method::<sum>()`), and `sum::at(&client, a, b)`, which calls it through a
/// client. The function may be `async`; its parameters and its result follow the rules of
/// [`macro@service`].
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
/// assert_eq!(sum(1, 2)?, 3);
/// # Ok::<(), marmota_model::Error>(())
/// # })?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
///
/// `#[method(name = "total")]` sets another name. Default: the name of the function.
#[proc_macro_attribute]
pub fn method(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as ItemFn);
    service_method::expand(attribute.into(), &item).into()
}
