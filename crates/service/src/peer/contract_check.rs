//! The contracts that this side's stubs rely on. They are requested again on each new connection,
//! since the server may have been replaced by another version.

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::refusal::copy_of;

use super::pending_call::Settled;
use super::protocol::{CONTRACT, Message};
use super::terms::{Known, Terms};

/// The verdicts for all terms. Their number is limited by the number of traits in the program.
#[derive(Default)]
pub(super) struct ContractCheck(Vec<(Terms, Verdict)>);

/// The result of comparing a contract with the peer's on the current connection.
enum Verdict {
    Same,
    /// The contract was requested, by a call with that number.
    Asked(u64),
    Differs(Error),
}

/// The decision about a call.
pub(super) enum May {
    Go,
    Wait,
    Fail(Error),
}

impl ContractCheck {
    /// Records that a stub's contract matches on this connection.
    pub(super) fn keep(&mut self, terms: Terms) {
        match self.0.iter_mut().find(|(known, _)| *known == terms) {
            Some((_, verdict)) => *verdict = Verdict::Same,
            None => self.0.push((terms, Verdict::Same)),
        }
    }

    /// Returns the requests for a new connection, numbered from `last` + 1.
    pub(super) fn requests(&mut self, last: &mut u64) -> Vec<Message> {
        let ask = |(terms, verdict): &mut (Terms, Verdict)| {
            *last += 1;
            *verdict = Verdict::Asked(*last);
            let name = serde_json::Value::from(terms.contract.name);
            let message = format!(
                r#"{{"jsonrpc":"2.0","method":"{CONTRACT}","params":[{name}],"id":{last}}}"#
            );
            Arc::new(message.into_bytes())
        };
        self.0.iter_mut().map(ask).collect()
    }

    /// Processes the response to such a request; returns the response if it belongs to another
    /// call.
    pub(super) fn settle(
        &mut self,
        number: u64,
        answer: Result<Settled>,
    ) -> Option<Result<Settled>> {
        let asked =
            |one: &&mut (Terms, Verdict)| matches!(one.1, Verdict::Asked(it) if it == number);
        let Some((terms, verdict)) = self.0.iter_mut().find(asked) else { return Some(answer) };
        *verdict = match terms.compare(answer) {
            Ok(()) => Verdict::Same,
            Err(error) => {
                log::warn!("the server of the new connection has another contract: {error}");
                Verdict::Differs(error)
            }
        };
        None
    }

    /// Returns true if all calls may be sent.
    pub(super) fn is_settled(&self) -> bool {
        self.0.iter().all(|(_, verdict)| matches!(verdict, Verdict::Same))
    }

    /// Returns the decision about a stub's call.
    pub(super) fn may(&self, terms: Option<Terms>) -> May {
        let known = terms.and_then(|terms| self.0.iter().find(|(known, _)| *known == terms));
        match known.map(|(_, verdict)| verdict) {
            None | Some(Verdict::Same) => May::Go,
            Some(Verdict::Asked(_)) => May::Wait,
            Some(Verdict::Differs(error)) => May::Fail(copy_of(error)),
        }
    }
}

impl Terms {
    /// Returns an error if the peer's contract differs.
    fn compare(&self, answer: Result<Settled>) -> Result<()> {
        let theirs = match answer {
            Ok(Settled::Value(json)) => Known::of_json(&json)?,
            Ok(Settled::Stream(_)) => return Err(Known::no_contract("it is a stream")),
            // As when a stub is created: the peer does not serve contracts.
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(()),
            Err(error) => return Err(error),
        };
        theirs.check(self.contract)?;
        if theirs.terms(self.contract) == *self {
            return Ok(());
        }
        let message = format!(
            "the server hosts `{}` differently since the connection was lost; create a new stub",
            self.contract.name
        );
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}
