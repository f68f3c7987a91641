//! The messages of operations that consist of more than their calls: the transaction statements
//! around them.

use crate::commands::command_batch::{Call, CommandBatch, Role};
use crate::connection::Sending;
use crate::in_flight::recording::Recording;
use crate::in_flight::stage::{Linked, Problem};
use crate::options::own_connections::{DIRECT, PENDING};
use crate::statement::Text;
use crate::statement::controls::CONTROLS;

/// Writes an exchange and the roles of its answers.
pub(crate) struct RoundTrip<'a, 'c> {
    pub(crate) sending: &'a mut Sending<'c>,
    pub(crate) roles: &'a mut Vec<Role>,
}

impl RoundTrip<'_, '_> {
    pub(crate) fn control(&mut self, text: &Text) {
        self.sending.call(text, 0, &[]);
        self.roles.push(Role::Beside);
    }

    /// Begins a transaction of several statements.
    pub(crate) fn begin(&mut self) {
        self.control(&CONTROLS.begin_batch);
        self.settings();
    }

    /// Applies the settings of a transaction on a connection that keeps none.
    pub(crate) fn settings(&mut self) {
        if let Some(settings) = self.sending.settings() {
            self.control(&settings);
        }
    }

    /// Sets how the changes of the next statements are recorded.
    pub(crate) fn record(&mut self, recording: Option<&Recording>, is_direct: bool) {
        let Some(recording) = recording.filter(|recording| recording.is_set(is_direct)) else {
            return;
        };
        let (mut parameters, actor) = (Vec::new(), recording.actor.as_deref().unwrap_or_default());
        for text in [if is_direct { DIRECT } else { PENDING }, actor] {
            parameters.extend((text.len() as i32).to_be_bytes());
            parameters.extend_from_slice(text.as_bytes());
        }
        self.sending.call(&CONTROLS.record, 2, &parameters);
        self.roles.push(Role::Beside);
    }

    /// Makes the next statements find rows in the order of their parameters, or in any order. The
    /// setting persists, since most writes of many rows follow others; if this group fails, the
    /// server reverts it, see [`Sending::turns_to_order`]. On an exclusive connection it ends with
    /// the group, since transactions must not change the connection.
    pub(crate) fn order(&mut self, in_order: bool, is_exclusive: bool) {
        let is_kept = !is_exclusive && self.sending.settings().is_none();
        let turns = if is_kept { self.sending.turns_to_order(in_order) } else { in_order };
        if !turns {
            return;
        }
        let controls = &*CONTROLS;
        match in_order {
            true if !is_kept => self.control(&controls.in_order_here),
            true => self.control(&controls.in_order),
            false => controls.in_any_order.iter().for_each(|text| self.control(text)),
        }
    }

    /// Sends these calls of a script; with `beside` only for their effect.
    pub(crate) fn calls(
        &mut self,
        commands: &CommandBatch,
        calls: std::ops::Range<usize>,
        beside: bool,
    ) {
        for call in &commands.calls[calls] {
            commands.send(call, self.sending);
            self.roles.push(if beside { Role::Beside } else { call.role });
        }
    }

    pub(crate) fn sync(&mut self) {
        self.sending.sync();
        self.roles.push(Role::Sync);
    }
}

/// Writes a diagnostic query in the state of the problem: the calls before it are executed again,
/// and rolled back.
pub(crate) fn diagnostic(
    exchange: &mut RoundTrip<'_, '_>,
    commands: &CommandBatch,
    problem: &Problem,
    guarded: bool,
    failed: bool,
) {
    let controls = &*CONTROLS;
    let is_before = |role: Role| matches!(role, Role::Main(at) if at < problem.at);
    let before =
        commands.calls.iter().rposition(|call| is_before(call.role)).map_or(0, |at| at + 1);
    let is_diagnostic = |call: &Call| call.role == Role::Diagnostic;
    let at = commands.calls.iter().rposition(is_diagnostic).unwrap_or(0);
    match (guarded && failed, before) {
        (true, _) => exchange.control(&controls.rollback_to),
        (false, 0) => {}
        (false, _) => exchange.begin(),
    }
    exchange.calls(commands, 0..before, true);
    exchange.calls(commands, at..at + 1, false);
    exchange.sync();
    match (guarded && failed, before) {
        (true, _) => {
            exchange.control(&controls.rollback_to);
            exchange.control(&controls.release);
            exchange.sync();
        }
        (false, 0) => {}
        (false, _) => {
            exchange.control(&controls.rollback);
            exchange.sync();
        }
    }
}

/// Writes a step of a batch with links.
pub(crate) fn link(
    exchange: &mut RoundTrip<'_, '_>,
    commands: &CommandBatch,
    linked: &Linked,
    guarded: bool,
    opens: bool,
    recording: Option<&Recording>,
) {
    let controls = &*CONTROLS;
    let all = 0..commands.calls.len();
    if opens {
        match guarded {
            true => exchange.control(&controls.savepoint_batch),
            false => exchange.begin(),
        }
        exchange.record(recording, false);
    }
    match linked {
        Linked::Write(..) => {
            exchange.control(&controls.savepoint);
            exchange.calls(commands, all, false);
            exchange.control(&controls.release);
        }
        Linked::Diagnostic(..) => {
            exchange.control(&controls.rollback_to);
            exchange.calls(commands, all, false);
            exchange.control(&controls.release);
        }
        Linked::End(error) => match (guarded, error) {
            (true, None) => exchange.control(&controls.release_batch),
            (true, Some(_)) => {
                exchange.control(&controls.rollback_batch);
                exchange.control(&controls.release_batch);
            }
            (false, None) => exchange.control(&controls.commit),
            (false, Some(_)) => exchange.control(&controls.rollback),
        },
    }
    exchange.sync();
}

/// Writes each call between two savepoints of the same name: after a failure, the rollback ends at
/// the savepoint before it, otherwise at the one after it. So the next one can be sent before the
/// result of the previous one is known.
pub(crate) fn each(
    exchange: &mut RoundTrip<'_, '_>,
    commands: &CommandBatch,
    guarded: bool,
    recording: Option<&Recording>,
) {
    let controls = &*CONTROLS;
    // A failure skips the rest of its group, including its Parse messages, so everything is
    // prepared first.
    for text in [&controls.savepoint, &controls.release, &controls.rollback_to] {
        exchange.sending.prepare(text);
    }
    commands.calls.iter().for_each(|call| exchange.sending.prepare(&call.text));
    match guarded {
        true => exchange.control(&controls.savepoint_batch),
        false => exchange.begin(),
    }
    exchange.record(recording, false);
    exchange.sync();
    let mut at = 0;
    while at < commands.calls.len() {
        // A write consists of one call, and sometimes additional calls for their effect.
        let own = commands.calls[at..].iter().skip(1);
        let end = at + 1 + own.take_while(|call| call.role == Role::Beside).count();
        exchange.control(&controls.savepoint);
        exchange.calls(commands, at..end, false);
        exchange.control(&controls.release);
        exchange.control(&controls.savepoint);
        exchange.sync();
        exchange.control(&controls.rollback_to);
        exchange.control(&controls.release);
        exchange.sync();
        at = end;
    }
}
