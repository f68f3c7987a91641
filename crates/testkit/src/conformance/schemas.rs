//! Promises about databases that were created with other models.

pub mod generated_columns;
pub mod migrations;
pub mod schema_change;
pub mod schema_plan;
