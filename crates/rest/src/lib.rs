//! marmota-rest
