//! Executes operations of a scope whose store counts them; see [`crate::meter`].

use std::sync::Arc;
use std::time::Duration;

use marmota_model::{Result, RowSink};

use super::thread_slot::slot_number;
use super::{Place, Progress, Scope};
use crate::contract::durability::Durability;
use crate::contract::operation::{Operation, Outcome};
use crate::layers::meter::{Begun, Who};

impl Scope {
    /// [`Scope::submit`] with counters, if they are enabled: each operation of a caller counts
    /// once, even if it is executed as several.
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

    /// Records a call that took this long and is not an operation, such as a service's method. It
    /// is for [`crate::meter::Activity::slow`].
    pub fn note_call(&self, time: Duration, what: impl FnOnce() -> String) {
        if let Some(meter) = &self.shared.meter {
            meter.note_call(time, self.who(), what);
        }
    }

    /// Returns the same scope, counted for a session; if nothing is counted, the scope does not
    /// change.
    pub(crate) fn in_session(&self, name: &str) -> Self {
        let session = self.shared.meter.as_ref().map(|meter| meter.session(name));
        let (actor, rights) = (self.actor.clone(), self.rights.clone());
        Self::new(Place::Threads, Arc::clone(&self.shared), actor, rights, session)
    }
}
