//! The model that server and client share.
#![allow(missing_docs, reason = "the fields are self-explanatory")]
use marmota::prelude::*;

#[derive(Clone, Debug, Model, PartialEq)]
pub struct Person {
    pub id: i64,
    pub first_name: String,
    pub last_name: String,
    pub born: i32,
    pub died: Option<i32>,
}
