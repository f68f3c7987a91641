//! The ODBC engine on real servers, by the drivers that Debian has.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod faults;
mod servers;

use marmota_odbc::Odbc;
use marmota_store::Store;
use marmota_testkit::conformance;
use marmota_testkit::conformance::Subject;

fn subject(name: &'static str, url: String) -> Subject {
    Subject::new(name, move || Store::builder(Odbc::from_url(&url).unwrap()))
}

conformance!(mariadb, || crate::subject("MariaDB over ODBC", crate::servers::mariadb_url()));
conformance!(postgres, || crate::subject("PostgreSQL over ODBC", crate::servers::postgres_url()));
