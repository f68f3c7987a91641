//! The pages of a program with a REST API: a start page, the administration, and the documentation
//! of the API.
//!
//! | path | page |
//! |---|---|
//! | `/` | name, version, and links |
//! | `/admin` | tables and rows, users, groups, keys, statistics |
//! | `/docs` | the operations of the OpenAPI document |
//! | `/account` | signing in and up, passwords, and the account of a user |
//! | `/account/texts.json` | the texts of `/account` in a language |
//! | `/admin/assets/…` | scripts, styles, and `settings.json` |
//!
//! The pages are static files that are compiled into the program. They use the public REST API with
//! the rights of the user who is logged in, so they can do nothing that a script cannot do. They
//! load nothing from other servers, and have no inline scripts or styles: the policy of [`POLICY`]
//! enforces both.
#![forbid(unsafe_code)]

mod account_texts;
mod assets;
mod pages;

pub use pages::{AdminPages, POLICY};
