//! marmota-store
