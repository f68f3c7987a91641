//! Subcommands about the program itself, and not about its rows: its version, completions, manual pages,
//! files for its deployment, checks of the machine and of the running server.

mod completions;
mod deploy_files;
mod doctor;
mod healthcheck;
mod man;
mod version;

pub(super) use self::completions::Completions;
pub(super) use self::deploy_files::DeployFiles;
pub(super) use self::doctor::Doctor;
pub(super) use self::healthcheck::HealthCheck;
pub(super) use self::man::Man;
pub(super) use self::version::{Version, line, long};
