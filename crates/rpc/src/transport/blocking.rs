//! Blocking sockets, on which a client upgrades the connection.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A socket whose reads and writes block.
pub(crate) trait BlockingStream: Read + Write {
    /// Sets how long a read or write may block.
    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()>;
}

impl BlockingStream for UnixStream {
    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }
}

impl BlockingStream for TcpStream {
    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }
}
