//! The routes of rows: one file for each.

pub(crate) mod blob;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod groups;
pub(crate) mod history;
pub(crate) mod increment;
pub(crate) mod insert;
pub(crate) mod insert_many;
pub(crate) mod list;
pub(crate) mod live;
pub(crate) mod once;
pub(crate) mod page_document;
pub(crate) mod update;
