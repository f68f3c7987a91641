//! marmota-model
