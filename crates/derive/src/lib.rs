//! marmota-derive
