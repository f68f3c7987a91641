//! What this side's stubs have agreed on with the other side: asked for again on each new
//! connection, since another version of it may be at its end.

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::refusal::copy_of;

use super::{CONTRACT, Message, Settled};
use crate::client::Known;
use crate::contract::Contract;

/// What a stub's calls rest on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Terms {
    pub(crate) contract: &'static Contract,
    pub(crate) is_method: bool,
    pub(crate) per_stub: bool,
}

/// See the module. There are no more of them than traits in the program, whatever is asked.
#[derive(Default)]
pub(super) struct Agreed(Vec<(Terms, Verdict)>);

/// What is known of the other side at the connection's end.
enum Verdict {
    Same,
    /// It was asked, by a call of that number.
    Asked(u64),
    Differs(Error),
}

/// What becomes of a call.
pub(super) enum May {
    Go,
    Wait,
    Fail(Error),
}

impl Agreed {
    /// A stub has compared these on this connection.
    pub(super) fn keep(&mut self, terms: Terms) {
        match self.0.iter_mut().find(|(known, _)| *known == terms) {
            Some((_, verdict)) => *verdict = Verdict::Same,
            None => self.0.push((terms, Verdict::Same)),
        }
    }

    /// Questions for a new connection, numbered from behind `last` on.
    pub(super) fn ask(&mut self, last: &mut u64) -> Vec<Message> {
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

    /// Takes the answer to one of them; gives it back if it is another call's.
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
                log::warn!("the server at the new connection is another one: {error}");
                Verdict::Differs(error)
            }
        };
        None
    }

    /// True if all calls may go.
    pub(super) fn is_settled(&self) -> bool {
        self.0.iter().all(|(_, verdict)| matches!(verdict, Verdict::Same))
    }

    /// What becomes of a stub's call.
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
    /// Refuses another service than there was.
    fn compare(&self, answer: Result<Settled>) -> Result<()> {
        let theirs = match answer {
            Ok(Settled::Value(json)) => Known::of_json(&json)?,
            Ok(Settled::Stream(_)) => return Err(Known::no_contract("it is a stream")),
            // As where a stub is made: it is nobody who says such things.
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(()),
            Err(error) => return Err(error),
        };
        theirs.check(self.contract)?;
        if theirs.terms(self.contract) == *self {
            return Ok(());
        }
        let message = format!(
            "`{}` is served in another way since the connection broke (by itself or with others, \
             with instances of each stub's own or without); make the stub anew",
            self.contract.name
        );
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}
