//! Promises about a database that was made with other models.

pub mod migrations;
pub mod schema_change;
pub mod schema_plan;
