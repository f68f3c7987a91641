//! A dialect: the words and limits by which the SQL of databases differs, as data. `rules.rs` has its
//! parts, and the other files have the dialects.

mod feed;
mod firebird;
mod mariadb;
mod oracle;
mod postgres;
mod rules;
mod sql_server;

pub use self::feed::FeedRules;
pub use self::firebird::FIREBIRD;
pub use self::mariadb::{MARIADB, MYSQL};
pub use self::oracle::ORACLE;
pub use self::postgres::POSTGRES;
pub use self::rules::{
    Catalog, ColumnChange, ColumnTypes, DefinitionRules, Dialect, ReturnedKey, StatementLimits,
    TextRules, ValueRules, WriteRules,
};
pub use self::sql_server::SQL_SERVER;
