//! Storages of files: in folders and buckets, through kills, and at constant memory.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bucket;
mod guard;
mod issue;
mod killed;
