//! Tests of webhooks: real requests to receivers that the tests start.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod address;
mod definition;
mod delivery;
mod down;
mod engines;
mod harness;
mod killed;
mod replay;
