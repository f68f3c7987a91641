//! marmota-http
