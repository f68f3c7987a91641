//! The peer of a connection, in parts: [`Peer`] is the handle of callers and of the task that runs
//! the connection, [`StreamPump`] sends a stream.

mod calls;
mod contract_check;
mod deadline;
mod flow;
mod frame;
mod handle;
mod pending_call;
mod protocol;
mod stream_pump;
mod streams;
mod subscriptions;
mod terms;

pub(crate) use calls::OutgoingCall;
pub(crate) use frame::{FRAME_BYTES_MAX, is_frame};
pub(crate) use handle::{Peer, lost};
pub(crate) use pending_call::Answer;
pub(crate) use protocol::{
    CLIENT, CONTRACT, LEAVE, Message, PATH, RELEASE, SUBSCRIBED, UNSUBSCRIBED, UPGRADE, leave,
};
pub(crate) use stream_pump::StreamPump;
pub(crate) use streams::Bounds;
pub(crate) use terms::{Known, Terms};
