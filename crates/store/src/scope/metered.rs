//! What a scope does around an operation when its store counts what is done;
//! see [`crate::meter`].

use std::sync::Arc;
use std::time::Duration;

use marmota_model::{Result, RowSink};

use super::{Progress, Scope, slot_number};
use crate::durability::Durability;
use crate::meter::{Begun, Who};
use crate::operation::{Operation, Outcome};

impl Scope {
    /// [`Scope::submit`], counted where that is wanted: once for each operation
    /// that a caller asks for, whatever becomes of it beneath.
    pub(super) fn submit_metered(
        &self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Progress> {
        let Some(meter) = &self.shared.meter else {
            return self.submit_around(durability, operation, sink, outcome);
        };
        let begun = meter.begin(operation);
        let mut progress = self.submit_around(durability, operation, sink, outcome);
        match &mut progress {
            Ok(Progress::Pending(pending)) => pending.begun = Some(begun),
            ended => self.note_metered(begun, operation, ended.is_ok(), outcome),
        }
        progress
    }

    /// Counts an operation that has ended.
    pub(super) fn note_metered(
        &self,
        begun: Begun,
        operation: &Operation<'_>,
        is_ok: bool,
        outcome: &Outcome,
    ) {
        if let Some(meter) = &self.shared.meter {
            let ended = if is_ok { Ok(outcome) } else { Err(()) };
            meter.end(begun, slot_number(), self.who(), operation, ended);
        }
    }

    fn who(&self) -> Who<'_> {
        let rights = self.rights.as_ref();
        let name = self.actor.as_deref().or_else(|| rights.map(|rights| rights.caller_name()));
        Who { name, session: self.session.as_deref() }
    }

    /// Tells the store of a call that took so long and is no operation: of a
    /// service's method, say. It is for [`crate::meter::Activity::slow`].
    pub fn note_call(&self, time: Duration, what: impl FnOnce() -> String) {
        if let Some(meter) = &self.shared.meter {
            meter.note_call(time, self.who(), what);
        }
    }

    /// The same scope, counted for a session; as it is where nothing is counted.
    pub(crate) fn in_session(&self, name: &str) -> Self {
        let session = self.shared.meter.as_ref().map(|meter| meter.session(name));
        let (actor, rights) = (self.actor.clone(), self.rights.clone());
        Self::new(super::Place::Threads, Arc::clone(&self.shared), actor, rights, session)
    }
}
