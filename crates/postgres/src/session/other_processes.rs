//! The connections of other processes to the database.
//!
//! Processes of one program have the same `application_name`. A pooler hides which process uses a
//! connection of the server.

use std::thread::sleep;
use std::time::Duration;

use marmota_model::Result;

use crate::shared::Shared;

/// The number of times that the connections are listed. One that is being made or closed is in a
/// list without belonging to a process that is known.
const LOOKS: u32 = 5;
/// The pause in between.
const PAUSE: Duration = Duration::from_millis(50);

const SQL: &str = "SELECT pid::text,coalesce(host(client_addr),'a socket') FROM pg_stat_activity \
                   WHERE datname=current_database() AND backend_type='client backend' \
                   AND application_name=current_setting('application_name') ORDER BY pid";

/// Describes the connections of other processes of the program to the database. Through a
/// pooler none is found.
///
/// # Errors
/// Those of the connection.
pub(crate) fn other_processes(shared: &Shared) -> Result<Vec<String>> {
    let mut others = Vec::new();
    if shared.options.is_pooled {
        return Ok(others);
    }
    for look in 0..LOOKS {
        if look > 0 {
            sleep(PAUSE);
        }
        others.clear();
        shared.with_connection(|connection, options| {
            let listed = connection.query(SQL, |row| {
                let is_own = |process: i32| options.own.has_process(process);
                if !row.text(0).parse().is_ok_and(is_own) {
                    others.push(format!("PostgreSQL process {} of {}", row.text(0), row.text(1)));
                }
            });
            listed.map_err(|error| error.into_error(options))
        })?;
        if others.is_empty() {
            break;
        }
    }
    Ok(others)
}
