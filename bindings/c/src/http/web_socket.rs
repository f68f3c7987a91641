//! WebSockets by callback.

use async_channel::{Receiver, Sender, TrySendError};
use futures_lite::future;
use marmota::http::{BoxError, Message, WebSocket};
use marmota::{Error, ErrorKind};

use crate::foreign::{MarmotaBytes, MarmotaContext, MarmotaText, entry};
use crate::handles::{self, MarmotaHandle, Object};
use crate::status::Failure;

/// A client has opened the WebSocket.
pub const MARMOTA_SOCKET_OPENED: u32 = 1;
/// A message of text was received, or is to be sent.
pub const MARMOTA_SOCKET_TEXT: u32 = 2;
/// A message of bytes was received, or is to be sent.
pub const MARMOTA_SOCKET_BINARY: u32 = 3;
/// The WebSocket has ended. Its handle is freed when the callback returns.
pub const MARMOTA_SOCKET_CLOSED: u32 = 4;

/// Receives what happens on a WebSocket: `event` is one of the constants above, `bytes` is the message.
/// It runs on the thread of the connection, one call after the other for each socket, and must not wait.
/// The message is lent until it returns. `socket` may be kept and used on all threads.
pub type MarmotaSocketCallback = Option<
    unsafe extern "C" fn(
        socket: MarmotaHandle,
        event: u32,
        bytes: *const u8,
        length: usize,
        context: MarmotaContext,
    ),
>;

/// The messages of a socket that wait for its client.
const WAITING_MAX: usize = 256;

/// What a program wants of a socket.
enum Command {
    Send(Message),
    Close(u16, String),
}

struct SocketObject(Sender<Command>);

impl Object for SocketObject {
    const KIND: u8 = 11;
    const NAME: &'static str = "WebSocket";
}

/// A handler of C.
#[derive(Clone, Copy)]
pub(crate) struct SocketHandler {
    callback: unsafe extern "C" fn(MarmotaHandle, u32, *const u8, usize, MarmotaContext),
    context: MarmotaContext,
}

impl SocketHandler {
    pub(crate) fn new(
        callback: MarmotaSocketCallback,
        context: MarmotaContext,
    ) -> Result<Self, Failure> {
        let callback = callback.ok_or_else(|| Failure::argument("`callback` is null"))?;
        Ok(Self { callback, context })
    }

    /// Talks to a client until one side ends it.
    pub(crate) async fn run(self, socket: WebSocket) -> Result<(), BoxError> {
        let (sender, receiver) = async_channel::bounded(WAITING_MAX);
        let handle = handles::add(SocketObject(sender));
        let handle = handle.map_err(|_| "the program has no handle left for the WebSocket")?;
        // The future may be dropped.
        let open = OpenSocket { handler: self, handle };
        open.call(MARMOTA_SOCKET_OPENED, &[]);
        loop {
            match next(&socket, &receiver).await {
                Next::Received(message) => {
                    let event = match message {
                        Message::Text(_) => MARMOTA_SOCKET_TEXT,
                        Message::Binary(_) => MARMOTA_SOCKET_BINARY,
                    };
                    open.call(event, message.as_bytes());
                }
                Next::Wanted(Command::Send(message)) => socket.send(message).await?,
                Next::Wanted(Command::Close(code, reason)) => socket.close(code, &reason),
                Next::Ended => return Ok(()),
            }
        }
    }
}

enum Next {
    Received(Message),
    Wanted(Command),
    Ended,
}

async fn next(socket: &WebSocket, commands: &Receiver<Command>) -> Next {
    let received = async { socket.receive().await.map_or(Next::Ended, Next::Received) };
    // The sender lives in the table of handles until the socket ends.
    let wanted = async { commands.recv().await.map_or(Next::Ended, Next::Wanted) };
    future::or(received, wanted).await
}

/// Reports the end of a WebSocket when it is dropped.
struct OpenSocket {
    handler: SocketHandler,
    handle: MarmotaHandle,
}

impl OpenSocket {
    fn call(&self, event: u32, bytes: &[u8]) {
        let SocketHandler { callback, context } = self.handler;
        // SAFETY: the callback has this signature; the message lives until it returns.
        unsafe { callback(self.handle, event, bytes.as_ptr(), bytes.len(), context) };
    }
}

impl Drop for OpenSocket {
    fn drop(&mut self) {
        self.call(MARMOTA_SOCKET_CLOSED, &[]);
        let _ = handles::remove::<SocketObject>(self.handle);
    }
}

/// Sends a message: `kind` is MARMOTA_SOCKET_TEXT or MARMOTA_SOCKET_BINARY. It does not wait: MARMOTA_BUSY
/// if 256 messages wait for a client that does not read. MARMOTA_OK does not mean that the client has it.
///
/// Threads: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_socket_send(
    socket: MarmotaHandle,
    kind: u32,
    bytes: MarmotaBytes,
    length: usize,
) -> i32 {
    entry(|| {
        let bytes = bytes.get(length, "bytes")?.to_vec();
        let message = match kind {
            MARMOTA_SOCKET_TEXT => match String::from_utf8(bytes) {
                Ok(text) => Message::Text(text),
                Err(_) => return Err(Failure::argument("`bytes` is not UTF-8")),
            },
            MARMOTA_SOCKET_BINARY => Message::Binary(bytes),
            other => {
                let message =
                    format!("kind {other}: use MARMOTA_SOCKET_TEXT or MARMOTA_SOCKET_BINARY");
                return Err(Failure::argument(message));
            }
        };
        command(socket, Command::Send(message))
    })
}

/// Ends a WebSocket with a code that an endpoint may send, such as 1000 or 3000 to 4999, and a reason of up to 123 bytes (null for
/// none). Messages that were sent before are delivered first.
///
/// Threads: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_socket_close(
    socket: MarmotaHandle,
    code: u16,
    reason: MarmotaText,
) -> i32 {
    entry(|| {
        // Codes that an endpoint may send: RFC 6455, 7.4, and the registry of IANA.
        let may_be_sent = matches!(code, 1000..=1003 | 1007..=1013 | 3000..=4999);
        if !may_be_sent {
            let message = format!("code {code}: use 1000 to 1003, 1007 to 1013 or 3000 to 4999");
            return Err(Failure::argument(message));
        }
        let reason = reason.optional("reason")?.unwrap_or_default().to_owned();
        command(socket, Command::Close(code, reason))
    })
}

fn command(socket: MarmotaHandle, command: Command) -> Result<(), Failure> {
    let socket = handles::find::<SocketObject>(socket)?;
    socket.0.try_send(command).map_err(|error| match error {
        TrySendError::Full(_) => Failure::busy(format!(
            "{WAITING_MAX} messages wait for the client, which does not read"
        )),
        TrySendError::Closed(_) => Error::new(ErrorKind::Closed, "the WebSocket has ended").into(),
    })
}
