//! Subcommands for work in the background: durable jobs, and webhooks.

mod job;
mod webhook;

pub(super) use self::job::Job;
pub(super) use self::webhook::{ServeWebhooks, Webhook};
