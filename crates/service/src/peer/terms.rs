//! What a stub and its peer must agree on: the peer's description of a service, and the terms of
//! the stub's calls.

use marmota_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::contract::Contract;

/// The peer's description of a service.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Known {
    pub(crate) name: String,
    pub(crate) is_method: bool,
    /// The signature and hash of each method.
    pub(crate) methods: Vec<(String, u64)>,
    /// True if each stub has a separate instance.
    #[serde(default)]
    pub(crate) per_stub: bool,
}

/// The contract and settings that a stub's calls rely on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Terms {
    pub(crate) contract: &'static Contract,
    pub(crate) is_method: bool,
    pub(crate) per_stub: bool,
}

impl Known {
    /// Parses the peer's answer.
    pub(crate) fn of_json(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).map_err(|error| Self::no_contract(&error.to_string()))
    }

    #[cold]
    pub(crate) fn no_contract(why: &str) -> Error {
        Error::new(ErrorKind::Protocol, format!("the answer is not a contract: {why}"))
    }

    /// Returns the terms for the calls of a stub with this contract.
    pub(crate) const fn terms(&self, contract: &'static Contract) -> Terms {
        Terms { contract, is_method: self.is_method, per_stub: self.per_stub }
    }

    /// Returns an error if a method of the stub differs. Additional methods of the server are
    /// allowed.
    pub(crate) fn check(&self, ours: &Contract) -> Result<()> {
        for method in ours.methods {
            if self.methods.iter().any(|(_, hash)| *hash == method.hash()) {
                continue;
            }
            let is_named = |text: &str| text.split('(').next() == Some(method.name);
            let theirs = self.methods.iter().find(|(text, _)| is_named(text));
            let theirs = match theirs {
                Some((text, _)) => format!("the server has `{text}`"),
                None => "the server has no method of this name".to_owned(),
            };
            let message = format!(
                "the contract of `{}` differs: the client has `{method}`, {theirs}; build both \
                 sides from the same trait",
                ours.name
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(())
    }
}
