//! Live queries: a page of rows, and its changes.
//!
//! ```text
//!  GET /api/{table}, Accept: text/event-stream ─► events ─┐
//!                                                         ├─► subscription ─► Store::live_rows
//!  GET /api, Upgrade: websocket ─────────────────► socket ─┘        │
//!                                                     document ◄── updates
//! ```
//!
//! | file | subject |
//! |---|---|
//! | `document.rs` | the document of a page, and its changes as a JSON Patch |
//! | `page_url.rs` | the URL of a page, read with the rights of a caller |
//! | `caller_check.rs` | the caller, whose rights may change |
//! | `subscription.rs` | the updates of one live query for one client |
//! | `events.rs` | one live query as server-sent events |
//! | `message.rs`, `socket.rs`, `socket_caller.rs` | many live queries over one WebSocket |

mod caller_check;
mod document;
pub(crate) mod events;
mod message;
mod page_url;
pub(crate) mod socket;
mod socket_caller;
mod subscription;
