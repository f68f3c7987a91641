//! The encryption of files: keys, ciphers, and the sizes that it adds.

#[cfg(feature = "encryption")]
pub(crate) mod cipher;
pub(crate) mod file_encryption;
pub(crate) mod seal;
