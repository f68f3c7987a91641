//! A second handle of a connection's socket.

use std::net::TcpStream;
use std::os::fd::{AsRawFd, BorrowedFd};

use mysql::Conn;

/// Returns a second handle of the socket of a connection: of TCP, or a Unix socket, on which the
/// calls of `TcpStream` for reading and writing work, too.
pub(crate) fn second_handle(conn: &Conn) -> std::io::Result<TcpStream> {
    // SAFETY: `conn` owns the descriptor, and is borrowed until it has been duplicated.
    let socket = unsafe { BorrowedFd::borrow_raw(conn.as_raw_fd()) };
    socket.try_clone_to_owned().map(TcpStream::from)
}
