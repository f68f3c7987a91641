//! Typed clients of the REST API, generated from the tables of a store: `marmota client ts|python`.
//!
//! A client has two parts: files that are the same for all applications (the folder `runtime`), and
//! files with the types of the tables.
//!
//! ```
//! use std::sync::Arc;
//! use marmota_client::{ClientLanguage, generate};
//! use marmota_model::{Field, Kind, LinkedTables, Role, Schema, Table};
//!
//! let id = Field::new("id", Kind::I64).role(Role::Key);
//! let schema = Schema::new("product", vec![id, Field::new("name", Kind::TEXT)]);
//! let tables = vec![Arc::new(Table::new(schema)?)];
//! let _links = LinkedTables::new(tables.iter().map(|table| (Arc::clone(table), 0)).collect())?;
//!
//! let files = generate(ClientLanguage::TypeScript, "shop", &tables)?;
//! let types = files.iter().find(|file| file.path == "index.d.ts").expect("it is always generated");
//! assert!(types.text.contains("export class Shop extends"));
//! # Ok::<(), marmota_model::Error>(())
//! ```
#![forbid(unsafe_code)]

mod client_table;
mod described;
mod names;
mod python;
mod typescript;

use std::sync::Arc;

pub use described::DescribedTables;
use marmota_model::{Error, ErrorKind, Result, Table};

/// The language of a client.
///
/// ```
/// use marmota_client::ClientLanguage;
/// assert_ne!(ClientLanguage::TypeScript, ClientLanguage::Python);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientLanguage {
    /// An npm package: ES modules in JavaScript, with types for TypeScript.
    TypeScript,
    /// A Python package with type annotations.
    Python,
}

/// A file of a client.
///
/// ```
/// use marmota_client::GeneratedFile;
/// let file = GeneratedFile { path: "shop/py.typed".into(), text: String::new() };
/// assert!(file.path.starts_with("shop/"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedFile {
    /// The path in the folder of the client, with `/` between its parts.
    pub path: String,
    /// The content.
    pub text: String,
}

/// Generates the files of a client for tables, which have to be linked: those of an open store are.
///
/// `name` is the name of the application, such as `web_shop`: the package is called
/// `web-shop-client` and the class `WebShop`.
///
/// ```
/// use marmota_client::{ClientLanguage, generate};
/// let files = generate(ClientLanguage::Python, "web_shop", &[])?;
/// assert!(files.iter().any(|file| file.path == "web_shop/__init__.py"));
/// # Ok::<(), marmota_model::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Invalid`] for a name without letters.
pub fn generate(
    language: ClientLanguage,
    name: &str,
    tables: &[Arc<Table>],
) -> Result<Vec<GeneratedFile>> {
    let name = names::Application::new(name).ok_or_else(|| {
        let message = format!("`{name}` cannot be the name of a client: begin it with a letter");
        Error::new(ErrorKind::Invalid, message)
    })?;
    let tables = client_table::all(tables);
    Ok(match language {
        ClientLanguage::TypeScript => typescript::files(&name, &tables),
        ClientLanguage::Python => python::files(&name, &tables),
    })
}
