//! The application file: reading, checking, adding its tables to a store, and writing it.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use indexmap::IndexMap;
use marmota_model::{Error, ErrorKind, Result, Schema};
use marmota_store::rights::Grant;
use marmota_store::{Store, StoreBuilder};
use toml_edit::DocumentMut;

use crate::document::{AppDocument, GroupDocument, TableDocument};
use crate::fault::Fault;
use crate::into_schema::{schemas, step_up_time};
use crate::webhook::{self, AppWebhook};
use crate::{from_schema, toml_text};

/// The maximum size of a file in bytes. An application of 1,000 tables has some 500 KB.
const BYTES_MAX: u64 = 4 << 20;

/// The tables and groups of an application, from a file in TOML or JSON.
///
/// Each table is valid for itself; references refer to tables of the file. Relations and the rules
/// of grants are checked when the store is opened ([`AppFile::add_to`]) and by
/// [`AppFile::check_groups`].
///
/// ```
/// use marmota_app::AppFile;
/// let app = AppFile::parse_toml(r#"
///     [tables.note]
///     audit = true
///     search_language = "english"
///
///     [tables.note.fields]
///     id = { kind = "uuid", role = "key" }
///     text = { kind = "text", max = 1000, search = true }
///     state = { kind = "enum", values = ["open", "done"], default = "open" }
///
///     [[groups.member.grants]]
///     table = "note"
///     rights = ["read", "insert"]
/// "#)?;
/// assert_eq!(app.schemas()[0].fields.len(), 3);
/// assert_eq!(app.groups()[0].name, "member");
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AppFile {
    document: AppDocument,
    schemas: Vec<Schema>,
    /// The name and the text of a file in TOML, for the places of errors.
    source: Option<(String, String)>,
}

/// A group of users in an application file, and the rights of its members.
///
/// ```
/// use marmota_app::AppGroup;
/// use marmota_store::rights::{Grant, Right};
/// let readers = AppGroup { name: "reader".to_owned(), grants: vec![Grant::new("*", &[Right::Read])] };
/// assert_eq!(readers.grants.len(), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppGroup {
    /// The name. `everyone` is every user, and `anonymous` is a caller without a credential.
    pub name: String,
    /// The rights.
    pub grants: Vec<Grant>,
}

/// The format of an application file.
///
/// ```
/// use marmota_app::AppFormat;
/// assert_eq!(AppFormat::of_path("shop/app.json".as_ref()), AppFormat::Json);
/// assert_eq!(AppFormat::of_path("shop/app.toml".as_ref()), AppFormat::Toml);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppFormat {
    /// TOML 1.0 (toml.io).
    Toml,
    /// JSON (RFC 8259).
    Json,
}

impl AppFormat {
    /// Returns the format by the extension of a file name: JSON for `.json`, TOML for all others.
    #[must_use]
    pub fn of_path(path: &Path) -> Self {
        match path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
            true => Self::Json,
            false => Self::Toml,
        }
    }
}

impl AppFile {
    /// Reads a file, in the format of its extension.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] or [`ErrorKind::Io`] if it cannot be read, and the errors of
    /// [`AppFile::parse_toml`], which begin with the path, the line and the column.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let name = path.display();
        let text = read_text(path)?;
        Self::parse(&text, AppFormat::of_path(path), &name.to_string())
    }

    /// Parses a file in TOML.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the line, the column, the keys, what is wrong and what is allowed.
    ///
    /// ```
    /// use marmota_app::AppFile;
    /// let error = AppFile::parse_toml("[tables.note.fields]\nid = { kind = \"int\" }\n").unwrap_err();
    /// let expected = "app.toml:2:15: tables.note.fields.id.kind: unknown variant `int`, expected one of";
    /// assert!(error.message().starts_with(expected));
    /// ```
    pub fn parse_toml(text: &str) -> Result<Self> {
        Self::parse(text, AppFormat::Toml, "app.toml")
    }

    /// Parses a file in JSON.
    ///
    /// # Errors
    /// As [`AppFile::parse_toml`].
    ///
    /// ```
    /// use marmota_app::AppFile;
    /// let text = r#"{"tables":{"tag":{"fields":{"id":{"kind":"text","role":"key"}}}}}"#;
    /// assert_eq!(AppFile::parse_json(text)?.schemas()[0].name, "tag");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn parse_json(text: &str) -> Result<Self> {
        Self::parse(text, AppFormat::Json, "app.json")
    }

    fn parse(text: &str, format: AppFormat, name: &str) -> Result<Self> {
        let invalid = |place: Option<(usize, usize)>, message: &str| {
            let message = match place {
                Some((line, column)) => format!("{name}:{line}:{column}: {message}"),
                None => format!("{name}: {message}"),
            };
            Error::new(ErrorKind::Invalid, message)
        };
        let document: AppDocument = match format {
            AppFormat::Toml => toml_edit::de::from_str(text).map_err(|error| {
                let span = error.span().unwrap_or_default();
                let place = toml_text::line_and_column(text, span.start);
                invalid(Some(place), &toml_message(text, span, error.message()))
            })?,
            AppFormat::Json => serde_json::from_str(text).map_err(|error| {
                let message = error.to_string();
                // The place is in front of the message already.
                let message = message.split(" at line ").next().unwrap_or(&message);
                invalid(Some((error.line(), error.column())), message)
            })?,
        };
        let schemas = schemas(&document).map_err(|Fault { path, message }| {
            let start = match format {
                AppFormat::Toml => toml_text::start_of(text, &path),
                AppFormat::Json => None,
            };
            let place = start.map(|start| toml_text::line_and_column(text, start));
            invalid(place, &format!("{}: {message}", path.join(".")))
        })?;
        let source = matches!(format, AppFormat::Toml).then(|| (name.to_owned(), text.to_owned()));
        Ok(Self { document, schemas, source })
    }

    /// Creates a file from the tables and groups of a program.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for what a file cannot state, such as a rule that is a Rust
    /// function.
    ///
    /// ```
    /// use marmota_app::AppFile;
    /// use marmota_model::{Field, Kind, Role, Schema};
    /// let tag = Schema::new("tag", vec![
    ///     Field::new("id", Kind::I64).role(Role::Key),
    ///     Field::new("name", Kind::TEXT).unique(true),
    /// ]);
    /// let app = AppFile::from_schemas(&[tag], [])?;
    /// assert_eq!(app.to_toml(), "\
    /// [tables.tag.fields]
    /// id = { kind = \"integer\", role = \"key\" }
    /// name = { kind = \"text\", unique = true }
    /// ");
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn from_schemas(
        schemas: &[Schema],
        groups: impl IntoIterator<Item = AppGroup>,
    ) -> Result<Self> {
        let tables = schemas
            .iter()
            .map(|schema| Ok((schema.name.to_string(), from_schema::document(schema)?)))
            .collect::<Result<IndexMap<_, _>>>()?;
        let groups = groups
            .into_iter()
            .map(|group| (group.name, GroupDocument { grants: group.grants }))
            .collect();
        let document = AppDocument { tables, groups, webhooks: IndexMap::new() };
        let schemas = self::schemas(&document)
            .map_err(|fault| Error::new(ErrorKind::Invalid, fault.message))?;
        Ok(Self { document, schemas, source: None })
    }

    /// Returns the schemas of the tables, in their order.
    #[must_use]
    pub fn schemas(&self) -> &[Schema] {
        &self.schemas
    }

    /// Returns the groups, in their order.
    #[must_use]
    pub fn groups(&self) -> Vec<AppGroup> {
        let groups = self.document.groups.iter();
        groups
            .map(|(name, group)| AppGroup { name: name.clone(), grants: group.grants.clone() })
            .collect()
    }

    /// Returns the tables whose writes need a recent authentication, with its maximum age.
    ///
    /// ```
    /// use marmota_app::AppFile;
    /// use std::time::Duration;
    ///
    /// let text = "[tables.payment]\nstep_up = \"5m\"\n\
    ///             [tables.payment.fields]\nid = { kind = \"integer\", role = \"key\" }\n";
    /// let app = AppFile::parse_toml(text)?;
    /// assert_eq!(app.step_up(), [("payment".to_owned(), Duration::from_secs(300))]);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn step_up(&self) -> Vec<(String, Duration)> {
        let tables = self.document.tables.iter();
        let time = |document: &TableDocument| step_up_time(document.step_up.as_deref()?);
        tables.filter_map(|(name, document)| Some((name.clone(), time(document)?))).collect()
    }

    /// Returns the table with a row for each user, if there is one.
    ///
    /// ```
    /// use marmota_app::AppFile;
    ///
    /// let text = "[tables.person]\nprofile = true\n\
    ///             [tables.person.fields]\nid = { kind = \"integer\", role = \"key\" }\n";
    /// assert_eq!(AppFile::parse_toml(text)?.profile(), Some("person"));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn profile(&self) -> Option<&str> {
        let mut tables = self.document.tables.iter();
        tables.find(|(_, document)| document.profile).map(|(name, _)| name.as_str())
    }

    /// Returns the webhooks, in their order.
    #[must_use]
    pub fn webhooks(&self) -> Vec<AppWebhook> {
        webhook::webhooks(&self.document.webhooks)
    }

    /// Replaces the webhooks of the file.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a table, a field or a kind of change that does not exist, and for
    /// a filter that does not fit its table.
    ///
    /// ```
    /// use marmota_app::AppFile;
    /// let text = "[tables.tag.fields]\nid = { kind = \"text\", role = \"key\" }\n\n\
    ///             [webhooks.chat]\nurl = \"https://example.org/\"\ntable = \"tag\"\n";
    /// let app = AppFile::parse_toml(text)?;
    /// let again = AppFile::from_schemas(app.schemas(), [])?.with_webhooks(app.webhooks())?;
    /// assert_eq!(again.to_toml(), text);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn with_webhooks(mut self, webhooks: impl IntoIterator<Item = AppWebhook>) -> Result<Self> {
        let documents = webhooks.into_iter().map(|webhook| {
            let name = webhook.name.clone();
            let document = webhook::document(webhook).ok_or_else(|| {
                let message = format!("webhooks.{name}.kinds: use insert, update and delete");
                Error::new(ErrorKind::Invalid, message)
            })?;
            Ok((name, document))
        });
        self.document.webhooks = documents.collect::<Result<_>>()?;
        self.source = None;
        webhook::check(&self.document.webhooks, &self.schemas).map_err(|fault| {
            let message = format!("{}: {}", fault.path.join("."), fault.message);
            Error::new(ErrorKind::Invalid, message)
        })?;
        Ok(self)
    }

    /// Adds the tables to the builder of a store. A Rust program adds its own models to the same
    /// builder.
    ///
    /// ```
    /// use marmota_app::AppFile;
    /// use marmota_memory::Memory;
    /// use marmota_store::Store;
    /// let app = AppFile::parse_toml("[tables.tag.fields]\nid = { kind = \"text\", role = \"key\" }")?;
    /// let store = app.add_to(Store::builder(Memory::new())).open()?;
    /// assert!(store.table("tag").is_ok());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn add_to(&self, builder: StoreBuilder) -> StoreBuilder {
        self.schemas.iter().cloned().fold(builder, StoreBuilder::schema)
    }

    /// Checks the grants of the groups against the tables of a store.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the place, the group, the number of the grant, and what is wrong.
    /// Only a file in TOML has places.
    ///
    /// ```
    /// use marmota_app::AppFile;
    /// use marmota_memory::Memory;
    /// use marmota_store::Store;
    /// let app = AppFile::parse_toml(r#"
    ///     [tables.tag.fields]
    ///     id = { kind = "text", role = "key" }
    ///     [[groups.member.grants]]
    ///     table = "tags"
    ///     rights = ["read"]
    /// "#)?;
    /// let store = app.add_to(Store::builder(Memory::new())).open()?;
    /// let error = app.check_groups(&store).unwrap_err();
    /// let expected = "app.toml:5:5: groups.member.grants[0]: there is no table `tags`; there are: tag";
    /// assert_eq!(error.message(), expected);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn check_groups(&self, store: &Store) -> Result<()> {
        for (name, group) in &self.document.groups {
            for (number, grant) in group.grants.iter().enumerate() {
                grant.check(store.registry()).map_err(|error| {
                    let number = number.to_string();
                    let mut path = ["groups", name, "grants", &number].map(str::to_owned).to_vec();
                    let message = format!("{}: {}", toml_text::keys(&path), error.message());
                    path.push(key_at_fault(grant, store).to_owned());
                    Error::new(ErrorKind::Invalid, format!("{}{message}", self.place_of(&path)))
                })?;
            }
        }
        Ok(())
    }

    /// Returns the place of a path of keys as the begin of a message; empty without a text in TOML.
    fn place_of(&self, path: &[String]) -> String {
        let Some((name, text)) = &self.source else { return String::new() };
        let start = toml_text::start_of(text, path).unwrap_or(0);
        let (line, column) = toml_text::line_and_column(text, start);
        format!("{name}:{line}:{column}: ")
    }

    /// Returns the file as TOML: a section for each table, a line for each field.
    #[must_use]
    pub fn to_toml(&self) -> String {
        self.toml_document().to_string()
    }

    /// Returns the file as JSON, indented.
    ///
    /// ```
    /// use marmota_app::AppFile;
    /// let app = AppFile::parse_toml("[tables.tag.fields]\nid = { kind = \"text\", role = \"key\" }")?;
    /// assert_eq!(AppFile::parse_json(&app.to_json())?.to_toml(), app.to_toml());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(&self.document).unwrap_or_default()
    }

    /// Returns `text`, a file in TOML, changed so that it has the content of this file. Comments,
    /// order and layout of what is the same are kept.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the text is not TOML.
    ///
    /// ```
    /// use marmota_app::AppFile;
    /// let text = "# Tags\n[tables.tag.fields]\nid = { kind = \"text\", role = \"key\" } # a word\n";
    /// let new = AppFile::parse_json(r#"{"tables":{"tag":{"fields":{
    ///     "id": {"kind":"text","role":"key"},
    ///     "uses": "integer"
    /// }}}}"#)?;
    /// assert_eq!(new.update_toml(text)?, format!("{text}uses = \"integer\"\n"));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn update_toml(&self, text: &str) -> Result<String> {
        let mut document: DocumentMut = text.parse().map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("the file is not TOML: {error}"))
        })?;
        let known = Self::parse_toml(text).ok().map(|known| known.toml_document());
        let known = known.as_ref().map(|known| known.as_table());
        toml_text::merge(document.as_table_mut(), known, self.toml_document().as_table());
        Ok(document.to_string())
    }

    /// Returns the JSON Schema (2020-12) of the file format, for editors.
    ///
    /// ```
    /// let schema = marmota_app::AppFile::json_schema();
    /// assert!(schema.contains("\"title\": \"Marmota application\""));
    /// ```
    #[must_use]
    pub fn json_schema() -> String {
        let schema = schemars::schema_for!(AppDocument);
        serde_json::to_string_pretty(&schema).unwrap_or_default()
    }

    fn toml_document(&self) -> DocumentMut {
        // A document of strings, numbers and tables with string keys has a form in TOML.
        let document = toml_edit::ser::to_document(&self.document).unwrap_or_default();
        toml_text::laid_out(&document)
    }
}

/// Returns the message of a fault in TOML, with the keys of the value or the key that is repeated.
fn toml_message(text: &str, span: Range<usize>, message: &str) -> String {
    if message == "duplicate key" {
        return format!("duplicate key `{}`", text.get(span).unwrap_or_default());
    }
    let mut path = toml_text::path_at(text, span.start);
    if message.starts_with("unknown field") {
        path.pop();
    }
    match path.as_slice() {
        [] => message.to_owned(),
        path => format!("{}: {message}", toml_text::keys(path)),
    }
}

/// Returns the key of a grant that is wrong: the one without which the rest is valid.
fn key_at_fault(grant: &Grant, store: &Store) -> &'static str {
    let is_valid = |grant: Grant| grant.check(store.registry()).is_ok();
    if grant.rule.is_some() && is_valid(Grant { rule: None, ..grant.clone() }) {
        return "rule";
    }
    if grant.fields.is_some() && is_valid(Grant { fields: None, ..grant.clone() }) {
        return "fields";
    }
    if is_valid(Grant { except: Vec::new(), ..grant.clone() }) { "except" } else { "table" }
}

/// Reads a file of a limited size as text.
fn read_text(path: &Path) -> Result<String> {
    let refuse = |kind: ErrorKind, what: String| {
        Error::new(kind, format!("cannot read {}: {what}", path.display()))
    };
    let of_io = |error: std::io::Error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Io,
        };
        refuse(kind, error.to_string())
    };
    let bytes = std::fs::metadata(path).map_err(of_io)?.len();
    if bytes > BYTES_MAX {
        let what = format!("it has {bytes} bytes, and at most {BYTES_MAX} are allowed");
        return Err(refuse(ErrorKind::Invalid, what));
    }
    std::fs::read_to_string(path).map_err(of_io)
}
