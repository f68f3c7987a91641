//! marmota
