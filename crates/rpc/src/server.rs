//! The server's side: protocols on connections that were upgraded from HTTP.

pub(crate) mod protocol;
mod served_connection;
pub(crate) mod upgrade_response;
