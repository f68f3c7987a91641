//! marmota-sqlite
