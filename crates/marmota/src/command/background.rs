//! Subcommands for what acts without a person: durable jobs, webhooks, agents.

mod job;
#[cfg(feature = "mcp")]
mod mcp;
mod webhook;

pub(super) use self::job::Job;
#[cfg(feature = "mcp")]
pub(super) use self::mcp::{Mcp, ServeMcp};
pub(super) use self::webhook::{ServeWebhooks, Webhook};
