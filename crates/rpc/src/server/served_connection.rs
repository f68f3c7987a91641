//! A protocol on a connection of the HTTP server, which reads, sends, and applies back-pressure.

use std::time::Instant;

use marmota_http::{Protocol, ProtocolStep, Turn};

use super::protocol::{ConnectionEnd, ServerProtocol};

/// A protocol on a connection that was upgraded from HTTP.
pub(super) struct ServedConnection<P>(pub(super) P);

impl<P: ServerProtocol + 'static> Protocol for ServedConnection<P> {
    fn advance(&mut self, turn: &mut Turn<'_>) -> ProtocolStep {
        let Self(protocol) = self;
        turn.used = protocol.run(turn.input, turn.output, &mut turn.context);
        match protocol.end() {
            Some(end) => return ProtocolStep::Close { linger: end == ConnectionEnd::Refused },
            None if turn.ended => return ProtocolStep::Close { linger: false },
            // As for an idle HTTP connection: the server does not wait for a silent client. One that
            // is sending reads the notice.
            None if turn.is_draining() && protocol.is_idle() => {
                let before = turn.output.len();
                protocol.leave(turn.output);
                return ProtocolStep::Close { linger: turn.output.len() > before };
            }
            None if protocol.has_more() => return ProtocolStep::More,
            None => {}
        }
        let deadline_ms = protocol.deadline().map_or(u64::MAX, |at| {
            let left = at.saturating_duration_since(Instant::now()).as_millis();
            turn.now_ms().saturating_add(u64::try_from(left).unwrap_or(u64::MAX).max(1))
        });
        ProtocolStep::Wait { hungry: protocol.is_hungry(), deadline_ms }
    }
}
